/* critical_path.h - the engine without contention where nothing is but the programs' own order.
 *
 * Where no transfer slows compute down or waits for SMs, and kernels share no device, an operation begins when the last
 * one that it waits for ends (or later, when the host issues it). So no clock is needed: operations are taken in any
 * order in which each comes after those that it waits for, and their moments are those of the event loop, to the last
 * bit. Such an order is the programs' and not the costs', so that other runs with other costs can go by it again.
 */
#ifndef CPSIM_SIM_CRITICAL_PATH_H
#define CPSIM_SIM_CRITICAL_PATH_H

#include "sim/plan.h"
#include "sim/recorder.h"

/* Whether the planned simulation is such a one. */
bool critical_path_applies(const struct plan *plan);

/* Runs it to its end, or to a deadlock, and notes all moments. */
void critical_path_run(const struct plan *plan, struct recorder *recorder);

/* The same as a list of steps: each begins when the last of those ends that it comes after, which are before it in the
 * list, and takes its two times. A step is an activity, or is that a group of messages is posted, or has ended; such a
 * one takes none. Times are filled in by who knows them. */
struct critical_step {
    struct activity activity;
    bool counts;    /* it is an activity */
    uint32_t first; /* what it comes after, in critical_path.after; the next step's is the end of that */
    double delay, seconds;
};

struct critical_path {
    struct critical_step *steps; /* one more for the end */
    uint32_t n_steps;
    size_t capacity;
    uint32_t *after; /* steps */
    uint32_t n_after;
    size_t after_capacity;
    uint32_t phase_begin[PHASE_COUNT]; /* steps from there on come after all before it */
};

/* Of an execution that is fresh, of one replica; it had better have no deadlock. */
void critical_path_init(struct critical_path *path, struct execution *execution);
void critical_path_fini(struct critical_path *path);

/* The step's seconds. `ends` has room for all steps. */
double critical_path_seconds(const struct critical_path *path, double *ends);

#endif
