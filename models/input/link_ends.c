/* link_ends.c - from a link's place among the cables to the things that it joins. */
#include "models/input/link_ends.h"

#include "models/input/cables.h"
#include "models/input/graph_data.h"
#include "models/input/route.h"

uint64_t topology_places(const struct topology *topology)
{
    return topology_level_places(topology, topology->n_levels - 1);
}

uint64_t topology_level_places(const struct topology *topology, uint32_t level)
{
    if (topology->graph)
        return topology->n_gpus;
    return topology->wiring[level].member * topology->levels[level].size;
}

uint64_t topology_level_instances(const struct topology *topology, uint32_t level)
{
    return topology_places(topology) / topology_level_places(topology, level);
}

uint64_t topology_level_members(const struct topology *topology, uint32_t level)
{
    return topology->graph ? topology->n_gpus : topology->levels[level].size;
}

uint64_t topology_level_lanes(const struct topology *topology, uint32_t level)
{
    return topology->graph ? 1 : topology->wiring[level].lanes;
}

uint64_t topology_level_switches(const struct topology *topology, uint32_t level)
{
    const struct level *it = &topology->levels[level];
    if (topology->graph)
        return level == 0 ? topology->graph->n_nodes - topology->graph->n_gpus : 0;
    if (it->kind != LEVEL_SWITCH)
        return 0;
    return it->cross_rail == CROSS_RAIL_LEAF ? 1 : topology->wiring[level].lanes;
}

static struct link_end switch_at(const struct topology *topology, uint32_t level, uint64_t place)
{
    uint64_t number = place / topology_level_places(topology, level), each = topology_level_switches(topology, level);
    uint64_t lane = each > 1 ? wiring_lane(&topology->wiring[level], place) : 0;
    return (struct link_end){LINK_END_SWITCH, level, number * each + lane};
}

struct link_end topology_port_end(const struct topology *topology, uint32_t level, uint64_t place)
{
    int below = topology->wiring[level].below;
    if (topology->graph || below < 0)
        return (struct link_end){LINK_END_GPU, 0, place};
    return switch_at(topology, (uint32_t)below, place);
}

/* What the port of a lane in the member that `place`, a GPU of that lane, is in hangs on. */
static struct link_end end_of_port(const struct topology *topology, uint32_t k, uint64_t place)
{
    const struct wiring *w = &topology->wiring[k];
    struct link_end end = topology_port_end(topology, k, place);
    if (k == 0)
        return end;
    if (end.kind == LINK_END_GPU && topology->levels[k].attach == ATTACH_RAIL)
        return w->lanes == w->member
                   ? end
                   : (struct link_end){LINK_END_NIC, k, place / w->member * w->lanes + wiring_lane(w, place)};
    bool alone = end.kind == LINK_END_GPU
                     ? w->member == 1
                     : w->lanes > 1 || (end.level == k - 1 && topology_level_switches(topology, end.level) == 1);
    return alone ? end : (struct link_end){LINK_END_MEMBER, k - 1, place / w->member};
}

/* The first place of the member's lane. */
static uint64_t place_of_lane(const struct wiring *w, uint64_t member, uint64_t lane)
{
    return member * w->member + (lane * w->lane_member + w->lanes - 1) / w->lanes;
}

static struct link_end node_of_graph(const struct graph *graph, uint32_t node)
{
    return node < graph->n_gpus ? (struct link_end){LINK_END_GPU, 0, node}
                                : (struct link_end){LINK_END_SWITCH, 0, node - graph->n_gpus};
}

/* The cable that the link is of. */
static const struct graph_cable *cable_in_graph(const struct graph *graph, uint64_t link)
{
    size_t low = 0, high = graph->n_cables;
    while (high - low > 1) { /* the last cable that begins at or before the link */
        size_t middle = low + (high - low) / 2;
        if (graph->cables[middle].first_link <= link)
            low = middle;
        else
            high = middle;
    }
    return &graph->cables[low];
}

