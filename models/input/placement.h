/* placement.h - which GPU each rank of a tp x cp x dp layout sits on.
 *
 * A layout has tp * cp * dp ranks, numbered by `order` with its first dimension innermost; rank w sits on GPU w. A CP
 * group is the ranks that differ in their cp index only; group g of the tp * dp groups runs the same schedule as every
 * other, at the same time, on its own GPUs. Inside a group, CP rank r has the r-th of its GPUs, unless the schedule
 * wants other ranks to be neighbours (placement_permute).
 */
#ifndef CPSIM_MODELS_INPUT_PLACEMENT_H
#define CPSIM_MODELS_INPUT_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/experiment.h"
#include "models/input/topology.h"

struct placement {
    uint32_t cp, groups;                  /* ranks of a group, number of groups (tp * dp) */
    uint64_t stride[PARALLEL_DIMENSIONS]; /* of the tp, cp, dp index in the GPU number */
    uint32_t tp;
    const uint32_t *place_of_rank; /* [cp rank]: its cp index; NULL: the rank itself. Not owned */
};

/* False, with a message naming both numbers, when the layout does not fit the cluster. */
bool placement_init(struct placement *placement, const struct experiment *experiment, const struct topology *topology,
                    struct diagnostics *diag);

/* From now on CP rank r has cp index place_of_rank[r]: a permutation (NULL: the identity) that outlives the placement.
 */
void placement_permute(struct placement *placement, const uint32_t *place_of_rank);

/* The GPU of CP rank `rank` of group `group`. */
uint64_t placement_gpu(const struct placement *placement, uint32_t group, uint32_t rank);

#endif
