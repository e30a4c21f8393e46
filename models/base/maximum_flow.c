/* maximum_flow.c - Dinic's algorithm (E. A. Dinic, 1970): shortest augmenting paths, all of one length at a time.
 *
 * Capacities are doubles of very different sizes; what is left of one after subtractions is taken for nothing below a
 * share EPSILON of the largest.
 */
#include "models/base/maximum_flow.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "models/base/memory.h"

#define EPSILON 1e-12
#define NONE UINT32_MAX

struct flow_edge {
    uint32_t to;
    uint32_t next; /* of the edges that leave the same vertex */
    double capacity, left;
};

/* What one search needs of each vertex. */
struct search {
    struct flow_graph *graph;
    uint32_t *first, *current; /* edges */
    uint32_t *distance, *queue;
    uint32_t source, sink;
    double least; /* capacity that counts */
};

void flow_graph_init(struct flow_graph *graph, uint32_t n_vertices)
{
    *graph = (struct flow_graph){.n_vertices = n_vertices};
}

void flow_graph_fini(struct flow_graph *graph)
{
    free(graph->edges);
    flow_graph_init(graph, 0);
}

static void add(struct flow_graph *graph, uint32_t to, double capacity)
{
    memory_grow(graph->edges, graph->n_edges, graph->capacity);
    graph->edges[graph->n_edges++] = (struct flow_edge){.to = to, .capacity = capacity};
}

void flow_graph_join(struct flow_graph *graph, uint32_t a, uint32_t b, double forward, double backward)
{
    add(graph, b, forward);
    add(graph, a, backward);
}

static void search_init(struct search *search, struct flow_graph *graph, uint32_t source, uint32_t sink)
{
    uint32_t n = graph->n_vertices;
    *search = (struct search){.graph = graph, .source = source, .sink = sink};
    search->first = memory_zeroed(n, sizeof *search->first);
    search->current = memory_zeroed(n, sizeof *search->current);
    search->distance = memory_zeroed(n, sizeof *search->distance);
    search->queue = memory_zeroed(n, sizeof *search->queue);
    for (uint32_t v = 0; v < n; v++)
        search->first[v] = NONE;
    double largest = 0;
    for (size_t i = 0; i < graph->n_edges; i++) {
        struct flow_edge *edge = &graph->edges[i];
        uint32_t from = graph->edges[i ^ 1].to;
        edge->left = edge->capacity;
        edge->next = search->first[from];
        search->first[from] = (uint32_t)i;
        if (isfinite(edge->capacity))
            largest = fmax(largest, edge->capacity);
    }
    search->least = largest * EPSILON;
}

static void search_fini(struct search *search)
{
    free(search->first);
    free(search->current);
    free(search->distance);
    free(search->queue);
}

/* Distances from the source over edges that can carry more; whether the sink is reached. */
static bool find_distances(struct search *search)
{
    const struct flow_graph *graph = search->graph;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        search->distance[v] = NONE;
        search->current[v] = search->first[v];
    }
    uint32_t head = 0, tail = 0;
    search->distance[search->source] = 0;
    search->queue[tail++] = search->source;
    while (head < tail) {
        uint32_t v = search->queue[head++];
        for (uint32_t i = search->first[v]; i != NONE; i = graph->edges[i].next) {
            uint32_t to = graph->edges[i].to;
            if (graph->edges[i].left > search->least && search->distance[to] == NONE) {
                search->distance[to] = search->distance[v] + 1;
                search->queue[tail++] = to;
            }
        }
    }
    return search->distance[search->sink] != NONE;
}

/* Sends what one shortest path can take: walks ahead, backs off where there is no way on. The path is kept in `queue`,
 * as edges. */
static double augment(struct search *search)
{
    struct flow_edge *edges = search->graph->edges;
    uint32_t length = 0, at = search->source;
    while (at != search->sink) {
        uint32_t *i = &search->current[at];
        while (*i != NONE &&
               !(edges[*i].left > search->least && search->distance[edges[*i].to] == search->distance[at] + 1))
            *i = edges[*i].next;
        if (*i != NONE) {
            search->queue[length++] = *i;
            at = edges[*i].to;
        } else if (length > 0) {
            at = edges[search->queue[--length] ^ 1].to;
            search->current[at] = edges[search->current[at]].next;
        } else {
            return 0;
        }
    }
    double flow = INFINITY;
    for (uint32_t k = 0; k < length; k++)
        flow = fmin(flow, edges[search->queue[k]].left);
    for (uint32_t k = 0; k < length && isfinite(flow); k++) {
        edges[search->queue[k]].left -= flow;
        edges[search->queue[k] ^ 1].left += flow;
    }
    return flow;
}

double flow_graph_maximum(struct flow_graph *graph, uint32_t source, uint32_t sink)
{
    struct search search;
    search_init(&search, graph, source, sink);
    double total = 0, flow;
    while (isfinite(total) && find_distances(&search))
        while (isfinite(total) && (flow = augment(&search)) > 0)
            total += flow;
    search_fini(&search);
    return total;
}
