/* compare.h - runs laid side by side: which belong together, and how far one is from the other.
 *
 * Runs of both kinds: every measured run (the reference) is paired with every prediction (the subject) of its
 * experiment, whatever the topology. Runs of one kind only: those of the first file are the reference for those of the
 * others; when every file is a single run, they are paired whatever their experiments, for then the user has paired
 * them. Errors are signed: subject / reference - 1.
 */
#ifndef CPSIM_CLI_COMPARE_H
#define CPSIM_CLI_COMPARE_H

#include "cli/compare_runs.h"

enum compare_quantity {
    COMPARE_STEP,
    COMPARE_FORWARD,
    COMPARE_BACKWARD,
    COMPARE_EXPOSED,
    COMPARE_EXPOSED_SHARE, /* exposed seconds over the reference's step; its error is the difference */
    COMPARE_MEMORY,
    COMPARE_BYTES,
    COMPARE_QUANTITIES,
};

/* "step", ...; and the name in a run's step: "seconds", ... */
const char *compare_quantity_name(enum compare_quantity quantity);
const char *compare_quantity_key(enum compare_quantity quantity);

/* NaN stands for what is not there: a value not recorded; an error with nothing to be relative to. */
struct compared_value {
    double subject, reference, error;
};

enum verdict { VERDICT_NONE, VERDICT_INSIDE, VERDICT_OUTSIDE };

struct compared_pair {
    const struct compared_run *subject, *reference;
    struct compared_value values[COMPARE_QUANTITIES];
    enum verdict in_spread;   /* the subject's step, in the reference's spread */
    enum verdict in_interval; /* the reference's step, in the subject's interval */
    char **cells;             /* a text per column of the comparison */
};

/* Over the pairs that have an error of this quantity. */
struct compare_summary {
    size_t count;
    double median, percentile90; /* of the errors' magnitudes, linearly interpolated */
    double worst;                /* signed */
    size_t worst_pair;
    double bias; /* median of the signed errors */
};

struct verdict_count {
    size_t inside, all;
};

/* Something that tells pairs apart: a setting of the experiment or the topology, or the runs themselves. */
struct compare_column {
    char *name;
    bool number; /* all cells are */
};

struct comparison {
    struct compared_runs runs;
    bool against_first; /* runs of one kind */
    struct compared_pair *pairs;
    size_t n_pairs, pair_capacity;
    struct compare_column *columns;
    size_t n_columns;
    struct compare_summary summaries[COMPARE_QUANTITIES];
    struct verdict_count in_spread, in_interval;
    size_t *by_error;                     /* pairs, the largest error of the step first */
    const struct compared_run **unpaired; /* in the order of the files */
    size_t n_unpaired;
    const char *subject_name, *reference_name; /* "predicted", "measured"; "other", "first" */
    char *title;                               /* what all pairs have in common */
    char *answer;                              /* the errors of the step in a line */
};

/* Reads and pairs. False, with messages, when a file is bad or no two runs belong together; `notes` gets the runs that
 * have no partner. The caller calls comparison_fini in any case. `files` must outlive the comparison. */
bool comparison_init(struct comparison *comparison, const char *const *files, size_t n_files, struct diagnostics *notes,
                     struct diagnostics *diag);
void comparison_fini(struct comparison *comparison);

#endif
