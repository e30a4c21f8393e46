/* route.c - the way from one GPU to another over levels: which GPUs it leaves and enters by, and the links between.
 * Everything is arithmetic on places; nothing is searched or allocated.
 */
#include "models/input/route.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/input/cables.h"
#include "models/input/graph.h"
#include "models/input/routing.h"

/* A route in the making. */
struct way {
    const struct topology *topology;
    struct route *route;
    uint64_t source, target; /* GPUs, for the hash */
    uint32_t level;          /* of the cables that are walked over, in set `set` */
    uint64_t set;
};

void route_init(struct route *route)
{
    *route = (struct route){0};
}

void route_fini(struct route *route)
{
    free(route->links);
    route_init(route);
}

/* --- single links ------------------------------------------------------------------------------------------------- */

/* Adds a link; returns the latency that an override gives it, or a negative number. */
static double push(struct way *way, uint32_t k, uint64_t set, uint64_t cable, enum direction direction)
{
    const struct topology *topology = way->topology;
    const struct wiring *w = &topology->wiring[k];
    struct route *route = way->route;
    uint32_t choice = 0;
    if (w->parallel > 1 && topology->levels[k].routing == ROUTING_ECMP)
        choice = routing_choice(topology->seed, way->source, way->target, k, w->parallel);
    uint64_t link = wiring_link(w, set, cable, choice, direction);
    memory_grow(route->links, route->n_links, route->capacity);
    route->links[route->n_links++] = link;
    const struct link_override *override = overrides_of_link(&topology->overrides, link);
    double bytes_per_s = overrides_bytes_per_s(override, wiring_bytes_per_s(&topology->levels[k], cable));
    if (bytes_per_s < route->bytes_per_s)
        route->bytes_per_s = bytes_per_s;
    return override ? override->latency_seconds : -1.0;
}

static double push_port(struct way *way, uint32_t k, uint64_t place, enum direction direction)
{
    const struct wiring *w = &way->topology->wiring[k];
    return push(way, k, wiring_set(w, place), wiring_member(w, place), direction);
}

/* What a switch's two links take together. */
static double crossing_seconds(const struct way *way, uint32_t k, double up, double down)
{
    double overridden = fmax(up, down);
    return overridden >= 0 ? overridden : way->topology->levels[k].latency_seconds;
}

static void push_cable(void *context, uint64_t cable, enum direction direction)
{
    struct way *way = context;
    double overridden = push(way, way->level, way->set, cable, direction);
    way->route->alpha_seconds +=
        overridden >= 0 ? overridden : wiring_latency_seconds(&way->topology->levels[way->level], cable);
}

/* --- NICs --------------------------------------------------------------------------------------------------------- */

static bool nic_is_missing(const struct topology *topology, uint32_t k, uint64_t place)
{
    const struct wiring *w = &topology->wiring[k];
    const struct link_override *override = overrides_of_link(
        &topology->overrides, wiring_link(w, wiring_set(w, place), wiring_member(w, place), 0, FORWARD));
    return override && override->missing;
}

bool route_has_nic(const struct topology *topology, uint32_t k, uint64_t place)
{
    uint64_t gpu;
    return places_gpu(&topology->places, place, &gpu) &&
           (topology->overrides.n_missing == 0 || !nic_is_missing(topology, k, place));
}

/* The GPU itself or the next of its node, cyclically, that has a NIC; itself if none has (overrides_read refuses that).
 */
static uint64_t next_with_nic(const struct topology *topology, uint32_t k, uint64_t place)
{
    uint64_t member = topology->wiring[k].member, first = place / member * member;
    for (uint64_t i = 0; i < member; i++) {
        uint64_t next = first + (place - first + i) % member;
        if (route_has_nic(topology, k, next))
            return next;
    }
    return place;
}

/* In the node of `place`: the GPU of `lane` at `wish` (an index in the node) if that is one, or the first that is
 * there.
 */
static bool gpu_of_lane(const struct topology *topology, uint32_t k, uint64_t place, uint64_t lane, uint64_t wish,
                        uint64_t *found)
{
    const struct wiring *w = &topology->wiring[k];
    uint64_t first = place / w->member * w->member;
    *found = first + wish;
    if (wiring_lane(w, *found) == lane && route_has_nic(topology, k, *found))
        return true;
    return wiring_gpu_of_lane(topology, k, place, lane, found) && route_has_nic(topology, k, *found);
}

/* NVLink first: both ends use one lane, the destination's, or the next after it with a NIC in both nodes. A source that
 * is in that lane stays where it is. */
static bool choose_rail(const struct topology *topology, uint32_t k, uint64_t from, uint64_t to, uint64_t *out,
                        uint64_t *in)
{
    const struct wiring *w = &topology->wiring[k];
    for (uint64_t i = 0; i < w->lanes; i++) {
        uint64_t lane = (wiring_lane(w, to) + i) % w->lanes, at = to % w->member;
        uint64_t wish = wiring_lane(w, from) == lane ? from % w->member : at;
        if (gpu_of_lane(topology, k, from, lane, wish, out) && gpu_of_lane(topology, k, to, lane, at, in))
            return true;
    }
    return false;
}

