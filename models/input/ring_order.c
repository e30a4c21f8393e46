/* ring_order.c - sorts a group's GPUs by node or lane, or turns every second part of it round. */
#include "models/input/ring_order.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* A GPU of the group under a key that it is sorted by; equal keys keep the order of their indices. */
struct seat {
    uint64_t key;
    uint32_t index;
};

static int compare_seats(const void *a, const void *b)
{
    const struct seat *first = a, *second = b;
    if (first->key != second->key)
        return first->key < second->key ? -1 : 1;
    return first->index < second->index ? -1 : 1;
}

static uint64_t node_of(const struct topology *topology, uint64_t gpu)
{
    return topology_node(topology, gpu);
}

static uint64_t lane_of(const struct topology *topology, uint64_t gpu)
{
    return topology_lane(topology, gpu);
}

static void sort_by(uint64_t (*key)(const struct topology *topology, uint64_t gpu), const struct topology *topology,
                    uint64_t first, uint64_t stride, uint32_t cp, uint32_t *order)
{
    struct seat *seats = memory_zeroed(cp, sizeof *seats);
    for (uint32_t i = 0; i < cp; i++)
        seats[i] = (struct seat){key(topology, first + i * stride), i};
    qsort(seats, cp, sizeof *seats, compare_seats);
    for (uint32_t i = 0; i < cp; i++)
        order[i] = seats[i].index;
    free(seats);
}

static void turn_round(uint32_t *order, uint32_t begin, uint32_t end)
{
    for (; begin + 1 < end; begin++, end--) {
        uint32_t moved = order[begin];
        order[begin] = order[end - 1];
        order[end - 1] = moved;
    }
}

/* Of the parts of `inner` GPUs in each block of `outer`, turns every second one that the group has any GPU in. The
 * GPUs of a part have consecutive indices, and parts keep their places, so a part is where its indices are. */
static void turn_parts(uint64_t inner, uint64_t outer, const uint64_t *places, uint32_t cp, uint32_t *order)
{
    bool backwards = false;
    for (uint32_t begin = 0, end; begin < cp; begin = end) {
        for (end = begin + 1; end < cp && places[end] / inner == places[begin] / inner;)
            end++;
        if (backwards)
            turn_round(order, begin, end);
        bool same_block = end < cp && places[end] / outer == places[begin] / outer;
        backwards = same_block && !backwards;
    }
}

/* From the inside out: turning a part turns what is inside of it. */
static void snake(const struct topology *topology, uint64_t first, uint64_t stride, uint32_t cp, uint32_t *order)
{
    uint64_t inner = 1, *places = memory_zeroed(cp, sizeof *places);
    for (uint32_t i = 0; i < cp; i++) {
        order[i] = i;
        places[i] = places_of_gpu(&topology->places, first + i * stride);
    }
    for (uint32_t k = 0; k < topology->n_levels && !topology->graph; k++) {
        const struct level *level = &topology->levels[k];
        uint32_t dimensions = level->kind == LEVEL_TORUS ? level->n_torus : 1;
        for (uint32_t d = 0; d < dimensions; d++) {
            uint64_t outer = inner * (level->kind == LEVEL_TORUS ? level->torus[d] : level->size);
            turn_parts(inner, outer, places, cp, order);
            inner = outer;
        }
    }
    free(places);
}

void ring_order_of(const struct experiment *experiment, const struct topology *topology, uint64_t first,
                   uint64_t stride, uint32_t *order)
{
    uint32_t cp = experiment->degree[PARALLEL_CP];
    switch (experiment->ring) {
    case RING_NODE_MAJOR:
        sort_by(node_of, topology, first, stride, cp, order);
        return;
    case RING_RAIL:
        sort_by(lane_of, topology, first, stride, cp, order);
        return;
    case RING_SNAKE:
        snake(topology, first, stride, cp, order);
        return;
    case RING_NATURAL:
    case RING_EXPLICIT:
        break;
    }
    for (uint32_t i = 0; i < cp; i++)
        order[i] = experiment->ring == RING_EXPLICIT ? (uint32_t)experiment->ring_indices[i] : i;
}

bool ring_order_is_natural(const uint32_t *order, uint32_t cp)
{
    for (uint32_t i = 0; i < cp; i++) {
        if (order[i] != i)
            return false;
    }
    return true;
}
