/* surroundings.c - levels between GPUs, taken down in the order of the accessors. */
#include "sim/surroundings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "sim/plan_memo.h"

/* Of a set of members, beside one for each level: how many there are, and how far they are. */
#define NUMBERS_OF_COLLECTIVE 2

/* ---- the neighbourhood ---- */

/* A GPU in use, and by whom. */
struct seat {
    uint64_t gpu;
    uint32_t place;
};

static int compare_seats(const void *a, const void *b)
{
    const struct seat *left = a, *right = b;
    if (left->gpu != right->gpu)
        return left->gpu < right->gpu ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/* Numbers the instances of a level: their GPUs are next to each other. */
static void split_level(struct neighbourhood *n, const struct seat *seats, uint32_t level)
{
    const struct topology *topology = n->simulation->cost->topology;
    uint32_t count = n->seating.whole->n_instances, number = 0;
    bool fans = topology->levels[level].fan_bytes_per_s > 0;
    n->seating.within[level] = memory_zeroed(count, sizeof *n->seating.within[level]);
    if (fans)
        n->together[level] = memory_zeroed(count, sizeof *n->together[level]);
    for (uint32_t first = 0, end; first < count; first = end, number++) {
        for (end = first + 1; end < count; end++)
            if (topology_level_between(topology, seats[first].gpu, seats[end].gpu) > level)
                break;
        for (uint32_t i = first; i < end; i++) {
            n->seating.within[level][seats[i].place] = number;
            if (fans)
                n->together[level][seats[i].place] = end - first;
        }
    }
}

static void find_gpus(struct neighbourhood *n)
{
    const struct topology *topology = n->simulation->cost->topology;
    const struct ensemble *whole = n->seating.whole;
    uint32_t count = whole->n_instances;
    n->seating.gpus = memory_zeroed(count, sizeof *n->seating.gpus);
    for (uint32_t i = 0; i < count; i++)
        n->seating.gpus[i] =
            placement_gpu(n->simulation->placement, whole->instances[i].group, whole->instances[i].rank);
    bool asks = n->patterns->count > 0;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        asks |= topology->levels[k].fan_bytes_per_s > 0;
    if (topology->graph || !asks)
        return;
    struct seat *seats = memory_zeroed(count, sizeof *seats);
    for (uint32_t i = 0; i < count; i++)
        seats[i] = (struct seat){n->seating.gpus[i], i};
    qsort(seats, count, sizeof *seats, compare_seats);
    for (uint32_t k = 0; k < topology->n_levels; k++)
        split_level(n, seats, k);
    free(seats);
}

void neighbourhood_init(struct neighbourhood *neighbourhood, const struct simulation *simulation)
{
    const struct ensemble *whole = simulation->folding ? simulation->folding->whole : simulation->ensemble;
    *neighbourhood = (struct neighbourhood){.simulation = simulation,
                                            .seating = {.topology = simulation->cost->topology, .whole = whole},
                                            .group = UINT32_MAX};
    if (simulation->memo) {
        neighbourhood->communicators = plan_memo_communicators(simulation->memo, whole);
        neighbourhood->patterns = plan_memo_patterns(simulation->memo, whole);
    } else {
        communicators_init(&neighbourhood->own_communicators, whole);
        member_patterns_init(&neighbourhood->own_patterns, whole);
        neighbourhood->communicators = &neighbourhood->own_communicators;
        neighbourhood->patterns = &neighbourhood->own_patterns;
    }
    member_sets_init(&neighbourhood->sets, &neighbourhood->seating, neighbourhood->patterns);
    neighbourhood->spans = memory_zeroed((size_t)STREAM_COUNT * whole->ranks, sizeof *neighbourhood->spans);
    find_gpus(neighbourhood);
}

void neighbourhood_fini(struct neighbourhood *neighbourhood)
{
    member_sets_fini(&neighbourhood->sets);
    communicators_fini(&neighbourhood->own_communicators);
    member_patterns_fini(&neighbourhood->own_patterns);
    free(neighbourhood->spans);
    free(neighbourhood->seating.gpus);
    for (uint32_t k = 0; k < LEVELS_MAX; k++) {
        free(neighbourhood->seating.within[k]);
        free(neighbourhood->together[k]);
    }
    *neighbourhood = (struct neighbourhood){0};
}

/* ---- what is taken down ---- */

static void put(struct surroundings *surroundings, uint32_t number)
{
    memory_grow(surroundings->numbers, surroundings->count, surroundings->capacity);
    surroundings->numbers[surroundings->count++] = number;
}

static void put_rate(struct surroundings *surroundings, double bytes_per_s)
{
    uint32_t words[sizeof bytes_per_s / sizeof(uint32_t)];
    memcpy(words, &bytes_per_s, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        put(surroundings, words[i]);
}

/* Levels nest, so the lowest GPU and the highest are as far apart as any two. */
static uint32_t span_of(const struct neighbourhood *n, struct members members)
{
    struct place_walk walk = place_walk_of(&n->seating.whole->layout, n->group, 0);
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t gpu = n->seating.gpus[place_walk_to(&walk, members.numbers[i])];
        lowest = gpu < lowest ? gpu : lowest;
        highest = gpu > highest ? gpu : highest;
    }
    return topology_level_between(n->seating.topology, lowest, highest);
}

static void put_streams(struct neighbourhood *n, uint32_t rank, struct surroundings *surroundings)
{
    for (uint32_t s = 0; s < STREAM_COUNT; s++) {
        struct members members = communicator_of_stream(n->communicators, rank, (enum stream)s);
        uint32_t *span = &n->spans[(size_t)s * n->seating.whole->ranks + members.numbers[0]];
        if (*span == UINT32_MAX)
            *span = span_of(n, members);
        put(surroundings, members.count);
        put(surroundings, *span);
    }
}

/* Members as a level sees them: groups of those that are nearer to each other. */
static void put_set(struct neighbourhood *n, const struct instance *self, uint32_t pattern,
                    struct surroundings *surroundings)
{
    uint32_t joined[LEVELS_MAX];
    struct communicator_size size = member_sets_look(&n->sets, pattern, self, joined);
    put(surroundings, size.ranks);
    put(surroundings, size.span);
    for (uint32_t k = 0, nearer = 1; k < surroundings->n_levels; k++) {
        assert(joined[k] > 0); /* it is a member itself */
        put(surroundings, (joined[k] + nearer - 1) / nearer);
        nearer = joined[k];
    }
}

void surroundings_of(struct neighbourhood *n, uint32_t instance, struct surroundings *surroundings)
{
    const struct ensemble *ensemble = n->simulation->ensemble;
    const struct instance *self = &ensemble->instances[instance];
    const struct shape *shape = &ensemble->shapes[self->shape];
    const struct shape_patterns *patterns = &n->patterns->shapes[self->shape];
    uint32_t ranks = ensemble->ranks, place = self->group * ranks + self->rank;
    if (n->group != self->group)
        memset(n->spans, 0xff, (size_t)STREAM_COUNT * ranks * sizeof *n->spans);
    n->group = self->group;
    surroundings->count = 0;
    surroundings->n_peers = shape->messages.n_peers;
    surroundings->n_levels = n->seating.topology->n_levels;
    surroundings->set_of = patterns->of_collective;
    put(surroundings, self->shape);
    struct place_walk walk = place_walk_of(&ensemble->layout, self->group, self->turn);
    for (uint32_t p = 0; p < shape->messages.n_peers; p++)
        put(surroundings, seating_level(&n->seating, place, place_walk_to(&walk, shape->messages.peers[p])));
    put_streams(n, self->rank, surroundings);
    for (uint32_t k = 0; k < surroundings->n_levels; k++)
        put(surroundings, n->together[k] ? n->together[k][place] : 0);
    for (uint32_t s = 0; s < patterns->count; s++)
        put_set(n, self, patterns->patterns[s], surroundings);
    for (uint32_t k = 0; k < surroundings->n_levels; k++)
        put_rate(surroundings, n->simulation->cost->topology->levels[k].fan_bytes_per_s);
}

static const uint32_t *collective_at(const struct surroundings *surroundings, uint32_t index)
{
    size_t before = 1 + surroundings->n_peers + 2 * STREAM_COUNT + surroundings->n_levels;
    return surroundings->numbers + before +
           (size_t)surroundings->set_of[index] * (NUMBERS_OF_COLLECTIVE + surroundings->n_levels);
}

struct communicator_size surroundings_of_collective(const struct surroundings *surroundings, uint32_t index)
{
    const uint32_t *at = collective_at(surroundings, index);
    return (struct communicator_size){at[0], at[1]};
}

uint32_t surroundings_members(const struct surroundings *surroundings, uint32_t index, uint32_t level)
{
    return collective_at(surroundings, index)[NUMBERS_OF_COLLECTIVE + level];
}
