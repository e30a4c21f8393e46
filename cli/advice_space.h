/* advice_space.h - the layouts that an advice chooses among, as data: knobs, their values, and the combinations of
 * values that make sense.
 *
 * A knob is a key of the experiment that is varied. What its values are follows from the model, the cluster and the
 * other keys unless they were typed (--vary) or the experiment's own is kept (--fix):
 *   parallel.tp        divisors of the heads (and of ffn, where there are layers) that divide a node's GPUs
 *   parallel.cp        such that tp x cp x dp are all the GPUs; beyond 64 only with 1,024 positions a rank or more
 *   parallel.dp        divides the sequences of a step
 *   workload.batch     all of a replica's sequences at once, or one after the other (step.micro_batches)
 *   parallel.order     tp innermost, then cp or dp
 *   schedule.algorithm all that do such work; with one rank a group there is nothing to choose
 *   schedule.sharding  those that balance the mask
 *   schedule.ulysses_degree of usp: all legal ones between 1 and cp
 *   schedule.ring_window of double-ring: the algorithm's choice, and the ranks of a node
 *   schedule.inner     of usp over several nodes: both
 *   step.recompute, step.zero: all; step.sequence_parallel: yes
 *   parallel.ring      as numbered
 * Any other key of an experiment may be varied too, if its values are typed.
 *
 * The sequences of a step are what the experiment says, batch x dp x micro_batches, in every candidate: they do the
 * same work, and their times compare. What the experiment's reader, the algorithm or the cluster refuses is found when
 * a candidate is looked at, not here.
 */
#ifndef CPSIM_CLI_ADVICE_SPACE_H
#define CPSIM_CLI_ADVICE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/question.h"
#include "models/base/diagnostics.h"
#include "models/input/experiment.h"
#include "models/input/topology.h"

/* In the order in which candidates vary, the last fastest; typed ones of other keys follow. */
enum advice_knob_kind {
    KNOB_TP,
    KNOB_CP,
    KNOB_DP,
    KNOB_BATCH,
    KNOB_MICRO_BATCHES,
    KNOB_ORDER,
    KNOB_RING,
    KNOB_ALGORITHM,
    KNOB_SHARDING,
    KNOB_ULYSSES_DEGREE,
    KNOB_RING_WINDOW,
    KNOB_INNER,
    KNOB_SEQUENCE_PARALLEL,
    KNOB_RECOMPUTE,
    KNOB_ZERO,
    KNOB_KINDS,
};

#define ADVICE_KNOBS_MAX (KNOB_KINDS + 8)

struct advice_knob {
    char *key; /* "section.key" */
    char **values;
    size_t n_values, capacity;
    bool typed;   /* by --vary */
    bool fixed;   /* to what the experiment has */
    bool written; /* in the experiment's file */
};

/* [knob]: 1 + index of its value; 0: the key is not written. */
struct advice_candidate {
    uint16_t value[ADVICE_KNOBS_MAX];
};

struct ini_document;

struct advice_space {
    struct advice_knob knobs[ADVICE_KNOBS_MAX];
    size_t n_knobs;
    struct advice_candidate *candidates;
    size_t n_candidates, capacity;
    uint64_t gpus;                 /* of each candidate */
    uint64_t sequences;            /* of a step */
    size_t n_undivided;            /* layouts whose dp does not divide the sequences */
    struct experiment base;        /* as written, and its own `--set` */
    struct ini_document *document; /* of its file alone */
    struct topology topology;      /* as written */
};

#define ADVICE_CANDIDATES_MAX 2000000

struct advice_wish {
    const char *const *vary; /* "section.key=v1,v2,..." */
    size_t n_vary;
    const char *const *fix; /* "section.key" */
    size_t n_fix;
    uint64_t gpus; /* 0: all of the cluster */
};

/* Reads the files and lists all candidates. False with every problem in `diag`; the caller calls advice_space_fini in
 * either case. */
bool advice_space_init(struct advice_space *space, const struct question *question, const struct advice_wish *wish,
                       struct diagnostics *diag);
void advice_space_fini(struct advice_space *space);

/* The value of a knob in a candidate; NULL: not written. */
const char *advice_value(const struct advice_space *space, size_t candidate, size_t knob);

#endif
