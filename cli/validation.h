/* validation.h - cpsim --validate: every published measurement predicted, and how right the predictions are.
 *
 * Rows run in processes of their own, as the points of a sweep do. Errors are of the time that a row stands for,
 * whatever its metric: predicted / measured - 1, above 0 where the prediction is too slow; so those of seconds and of
 * rates can be put together. Those of memory, predicted / measured - 1 too, are summed up apart. The interval of a
 * prediction is that of its constants (sim/interval.h); a measurement is inside when some value within its own
 * uncertainty is.
 */
#ifndef CPSIM_CLI_VALIDATION_H
#define CPSIM_CLI_VALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/validation_row.h"
#include "cli/validation_set.h"

struct validated_row {
    bool done; /* else it failed, or is left, and the rest is empty */
    bool left; /* nobody has got to it: the run was stopped */
    struct row_prediction prediction;
    double predicted, low, high; /* in the metric's unit; the interval 0 where there is none */
    double measured_seconds;     /* what the measured value stands for; of memory 0 */
    double error;
    bool has_interval, inside;
};

/* Measurements of one group that differ by less are not compared in order. */
#define ORDER_DIFFERENCE 0.05

struct validation_summary {
    size_t n_rows;                /* of time, that have a prediction; 0: all but the pairs and memory is 0 */
    double median, p90;           /* of the absolute error */
    double worst;                 /* the error of largest size, with its sign */
    size_t worst_row;             /* index among the rows of the set; of several sets: not set */
    double bias;                  /* median of the errors with their signs */
    size_t pairs, pairs_right;    /* of rows in one group that differ in measurement; in the right order of those */
    size_t with_interval, inside; /* rows */
    size_t n_memory;              /* rows of memory; 0: the two below are 0 */
    double memory_median, memory_worst;
    size_t n_left; /* rows that nobody has got to: then there are no bounds for the others */
};

struct validation {
    const char *path; /* as typed */
    struct row_settings settings;
    struct validation_sets sets;
    struct validated_row **rows;          /* [set][row] */
    struct validation_summary *summaries; /* [set] */
    /* All rows of a kind, and all; without those of doubtful sets. */
    struct validation_summary attention, links, steps, all;
    size_t n_failed, n_left; /* rows */
    int signal;              /* SIGINT, SIGTERM or SIGHUP when one of them ended the run */
};

enum validation_status {
    VALIDATION_DONE,
    VALIDATION_BAD_INPUT, /* nothing to show */
    VALIDATION_FAILED,    /* some rows failed; the others are there */
    VALIDATION_STOPPED,   /* by a signal; rows that were done are there, if any */
};

/* Reads the sets at `path`. False with every problem in `diag`; the caller calls validation_fini in any case. */
bool validation_init(struct validation *validation, const char *path, const struct row_settings *settings,
                     struct diagnostics *diag);
/* Predicts all rows, `jobs` at a time; `progress` may be NULL. */
enum validation_status validation_run(struct validation *validation, uint32_t jobs,
                                      void (*progress)(void *context, double share), void *progress_context,
                                      struct diagnostics *diag);
void validation_fini(struct validation *validation);

/* What a summary may be worse in than was recorded. */
enum bound { BOUND_MEDIAN, BOUND_P90, BOUND_ORDER, BOUND_MEMORY, BOUNDS };
enum bound_verdict { BOUND_NONE, BOUND_KEPT, BOUND_BROKEN };
enum bound_verdict validation_bound(const struct validation_summary *summary, const struct bounds *bounds,
                                    enum bound bound);

/* Adds a message for every bound that is broken, but those of doubtful sets; false when there is one. */
bool validation_check_bounds(const struct validation *validation, struct diagnostics *diag);

/* The command that gives this very result; the caller frees it. */
char *validation_command(const struct validation *validation);

/* The title of a set: its own, or its name. */
const char *validation_title(const struct validation_set *set);

/* ---- how it is written; false when the stream reported an error ---- */

json_t *validation_to_json(const struct validation *validation); /* cpsim.validation/1 */
bool validation_csv_write(const struct validation *validation, FILE *stream);
/* A line a row and one a set; of many rows only the worst, unless `details` asks for all. */
bool validation_table_write(const struct validation *validation, bool details, FILE *stream);

#endif
