/* bisection.c - closed forms where all links of a level are alike, maximum flow where they are not.
 *
 * Closed forms. Let s be what the inside of one member can bring to its ports into the level, and h the members of the
 * smaller half. A switch carries h times the lesser of s and a member's ports. Of the others, the cut is either below
 * the ports of one half, h s, or through the cables between the halves: of a mesh h (n - h); of a ring 2, or 1 of two
 * members; of a torus as many for each ring along the dimension that is cut. Cuts that run partly below the ports and
 * partly through the cables are never less: moving one member over changes the cables cut by a concave amount.
 */
#include "models/input/bisection.h"

#include <math.h>
#include <stdlib.h>

#include "models/base/maximum_flow.h"
#include "models/base/memory.h"
#include "models/input/link_ends.h"

static bool has_closed_form(const struct level *level)
{
    return level->kind == LEVEL_SWITCH || level->kind == LEVEL_MESH || level->kind == LEVEL_RING ||
           level->kind == LEVEL_TORUS;
}

bool bisection_is_closed(const struct topology *topology, uint32_t level)
{
    bool closed = topology->places.n_runs == 0 && topology->overrides.n_links == 0;
    for (uint32_t k = 0; k <= level; k++)
        closed = closed && has_closed_form(&topology->levels[k]);
    return closed;
}

/* --- halves ------------------------------------------------------------------------------------------------------- */

struct halves {
    uint64_t members, member; /* of an instance, and the places in one of them */
    uint64_t length, stride;  /* of the dimension that is cut, and of one step along it, in members */
};

static struct halves halves_of(const struct topology *topology, uint32_t k)
{
    const struct level *level = &topology->levels[k];
    struct halves halves = {.members = topology_level_members(topology, k), .stride = 1};
    halves.member = topology_level_places(topology, k) / halves.members;
    halves.length = halves.members;
    if (level->kind != LEVEL_TORUS)
        return halves;
    uint64_t product = 1;
    halves.length = 0;
    for (uint32_t d = 0; d < level->n_torus; d++) {
        if (level->torus[d] >= halves.length) {
            halves.length = level->torus[d];
            halves.stride = product;
        }
        product *= level->torus[d];
    }
    return halves;
}

static bool in_first_half(const struct halves *halves, uint64_t member)
{
    return member / halves->stride % halves->length < halves->length / 2;
}

static uint64_t smaller_half(const struct halves *halves)
{
    return halves->members / halves->length * (halves->length / 2);
}

/* --- closed forms ------------------------------------------------------------------------------------------------- */

static uint64_t cables_round(uint64_t length)
{
    return length > 2 ? 2 : length - 1;
}

/* Cables that one member has in one lane. */
static uint64_t degree(const struct level *level)
{
    uint64_t cables = 0;
    switch (level->kind) {
    case LEVEL_SWITCH:
        return 1;
    case LEVEL_MESH:
        return level->size - 1;
    case LEVEL_RING:
    case LEVEL_TORUS:
        for (uint32_t d = 0; d < level->n_torus; d++)
            cables += cables_round(level->torus[d]);
        return cables;
    case LEVEL_DRAGONFLY:
    case LEVEL_GRAPH:
        break;
    }
    return 0;
}

static double ports(const struct topology *topology, uint32_t k)
{
    const struct level *level = &topology->levels[k];
    const struct wiring *w = &topology->wiring[k];
    return (double)(w->lanes * w->parallel * degree(level)) * wiring_bytes_per_s(level, 0);
}

/* What the inside of a member of level k can bring to its ports, were those without limit. */
static double supply(const struct topology *topology, uint32_t k)
{
    int below = topology->wiring[k].below;
    if (below < 0)
        return INFINITY;
    uint32_t j = (uint32_t)below;
    uint64_t members = topology->wiring[k].member / topology->wiring[j].member; /* of level j inside one of level k */
    return (double)members * fmin(supply(topology, j), ports(topology, j));
}