static void ends_in_graph(const struct graph *graph, uint64_t link, struct link_end ends[2], bool *backward)
{
    const struct graph_cable *cable = cable_in_graph(graph, link);
    ends[0] = node_of_graph(graph, cable->ends[0]);
    ends[1] = node_of_graph(graph, cable->ends[1]);
    *backward = !cable->half_duplex && (link - cable->first_link) % 2 == 1;
}

static void ends_in_levels(const struct topology *topology, uint64_t link, struct link_end ends[2], bool *backward)
{
    struct link_place at = wiring_locate(topology, link);
    const struct wiring *w = &topology->wiring[at.level];
    const struct level *level = &topology->levels[at.level];
    uint64_t first = at.set / w->lanes * w->size, lane = at.set % w->lanes, a = at.cable, b = at.cable;
    if (level->kind != LEVEL_SWITCH)
        cables_ends(level, at.cable, &a, &b);
    uint64_t place = place_of_lane(w, first + a, lane);
    ends[0] = end_of_port(topology, at.level, place);
    ends[1] = level->kind == LEVEL_SWITCH ? switch_at(topology, at.level, place)
                                          : end_of_port(topology, at.level, place_of_lane(w, first + b, lane));
    *backward = at.direction == BACKWARD;
}

void topology_link_ends(const struct topology *topology, uint64_t link, struct link_end *a, struct link_end *b)
{
    struct link_end ends[2];
    bool backward;
    if (topology->graph)
        ends_in_graph(topology->graph, link, ends, &backward);
    else
        ends_in_levels(topology, link, ends, &backward);
    *a = ends[backward];
    *b = ends[!backward];
}

bool topology_link_is_half_duplex(const struct topology *topology, uint64_t link)
{
    if (topology->graph)
        return cable_in_graph(topology->graph, link)->half_duplex;
    return topology->levels[wiring_locate(topology, link).level].half_duplex;
}

double topology_link_latency(const struct topology *topology, uint64_t link)
{
    const struct link_override *override = overrides_of_link(&topology->overrides, link);
    if (override && override->latency_seconds >= 0)
        return override->latency_seconds;
    if (topology->graph)
        return cable_in_graph(topology->graph, link)->latency_seconds;
    struct link_place at = wiring_locate(topology, link);
    return wiring_latency_seconds(&topology->levels[at.level], at.cable);
}

bool topology_link_is_degraded(const struct topology *topology, uint64_t link)
{
    const struct link_override *override = overrides_of_link(&topology->overrides, link);
    if (!override || override->missing)
        return false;
    double built;
    if (topology->graph) {
        built = graph_link(topology->graph, link).bytes_per_s;
    } else {
        struct link_place at = wiring_locate(topology, link);
        built = wiring_bytes_per_s(&topology->levels[at.level], at.cable);
    }
    return overrides_bytes_per_s(override, built) < built;
}

void link_end_each_inside(const struct topology *topology, struct link_end end,
                          void (*visit)(void *context, struct link_end inside), void *context)
{
    uint32_t k = end.kind == LINK_END_NIC ? end.level : end.level + 1;
    const struct wiring *w = &topology->wiring[k];
    uint64_t member = end.kind == LINK_END_NIC ? end.number / w->lanes : end.number;
    for (uint64_t place = member * w->member; place < (member + 1) * w->member; place++)
        if (end.kind == LINK_END_MEMBER || wiring_lane(w, place) == end.number % w->lanes)
            visit(context, topology_port_end(topology, k, place));
}

uint64_t link_end_place(const struct topology *topology, struct link_end end)
{
    const struct wiring *w = &topology->wiring[end.level];
    switch (end.kind) {
    case LINK_END_GPU:
        return end.number;
    case LINK_END_NIC:
        return place_of_lane(w, end.number / w->lanes, end.number % w->lanes);
    case LINK_END_MEMBER:
        return end.number * topology_level_places(topology, end.level);
    case LINK_END_SWITCH:
        break;
    }
    if (topology->graph)
        return 0;
    return end.number / topology_level_switches(topology, end.level) * topology_level_places(topology, end.level);
}
