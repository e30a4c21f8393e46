/* collective_parts.h - what the lowerings of the collectives share: one collective under way, and the nodes of a team.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_COLLECTIVE_PARTS_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_COLLECTIVE_PARTS_H

#include "models/schedule/algorithms/collective.h"

/* A collective being written into a program. */
struct lowering {
    struct builder *b;
    enum stream stream;
    enum traffic traffic;
    const struct team *team;
    enum collective_kind kind;
};

static inline bool slot_is_there(struct slot slot)
{
    return slot.buffer != NO_BUFFER && slot.block.count > 0;
}

static inline uint32_t member_ahead(const struct team *team, uint32_t steps)
{
    return (team->me + steps) % team->count;
}

static inline uint32_t member_back(const struct team *team, uint32_t steps)
{
    return (team->me + team->count - steps % team->count) % team->count;
}

/* Enters the collective in the program's table; end it with program_end_collective. The arrays have a slot per member;
 * NULL: only this rank's, `own`. */
struct lowering lowering_begin(struct builder *builder, enum collective_call call, enum stream stream,
                               enum traffic traffic, const struct team *team, const struct slot *sources,
                               const struct slot *targets, struct slot own);

uint32_t lowering_group(const struct lowering *lowering);
void lowering_send(const struct lowering *lowering, uint32_t group, struct slot slot, uint32_t to);
void lowering_receive(const struct lowering *lowering, uint32_t group, struct slot slot, uint32_t from);

/* target += source (of TENSOR_TOP: the larger), for these rows and lanes. */
void lowering_add(const struct lowering *lowering, uint32_t target, uint32_t source, struct block block,
                  struct lanes lanes);

/* The nodes that a team's members are in, in the order of their first members. */
struct nodes {
    uint32_t count;
    uint32_t *node, *place; /* [member]: its node, its number among that node's members */
    uint32_t *size, *first; /* [node]: how many members, and where they begin in `members` */
    uint32_t *members;      /* by node, then by place */
};

void nodes_init(struct nodes *nodes, const struct builder *builder, const struct team *team);
void nodes_fini(struct nodes *nodes);

/* The member at `place` of `node`. */
static inline uint32_t nodes_at(const struct nodes *nodes, uint32_t node, uint32_t place)
{
    return nodes->members[nodes->first[node] + place];
}

/* Who in `node` deals with what comes from or goes to `member`: itself; elsewhere its like. */
static inline uint32_t nodes_like(const struct nodes *nodes, uint32_t node, uint32_t member)
{
    return nodes_at(nodes, node, nodes->place[member] % nodes->size[node]);
}

/* How many members `me` deals with: itself and its likes in other nodes. */
uint32_t nodes_likes(const struct nodes *nodes, const struct team *team);

/* Members of the smallest node. */
uint32_t nodes_smallest(const struct nodes *nodes);

/* One of `count` nearly equal parts of a slot: some of its heads, or batch items, or rows. */
struct part_of_slot {
    struct block block; /* count 0: an empty part */
    struct lanes lanes;
};
struct part_of_slot slot_part(enum tensor tensor, struct block block, struct lanes lanes, uint32_t count,
                              uint32_t index);

/* Which parts an all-reduce is cut into: their number, under each lowering. */
uint32_t all_reduce_parts(enum collective_kind kind, const struct nodes *nodes, const struct team *team);

#endif
