/* order_times.h - what the steps of an order take by a plan.
 *
 * Few of the many times differ: kernels of the same work take the same, and a path's messages do. So each step names
 * one of a short list of times, and of simulations of one schedule on different clusters that list alone changes.
 */
#ifndef CPSIM_SIM_ORDER_TIMES_H
#define CPSIM_SIM_ORDER_TIMES_H

#include "sim/plan.h"
#include "sim/run_order.h"

struct order_times {
    uint32_t *time_of;          /* [step]: index of times */
    struct step_times *times;   /* none; those of local operations; those of the plan's paths */
    uint32_t first_path;        /* the first of these last */
    struct local_times *locals; /* what it was made by, which stays as long as this does */
    const uint32_t **kind_of;   /* [instance]: its outlook's; NULL: of a plan that nothing else can match */
    uint32_t n_instances;
};

/* `order` is of the plan's ensemble. */
void order_times_init(struct order_times *times, const struct run_order *order, const struct plan *plan);
void order_times_fini(struct order_times *times); /* zero: nothing */

/* Whether the times of `plan`, of the same ensemble, differ in those of its paths alone; and takes them. */
bool order_times_match(const struct order_times *times, const struct plan *plan);
void order_times_take_paths(struct order_times *times, const struct plan *plan);

/* What a message of so many bytes takes on its path, all of whose seconds are `factor` times as long. */
static inline struct step_times path_times(const struct path *path, double factor, uint64_t bytes)
{
    return (struct step_times){factor * path->cost.delay_seconds, factor * (double)bytes / path->cost.bytes_per_s};
}

#endif
