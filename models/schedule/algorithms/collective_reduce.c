/* collective_reduce.c - all-reduce: the sum of what all members have, on all of them.
 *
 * Every part of the sum is added up either on one rank alone, or on several in the same order: all members end with the
 * same bits.
 */
#include "models/schedule/algorithms/collective_parts.h"

#include <stdlib.h>

#include "models/base/memory.h"

struct reduction {
    struct lowering l;
    struct slot slot;
    struct lanes lanes;
    enum tensor tensor;
    uint32_t parts;
    const uint32_t *staging;
};

static struct part_of_slot part_of(const struct reduction *r, uint32_t index)
{
    return slot_part(r->tensor, r->slot.block, r->lanes, r->parts, index);
}

static void send_part(const struct reduction *r, uint32_t group, struct part_of_slot part, uint32_t to)
{
    if (part.block.count)
        builder_send_lanes(r->l.b, r->l.stream, group, r->l.traffic, r->slot.buffer, r->l.team->members[to], part.block,
                           part.lanes);
}

static void receive_part(const struct reduction *r, uint32_t group, uint32_t buffer, struct part_of_slot part,
                         uint32_t from)
{
    if (part.block.count)
        builder_receive_lanes(r->l.b, r->l.stream, group, r->l.traffic, buffer, r->l.team->members[from], part.block,
                              part.lanes);
}

/* The sum of `n` buffers in their order, into the slot, which is the one of them with index `mine`. */
static void add_up(const struct reduction *r, struct part_of_slot part, uint32_t *shares, uint32_t n, uint32_t mine)
{
    shares[mine] = r->slot.buffer;
    uint32_t sum = shares[0];
    for (uint32_t i = 1; i < n && part.block.count; i++) {
        bool turns = i == mine; /* a + b = b + a, to the bit */
        lowering_add(&r->l, turns ? shares[i] : sum, turns ? sum : shares[i], part.block, part.lanes);
        sum = turns ? shares[i] : sum;
    }
}

static void reduce_direct(const struct reduction *r)
{
    const struct team *team = r->l.team;
    struct part_of_slot whole = part_of(r, 0);
    uint32_t *shares = memory_zeroed(team->count, sizeof *shares), group = lowering_group(&r->l);
    for (uint32_t i = 0; i < team->count; i++)
        shares[i] = i < team->me ? r->staging[i] : i > team->me ? r->staging[i - 1] : NO_BUFFER;
    for (uint32_t step = 1; step < team->count; step++) {
        uint32_t from = member_back(team, step);
        send_part(r, group, whole, member_ahead(team, step));
        receive_part(r, group, shares[from], whole, from);
    }
    add_up(r, whole, shares, team->count, team->me);
    free(shares);
}

/* Part i goes round until all of it is with member i, then round again. */
static void reduce_ring(const struct reduction *r)
{
    const struct team *team = r->l.team;
    uint32_t ahead = member_ahead(team, 1), behind = member_back(team, 1);
    for (uint32_t step = 1; step < team->count; step++) {
        uint32_t group = lowering_group(&r->l), index = member_back(team, step + 1);
        struct part_of_slot arrives = part_of(r, index);
        send_part(r, group, part_of(r, member_back(team, step)), ahead);
        receive_part(r, group, r->staging[index], arrives, behind);
        if (arrives.block.count)
            lowering_add(&r->l, r->slot.buffer, r->staging[index], arrives.block, arrives.lanes);
    }
    for (uint32_t step = 1; step < team->count; step++) {
        uint32_t group = lowering_group(&r->l);
        send_part(r, group, part_of(r, member_back(team, step - 1)), ahead);
        receive_part(r, group, r->slot.buffer, part_of(r, member_back(team, step)), behind);
    }
}

/* ---- hierarchical: the ranks of a node add up a part each, as many as the smallest node has ranks ---- */

static void reduce_inside_node(const struct reduction *r, const struct nodes *nodes, const uint32_t *staging)
{
    uint32_t me = r->l.team->me, here = nodes->node[me], size = nodes->size[here], place = nodes->place[me];
    uint32_t group = lowering_group(&r->l), n = 0;
    struct part_of_slot mine = part_of(r, place < r->parts ? place : 0);
    for (uint32_t step = 1; step < size; step++) {
        uint32_t to = (place + step) % size, from = (place + size - step) % size;
        if (to < r->parts)
            send_part(r, group, part_of(r, to), nodes_at(nodes, here, to));
        if (place < r->parts)
            receive_part(r, group, staging[n++], mine, nodes_at(nodes, here, from));
    }
    for (uint32_t i = 0; i < n && mine.block.count; i++)
        lowering_add(&r->l, r->slot.buffer, staging[i], mine.block, mine.lanes);
}

static void reduce_between_nodes(const struct reduction *r, const struct nodes *nodes, const uint32_t *staging)
{
    uint32_t me = r->l.team->me, here = nodes->node[me], place = nodes->place[me], group = lowering_group(&r->l);
    if (place >= r->parts)
        return;
    struct part_of_slot mine = part_of(r, place);
    uint32_t *shares = memory_zeroed(nodes->count, sizeof *shares);
    for (uint32_t node = 0; node < nodes->count; node++) {
        if (node == here)
            continue;
        shares[node] = staging[node < here ? node : node - 1];
        send_part(r, group, mine, nodes_at(nodes, node, place));
        receive_part(r, group, shares[node], mine, nodes_at(nodes, node, place));
    }
    add_up(r, mine, shares, nodes->count, here);
    free(shares);
}

static void share_inside_node(const struct reduction *r, const struct nodes *nodes)
{
    uint32_t me = r->l.team->me, here = nodes->node[me], size = nodes->size[here], place = nodes->place[me];
    uint32_t group = lowering_group(&r->l);
    for (uint32_t step = 1; step < size; step++) {
        uint32_t to = (place + step) % size, from = (place + size - step) % size;
        if (place < r->parts)
            send_part(r, group, part_of(r, place), nodes_at(nodes, here, to));
        if (from < r->parts)
            receive_part(r, group, r->slot.buffer, part_of(r, from), nodes_at(nodes, here, from));
    }
}

static void reduce_hierarchical(struct reduction *r, const struct nodes *nodes)
{
    uint32_t size = nodes->size[nodes->node[r->l.team->me]], place = nodes->place[r->l.team->me];
    uint32_t waiting = size > nodes->count ? size - 1 : nodes->count - 1; /* as collective_staging makes them */
    const uint32_t *staging = place < r->parts ? r->staging + (size_t)place * waiting : NULL;
    reduce_inside_node(r, nodes, staging);
    reduce_between_nodes(r, nodes, staging);
    share_inside_node(r, nodes);
}

void collective_all_reduce(struct builder *b, enum stream stream, enum traffic traffic, const struct team *team,
                           struct slot slot, const uint32_t *staging)
{
    struct nodes nodes;
    nodes_init(&nodes, b, team);
    struct reduction r = {.l = lowering_begin(b, CALL_ALL_REDUCE, stream, traffic, team, NULL, NULL, slot),
                          .slot = slot,
                          .lanes = b->program->buffers[slot.buffer].lanes,
                          .tensor = (enum tensor)b->program->buffers[slot.buffer].tensor,
                          .staging = staging};
    r.parts = all_reduce_parts(r.l.kind, &nodes, team);
    if (r.l.kind == COLLECTIVE_RING)
        reduce_ring(&r);
    else if (r.l.kind == COLLECTIVE_DIRECT)
        reduce_direct(&r);
    else
        reduce_hierarchical(&r, &nodes);
    nodes_fini(&nodes);
    program_end_collective(b->program);
}
