/* route.c - the numbers of links and the ways over them: arithmetic on the levels, nothing stored.
 *
 * A level is a set of cables repeated: once per instance of the level and, with rail attachment, once per lane in it
 * (the lane of a GPU is its index inside its member). A set of a switch has a port per member, of a mesh a cable per
 * pair, of a ring or torus a cable per neighbouring pair and dimension (a dimension of length 2 has one cable, not two;
 * of length 1 none). A cable is two links, one each way, or one link when half duplex. So
 *
 *     link = first of the level + ((set * cables of a set) + cable) * directions + direction
 *
 * with set = instance * lanes + lane. Direction 0 is up at a switch, towards the higher member of a mesh, towards the
 * next index (cyclically) in a ring or torus.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/input/topology.h"

struct wiring {
    uint64_t member; /* GPUs in one member: the product of the sizes inside */
    uint64_t lanes;  /* sets in one instance */
    uint64_t cables; /* of one set */
    uint32_t directions;
    uint64_t first, links; /* link numbers [first, first + links) */
};

enum direction { FORWARD, BACKWARD }; /* up and down at a switch */

static uint64_t cables_along(uint32_t length)
{
    return length <= 2 ? length - 1 : length;
}

static uint64_t cables_of(const struct level *level)
{
    uint64_t size = level->size, cables = 0;
    switch (level->kind) {
    case LEVEL_SWITCH:
        return size;
    case LEVEL_MESH:
        return size * (size - 1) / 2;
    case LEVEL_RING:
    case LEVEL_TORUS:
        for (uint32_t d = 0; d < level->n_torus; d++)
            cables += size / level->torus[d] * cables_along(level->torus[d]);
        return cables;
    }
    return 0;
}

static void wire(const struct topology *topology, struct wiring *wiring)
{
    uint64_t member = 1, first = 0;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const struct level *level = &topology->levels[k];
        struct wiring *w = &wiring[k];
        w->member = member;
        w->lanes = k > 0 && level->attach == ATTACH_RAIL ? member : 1;
        w->cables = cables_of(level);
        w->directions = level->half_duplex ? 1 : 2;
        w->first = first;
        member *= level->size;
        w->links = topology->n_gpus / member * w->lanes * w->cables * w->directions;
        first += w->links;
    }
}

bool topology_count(struct topology *topology)
{
    uint64_t gpus = 1;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        gpus *= topology->levels[k].size;
        if (gpus > TOPOLOGY_GPUS_MAX)
            return false;
    }
    topology->n_gpus = gpus;
    struct wiring wiring[LEVELS_MAX];
    wire(topology, wiring);
    topology->n_links = 0;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        topology->n_links += wiring[k].links;
    return true;
}

/* What routes ask of a level and its wiring. */

static uint64_t member_of(const struct level *level, const struct wiring *w, uint64_t gpu)
{
    return gpu / w->member % level->size;
}

static uint64_t set_of(const struct level *level, const struct wiring *w, uint64_t gpu)
{
    return gpu / (w->member * level->size) * w->lanes + (w->lanes > 1 ? gpu % w->member : 0);
}

static void push(struct route *route, const struct level *level, const struct wiring *w, uint64_t set, uint64_t cable,
                 enum direction direction)
{
    memory_grow(route->links, route->n_links, route->capacity);
    route->links[route->n_links++] =
        w->first + (set * w->cables + cable) * w->directions + (w->directions == 2 ? (uint64_t)direction : 0);
    if (level->bytes_per_s < route->bytes_per_s)
        route->bytes_per_s = level->bytes_per_s;
}

static void push_port(struct route *route, const struct level *level, const struct wiring *w, uint64_t gpu,
                      enum direction direction)
{
    push(route, level, w, set_of(level, w, gpu), member_of(level, w, gpu), direction);
}

static uint64_t mesh_cable(uint64_t size, uint64_t low, uint64_t high)
{
    return low * (2 * size - low - 1) / 2 + (high - low - 1);
}

