/* maximum_flow.h - how much can flow from one vertex of a graph to another, for graphs of some ten thousand edges. */
#ifndef CPSIM_MODELS_BASE_MAXIMUM_FLOW_H
#define CPSIM_MODELS_BASE_MAXIMUM_FLOW_H

#include <stddef.h>
#include <stdint.h>

struct flow_edge;

struct flow_graph {
    struct flow_edge *edges; /* each followed by its reverse */
    size_t n_edges, capacity;
    uint32_t n_vertices;
};

void flow_graph_init(struct flow_graph *graph, uint32_t n_vertices);
void flow_graph_fini(struct flow_graph *graph);

/* Adds an edge that carries `forward` from a to b and `backward` from b to a; INFINITY is no limit. */
void flow_graph_join(struct flow_graph *graph, uint32_t a, uint32_t b, double forward, double backward);

/* The maximum flow from `source` to `sink`; INFINITY if nothing limits it. Each call starts anew. */
double flow_graph_maximum(struct flow_graph *graph, uint32_t source, uint32_t sink);

#endif
