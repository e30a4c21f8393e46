/* collective_scatter.c - reduce-scatter: every member's sum to that member.
 *
 * A sum under way is kept where this rank's share of it is. Shares that arrive there are added in a fixed order; the
 * first one for an empty place goes straight into it.
 */
#include "models/schedule/algorithms/collective_parts.h"

#include <stdlib.h>

#include "models/base/memory.h"

struct scatter {
    struct lowering l;
    const struct slot *shares;
    const bool *has; /* [from * count + to]; NULL: all have all */
    const uint32_t *staging;
    bool *holds;              /* [member]: its sum has begun here */
    struct arrival *arrivals; /* of the group that is being posted, to be added after it */
    uint32_t n_arrivals;
};

struct arrival {
    uint32_t staged;
    struct slot target;
};

static bool has_share(const struct scatter *s, uint32_t from, uint32_t to)
{
    return !s->has || s->has[(size_t)from * s->l.team->count + to];
}

static void send_sum(const struct scatter *s, uint32_t group, uint32_t of, uint32_t to)
{
    if (slot_is_there(s->shares[of]))
        lowering_send(&s->l, group, s->shares[of], to);
}

static void receive_share(struct scatter *s, uint32_t group, uint32_t of, uint32_t from)
{
    struct slot target = s->shares[of], slot = target;
    if (!slot_is_there(target))
        return;
    if (s->holds[of]) {
        slot.buffer = s->staging[s->n_arrivals];
        s->arrivals[s->n_arrivals++] = (struct arrival){slot.buffer, target};
    }
    s->holds[of] = true;
    lowering_receive(&s->l, group, slot, from);
}

static void add_arrivals(struct scatter *s)
{
    for (uint32_t i = 0; i < s->n_arrivals; i++) {
        struct arrival arrival = s->arrivals[i];
        lowering_add(&s->l, arrival.target.buffer, arrival.staged, arrival.target.block,
                     s->l.b->program->buffers[arrival.target.buffer].lanes);
    }
    s->n_arrivals = 0;
}

/* ---- ring: the sum of each member starts ahead of it and ends at it ---- */

/* Whether the sum of `owner` has begun when it leaves the member `steps` ahead of its owner. */
static bool has_begun(const struct scatter *s, uint32_t owner, uint32_t steps)
{
    for (uint32_t i = 1; i <= steps; i++)
        if (has_share(s, (owner + i) % s->l.team->count, owner))
            return true;
    return false;
}

static void scatter_ring(struct scatter *s)
{
    const struct team *team = s->l.team;
    for (uint32_t step = 1; step < team->count; step++) {
        uint32_t group = lowering_group(&s->l), leaves = member_back(team, step), arrives = member_back(team, step + 1);
        if (has_begun(s, leaves, step))
            send_sum(s, group, leaves, member_ahead(team, 1));
        if (has_begun(s, arrives, step))
            receive_share(s, group, arrives, member_back(team, 1));
        add_arrivals(s);
    }
}

static void scatter_direct(struct scatter *s)
{
    const struct team *team = s->l.team;
    uint32_t group = lowering_group(&s->l);
    for (uint32_t step = 1; step < team->count; step++) {
        uint32_t to = member_back(team, step), from = member_ahead(team, step);
        if (has_share(s, team->me, to))
            send_sum(s, group, to, to);
        if (has_share(s, from, team->me))
            receive_share(s, group, team->me, from);
    }
    add_arrivals(s);
}

/* ---- hierarchical: first each rank of a node gets the node's sums for itself and its likes ---- */

static bool node_has(const struct scatter *s, const struct nodes *nodes, uint32_t node, uint32_t to)
{
    for (uint32_t place = 0; place < nodes->size[node]; place++)
        if (has_share(s, nodes_at(nodes, node, place), to))
            return true;
    return false;
}

/* Pair by pair, so that few shares wait at once. */
static void scatter_inside_node(struct scatter *s, const struct nodes *nodes)
{
    const struct team *team = s->l.team;
    uint32_t here = nodes->node[team->me], size = nodes->size[here], place = nodes->place[team->me];
    for (uint32_t step = 1; step < size; step++) {
        uint32_t group = lowering_group(&s->l);
        uint32_t to = nodes_at(nodes, here, (place + step) % size);
        uint32_t from = nodes_at(nodes, here, (place + size - step) % size);
        for (uint32_t i = 0; i < team->count; i++) {
            uint32_t like = nodes_like(nodes, here, i);
            if (like == to && has_share(s, team->me, i))
                send_sum(s, group, i, to);
            if (like == team->me && has_share(s, from, i))
                receive_share(s, group, i, from);
        }
        add_arrivals(s);
    }
}

static void scatter_between_nodes(struct scatter *s, const struct nodes *nodes)
{
    const struct team *team = s->l.team;
    uint32_t me = team->me, here = nodes->node[me], group = lowering_group(&s->l);
    for (uint32_t i = 0; i < team->count; i++)
        if (nodes->node[i] != here && nodes_like(nodes, here, i) == me && node_has(s, nodes, here, i))
            send_sum(s, group, i, i);
    for (uint32_t node = 0; node < nodes->count; node++)
        if (node != here && node_has(s, nodes, node, me))
            receive_share(s, group, me, nodes_like(nodes, node, me));
    add_arrivals(s);
}

void collective_reduce_scatter(struct builder *b, enum stream stream, enum traffic traffic, const struct team *team,
                               const struct slot *shares, const bool *has, const uint32_t *staging)
{
    struct slot *given = memory_zeroed(team->count, sizeof *given); /* not what only passes through a buffer */
    for (uint32_t i = 0; i < team->count; i++)
        given[i] = !has || has[(size_t)team->me * team->count + i] ? shares[i] : (struct slot){.buffer = NO_BUFFER};
    struct scatter s = {
        .l = lowering_begin(b, CALL_REDUCE_SCATTER, stream, traffic, team, given, NULL, shares[team->me]),
        .shares = shares,
        .has = has,
        .staging = staging,
        .holds = memory_zeroed(team->count, sizeof *s.holds),
        .arrivals = memory_zeroed(team->count, sizeof *s.arrivals)};
    for (uint32_t i = 0; i < team->count; i++)
        s.holds[i] = has_share(&s, team->me, i);
    if (s.l.kind == COLLECTIVE_RING) {
        scatter_ring(&s);
    } else if (s.l.kind == COLLECTIVE_DIRECT) {
        scatter_direct(&s);
    } else {
        struct nodes nodes;
        nodes_init(&nodes, b, team);
        scatter_inside_node(&s, &nodes);
        scatter_between_nodes(&s, &nodes);
        nodes_fini(&nodes);
    }
    program_end_collective(b->program);
    free(given);
    free(s.holds);
    free(s.arrivals);
}