/* The cables of dimension d are numbered ring by ring: `ring` says which of the rings along d, `at` where in it. */
static uint64_t torus_cable(const struct level *level, uint32_t dimension, uint64_t ring, uint64_t at)
{
    uint64_t cable = ring * cables_along(level->torus[dimension]) + at;
    for (uint32_t d = 0; d < dimension; d++)
        cable += level->size / level->torus[d] * cables_along(level->torus[d]);
    return cable;
}

/* The links of a ring or torus from member `from` to `to`, dimension by dimension; returns how many. */
static uint64_t push_walk(struct route *route, const struct level *level, const struct wiring *w, uint64_t set,
                          uint64_t from, uint64_t to)
{
    uint64_t hops = 0, stride = 1;
    for (uint32_t d = 0; d < level->n_torus; d++) {
        uint64_t length = level->torus[d], x = from / stride % length, target = to / stride % length;
        uint64_t ahead = (target + length - x) % length;
        bool increasing = length == 2 ? x == 0 : ahead <= length - ahead;
        uint64_t ring = from / (stride * length) * stride + from % stride;
        from = from - x * stride + target * stride;
        for (; x != target; hops++) {
            uint64_t next = increasing ? (x + 1) % length : (x + length - 1) % length;
            push(route, level, w, set, torus_cable(level, d, ring, increasing ? x : next),
                 increasing ? FORWARD : BACKWARD);
            x = next;
        }
        stride *= length;
    }
    return hops;
}

uint32_t topology_level_between(const struct topology *topology, uint64_t a, uint64_t b)
{
    uint32_t outermost = 0;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        if (a != b)
            outermost = k;
        a /= topology->levels[k].size;
        b /= topology->levels[k].size;
    }
    return outermost;
}

/* The level whose switch a GPU's port into level k hangs on, or -1 when the port sits on the GPU itself. */
static int switch_below(const struct topology *topology, uint32_t k)
{
    for (; k > 0; k--) {
        const struct level *level = &topology->levels[k], *inner = &topology->levels[k - 1];
        bool inner_switch = inner->kind == LEVEL_SWITCH;
        if (level->attach == ATTACH_RAIL && (k == 1 || level->kind != LEVEL_SWITCH || !inner_switch))
            return -1;
        if (inner_switch)
            return (int)k - 1;
    }
    return -1;
}

/* Crosses the outermost level at which `from` and `to` differ, with the switches on the way there and back; returns the
 * GPU that this arrives at, which is another than `to` only where a lane ends at a GPU. */
static uint64_t cross(const struct topology *topology, const struct wiring *wiring, uint64_t from, uint64_t to,
                      struct route *route)
{
    uint32_t k = topology->n_levels - 1;
    while (from / wiring[k].member == to / wiring[k].member)
        k--;
    const struct level *level = &topology->levels[k];
    const struct wiring *w = &wiring[k];
    if (route->n_links == 0)
        route->level = k;

    uint32_t below[LEVELS_MAX], n_below = 0; /* outermost first */
    for (int j = switch_below(topology, k); j >= 0; j = switch_below(topology, (uint32_t)j))
        below[n_below++] = (uint32_t)j;
    for (uint32_t i = n_below; i-- > 0;) {
        push_port(route, &topology->levels[below[i]], &wiring[below[i]], from, FORWARD);
        route->alpha_seconds += topology->levels[below[i]].latency_seconds;
    }

    uint64_t a = member_of(level, w, from), b = member_of(level, w, to), set = set_of(level, w, from), hops = 1;
    uint64_t arrival = to;
    if (level->kind == LEVEL_SWITCH) {
        push_port(route, level, w, from, FORWARD);
        push_port(route, level, w, to, BACKWARD);
    } else {
        if (level->kind == LEVEL_MESH)
            push(route, level, w, set, mesh_cable(level->size, a < b ? a : b, a < b ? b : a),
                 a < b ? FORWARD : BACKWARD);
        else
            hops = push_walk(route, level, w, set, a, b);
        if (w->lanes > 1)
            arrival = from - a * w->member + b * w->member;
    }
    route->alpha_seconds += (double)hops * level->latency_seconds;

