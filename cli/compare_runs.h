/* compare_runs.h - the runs that are to be compared, read from files of cpsim.run/1 and cpsim.sweep/1.
 *
 * Of a run only what a comparison needs is looked at: its kind, its experiment and topology (flattened to settings),
 * the numbers of its step. Whatever else a file holds is left alone, so that files may grow.
 */
#ifndef CPSIM_CLI_COMPARE_RUNS_H
#define CPSIM_CLI_COMPARE_RUNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "models/base/diagnostics.h"

struct run_setting {
    char *name, *value; /* "parallel.cp", "8" */
};

struct run_settings {
    struct run_setting *items; /* in the order of the file */
    size_t count, capacity;
};

struct compared_run {
    size_t file;  /* index into the files */
    size_t point; /* of a sweep, counted from 1; 0: the file is a run */
    const json_t *json;
    bool measured;
    char *label;                    /* "FILE", or "FILE point 3" */
    struct run_settings experiment; /* all but where it came from */
    struct run_settings topology;
    char *question; /* the experiment without names, in a fixed order: equal texts are equal experiments */
    double seconds;
    double low, high; /* of the step: the measured spread, or the prediction's interval; NaN when there is none */
};

struct compared_runs {
    const char *const *files;
    size_t n_files;
    json_t **documents; /* a file each */
    struct compared_run *runs;
    size_t count, capacity;
};

/* Reads all files. False with every problem in `diag`; `notes` gets what is not wrong but worth knowing: points of a
 * sweep that have no run, measured runs whose verification failed. The caller calls compared_runs_fini in any case. */
bool compared_runs_init(struct compared_runs *runs, const char *const *files, size_t n_files, struct diagnostics *notes,
                        struct diagnostics *diag);
void compared_runs_fini(struct compared_runs *runs);

/* The value of a setting; NULL when there is none of this name. */
const char *run_setting(const struct run_settings *settings, const char *name);
/* Whether a setting of an experiment only says what something is called. */
bool run_setting_is_name(const char *name);

/* A number of the step; NaN when it is not there. */
double compared_run_number(const struct compared_run *run, const char *key);

#endif