/* The GPUs by whose NICs a message from `from` to `to` leaves and enters, by way of the NICs of level k. */
static bool choose_nics(const struct topology *topology, uint32_t k, uint64_t from, uint64_t to, uint64_t *out,
                        uint64_t *in)
{
    if (topology->levels[k].cross_rail == CROSS_RAIL_NVLINK)
        return choose_rail(topology, k, from, to, out, in);
    if (topology->overrides.n_missing) {
        *out = next_with_nic(topology, k, from);
        *in = next_with_nic(topology, k, to);
    }
    return true;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* The level whose links join the two: k, or, if its lanes have switches of their own, one further out. */
static uint32_t joining_level(const struct topology *topology, uint32_t k, uint64_t from, uint64_t to)
{
    while (topology->levels[k].cross_rail == CROSS_RAIL_SPINE && k + 1 < topology->n_levels &&
           wiring_lane(&topology->wiring[k], from) != wiring_lane(&topology->wiring[k], to))
        k++;
    return k;
}

/* Crosses level k with the switches on the way there and back; returns the place that this arrives at, which is another
 * than `to` only where a lane ends at a GPU. */
static uint64_t cross(struct way *way, uint32_t k, uint64_t from, uint64_t to)
{
    const struct topology *topology = way->topology;
    const struct wiring *w = &topology->wiring[k];
    uint32_t below[LEVELS_MAX], n_below = 0; /* outermost first */
    double up[LEVELS_MAX];                   /* their overridden latencies */
    for (int j = w->below; j >= 0; j = topology->wiring[j].below)
        below[n_below++] = (uint32_t)j;
    for (uint32_t i = n_below; i-- > 0;)
        up[i] = push_port(way, below[i], from, FORWARD);

    uint64_t arrival = to;
    if (topology->levels[k].kind == LEVEL_SWITCH) {
        double out = push_port(way, k, from, FORWARD), in = push_port(way, k, to, BACKWARD);
        way->route->alpha_seconds += crossing_seconds(way, k, out, in);
    } else {
        uint64_t a = wiring_member(w, from), b = wiring_member(w, to);
        way->level = k;
        way->set = wiring_set(w, from);
        cables_walk(&topology->levels[k], a, b, push_cable, way);
        if (w->lanes > 1)
            arrival = from - a * w->member + b * w->member;
    }

    for (uint32_t i = 0; i < n_below; i++)
        way->route->alpha_seconds += crossing_seconds(way, below[i], up[i], push_port(way, below[i], to, BACKWARD));
    return arrival;
}

static uint32_t level_between(const struct topology *topology, uint64_t a, uint64_t b)
{
    uint32_t k = topology->n_levels - 1;
    while (k > 0 && a / topology->wiring[k].member == b / topology->wiring[k].member)
        k--;
    return k;
}

/* Nested at most once per level: what is inside a node crosses inner levels only. */
static bool walk(struct way *way, uint64_t from, uint64_t to)
{
    while (from != to) {
        const struct topology *topology = way->topology;
        uint32_t k = level_between(topology, from, to);
        int nic = topology->wiring[k].nic;
        uint64_t out = from, in = to;
        if (nic >= 0 && !choose_nics(topology, (uint32_t)nic, from, to, &out, &in))
            return false;
        if (!walk(way, from, out))
            return false;
        from = cross(way, joining_level(topology, k, out, in), out, in);
    }
    return true;
}

bool topology_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route,
                    struct diagnostics *diag)
{
    route->n_links = 0;
    route->alpha_seconds = 0;
    route->bytes_per_s = INFINITY;
    route->level = 0;
    if (from == to)
        return diagnostics_add(diag, "no route from gpu %" PRIu64 " to gpu %" PRIu64 ": they are the same", from, to);
    if (from >= topology->n_gpus || to >= topology->n_gpus)
        return diagnostics_add(diag, "no route from gpu %" PRIu64 " to gpu %" PRIu64 ": the topology has %" PRIu64,
                               from, to, topology->n_gpus);
    if (topology->graph) {
        graph_route(topology, from, to, route);
        return true;
    }
    struct way way = {.topology = topology, .route = route, .source = from, .target = to};
    uint64_t start = places_of_gpu(&topology->places, from), end = places_of_gpu(&topology->places, to);
    route->level = level_between(topology, start, end);
    return walk(&way, start, end) ||
           diagnostics_add(diag, "no route from gpu %" PRIu64 " to gpu %" PRIu64 ": no rail has a NIC in both nodes",
                           from, to);
}

uint32_t topology_level_between(const struct topology *topology, uint64_t a, uint64_t b)
{
    if (a == b)
        return 0;
    if (topology->graph)
        return graph_level_between(topology, a, b);
    return level_between(topology, places_of_gpu(&topology->places, a), places_of_gpu(&topology->places, b));
}

struct link_info topology_link(const struct topology *topology, uint64_t link)
{
    struct link_info info = {0};
    if (topology->graph) {
        info = graph_link(topology->graph, link);
    } else {
        struct link_place at = wiring_locate(topology, link);
        info.level = at.level;
        info.bytes_per_s = wiring_bytes_per_s(&topology->levels[at.level], at.cable);
        info.absent = link_is_absent(topology, &at);
    }
    const struct link_override *override = overrides_of_link(&topology->overrides, link);
    info.bytes_per_s = overrides_bytes_per_s(override, info.bytes_per_s);
    if (override && override->missing)
        info.absent = true;
    return info;
}