    for (uint32_t i = 0; i < n_below; i++)
        push_port(route, &topology->levels[below[i]], &wiring[below[i]], to, BACKWARD);
    return arrival;
}

void route_init(struct route *route)
{
    *route = (struct route){0};
}

void route_fini(struct route *route)
{
    free(route->links);
    route_init(route);
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
    struct wiring wiring[LEVELS_MAX];
    wire(topology, wiring);
    while (from != to)
        from = cross(topology, wiring, from, to, route);
    return true;
}

/* Links by number. */

static uint32_t level_of_link(const struct topology *topology, const struct wiring *wiring, uint64_t link)
{
    uint32_t k = 0;
    while (k + 1 < topology->n_levels && link >= wiring[k].first + wiring[k].links)
        k++;
    return k;
}

struct link_info topology_link(const struct topology *topology, uint64_t link)
{
    struct wiring wiring[LEVELS_MAX];
    wire(topology, wiring);
    uint32_t k = level_of_link(topology, wiring, link);
    return (struct link_info){.level = k, .bytes_per_s = topology->levels[k].bytes_per_s};
}

/* The two members that `cable` joins; direction FORWARD goes from `a` to `b`. */
static void cable_ends(const struct level *level, uint64_t cable, uint64_t *a, uint64_t *b)
{
    if (level->kind == LEVEL_MESH) {
        *a = 0;
        for (; cable >= level->size - 1 - *a; ++*a)
            cable -= level->size - 1 - *a;
        *b = *a + 1 + cable;
        return;
    }
    uint32_t d = 0;
    uint64_t stride = 1;
    for (; cable >= level->size / level->torus[d] * cables_along(level->torus[d]); d++) {
        cable -= level->size / level->torus[d] * cables_along(level->torus[d]);
        stride *= level->torus[d];
    }
    uint64_t length = level->torus[d], ring = cable / cables_along(level->torus[d]),
             at = cable % cables_along(level->torus[d]);
    uint64_t base = ring / stride * stride * length + ring % stride;
    *a = base + at * stride;
    *b = base + (at + 1) % length * stride;
}

static void end_name(const struct topology *topology, uint32_t k, const struct wiring *w, uint64_t set, uint64_t member,
                     char *text, size_t size)
{
    uint64_t number = set / w->lanes * topology->levels[k].size + member;
    if (k == 0 || topology->levels[k].attach == ATTACH_RAIL)
        snprintf(text, size, "gpu %" PRIu64, number * w->member + set % w->lanes);
    else
        snprintf(text, size, "%s %" PRIu64, topology->levels[k - 1].name, number);
}

void topology_link_name(const struct topology *topology, uint64_t link, char *text, size_t size)
{
    struct wiring wiring[LEVELS_MAX];
    wire(topology, wiring);
    uint32_t k = level_of_link(topology, wiring, link);
    const struct level *level = &topology->levels[k];
    const struct wiring *w = &wiring[k];
    uint64_t number = link - w->first, set = number / w->directions / w->cables, a, b;
    uint64_t cable = number / w->directions % w->cables;
    bool backward = w->directions == 2 && number % 2 == BACKWARD;
    char one[64], other[64];
    if (level->kind == LEVEL_SWITCH) {
        end_name(topology, k, w, set, cable, one, sizeof one);
        snprintf(text, size, "%s: %s%s", level->name, one, level->half_duplex ? "" : backward ? " down" : " up");
        return;
    }
    cable_ends(level, cable, &a, &b);
    end_name(topology, k, w, set, backward ? b : a, one, sizeof one);
    end_name(topology, k, w, set, backward ? a : b, other, sizeof other);
    snprintf(text, size, "%s: %s %s %s", level->name, one, level->half_duplex ? "-" : "to", other);
}
