/* placement.c - rank numbers are mixed-radix numbers of the tp, cp and dp indices; see placement.h. */
#include "models/input/placement.h"

#include <inttypes.h>

bool placement_init(struct placement *placement, const struct experiment *experiment, const struct topology *topology,
                    struct diagnostics *diag)
{
    const uint32_t *degree = experiment->degree;
    uint64_t ranks = 1;
    for (int i = 0; i < PARALLEL_DIMENSIONS; i++) {
        enum parallel_dimension dimension = experiment->order[i];
        placement->stride[dimension] = ranks;
        if (__builtin_mul_overflow(ranks, degree[dimension], &ranks))
            ranks = UINT64_MAX;
    }
    if (ranks > topology->n_gpus)
        return experiment_complain(experiment, "parallel", "cp", diag,
                                   "the layout tp %" PRIu32 " x cp %" PRIu32 " x dp %" PRIu32 " needs %" PRIu64
                                   " GPUs, but topology '%s' has %" PRIu64,
                                   degree[PARALLEL_TP], degree[PARALLEL_CP], degree[PARALLEL_DP], ranks, topology->path,
                                   topology->n_gpus);
    placement->tp = degree[PARALLEL_TP];
    placement->cp = degree[PARALLEL_CP];
    placement->groups = degree[PARALLEL_TP] * degree[PARALLEL_DP];
    placement->place_of_rank = NULL;
    return true;
}

void placement_permute(struct placement *placement, const uint32_t *place_of_rank)
{
    placement->place_of_rank = place_of_rank;
}

uint64_t placement_gpu(const struct placement *placement, uint32_t group, uint32_t rank)
{
    uint64_t place = placement->place_of_rank ? placement->place_of_rank[rank] : rank;
    return group % placement->tp * placement->stride[PARALLEL_TP] +
           group / placement->tp * placement->stride[PARALLEL_DP] + place * placement->stride[PARALLEL_CP];
}
