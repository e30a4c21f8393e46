/* placement.h - which GPU each rank of a tp x cp x dp layout sits on.
 *
 * A layout has tp * cp * dp ranks, numbered by `order` with its first dimension innermost; rank w sits on GPU w. A CP
 * group is the ranks that differ in their cp index only; group g of the tp * dp groups runs the same schedule as every
 * other, at the same time, on its own GPUs. Inside a group, CP rank r is at place r of the group's ring, unless the
 * schedule wants other ranks to be neighbours (placement_permute); and place p of the ring has the p-th of the group's
 * GPUs, unless parallel.ring says otherwise (ring_order.h), which may be a permutation for each group; groups that have
 * equal ones share them.
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
    const uint32_t *place_of_rank; /* [cp rank]: its place in the ring; NULL: the rank itself. Not owned */
    uint32_t **ring_of_group;      /* [group]: one of `rings`; NULL: natural in every group */
    uint32_t **rings;              /* the different ones: [place] is its cp index */
    uint32_t n_rings;
};

/* False, with a message naming both numbers, when the layout does not fit the cluster. On success the caller calls
 * placement_fini; it may do so too for a placement that is all zero. */
bool placement_init(struct placement *placement, const struct experiment *experiment, const struct topology *topology,
                    struct diagnostics *diag);
void placement_fini(struct placement *placement);

/* False, with a message, when parallel.ring was written but changes nothing: one rank a group, or an order other than
 * natural that is natural in every group. */
bool placement_check_ring(const struct placement *placement, const struct experiment *experiment,
                          struct diagnostics *diag);

/* From now on CP rank r is at place place_of_rank[r]: a permutation (NULL: the identity) that outlives the placement.
 */
void placement_permute(struct placement *placement, const uint32_t *place_of_rank);

/* The GPU of CP rank `rank` of group `group`. */
uint64_t placement_gpu(const struct placement *placement, uint32_t group, uint32_t rank);

#endif