double bisection_closed(const struct topology *topology, uint32_t k)
{
    const struct level *level = &topology->levels[k];
    const struct halves halves = halves_of(topology, k);
    uint64_t members = smaller_half(&halves), cables = 0;
    double half = (double)members, inside = half * supply(topology, k);
    switch (level->kind) {
    case LEVEL_SWITCH:
        return fmin(inside, half * ports(topology, k));
    case LEVEL_MESH:
        cables = members * (level->size - members);
        break;
    case LEVEL_RING:
    case LEVEL_TORUS:
        cables = level->size / halves.length * cables_round(halves.length);
        break;
    case LEVEL_DRAGONFLY:
    case LEVEL_GRAPH:
        return NAN;
    }
    return fmin(inside, (double)(cables * topology->wiring[k].lanes) * level->bytes_per_s);
}

double topology_oversubscription(const struct topology *topology, uint32_t k)
{
    for (uint32_t j = 0; j <= k; j++)
        if (!has_closed_form(&topology->levels[j]))
            return NAN;
    double inside = supply(topology, k);
    bool own = isinf(inside) && topology->wiring[k].lanes == topology->wiring[k].member;
    return own ? 1 : inside / ports(topology, k);
}

/* --- maximum flow ------------------------------------------------------------------------------------------------- */

/* All ends of the cluster, numbered: places, then per level its switches, NICs and instances as members. Of them one
 * instance at a time is a graph, whose vertices are numbered as they are met. */
struct ends {
    const struct topology *topology;
    uint64_t switches[LEVELS_MAX], nics[LEVELS_MAX], members[LEVELS_MAX]; /* the first of each level */
    uint32_t *vertices;                                                   /* of each end, plus 1; 0: not met */
    uint64_t *met, n_met;                                                 /* ends */
    struct flow_graph *graph;
    uint32_t shared; /* the vertex of the NIC or member whose inside is being joined */
};

enum { SOURCE, SINK, FIRST_END };

static uint64_t number_of(const struct ends *ends, struct link_end end)
{
    switch (end.kind) {
    case LINK_END_GPU:
        break;
    case LINK_END_SWITCH:
        return ends->switches[end.level] + end.number;
    case LINK_END_NIC:
        return ends->nics[end.level] + end.number;
    case LINK_END_MEMBER:
        return ends->members[end.level] + end.number;
    }
    return end.number;
}

static void ends_init(struct ends *ends, const struct topology *topology)
{
    *ends = (struct ends){.topology = topology};
    uint64_t next = topology_places(topology);
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        uint64_t instances = topology_level_instances(topology, k);
        ends->switches[k] = next;
        next += instances * topology_level_switches(topology, k);
        ends->nics[k] = next;
        next += instances * topology_level_members(topology, k) * topology_level_lanes(topology, k);
        ends->members[k] = next;
        next += instances;
    }
    ends->vertices = memory_zeroed(next, sizeof *ends->vertices);
    ends->met = memory_zeroed(next, sizeof *ends->met);
}

static void ends_fini(struct ends *ends)
{
    free(ends->vertices);
    free(ends->met);
}

static uint32_t vertex_of(struct ends *ends, struct link_end end, bool *is_new)
{
    uint64_t number = number_of(ends, end);
    *is_new = ends->vertices[number] == 0;
    if (*is_new) {
        ends->met[ends->n_met++] = number;
        ends->vertices[number] = ends->graph->n_vertices++ + 1;
    }
    return ends->vertices[number] - 1;
}

static void join_inside(void *context, struct link_end inside)
{
    struct ends *ends = context;
    bool is_new;
    flow_graph_join(ends->graph, ends->shared, vertex_of(ends, inside, &is_new), INFINITY, INFINITY);
}

/* What is shared is joined to its inside the first time that a link ends there. */
static void join_link(struct ends *ends, uint64_t link)
{
    const struct topology *topology = ends->topology;
    double rate = topology_link(topology, link).bytes_per_s;
    struct link_end both[2];
    uint32_t joined[2];
    topology_link_ends(topology, link, &both[0], &both[1]);
    for (int i = 0; i < 2; i++) {
        bool is_new;
        joined[i] = vertex_of(ends, both[i], &is_new);
        if (!is_new || (both[i].kind != LINK_END_MEMBER && both[i].kind != LINK_END_NIC))
            continue;
        ends->shared = joined[i];
        link_end_each_inside(topology, both[i], join_inside, ends);
    }
    flow_graph_join(ends->graph, joined[0], joined[1], rate, topology_link_is_half_duplex(topology, link) ? rate : 0);
}

