/* collective.c - teams, and what the lowerings share: the table's entry, the nodes of a team, buffers for arriving
 * shares. */
#include "models/schedule/algorithms/collective_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct team team_of_all(const struct builder *b)
{
    struct team team = {memory_zeroed(b->ranks, sizeof *team.members), b->ranks, b->rank};
    for (uint32_t rank = 0; rank < b->ranks; rank++)
        team.members[rank] = rank;
    return team;
}

void team_fini(struct team *team)
{
    free(team->members);
    *team = (struct team){.members = NULL};
}

struct lowering lowering_begin(struct builder *b, enum collective_call call, enum stream stream, enum traffic traffic,
                               const struct team *team, const struct slot *sources, const struct slot *targets,
                               struct slot own)
{
    uint32_t *from = memory_zeroed(2 * (size_t)team->count, sizeof *from), *to = from + team->count;
    for (uint32_t i = 0; i < team->count; i++) {
        struct slot nothing = {.buffer = NO_BUFFER}, mine = i == team->me ? own : nothing;
        struct slot source = sources ? sources[i] : mine, target = targets ? targets[i] : mine;
        from[i] = slot_is_there(source) ? source.buffer : NO_BUFFER;
        to[i] = slot_is_there(target) ? target.buffer : NO_BUFFER;
    }
    program_begin_collective(b->program, call, stream, team->count, team->me, team->members, from, to);
    free(from);
    return (struct lowering){
        .b = b, .stream = stream, .traffic = traffic, .team = team, .kind = b->schedule->experiment->collective};
}

uint32_t lowering_group(const struct lowering *l)
{
    return program_new_group(l->b->program);
}

void lowering_send(const struct lowering *l, uint32_t group, struct slot slot, uint32_t to)
{
    builder_send(l->b, l->stream, group, l->traffic, slot.buffer, l->team->members[to], slot.block);
}

void lowering_receive(const struct lowering *l, uint32_t group, struct slot slot, uint32_t from)
{
    builder_receive(l->b, l->stream, group, l->traffic, slot.buffer, l->team->members[from], slot.block);
}

void lowering_add(const struct lowering *l, uint32_t target, uint32_t source, struct block block, struct lanes lanes)
{
    enum tensor tensor = (enum tensor)l->b->program->buffers[target].tensor;
    enum op_kind kind = tensor == TENSOR_TOP ? OP_RAISE : OP_ACCUMULATE;
    (tensor_goes_by_keys(tensor) ? builder_on_keys : builder_on_queries)(l->b, kind, l->stream, block, lanes,
                                                                         (uint32_t[]){source, target}, 2, &target, 1);
}

/* ---- nodes ---- */

void nodes_init(struct nodes *nodes, const struct builder *b, const struct team *team)
{
    uint32_t n = team->count, per_node = b->schedule->experiment->collective_node;
    uint32_t *memory = memory_zeroed(5 * (size_t)n, sizeof *memory);
    *nodes = (struct nodes){.node = memory,
                            .place = memory + n,
                            .size = memory + 2 * (size_t)n,
                            .first = memory + 3 * (size_t)n,
                            .members = memory + 4 * (size_t)n};
    uint32_t *numbers = memory_zeroed(n, sizeof *numbers); /* place / per_node of each node */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = team->members[i], *places = b->schedule->place_of_rank, place = places ? places[rank] : rank;
        uint32_t number = per_node ? place / per_node : 0, node = 0;
        while (node < nodes->count && numbers[node] != number)
            node++;
        if (node == nodes->count)
            numbers[nodes->count++] = number;
        nodes->node[i] = node;
        nodes->place[i] = nodes->size[node]++;
    }
    for (uint32_t node = 1; node < nodes->count; node++)
        nodes->first[node] = nodes->first[node - 1] + nodes->size[node - 1];
    for (uint32_t i = 0; i < n; i++)
        nodes->members[nodes->first[nodes->node[i]] + nodes->place[i]] = i;
    free(numbers);
}

void nodes_fini(struct nodes *nodes)
{
    free(nodes->node);
}

