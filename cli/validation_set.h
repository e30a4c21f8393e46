/* validation_set.h - published measurements: a set is an experiment with a [published] section, and a CSV file of rows.
 *
 * A row is one measurement. Its columns are keys that it overrides ("schedule.sharding", "level node.size"; an empty
 * cell overrides nothing), then metric, value and, optionally, uncertainty (relative), group and note; a row of a set
 * of transfers has pattern, ranks and bytes. Values are in SI units, but
 * for peak memory, which is published in GiB.
 *
 * Rows of one group are compared in order: what was measured to be faster should be predicted to be. Where no group is
 * written, those are the rows with one metric that differ in nothing but [schedule] (of transfers: in the pattern; of
 * whole steps: but [schedule] and [parallel]). Peak memory has no order.
 */
#ifndef CPSIM_CLI_VALIDATION_SET_H
#define CPSIM_CLI_VALIDATION_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/input/published.h"
#include "models/schedule/benchmark.h"

enum metric {
    METRIC_SECONDS, /* of a transfer */
    METRIC_STEP_SECONDS,
    METRIC_FORWARD_SECONDS,
    METRIC_BACKWARD_SECONDS,
    METRIC_ITERATIONS_PER_SECOND,    /* of the step */
    METRIC_TFLOPS_PER_RANK,          /* of the step: visible pairs (causal: S^2 / 2), backward 2.5 times forward */
    METRIC_FORWARD_TFLOPS_PER_RANK,  /* of the forward pass of a step */
    METRIC_BACKWARD_TFLOPS_PER_RANK, /* likewise */
    /* Of whole steps: those of the optimizer's step, all its micro batches together. */
    METRIC_TOKENS_PER_SECOND_PER_RANK,
    METRIC_MODEL_TFLOPS_PER_RANK,          /* model FLOPs (models/layer/flops.h), of what queries see */
    METRIC_UNMASKED_MODEL_TFLOPS_PER_RANK, /* the same, as if every query saw the whole sequence */
    METRIC_PEAK_GIB,                       /* of the rank that holds most */
    METRICS,
};

const char *metric_name(enum metric metric);

/* All others are about time. */
static inline bool metric_is_memory(enum metric metric)
{
    return metric == METRIC_PEAK_GIB;
}

/* Whether rows of a kind of set may have it. */
bool metric_is_of(enum metric metric, enum published_kind kind);

struct validation_row {
    int line;
    char **cells; /* a column of the set each; "": not overridden */
    enum metric metric;
    double value;
    double uncertainty; /* relative */
    char *group, *note;
    enum benchmark_pattern pattern; /* of a transfer */
    uint32_t ranks;
    uint64_t bytes;
};

struct validation_set {
    char *name, *path;
    struct published published;
    char *topology; /* a shipped name, or a path */
    char *rows_path;
    char **columns; /* the keys that rows override, in the order of the file */
    size_t n_columns;
    struct validation_row *rows;
    size_t n_rows, capacity;
};

static inline bool validation_set_is_doubtful(const struct validation_set *set)
{
    return *set->published.doubtful != '\0';
}

static inline bool validation_set_is_links(const struct validation_set *set)
{
    return set->published.kind == PUBLISHED_LINKS;
}

static inline bool validation_set_is_steps(const struct validation_set *set)
{
    return set->published.kind == PUBLISHED_STEPS;
}

struct validation_sets {
    struct validation_set *sets; /* by name */
    size_t count, capacity;
    size_t n_rows;                /* of all of them */
    struct overall_bounds bounds; /* of a folder */
    char *bounds_path;            /* where they are from; NULL: there are none */
};

/* Reads one set: an INI file with a [published] section and its rows. False with every problem in `diag`. The caller
 * calls validation_set_fini in any case. */
bool validation_set_read(struct validation_set *set, const char *path, struct diagnostics *diag);
void validation_set_fini(struct validation_set *set);

/* Reads all sets of a folder, its INI files, but for bounds.ini, which bounds what all of them do together; or the one
 * set that `path` is.
 * False with every problem in `diag`; the caller calls validation_sets_fini in any case. */
bool validation_sets_read(struct validation_sets *sets, const char *path, struct diagnostics *diag);
void validation_sets_fini(struct validation_sets *sets);

/* What tells the row from the others of its set, such as "zigzag, forward"; the caller frees it. */
char *validation_row_label(const struct validation_set *set, const struct validation_row *row);

#endif
