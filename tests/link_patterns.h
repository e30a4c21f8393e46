/* link_patterns.h - for tests: how long the messages take that benchmarks of links send, one communicator on the first
 * GPUs of a topology, nothing else going on.
 *
 * What the engines must give for the same messages, in closed form, for a cluster where they meet on no link: every GPU
 * has its own port at every level.
 */
#ifndef CPSIM_TESTS_LINK_PATTERNS_H
#define CPSIM_TESTS_LINK_PATTERNS_H

#include <math.h>
#include <string.h>

#include "models/cost/cost.h"

enum link_pattern {
    PATTERN_RING_SHIFT, /* every rank sends to the next and receives from the one before */
    PATTERN_ALL_GATHER,
    PATTERN_REDUCE_SCATTER,
    PATTERN_ALL_TO_ALL,
    PATTERN_ALL_REDUCE,
    PATTERN_COUNT,
};

static const struct {
    const char *name;
    enum collective_call call;
} link_patterns[PATTERN_COUNT] = {
    [PATTERN_RING_SHIFT] = {"ring-shift", CALL_COUNT},
    [PATTERN_ALL_GATHER] = {"all-gather", CALL_ALL_GATHER},
    [PATTERN_REDUCE_SCATTER] = {"reduce-scatter", CALL_REDUCE_SCATTER},
    [PATTERN_ALL_TO_ALL] = {"all-to-all", CALL_ALL_TO_ALL},
    [PATTERN_ALL_REDUCE] = {"all-reduce", CALL_ALL_REDUCE},
};

static inline const char *link_pattern_name(enum link_pattern pattern)
{
    return link_patterns[pattern].name;
}

/* False when there is none of this name. */
static inline bool link_pattern_find(const char *name, enum link_pattern *pattern)
{
    for (int p = 0; p < PATTERN_COUNT; p++) {
        if (strcmp(name, link_patterns[p].name) != 0)
            continue;
        *pattern = (enum link_pattern)p;
        return true;
    }
    return false;
}

static inline double message_seconds(const struct cost *cost, uint64_t from, uint64_t to,
                                     const struct transfer *transfer)
{
    struct diagnostics diag;
    struct route route;
    diagnostics_init(&diag);
    route_init(&route);
    bool there = topology_route(cost->topology, from, to, &route, &diag);
    assert_true(there);
    struct transfer_cost result = cost_transfer(cost, &route, transfer);
    route_fini(&route);
    diagnostics_fini(&diag);
    return result.delay_seconds + (double)transfer->bytes / result.bytes_per_s;
}

static inline double ring_shift_seconds(const struct cost *cost, struct communicator_size communicator, uint64_t bytes)
{
    const struct transfer transfer = {
        .bytes = bytes, .communicator = communicator, .peer_bytes = bytes, .posted_bytes = bytes, .call = CALL_COUNT};
    return fmax(message_seconds(cost, 0, 1, &transfer), message_seconds(cost, communicator.ranks - 1, 0, &transfer));
}

/* Rank 0's members as each level sees them: groups of those that are nearer to each other. */
static inline void count_peers(const struct topology *topology, uint32_t ranks, uint32_t peers[LEVELS_MAX],
                               uint32_t members[LEVELS_MAX])
{
    uint32_t nearer = 1;
    memset(peers, 0, LEVELS_MAX * sizeof *peers);
    for (uint32_t r = 1; r < ranks; r++)
        peers[topology_level_between(topology, 0, r)]++;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        members[k] = (peers[k] + nearer + nearer - 1) / nearer;
        nearer += peers[k];
    }
}

/* Every member has a message for every other, all posted at once. */
static inline double collective_seconds(const struct cost *cost, struct communicator_size communicator,
                                        enum collective_call call, uint64_t bytes)
{
    uint32_t peers[LEVELS_MAX], members[LEVELS_MAX];
    count_peers(cost->topology, communicator.ranks, peers, members);
    double seconds = 0;
    uint64_t piece = bytes / communicator.ranks;
    for (uint32_t r = 1; r < communicator.ranks; r++) {
        uint32_t level = topology_level_between(cost->topology, 0, r);
        uint64_t over_level = piece * peers[level];
        const struct transfer transfer = {.bytes = piece,
                                          .communicator = communicator,
                                          .peer_bytes = piece,
                                          .posted_bytes = over_level,
                                          .call = call,
                                          .level_bytes = over_level,
                                          .rounds = 1,
                                          .members = members[level]};
        seconds = fmax(seconds, message_seconds(cost, 0, r, &transfer));
    }
    return seconds;
}

/* Seconds for `ranks` (2 to topology->n_gpus) with `bytes`: of the message of a ring shift, of the whole tensor that is
 * gathered, scattered, exchanged or summed otherwise. Needs cost->topology and cost->without only. */
static inline double link_pattern_seconds(const struct cost *cost, enum link_pattern pattern, uint32_t ranks,
                                          uint64_t bytes)
{
    const struct communicator_size communicator = {ranks, topology_level_between(cost->topology, 0, ranks - 1)};
    if (pattern == PATTERN_RING_SHIFT)
        return ring_shift_seconds(cost, communicator, bytes);
    if (pattern == PATTERN_ALL_REDUCE) /* a reduce-scatter and an all-gather in one */
        return collective_seconds(cost, communicator, link_patterns[pattern].call, 2 * bytes);
    return collective_seconds(cost, communicator, link_patterns[pattern].call, bytes);
}

#endif