uint32_t nodes_likes(const struct nodes *nodes, const struct team *team)
{
    uint32_t likes = 0;
    for (uint32_t i = 0; i < team->count; i++)
        likes += nodes_like(nodes, nodes->node[team->me], i) == team->me;
    return likes;
}

uint32_t nodes_smallest(const struct nodes *nodes)
{
    uint32_t least = nodes->size[0];
    for (uint32_t node = 1; node < nodes->count; node++)
        least = nodes->size[node] < least ? nodes->size[node] : least;
    return least;
}

/* ---- arriving shares ---- */

/* Cuts [*first, *first + *count) into nearly equal runs and leaves the one of `index`. */
static void cut(uint32_t *first, uint32_t *count, uint32_t parts, uint32_t index)
{
    uint32_t begin = (uint32_t)((uint64_t)*count * index / parts);
    uint32_t end = (uint32_t)((uint64_t)*count * (index + 1) / parts);
    *first += begin;
    *count = end - begin;
}

struct part_of_slot slot_part(enum tensor tensor, struct block block, struct lanes lanes, uint32_t count,
                              uint32_t index)
{
    struct part_of_slot part = {block, lanes};
    uint32_t heads = tensor_goes_by_keys(tensor) ? 0 : lanes.heads; /* neighbouring query heads share a KV head */
    uint32_t most = heads > lanes.items ? heads : lanes.items;
    most = block.count > most ? block.count : most;
    if (heads >= count || (heads == most && lanes.items < count && block.count < count))
        cut(&part.lanes.head, &part.lanes.heads, count, index);
    else if (lanes.items >= count || (lanes.items == most && block.count < count))
        cut(&part.lanes.item, &part.lanes.items, count, index);
    else
        cut(&part.block.first, &part.block.count, count, index);
    if (part.lanes.heads == 0 || part.lanes.items == 0)
        part.block.count = 0;
    return part;
}

uint32_t all_reduce_parts(enum collective_kind kind, const struct nodes *nodes, const struct team *team)
{
    if (kind == COLLECTIVE_DIRECT)
        return 1;
    return kind == COLLECTIVE_RING ? team->count : nodes_smallest(nodes);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* How many shares of one part wait at once. */
static uint32_t shares_waiting(enum collective_kind kind, enum collective_call call, const struct nodes *nodes,
                               const struct team *team)
{
    if (kind == COLLECTIVE_RING)
        return 1;
    if (kind == COLLECTIVE_DIRECT)
        return team->count - 1;
    uint32_t mates = nodes->size[nodes->node[team->me]] - 1;
    uint32_t inside = call == CALL_REDUCE_SCATTER && mates > 0 ? nodes_likes(nodes, team) : mates;
    return larger(inside, nodes->count - 1);
}

uint32_t *collective_staging(struct builder *b, const char *name, enum collective_call call, const struct team *team,
                             enum tensor tensor, enum dtype dtype, struct block rows, struct lanes lanes)
{
    enum collective_kind kind = b->schedule->experiment->collective;
    struct nodes nodes;
    nodes_init(&nodes, b, team);
    uint32_t waiting = shares_waiting(kind, call, &nodes, team), used = 0;
    uint32_t parts = call == CALL_ALL_REDUCE ? all_reduce_parts(kind, &nodes, team) : 1;
    uint32_t *staging = memory_zeroed((size_t)waiting * parts, sizeof *staging);
    for (uint32_t part = 0; part < parts && team->count > 1; part++) {
        struct part_of_slot share = slot_part(tensor, rows, lanes, parts, part);
        bool mine = call != CALL_ALL_REDUCE || kind != COLLECTIVE_HIERARCHICAL || part == nodes.place[team->me];
        for (uint32_t i = 0; i < waiting; i++, used++) {
            char numbered[40];
            snprintf(numbered, sizeof numbered, "%s %u", name, used);
            staging[used] = mine && share.block.count ? builder_buffer_block(b, numbered, tensor, dtype,
                                                                             ROLE_ACCUMULATOR, share.block, share.lanes)
                                                      : NO_BUFFER;
        }
    }
    nodes_fini(&nodes);
    return staging;
}
