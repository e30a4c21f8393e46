/* surroundings.c - levels between GPUs, taken down in the order of the accessors. */
#include "sim/surroundings.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"

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
    uint32_t count = n->whole->n_instances, number = 0;
    bool fans = topology->levels[level].fan_bytes_per_s > 0;
    n->within[level] = memory_zeroed(count, sizeof *n->within[level]);
    if (fans)
        n->together[level] = memory_zeroed(count, sizeof *n->together[level]);
    for (uint32_t first = 0, end; first < count; first = end, number++) {
        for (end = first + 1; end < count; end++)
            if (topology_level_between(topology, seats[first].gpu, seats[end].gpu) > level)
                break;
        for (uint32_t i = first; i < end; i++) {
            n->within[level][seats[i].place] = number;
            if (fans)
                n->together[level][seats[i].place] = end - first;
        }
    }
}

static void find_gpus(struct neighbourhood *n)
{
    const struct topology *topology = n->simulation->cost->topology;
    uint32_t count = n->whole->n_instances;
    n->gpus = memory_zeroed(count, sizeof *n->gpus);
    for (uint32_t i = 0; i < count; i++) {
        const struct instance *instance = &n->whole->instances[i];
        n->gpus[i] = placement_gpu(n->simulation->placement, instance->group, instance->rank);
    }
    if (topology->graph)
        return;
    struct seat *seats = memory_zeroed(count, sizeof *seats);
    for (uint32_t i = 0; i < count; i++)
        seats[i] = (struct seat){n->gpus[i], i};
    qsort(seats, count, sizeof *seats, compare_seats);
    for (uint32_t k = 0; k < topology->n_levels; k++)
        split_level(n, seats, k);
    free(seats);
}

/* A set of members by its content. */
struct known_set {
    uint32_t index;
    UT_hash_handle hh;
};

static struct member_sets find_sets(const struct program *program)
{
    struct known_set *known = NULL, *found, *next;
    struct member_sets sets = {.set_of = memory_zeroed(program->n_collectives, sizeof *sets.set_of),
                               .sets = memory_zeroed(program->n_collectives, sizeof *sets.sets)};
    for (uint32_t c = 0; c < program->n_collectives; c++) {
        struct members members = communicator_of_collective(program, &program->collectives[c]);
        size_t size = members.count * sizeof *members.numbers;
        HASH_FIND(hh, known, members.numbers, size, found);
        if (!found) {
            found = memory_zeroed(1, sizeof *found);
            found->index = sets.n_sets;
            sets.sets[sets.n_sets++] = members;
            HASH_ADD_KEYPTR(hh, known, members.numbers, size, found);
        }
        sets.set_of[c] = found->index;
    }
    HASH_ITER(hh, known, found, next)
    {
        HASH_DEL(known, found);
        free(found);
    }
    return sets;
}

void neighbourhood_init(struct neighbourhood *neighbourhood, const struct simulation *simulation)
{
    const struct ensemble *whole = simulation->folding ? simulation->folding->whole : simulation->ensemble;
    *neighbourhood = (struct neighbourhood){.simulation = simulation, .whole = whole, .group = UINT32_MAX};
    communicators_init(&neighbourhood->communicators, whole);
    neighbourhood->sets = memory_zeroed(whole->n_shapes, sizeof *neighbourhood->sets);
    for (uint32_t s = 0; s < whole->n_shapes; s++)
        neighbourhood->sets[s] = find_sets(whole->shapes[s].program);
    neighbourhood->spans = memory_zeroed((size_t)STREAM_COUNT * whole->ranks, sizeof *neighbourhood->spans);
    find_gpus(neighbourhood);
}

void neighbourhood_fini(struct neighbourhood *neighbourhood)
{
    for (uint32_t s = 0; s < neighbourhood->whole->n_shapes; s++) {
        free(neighbourhood->sets[s].set_of);
        free(neighbourhood->sets[s].sets);
    }
    free(neighbourhood->sets);
    communicators_fini(&neighbourhood->communicators);
    free(neighbourhood->spans);
    free(neighbourhood->gpus);
    for (uint32_t k = 0; k < LEVELS_MAX; k++) {
        free(neighbourhood->within[k]);
        free(neighbourhood->together[k]);
    }
    *neighbourhood = (struct neighbourhood){0};
}

/* The level between two places. */
static uint32_t level_between(const struct neighbourhood *n, uint32_t a, uint32_t b)
{
    uint32_t level = 0;
    if (!n->within[0])
        return topology_level_between(n->simulation->cost->topology, n->gpus[a], n->gpus[b]);
    while (n->within[level][a] != n->within[level][b])
        level++;
    return level;
}

/* ---- members ---- */

