/* surroundings.h - how far an instance's peers and the members of its communicators are.
 *
 * In levels of the cluster: the outermost that a way to a peer crosses; the outermost within a communicator; and, of a
 * collective, how many members each level joins as seen from the instance; and how many share a fan's pipe, and what it
 * passes (transfers.h). What a message costs follows from its program and from this (transfers.h), so instances of one
 * shape with equal surroundings have equal costs, whichever their GPUs are.
 *
 * A program has many collectives among few sets of members, so all is asked of each set once (member_sets.h).
 */
#ifndef CPSIM_SIM_SURROUNDINGS_H
#define CPSIM_SIM_SURROUNDINGS_H

#include "models/cost/communicators.h"
#include "sim/engine.h"
#include "sim/member_sets.h"

struct surroundings {
    uint32_t *numbers; /* all of the below, one after the other: equal memory is equal surroundings */
    size_t count, capacity;
    uint32_t n_peers, n_levels;
    const uint32_t *set_of; /* [collective]: the number of its set of members; the neighbourhood's */
};

/* What is asked for many instances of a simulation. */
struct neighbourhood {
    const struct simulation *simulation;
    const struct communicators *communicators; /* a memo's, or its own */
    const struct member_patterns *patterns;
    struct communicators own_communicators;
    struct member_patterns own_patterns;
    struct seating seating;
    struct member_sets sets;
    /* Where a level has a fan_bandwidth: [level][place]: how many GPUs of its instance of the level are in use. */
    uint32_t *together[LEVELS_MAX];
    /* Spans found so far: [stream * ranks + lowest member] for the group asked for last. */
    uint32_t *spans;
    uint32_t group;
};

/* The neighbourhood stays where it is. */
void neighbourhood_init(struct neighbourhood *neighbourhood, const struct simulation *simulation);
void neighbourhood_fini(struct neighbourhood *neighbourhood);

/* Those of `instance`, in place of what `surroundings` held (zeroed at first; the caller frees its numbers). */
void surroundings_of(struct neighbourhood *neighbourhood, uint32_t instance, struct surroundings *surroundings);

static inline uint32_t surroundings_shape(const struct surroundings *surroundings)
{
    return surroundings->numbers[0];
}

/* The level of the way to a peer. */
static inline uint32_t surroundings_level(const struct surroundings *surroundings, uint32_t peer)
{
    return surroundings->numbers[1 + peer];
}

/* The communicator of the messages of a stream: 0 members if there are none. */
static inline struct communicator_size surroundings_of_stream(const struct surroundings *surroundings,
                                                              enum stream stream)
{
    const uint32_t *at = surroundings->numbers + 1 + surroundings->n_peers + 2 * (size_t)stream;
    return (struct communicator_size){at[0], at[1]};
}

/* GPUs of the instance of a level with a fan_bandwidth that it is in which are in use, all groups'; 0 for other levels.
 */
static inline uint32_t surroundings_senders(const struct surroundings *surroundings, uint32_t level)
{
    return surroundings->numbers[1 + surroundings->n_peers + 2 * STREAM_COUNT + level];
}

/* Of collective `index` of the program: its communicator; and its members at `level`, those that are nearer to each
 * other counted as one. */
struct communicator_size surroundings_of_collective(const struct surroundings *surroundings, uint32_t index);
uint32_t surroundings_members(const struct surroundings *surroundings, uint32_t index, uint32_t level);

#endif
