/* surroundings.c - levels between GPUs, taken down in the order of the accessors. */
#include "sim/surroundings.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

static int compare_gpus(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The GPUs of one instance of a level are next to each other. */
static uint32_t *count_together(const struct neighbourhood *n, uint32_t level)
{
    const struct topology *topology = n->simulation->cost->topology;
    uint32_t *together = memory_zeroed(n->n_gpus, sizeof *together);
    for (size_t first = 0, end; first < n->n_gpus; first = end) {
        for (end = first + 1; end < n->n_gpus; end++)
            if (topology_level_between(topology, n->gpus[first], n->gpus[end]) > level)
                break;
        for (size_t i = first; i < end; i++)
            together[i] = (uint32_t)(end - first);
    }
    return together;
}

static void find_senders(struct neighbourhood *n)
{
    const struct topology *topology = n->simulation->cost->topology;
    const struct placement *placement = n->simulation->placement;
    bool fans = false;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        fans |= topology->levels[k].fan_bytes_per_s > 0;
    if (!fans)
        return;
    n->n_gpus = (size_t)placement->groups * placement->cp;
    n->gpus = memory_zeroed(n->n_gpus, sizeof *n->gpus);
    for (size_t i = 0; i < n->n_gpus; i++)
        n->gpus[i] = placement_gpu(placement, (uint32_t)(i / placement->cp), (uint32_t)(i % placement->cp));
    qsort(n->gpus, n->n_gpus, sizeof *n->gpus, compare_gpus);
    for (uint32_t k = 0; k < topology->n_levels; k++)
        if (topology->levels[k].fan_bytes_per_s > 0)
            n->together[k] = count_together(n, k);
}

void neighbourhood_init(struct neighbourhood *neighbourhood, const struct simulation *simulation)
{
    const struct ensemble *ensemble = simulation->folding ? simulation->folding->whole : simulation->ensemble;
    *neighbourhood = (struct neighbourhood){.simulation = simulation, .group = UINT32_MAX};
    communicators_init(&neighbourhood->communicators, ensemble);
    neighbourhood->spans = memory_zeroed((size_t)STREAM_COUNT * ensemble->ranks, sizeof *neighbourhood->spans);
    find_senders(neighbourhood);
}

void neighbourhood_fini(struct neighbourhood *neighbourhood)
{
    communicators_fini(&neighbourhood->communicators);
    free(neighbourhood->spans);
    free(neighbourhood->gpus);
    for (uint32_t k = 0; k < LEVELS_MAX; k++)
        free(neighbourhood->together[k]);
    *neighbourhood = (struct neighbourhood){0};
}

static void put(struct surroundings *surroundings, uint32_t number)
{
    memory_grow(surroundings->numbers, surroundings->count, surroundings->capacity);
    surroundings->numbers[surroundings->count++] = number;
}

static uint64_t gpu_of(const struct neighbourhood *n, uint32_t rank)
{
    return placement_gpu(n->simulation->placement, n->group, rank);
}

static uint32_t level_between(const struct neighbourhood *n, uint32_t a, uint32_t b)
{
    return topology_level_between(n->simulation->cost->topology, gpu_of(n, a), gpu_of(n, b));
}

/* Levels nest, so the lowest GPU and the highest are as far apart as any two. */
static uint32_t span_of(const struct neighbourhood *n, struct members members)
{
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t gpu = gpu_of(n, members_rank(members, i));
        lowest = gpu < lowest ? gpu : lowest;
        highest = gpu > highest ? gpu : highest;
    }
    return topology_level_between(n->simulation->cost->topology, lowest, highest);
}

static void put_streams(struct neighbourhood *n, uint32_t rank, struct surroundings *surroundings)
{
    uint32_t ranks = n->communicators.ensemble->ranks;
    for (uint32_t s = 0; s < STREAM_COUNT; s++) {
        struct members members = communicator_of_stream(&n->communicators, rank, (enum stream)s);
        uint32_t *span = &n->spans[(size_t)s * ranks + members.ranks[0]];
        if (*span == UINT32_MAX)
            *span = span_of(n, members);
        put(surroundings, members.count);
        put(surroundings, *span);
    }
}

/* Members as a level sees them: groups of those that are nearer to each other. */
static void put_collective(struct neighbourhood *n, uint32_t rank, const struct collective *collective,
                           struct surroundings *surroundings)
{
    struct members members = communicator_of_collective(&n->communicators, rank, collective);
    uint32_t within[LEVELS_MAX] = {0}, n_levels = surroundings->n_levels;
    for (uint32_t i = 0; i < members.count; i++)
        within[level_between(n, rank, members_rank(members, i))]++;
    put(surroundings, members.count);
    put(surroundings, span_of(n, members));
    for (uint32_t k = 0, nearer = 1; k < n_levels; k++) {
        uint32_t together = within[k] + (k ? nearer : 0);
        put(surroundings, (together + nearer - 1) / nearer);
        nearer = together;
    }
}

static uint32_t senders(const struct neighbourhood *n, uint32_t rank, uint32_t level)
{
    if (!n->together[level])
        return 0;
    uint64_t gpu = gpu_of(n, rank);
    const uint64_t *found = bsearch(&gpu, n->gpus, n->n_gpus, sizeof gpu, compare_gpus);
    return n->together[level][found - n->gpus];
}

void surroundings_of(struct neighbourhood *n, uint32_t instance, struct surroundings *surroundings)
{
    const struct ensemble *ensemble = n->simulation->ensemble;
    const struct instance *self = &ensemble->instances[instance];
    const struct shape *shape = &ensemble->shapes[self->shape];
    if (n->group != self->group)
        memset(n->spans, 0xff, (size_t)STREAM_COUNT * ensemble->ranks * sizeof *n->spans);
    n->group = self->group;
    surroundings->count = 0;
    surroundings->n_peers = shape->messages.n_peers;
    surroundings->n_levels = n->simulation->cost->topology->n_levels;
    put(surroundings, self->shape);
    for (uint32_t p = 0; p < shape->messages.n_peers; p++)
        put(surroundings, level_between(n, self->rank, ensemble_rank(ensemble, instance, shape->messages.peers[p])));
    put_streams(n, self->rank, surroundings);
    for (uint32_t k = 0; k < surroundings->n_levels; k++)
        put(surroundings, senders(n, self->rank, k));
    for (uint32_t c = 0; c < shape->program->n_collectives; c++)
        put_collective(n, self->rank, &shape->program->collectives[c], surroundings);
}

static const uint32_t *collective_at(const struct surroundings *surroundings, uint32_t index)
{
    size_t before = 1 + surroundings->n_peers + 2 * STREAM_COUNT + surroundings->n_levels;
    return surroundings->numbers + before + (size_t)index * (2 + surroundings->n_levels);
}

struct communicator_size surroundings_of_collective(const struct surroundings *surroundings, uint32_t index)
{
    const uint32_t *at = collective_at(surroundings, index);
    return (struct communicator_size){at[0], at[1]};
}

uint32_t surroundings_members(const struct surroundings *surroundings, uint32_t index, uint32_t level)
{
    return collective_at(surroundings, index)[2 + level];
}
