/* collective_exchange.c - all-to-all: a piece of every member's for every other. */
#include "models/schedule/algorithms/collective_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

/* All pairs at once, or pair by pair. */
static void exchange_straight(const struct lowering *l, const struct slot *out, const struct slot *in)
{
    uint32_t group = lowering_group(l);
    for (uint32_t step = 1; step < l->team->count; step++) {
        uint32_t to = member_ahead(l->team, step), from = member_back(l->team, step);
        if (l->kind == COLLECTIVE_RING && step > 1)
            group = lowering_group(l);
        if (slot_is_there(out[to]))
            lowering_send(l, group, out[to], to);
        if (slot_is_there(in[from]))
            lowering_receive(l, group, in[from], from);
    }
}

/* ---- hierarchical ---- */

/* A buffer for the piece that this rank passes on from a rank of its node to one of another node. */
static struct slot add_relay(const struct lowering *l, const struct pieces *pieces, uint32_t from, uint32_t to)
{
    struct piece piece = pieces->of(pieces->context, from, to);
    struct slot slot = {NO_BUFFER, piece.block};
    char name[40];
    snprintf(name, sizeof name, "relay %u.%u", l->team->members[from], l->team->members[to]);
    if (piece.block.count)
        slot.buffer =
            builder_buffer_block(l->b, name, pieces->tensor, pieces->dtype, ROLE_WORKSPACE, piece.block, piece.lanes);
    return slot;
}

/* Each piece goes to the rank of the own node that is its target or its target's like. relay[place * count + to]: what
 * this rank then has to pass on. */
static void exchange_inside_node(const struct lowering *l, const struct nodes *nodes, const struct slot *out,
                                 const struct slot *in, const struct pieces *pieces, struct slot *relay)
{
    uint32_t me = l->team->me, here = nodes->node[me], group = lowering_group(l);
    for (uint32_t to = 0; to < l->team->count; to++) {
        uint32_t like = nodes_like(nodes, here, to);
        if (like != me && slot_is_there(out[to]))
            lowering_send(l, group, out[to], like);
        for (uint32_t place = 0; place < nodes->size[here] && like == me; place++) {
            uint32_t from = nodes_at(nodes, here, place);
            struct slot *slot = &relay[(size_t)place * l->team->count + to];
            *slot = from == me ? out[to] : to == me ? in[from] : add_relay(l, pieces, from, to);
            if (from != me && slot_is_there(*slot))
                lowering_receive(l, group, *slot, from);
        }
    }
}

static void exchange_between_nodes(const struct lowering *l, const struct nodes *nodes, const struct slot *in,
                                   const struct slot *relay)
{
    uint32_t me = l->team->me, here = nodes->node[me], group = lowering_group(l);
    for (uint32_t node = 0; node < nodes->count; node++) {
        for (uint32_t i = 0; i < nodes->size[node] && node != here; i++) {
            uint32_t to = nodes_at(nodes, node, i);
            for (uint32_t place = 0; place < nodes->size[here] && nodes_like(nodes, here, to) == me; place++) {
                struct slot slot = relay[(size_t)place * l->team->count + to];
                if (slot_is_there(slot))
                    lowering_send(l, group, slot, to);
            }
            uint32_t from = nodes_at(nodes, node, i);
            if (slot_is_there(in[from]))
                lowering_receive(l, group, in[from], nodes_like(nodes, node, me));
        }
    }
}

void collective_all_to_all(struct builder *b, enum stream stream, enum traffic traffic, const struct team *team,
                           const struct slot *out, const struct slot *in, const struct pieces *pieces)
{
    struct slot nothing = {.buffer = NO_BUFFER};
    struct lowering l = lowering_begin(b, CALL_ALL_TO_ALL, stream, traffic, team, out, in, nothing);
    if (l.kind != COLLECTIVE_HIERARCHICAL) {
        exchange_straight(&l, out, in);
    } else {
        struct nodes nodes;
        nodes_init(&nodes, b, team);
        struct slot *relay = memory_zeroed((size_t)nodes.size[nodes.node[team->me]] * team->count, sizeof *relay);
        exchange_inside_node(&l, &nodes, out, in, pieces, relay);
        exchange_between_nodes(&l, &nodes, in, relay);
        nodes_fini(&nodes);
        free(relay);
    }
    program_end_collective(b->program);
}
