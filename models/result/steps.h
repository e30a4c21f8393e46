/* steps.h - the step table: what the compute streams of a rank did from one attention operation to the next. */
#ifndef CPSIM_MODELS_RESULT_STEPS_H
#define CPSIM_MODELS_RESULT_STEPS_H

#include <stddef.h>

#include "models/result/rank_time.h"
#include "models/result/report.h"

/* Computing and waiting in one step of one rank: the step table. A step is an attention operation with what other
 * kernels follow it; those of two compute streams are in one order, that of their begin, and seconds in which one hid
 * the launch of the next are both's. */
struct step_row {
    uint32_t rank;
    enum phase phase;
    uint32_t step;      /* counted per phase */
    uint32_t key_owner; /* of the block: a rank, a joined group, or BLOCK_ALL for a gathered one */
    uint64_t query_rows, key_rows, pairs;
    double begin, attend_seconds; /* of the attention operation, from when its kernel has its turn */
    double other_seconds; /* merges, accumulates, ... until the next attention operation; the first step's also those
                             before it */
    double exposed_seconds, idle_seconds; /* waited just before it */
    double exposed_after_seconds,
        idle_after_seconds; /* waited behind it: by those others, and for the end of the phase */
};

struct step_list {
    struct step_row *rows;
    size_t count, capacity;
};

/* The steps of the ranks of the first group, by rank, phase and step. Not a part of the report, for there are as many
 * as operations. The caller frees the rows. */
void steps_of(struct step_list *steps, const struct report_input *input);

#endif