/* The links up to a level, instance by instance: those of instance i are items[first[i]] to items[first[i + 1]]. */
struct instance_links {
    uint64_t *items, *first;
};

static bool belongs(const struct topology *topology, uint32_t k, uint64_t link, uint64_t *instance)
{
    struct link_info info = topology_link(topology, link);
    struct link_end a, b;
    topology_link_ends(topology, link, &a, &b);
    *instance = link_end_place(topology, a) / topology_level_places(topology, k);
    return info.level <= k && !info.absent;
}

static struct instance_links links_by_instance(const struct topology *topology, uint32_t k)
{
    uint64_t instances = topology_level_instances(topology, k), instance;
    struct instance_links links = {.items = memory_zeroed(topology->n_links, sizeof *links.items),
                                   .first = memory_zeroed(instances + 2, sizeof *links.first)};
    for (uint64_t link = 0; link < topology->n_links; link++)
        if (belongs(topology, k, link, &instance))
            links.first[instance + 2]++;
    for (uint64_t i = 0; i < instances; i++)
        links.first[i + 2] += links.first[i + 1];
    for (uint64_t link = 0; link < topology->n_links; link++) /* first[i + 1] counts up to where i ends */
        if (belongs(topology, k, link, &instance))
            links.items[links.first[instance + 1]++] = link;
    return links;
}

/* Between the halves of one instance, one way and the other, the lesser; and how many GPUs the smaller half has. */
static double flow_in_instance(struct ends *ends, uint32_t k, uint64_t instance, const struct instance_links *links,
                               uint64_t *gpus)
{
    const struct topology *topology = ends->topology;
    const struct halves halves = halves_of(topology, k);
    struct flow_graph graph;
    flow_graph_init(&graph, FIRST_END);
    ends->graph = &graph;
    uint64_t counts[2] = {0, 0}, places = halves.members * halves.member, gpu;
    bool is_new;
    for (uint64_t place = instance * places; place < (instance + 1) * places; place++) {
        if (!places_gpu(&topology->places, place, &gpu))
            continue;
        int half = in_first_half(&halves, place % places / halves.member) ? SOURCE : SINK;
        counts[half]++;
        struct link_end end = {LINK_END_GPU, 0, place};
        flow_graph_join(&graph, (uint32_t)half, vertex_of(ends, end, &is_new), INFINITY, INFINITY);
    }
    for (uint64_t i = links->first[instance]; i < links->first[instance + 1]; i++)
        join_link(ends, links->items[i]);
    *gpus = counts[0] < counts[1] ? counts[0] : counts[1];
    double flow = INFINITY;
    if (*gpus > 0)
        flow = fmin(flow_graph_maximum(&graph, SOURCE, SINK), flow_graph_maximum(&graph, SINK, SOURCE));
    while (ends->n_met > 0)
        ends->vertices[ends->met[--ends->n_met]] = 0;
    flow_graph_fini(&graph);
    return flow;
}

double bisection_by_flow(const struct topology *topology, uint32_t k, uint64_t *gpus)
{
    struct ends ends;
    ends_init(&ends, topology);
    struct instance_links links = links_by_instance(topology, k);
    uint64_t instances = topology_level_instances(topology, k);
    double narrowest = INFINITY;
    for (uint64_t i = 0; i < instances; i++) {
        uint64_t half;
        double flow = flow_in_instance(&ends, k, i, &links, &half);
        if (flow < narrowest) {
            narrowest = flow;
            *gpus = half;
        }
    }
    free(links.items);
    free(links.first);
    ends_fini(&ends);
    return narrowest;
}

bool topology_bisection(const struct topology *topology, uint32_t k, struct bisection *bisection)
{
    const struct halves halves = halves_of(topology, k);
    uint64_t half = smaller_half(&halves);
    *bisection = (struct bisection){.members = {half, halves.members - half}, .gpus = half * halves.member};
    bool closed = bisection_is_closed(topology, k);
    if (half == 0 || (!closed && topology->n_links > BISECTION_LINKS_MAX) ||
        (topology->graph && k + 1 < topology->n_levels))
        return false;
    bisection->bytes_per_s = closed ? bisection_closed(topology, k) : bisection_by_flow(topology, k, &bisection->gpus);
    if (isinf(bisection->bytes_per_s)) /* no instance has GPUs in both halves */
        return false;
    return true;
}
