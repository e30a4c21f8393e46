/* sweep.h - many predictions: the cross product of swept keys, one process a point.
 *
 * SimGrid runs one simulation a process, so every point is a forked child that reads the files anew and hands its run
 * back as JSON through a pipe. Nothing of one point can leak into another, and the result is the same bytes whatever
 * the number of processes: cpsim.sweep/1, points in order, the first key varying slowest:
 *
 *   { schema, cpsim_version, command, keys: [...], points: [ { set: {key: value}, run: {...} }, ... ] }
 *
 * A point that has no run has "error": [lines] instead.
 */
#ifndef CPSIM_CLI_SWEEP_H
#define CPSIM_CLI_SWEEP_H

#include <jansson.h>

#include "cli/prediction.h"
#include "models/base/diagnostics.h"

struct sweep_key {
    char *name; /* "section.key" */
    char **values;
    size_t n_values;
};

struct sweep {
    struct sweep_key *keys;
    size_t n_keys;
    size_t n_points;
    const char *const *texts; /* as typed */
};

#define SWEEP_POINTS_MAX 100000

/* Reads arguments of the form section.key=v1,v2,... (or v1;v2;...). False with every problem in `diag`. */
bool sweep_init(struct sweep *sweep, const char *const *texts, size_t n_texts, const struct question *base,
                struct diagnostics *diag);
void sweep_fini(struct sweep *sweep);

/* The value of key `key` at point `point`. */
const char *sweep_value(const struct sweep *sweep, size_t point, size_t key);

struct sweep_result {
    json_t *json;         /* NULL when a signal ended it */
    size_t done, refused; /* points that ran; that bad input kept from running */
    size_t failed;        /* that failed, or whose process died */
    int signal;           /* SIGINT or SIGTERM when one of them ended the sweep */
};

/* Runs all points, `jobs` at a time. `errors` gets the lines of points that have no run, `notes` the keys that had no
 * effect at some points; a key without effect at every point is an error, and then `result->done` is 0. */
void sweep_run(const struct sweep *sweep, const struct question *base, uint32_t jobs, struct sweep_result *result,
               struct diagnostics *notes, struct diagnostics *errors);
void sweep_result_fini(struct sweep_result *result);

#endif
