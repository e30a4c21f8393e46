/* plan.h - what every operation of a simulation takes: seconds of a local one, the path of a message.
 *
 * Computed and checked before anything runs, so that an engine meets no surprise half way. The groups of a layout share
 * their programs: seconds and "which path of the group" are kept per program, the paths themselves per group, whose
 * GPUs may lie otherwise.
 */
#ifndef CPSIM_SIM_PLAN_H
#define CPSIM_SIM_PLAN_H

#include "sim/engine.h"

/* The way of all messages from one GPU to another that are alike in what their time depends on. */
struct path {
    uint64_t from, to; /* GPUs */
    struct route route;
    struct transfer_cost cost;
    uint32_t lane;   /* which of the different rates of this pair of GPUs: 0, 1, ... */
    bool opens_lane; /* it is the first path of that rate */
};

/* What one operation takes. Receives have none: their send speaks for both. */
union step {
    double seconds; /* local operations */
    uint32_t path;  /* sends: index among the paths of the group */
};

struct plan {
    const struct simulation *simulation; /* outlives the plan */
    union step **steps;                  /* [rank][op] */
    double **issue;                      /* [rank][op]: when the host has issued it; [rank] NULL: it takes no time to */
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

/* Those in which it leaves transfers no SM (cost_fill_seconds). */
double plan_fill_seconds(const struct plan *plan, struct activity local);

/* When, at the earliest, an activity may begin for the host's sake, counted from the step's start; a message for both
 * its ends'. The host issues a program's operations in their order, each taking it cost_host_seconds. It runs ahead of
 * the device: by what its operations of the step before took longer to compute than to issue, if they did; not at all
 * when an iteration synchronises. */
double plan_issued(const struct plan *plan, struct activity activity);

/* SMs that a message holds at each end while it moves. */
uint32_t plan_sms(const struct plan *plan, struct activity send);

/* Index in `paths` of the way of a message. */
size_t plan_path(const struct plan *plan, struct activity send);

#endif
