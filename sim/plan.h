/* plan.h - what every operation of a simulation takes: seconds of a local one, the path of a message.
 *
 * Computed and checked before anything runs, so that an engine meets no surprise half way. The groups of a layout share
 * their programs: seconds and "which path of the group" are kept per program, the paths themselves per group.
 */
#ifndef CPSIM_SIM_PLAN_H
#define CPSIM_SIM_PLAN_H

#include "sim/engine.h"

/* The way of all messages from one GPU to another. */
struct path {
    uint64_t from, to; /* GPUs */
    struct route route;
};

/* What one operation takes. Receives have none: their send speaks for both. */
union step {
    double seconds; /* local operations */
    uint32_t path;  /* sends: index among the paths of the group */
};

struct plan {
    const struct simulation *simulation; /* outlives the plan */
    union step **steps;                  /* [rank][op] */
    struct path *paths;                  /* [group * paths_per_group + step.path] */
    uint32_t paths_per_group;
    size_t n_paths;
};

/* False, with a message for each of the first few pairs of ranks that have no path; the plan is then empty. */
bool plan_init(struct plan *plan, const struct simulation *simulation, struct diagnostics *diag);
void plan_fini(struct plan *plan);

static inline const struct op *plan_op(const struct plan *plan, struct activity activity)
{
    return &execution_program(plan->simulation->execution, activity.instance)->ops[activity.op];
}

/* Seconds of a local operation. */
double plan_seconds(const struct plan *plan, struct activity local);

/* Those of them that its launch takes: asked for only where two compute streams meet, so not kept. */
double plan_fixed_seconds(const struct plan *plan, struct activity local);

/* Index in `paths` of the way of a message. */
size_t plan_path(const struct plan *plan, struct activity send);

#endif
