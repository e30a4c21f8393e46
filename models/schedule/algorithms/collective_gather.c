/* collective_gather.c - all-gather: every member's block to every member. */
#include "models/schedule/algorithms/collective_parts.h"

/* Where member i's block is on this rank, once it has come: the own one where it lives, so that its copy delays
 * nobody. */
static struct slot held(const struct team *team, struct slot own, const struct slot *into, uint32_t i)
{
    return i == team->me ? own : into[i];
}

static void gather_ring(const struct lowering *l, struct slot own, const struct slot *into)
{
    for (uint32_t step = 1; step < l->team->count; step++) {
        uint32_t group = lowering_group(l);
        struct slot leaves = held(l->team, own, into, member_back(l->team, step - 1));
        struct slot arrives = into[member_back(l->team, step)];
        if (slot_is_there(leaves))
            lowering_send(l, group, leaves, member_ahead(l->team, 1));
        if (slot_is_there(arrives))
            lowering_receive(l, group, arrives, member_back(l->team, 1));
    }
}

static void gather_direct(const struct lowering *l, struct slot own, const struct slot *into)
{
    uint32_t group = lowering_group(l);
    for (uint32_t step = 1; step < l->team->count; step++) {
        uint32_t to = member_ahead(l->team, step), from = member_back(l->team, step);
        if (slot_is_there(own))
            lowering_send(l, group, own, to);
        if (slot_is_there(into[from]))
            lowering_receive(l, group, into[from], from);
    }
}

static void gather_between_nodes(const struct lowering *l, const struct nodes *nodes, struct slot own,
                                 const struct slot *into)
{
    uint32_t me = l->team->me, here = nodes->node[me], group = lowering_group(l);
    for (uint32_t node = 0; node < nodes->count; node++)
        if (node != here && slot_is_there(own))
            lowering_send(l, group, own, nodes_like(nodes, node, me));
    for (uint32_t i = 0; i < l->team->count; i++)
        if (nodes->node[i] != here && nodes_like(nodes, here, i) == me && slot_is_there(into[i]))
            lowering_receive(l, group, into[i], i);
}

static void gather_inside_node(const struct lowering *l, const struct nodes *nodes, struct slot own,
                               const struct slot *into)
{
    uint32_t me = l->team->me, here = nodes->node[me], group = lowering_group(l);
    for (uint32_t i = 0; i < l->team->count; i++) {
        struct slot slot = held(l->team, own, into, i);
        uint32_t brought_by = nodes_like(nodes, here, i);
        if (!slot_is_there(slot))
            continue;
        if (brought_by != me) {
            lowering_receive(l, group, slot, brought_by);
            continue;
        }
        for (uint32_t place = 0; place < nodes->size[here]; place++)
            if (place != nodes->place[me])
                lowering_send(l, group, slot, nodes_at(nodes, here, place));
    }
}

static void copy_own(const struct lowering *l, struct slot own, struct slot into)
{
    if (!slot_is_there(own) || own.buffer == into.buffer)
        return;
    const struct buffer held = l->b->program->buffers[own.buffer];
    (tensor_goes_by_keys((enum tensor)held.tensor) ? builder_on_keys : builder_on_queries)(
        l->b, OP_CAST, l->stream, own.block, held.lanes, &own.buffer, 1, &into.buffer, 1);
}

void collective_all_gather(struct builder *b, enum stream stream, enum traffic traffic, const struct team *team,
                           struct slot own, const struct slot *into)
{
    struct lowering l = lowering_begin(b, CALL_ALL_GATHER, stream, traffic, team, NULL, into, own);
    if (l.kind == COLLECTIVE_RING) {
        gather_ring(&l, own, into);
    } else if (l.kind == COLLECTIVE_DIRECT) {
        gather_direct(&l, own, into);
    } else {
        struct nodes nodes;
        nodes_init(&nodes, b, team);
        gather_between_nodes(&l, &nodes, own, into);
        gather_inside_node(&l, &nodes, own, into);
        nodes_fini(&nodes);
    }
    copy_own(&l, own, into[team->me]);
    program_end_collective(b->program);
}
