/* partition.h - colour refinement: the coarsest equitable partition of nodes, ways between them, and links.
 *
 * A graph of ranks: a way goes from one node to another over some links. Given first colours, nodes, ways and links are
 * coloured anew by their own colour and
 *   - a way by its label, its places, the colours of its two ends, and those of its links (as a multiset: a message
 * loads all of them at once);
 *   - a link by how many ways of each colour cross it;
 *   - a node by the colours of the ways that leave it and of those that arrive (which tell their places);
 * until the number of colours no longer grows. Colours are numbered by first appearance, so the result does not depend
 * on how they are hashed. Two things of different signature differ in 128 bits of hash: a collision is less likely than
 * a fault of the machine, and would need 10^15 of them.
 */
#ifndef CPSIM_SIM_PARTITION_H
#define CPSIM_SIM_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct way {
    uint32_t from, to;   /* nodes */
    uint32_t from_place; /* which of its sender's ways it is, of its receiver's: what tells its ways apart */
    uint32_t to_place;
    uint32_t label;           /* ways of different labels are never alike */
    size_t first_hop, n_hops; /* in crossing_graph.hops; a way crosses no link twice */
};

struct crossing_graph {
    uint32_t n_nodes, n_ways, n_links;
    const uint32_t *node_labels, *link_labels;
    const struct way *ways; /* their hops one after the other */
    const uint32_t *hops;   /* links */
};

/* Of all ways. */
static inline size_t crossing_graph_hops(const struct crossing_graph *graph)
{
    const struct way *last = graph->n_ways ? &graph->ways[graph->n_ways - 1] : NULL;
    return last ? last->first_hop + last->n_hops : 0;
}

bool crossing_graphs_equal(const struct crossing_graph *a, const struct crossing_graph *b);

struct partition {
    uint32_t *node_class, *way_class, *link_class;
    uint32_t n_node_classes, n_way_classes, n_link_classes;
    uint32_t rounds; /* until it was stable */
};

void partition_init(struct partition *partition, const struct crossing_graph *graph);
void partition_fini(struct partition *partition);

#endif
