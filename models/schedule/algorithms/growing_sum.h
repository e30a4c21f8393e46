/* growing_sum.h - a sum over rows (a dQ, a dKV), of which contributions cover more and more.
 *
 * A contribution is added where something has been added before and copied where nothing has, so no row need be cleared
 * and no kernel has to look at rows that see nothing, only to fill them. The rows with something in them are one run: a
 * contribution that would leave a hole must cover that too.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_GROWING_SUM_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_GROWING_SUM_H

#include "models/schedule/algorithms/builder.h"

struct growing_sum {
    uint32_t buffer;   /* keeps all its rows in their places */
    struct block rows; /* those that hold something; count 0 at first */
};

/* The rows that a contribution to `rows` (of the same owner) has to cover. */
struct block growing_sum_reach(const struct growing_sum *sum, struct block rows);

/* sum += source, of the same tensor, on the compute stream. `rows` from growing_sum_reach. */
void growing_sum_add(struct growing_sum *sum, struct builder *builder, uint32_t source, struct block rows);

#endif
