/* graph_route.c - shortest ways through a graph. */
#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/input/graph_data.h"
#include "models/input/routing.h"

/* --- searching ---------------------------------------------------------------------------------------------------- */

static struct graph_tree *new_tree(const struct graph *graph)
{
    struct graph_tree *tree = memory_zeroed(1, sizeof *tree);
    tree->hops = memory_zeroed(graph->n_nodes, sizeof *tree->hops);
    tree->picoseconds = memory_zeroed(graph->n_nodes, sizeof *tree->picoseconds);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        tree->hops[i] = UINT32_MAX;
        tree->picoseconds[i] = UINT64_MAX;
    }
    return tree;
}

void graph_tree_destroy(struct graph_tree *tree)
{
    if (!tree)
        return;
    free(tree->hops);
    free(tree->picoseconds);
    free(tree);
}

/* Breadth first: all nodes at h hops are final before those at h + 1 are left, so that latencies, which only break
 * ties, are final then as well. */
static struct graph_tree *searched(const struct graph *graph, uint32_t to)
{
    struct graph_tree *tree = new_tree(graph);
    uint32_t *queue = memory_zeroed(graph->n_nodes, sizeof *queue), n = 0;
    tree->hops[to] = 0;
    tree->picoseconds[to] = 0;
    queue[n++] = to;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = queue[i];
        for (uint32_t e = graph->first_edge[node]; e < graph->first_edge[node + 1]; e++) {
            const struct graph_edge *edge = &graph->edges[e];
            uint64_t far = tree->picoseconds[node] + edge->picoseconds;
            if (tree->hops[edge->to] == UINT32_MAX) {
                tree->hops[edge->to] = tree->hops[node] + 1;
                queue[n++] = edge->to;
            }
            if (tree->hops[edge->to] == tree->hops[node] + 1 && far < tree->picoseconds[edge->to])
                tree->picoseconds[edge->to] = far;
        }
    }
    free(queue);
    return tree;
}

const struct graph_tree *graph_tree_to(const struct graph *graph, uint32_t to)
{
    struct graph_tree *tree = atomic_load(&graph->trees[to]);
    if (tree)
        return tree;
    struct graph_tree *made = searched(graph, to);
    if (atomic_compare_exchange_strong(&graph->trees[to], &tree, made))
        return made;
    graph_tree_destroy(made); /* another thread was faster */
    return tree;
}

/* --- walking ------------------------------------------------------------------------------------------------------ */

static bool leads_on(const struct graph_tree *tree, uint32_t node, const struct graph_edge *edge)
{
    return tree->hops[edge->to] + 1 == tree->hops[node] &&
           tree->picoseconds[edge->to] + edge->picoseconds == tree->picoseconds[node];
}

static const struct graph_edge *nth_way_on(const struct graph *graph, const struct graph_tree *tree, uint32_t node,
                                           uint32_t n, uint32_t *count)
{
    const struct graph_edge *nth = NULL;
    *count = 0;
    for (uint32_t e = graph->first_edge[node]; e < graph->first_edge[node + 1]; e++) {
        if (!leads_on(tree, node, &graph->edges[e]))
            continue;
        if ((*count)++ == n)
            nth = &graph->edges[e];
    }
    return nth;
}

static const struct graph_edge *way_on(const struct topology *topology, const struct graph_tree *tree, uint32_t node,
                                       uint64_t from, uint64_t to)
{
    uint32_t count, ignored;
    const struct graph_edge *first = nth_way_on(topology->graph, tree, node, 0, &count);
    if (topology->routing != ROUTING_ECMP || count == 1)
        return first;
    return nth_way_on(topology->graph, tree, node, routing_choice(topology->seed, from, to, node, count), &ignored);
}

static void push(const struct topology *topology, const struct graph_edge *edge, struct route *route)
{
    const struct graph_cable *cable = &topology->graph->cables[edge->cable];
    const struct link_override *override = overrides_of_link(&topology->overrides, edge->link);
    memory_grow(route->links, route->n_links, route->capacity);
    route->links[route->n_links++] = edge->link;
    route->bytes_per_s = fmin(route->bytes_per_s, overrides_bytes_per_s(override, cable->bytes_per_s));
    route->alpha_seconds +=
        override && override->latency_seconds >= 0 ? override->latency_seconds : cable->latency_seconds;
    if (cable->level > route->level)
        route->level = cable->level;
}

void graph_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route)
{
    const struct graph_tree *tree = graph_tree_to(topology->graph, (uint32_t)to);
    for (uint32_t node = (uint32_t)from; node != to;) {
        const struct graph_edge *edge = way_on(topology, tree, node, from, to);
        push(topology, edge, route);
        node = edge->to;
    }
}

uint32_t graph_level_between(const struct topology *topology, uint64_t from, uint64_t to)
{
    const struct graph_tree *tree = graph_tree_to(topology->graph, (uint32_t)to);
    uint32_t level = 0;
    for (uint32_t node = (uint32_t)from; node != to;) {
        const struct graph_edge *edge = way_on(topology, tree, node, from, to);
        if (topology->graph->cables[edge->cable].level > level)
            level = topology->graph->cables[edge->cable].level;
        node = edge->to;
    }
    return level;
}
