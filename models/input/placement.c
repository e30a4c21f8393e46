/* placement.c - rank numbers are mixed-radix numbers of the tp, cp and dp indices; see placement.h.
 *
 * The ring order of every group is made, and kept if no group before has it: time groups * cp, memory cp for each that
 * is different, of which there are few.
 */
#include "models/input/placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <uthash.h>

#include "models/base/memory.h"
#include "models/input/ring_order.h"

/* The GPU of cp index 0 of a group. */
static uint64_t first_gpu(const struct placement *placement, uint32_t group)
{
    return group % placement->tp * placement->stride[PARALLEL_TP] +
           group / placement->tp * placement->stride[PARALLEL_DP];
}

/* A ring order by its content. */
struct known_ring {
    uint32_t *ring;
    UT_hash_handle hh;
};

static void forget(struct known_ring *known)
{
    struct known_ring *ring, *next;
    HASH_ITER(hh, known, ring, next)
    {
        HASH_DEL(known, ring);
        free(ring);
    }
}

/* The ring equal to `ring` that is kept: it, if it is the first. */
static uint32_t *keep(struct placement *placement, struct known_ring **known, uint32_t *ring)
{
    size_t size = placement->cp * sizeof *ring;
    struct known_ring *found;
    HASH_FIND(hh, *known, ring, size, found);
    if (found) {
        free(ring);
        return found->ring;
    }
    found = memory_zeroed(1, sizeof *found);
    found->ring = ring;
    HASH_ADD_KEYPTR(hh, *known, ring, size, found);
    placement->rings = memory_resized(placement->rings, placement->n_rings + 1, sizeof *placement->rings);
    return placement->rings[placement->n_rings++] = ring;
}

static void arrange_rings(struct placement *placement, const struct experiment *experiment,
                          const struct topology *topology)
{
    struct known_ring *known = NULL;
    bool moved = false;
    if (experiment->ring == RING_NATURAL)
        return;
    placement->ring_of_group = memory_zeroed(placement->groups, sizeof *placement->ring_of_group);
    for (uint32_t group = 0; group < placement->groups; group++) {
        uint32_t *ring = memory_zeroed(placement->cp, sizeof *ring);
        ring_order_of(experiment, topology, first_gpu(placement, group), placement->stride[PARALLEL_CP], ring);
        moved |= !ring_order_is_natural(ring, placement->cp);
        placement->ring_of_group[group] = keep(placement, &known, ring);
    }
    forget(known);
    if (!moved)
        placement_fini(placement);
}

bool placement_init(struct placement *placement, const struct experiment *experiment, const struct topology *topology,
                    struct diagnostics *diag)
{
    const uint32_t *degree = experiment->degree;
    uint64_t ranks = 1;
    *placement = (struct placement){0};
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
    arrange_rings(placement, experiment, topology);
    return true;
}

void placement_fini(struct placement *placement)
{
    for (uint32_t i = 0; i < placement->n_rings; i++)
        free(placement->rings[i]);
    free(placement->rings);
    free(placement->ring_of_group);
    placement->rings = placement->ring_of_group = NULL;
    placement->n_rings = 0;
}

bool placement_check_ring(const struct placement *placement, const struct experiment *experiment,
                          struct diagnostics *diag)
{
    if (experiment_key_line(experiment, "parallel", "ring") == 0)
        return true;
    if (placement->cp == 1)
        return experiment_complain(experiment, "parallel", "ring", diag, "'ring' has no effect with cp = 1");
    if (experiment->ring == RING_NATURAL || placement->ring_of_group)
        return true;
    return experiment_complain(experiment, "parallel", "ring", diag,
                               "'ring' has no effect: this is the natural order of the GPUs in every group, expected "
                               "natural or no such key");
}

void placement_permute(struct placement *placement, const uint32_t *place_of_rank)
{
    placement->place_of_rank = place_of_rank;
}

uint64_t placement_gpu(const struct placement *placement, uint32_t group, uint32_t rank)
{
    uint32_t place = placement->place_of_rank ? placement->place_of_rank[rank] : rank;
    uint64_t index = placement->ring_of_group ? placement->ring_of_group[group][place] : place;
    return first_gpu(placement, group) + index * placement->stride[PARALLEL_CP];
}