/* Goes over the places of members as a rank sees them, most of them in the group of the one before. */
struct member_walk {
    const struct layout *layout;
    uint32_t group, turn;  /* of who sees them */
    uint32_t ahead, first; /* of the last one: number / ranks, and the first place of its group */
};

static struct member_walk member_walk_of(const struct neighbourhood *n, uint32_t group, uint32_t turn)
{
    return (struct member_walk){&n->whole->layout, group, turn, 0, group * n->whole->ranks};
}

static uint32_t member_place(struct member_walk *walk, uint32_t number)
{
    uint32_t ranks = walk->layout->cp, ahead = number / ranks, rank = number % ranks;
    if (ahead != walk->ahead) {
        walk->ahead = ahead;
        walk->first = peer_group(walk->layout, walk->group, number) * ranks;
    }
    return walk->first + (rank < ranks - walk->turn ? rank + walk->turn : rank + walk->turn - ranks);
}

/* The lowest GPU and the highest of some. */
struct extent {
    uint64_t lowest, highest;
};

static void extend(struct extent *extent, uint64_t gpu)
{
    extent->lowest = gpu < extent->lowest ? gpu : extent->lowest;
    extent->highest = gpu > extent->highest ? gpu : extent->highest;
}

/* Levels nest, so the lowest GPU and the highest are as far apart as any two. */
static uint32_t span_of(const struct neighbourhood *n, const struct extent *extent)
{
    return topology_level_between(n->simulation->cost->topology, extent->lowest, extent->highest);
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

static void put_streams(struct neighbourhood *n, uint32_t rank, struct surroundings *surroundings)
{
    for (uint32_t s = 0; s < STREAM_COUNT; s++) {
        struct members members = communicator_of_stream(&n->communicators, rank, (enum stream)s);
        uint32_t *span = &n->spans[(size_t)s * n->whole->ranks + members.numbers[0]];
        if (*span == UINT32_MAX) {
            struct member_walk walk = member_walk_of(n, n->group, 0);
            struct extent extent = {UINT64_MAX, 0};
            for (uint32_t i = 0; i < members.count; i++)
                extend(&extent, n->gpus[member_place(&walk, members.numbers[i])]);
            *span = span_of(n, &extent);
        }
        put(surroundings, members.count);
        put(surroundings, *span);
    }
}

/* Members as a level sees them: groups of those that are nearer to each other. */
static void put_set(const struct neighbourhood *n, const struct instance *self, uint32_t place, struct members members,
                    struct surroundings *surroundings)
{
    uint32_t within[LEVELS_MAX] = {0};
    struct member_walk walk = member_walk_of(n, self->group, self->turn);
    struct extent extent = {UINT64_MAX, 0};
    for (uint32_t i = 0; i < members.count; i++) {
        uint32_t member = member_place(&walk, members.numbers[i]);
        extend(&extent, n->gpus[member]);
        within[level_between(n, place, member)]++;
    }
    put(surroundings, members.count);
    put(surroundings, span_of(n, &extent));
    for (uint32_t k = 0, nearer = 1; k < surroundings->n_levels; k++) {
        uint32_t together = within[k] + (k ? nearer : 0);
        put(surroundings, (together + nearer - 1) / nearer);
        nearer = together;
    }
}

void surroundings_of(struct neighbourhood *n, uint32_t instance, struct surroundings *surroundings)
{
    const struct ensemble *ensemble = n->simulation->ensemble;
    const struct instance *self = &ensemble->instances[instance];
    const struct shape *shape = &ensemble->shapes[self->shape];
    const struct member_sets *sets = &n->sets[self->shape];
    uint32_t ranks = ensemble->ranks, place = self->group * ranks + self->rank;
    if (n->group != self->group)
        memset(n->spans, 0xff, (size_t)STREAM_COUNT * ranks * sizeof *n->spans);
    n->group = self->group;
    surroundings->count = 0;
    surroundings->n_peers = shape->messages.n_peers;
    surroundings->n_levels = n->simulation->cost->topology->n_levels;
    surroundings->set_of = sets->set_of;
    put(surroundings, self->shape);
    struct member_walk walk = member_walk_of(n, self->group, self->turn);
    for (uint32_t p = 0; p < shape->messages.n_peers; p++)
        put(surroundings, level_between(n, place, member_place(&walk, shape->messages.peers[p])));
    put_streams(n, self->rank, surroundings);
    for (uint32_t k = 0; k < surroundings->n_levels; k++)
        put(surroundings, n->together[k] ? n->together[k][place] : 0);
    for (uint32_t s = 0; s < sets->n_sets; s++)
        put_set(n, self, place, sets->sets[s], surroundings);
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
