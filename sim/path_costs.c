/* path_costs.c - see path_costs.h. */
#include "sim/path_costs.h"

#include <stdlib.h>

#include "models/base/memory.h"

static struct path_cost cost_of(const void *context, struct activity activity)
{
    const struct plan *plan = context;
    const struct op *op = plan_op(plan, activity);
    if (!op_is_message(op))
        return (struct path_cost){plan_seconds(plan, activity), plan_fixed_seconds(plan, activity)};
    const struct path *path = plan_path(plan, activity);
    double factor = cost_message_factor(plan->simulation->cost, &path->cost);
    double start = factor * path->cost.delay_seconds;
    return (struct path_cost){start + factor * (double)op->bytes / path->cost.bytes_per_s, start};
}

static double issued(const void *context, struct activity activity)
{
    return plan_issued(context, activity);
}

/* A device by its GPU's number. NULL where every rank has its own. */
static uint32_t *devices_of(const struct plan *plan, const struct ensemble *whole)
{
    uint32_t ranks_per_device = plan->simulation->cost->topology->ranks_per_device;
    if (ranks_per_device <= 1)
        return NULL;
    uint32_t *device_of = memory_zeroed(whole->n_instances, sizeof *device_of);
    for (uint32_t i = 0; i < whole->n_instances; i++) {
        const struct instance *rank = &whole->instances[i];
        device_of[i] =
            (uint32_t)(placement_gpu(plan->simulation->placement, rank->group, rank->rank) / ranks_per_device);
    }
    return device_of;
}

void path_of_simulation(struct step_path *path, const struct plan *plan, const struct ensemble *whole,
                        const struct timeline *timeline)
{
    uint32_t *device_of = devices_of(plan, whole);
    const struct path_input input = {
        .whole = whole,
        .folding = plan->simulation->folding,
        .timeline = timeline,
        .device_of = device_of,
        .cost = cost_of,
        .issued = issued,
        .context = plan,
    };
    step_path_init(path, &input);
    free(device_of);
}
