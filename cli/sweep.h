/* sweep.h - the points of a sweep: the cross product of swept keys, the first key varying slowest.
 *
 * A sweep's result is the same bytes whoever does the points and in whatever order (sweep_run.h): cpsim.sweep/1,
 *
 *   { schema, cpsim_version, command, keys: [...], points: [ { set: {key: value}, run: {...} }, ... ] }
 *
 * A point that has no run has "error": [lines] instead, and "failed": true unless it was refused as bad input. With
 * --points summary there is "runs": "summary" behind the command, and a run holds its step, links and number of ranks
 * only. A sweep that was stopped has "complete": false behind its points.
 */
#ifndef CPSIM_CLI_SWEEP_H
#define CPSIM_CLI_SWEEP_H

#include "cli/prediction.h"
#include "models/base/diagnostics.h"

struct sweep_key {
    char *name; /* "section.key" */
    char **values;
    size_t n_values;
    bool of_experiment; /* else of the topology */
};

struct sweep {
    struct sweep_key *keys;
    size_t n_keys;
    size_t n_points;
    const char *const *texts; /* as typed */
    bool layers;              /* points are, or may be, of whole layers (workload.scope): tables say more of them */
};

#define SWEEP_POINTS_MAX 1000000

/* Reads arguments of the form section.key=v1,v2,... (or v1;v2;...). False with every problem in `diag`. */
bool sweep_init(struct sweep *sweep, const char *const *texts, size_t n_texts, const struct question *base,
                struct diagnostics *diag);
void sweep_fini(struct sweep *sweep);

/* The value of key `key` at point `point`. */
const char *sweep_value(const struct sweep *sweep, size_t point, size_t key);

/* Which of the sweep's experiments a point asks: the same for points that differ in the topology alone. */
size_t sweep_experiment(const struct sweep *sweep, size_t point);

#endif
