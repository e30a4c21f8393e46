/* graph.h - a cluster as a plain graph: [link A B] sections, for what no levels describe.
 *
 * Ends are GPUs (gpu0, gpu1, ...) and switches (any other word); GPUs pass messages on as switches do. A link is
 * `count` cables side by side. Routes are shortest in hops, then in latency (in whole picoseconds). At each node on the
 * way several cables may lead on equally well: routing = shortest takes the first in the order of the file, ecmp the
 * one that a hash of source, destination and node chooses (routing.h), as switches do, hop by hop. Adaptive routing is
 * refused: a message that is spread over several ways has no route.
 *
 * Each link has a class; classes stand in the place of levels (link_info.level, route.level), in the order in which the
 * file names them. There are at most LEVELS_MAX.
 *
 * What is searched, distances of all nodes to a destination, is done once per destination, when it is first asked for,
 * and kept: 12 bytes for every node and destination.
 */
#ifndef CPSIM_MODELS_INPUT_GRAPH_H
#define CPSIM_MODELS_INPUT_GRAPH_H

#include "models/input/topology.h"

#define GRAPH_NODES_MAX 4096

struct section_spec;

extern const struct section_spec link_section;

/* Reads all [link A B] sections of the document into topology->graph, levels (its classes), n_gpus and n_links. */
bool graph_read(struct topology *topology, struct diagnostics *diag);
void graph_destroy(struct graph *graph);

/* Adds the route's links, alpha and bandwidth, and sets its level; `route` is empty, the GPUs are there and differ. */
void graph_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route);
uint32_t graph_level_between(const struct topology *topology, uint64_t from, uint64_t to);

struct link_info graph_link(const struct graph *graph, uint64_t link);
/* Switches are counted from 0, in the order of the file. */
const char *graph_switch_name(const struct graph *graph, uint32_t number);
void graph_link_name(const struct topology *topology, uint64_t link, char *text, size_t size);

/* Each link's two numbers, of the links of one class, to be changed: which ways are taken does not follow. */
void graph_each_link(struct graph *graph, uint32_t level,
                     void (*visit)(void *context, double *bytes_per_s, double *latency_seconds), void *context);

/* For topology_each_value: the sections' names and values. */
void graph_each_value(const struct topology *topology,
                      void (*visit)(void *context, const char *section, const char *key, const char *value),
                      void *context);

#endif
