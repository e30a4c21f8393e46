/* graph_data.h - a graph as graph.c reads it and graph_route.c searches it. */
#ifndef CPSIM_MODELS_INPUT_GRAPH_DATA_H
#define CPSIM_MODELS_INPUT_GRAPH_DATA_H

#include <stdatomic.h>

#include "models/input/graph.h"

/* One [link A B]. */
struct graph_cable {
    const struct ini_section *section;
    uint32_t ends[2]; /* nodes */
    char class[sizeof(((struct level *)0)->name)];
    uint32_t level; /* number of the class */
    double bytes_per_s, latency_seconds;
    uint32_t count;
    bool half_duplex;
    uint64_t first_link; /* link = first_link + way * directions + direction; direction 0 is from ends[0] to ends[1] */
};

/* One way out of a node. */
struct graph_edge {
    uint32_t to, cable;
    uint64_t link;
    uint64_t picoseconds; /* its latency */
};

/* How far every node is from one destination. */
struct graph_tree {
    uint32_t *hops;
    uint64_t *picoseconds;
};

struct graph {
    char **names; /* of the nodes: GPUs by number, then switches in the order of the file */
    uint32_t n_nodes, n_gpus;
    struct graph_cable *cables; /* in the order of the file */
    size_t n_cables, capacity;
    uint64_t n_links;
    uint32_t *first_edge;                /* [node], n_nodes + 1 of them */
    struct graph_edge *edges;            /* of each node, in the order of the file */
    _Atomic(struct graph_tree *) *trees; /* [gpu]: NULL until it is a destination */
};

/* The tree of a destination: the one kept, or a new one. */
const struct graph_tree *graph_tree_to(const struct graph *graph, uint32_t to);
void graph_tree_destroy(struct graph_tree *tree);

#endif
