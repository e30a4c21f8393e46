/* link_ends.h - what a link joins: the cluster as a graph of GPUs and switches.
 *
 * GPUs are counted by place here, as if all nodes were of full size (places.h); where all are, a place is a GPU's
 * number.
 *
 * A port of level k hangs on a GPU or on a switch of an inner level. Where several of those share it and are equally
 * near, it hangs on a vertex of its own, joined to them without any link (link_end_each_inside): a NIC of several GPUs,
 * or the member as a whole (attach = node over a ring, or over a switch per rail).
 */
#ifndef CPSIM_MODELS_INPUT_LINK_ENDS_H
#define CPSIM_MODELS_INPUT_LINK_ENDS_H

#include "models/input/topology.h"

enum link_end_kind {
    LINK_END_GPU,    /* the GPU at place `number`; level 0 */
    LINK_END_SWITCH, /* switch `number` of `level`: instance by instance, in each rail by rail where they are separate
                        (topology_level_switches). In a graph: switches are counted from 0, level 0 */
    LINK_END_NIC,    /* of `level`: counted member by member */
    LINK_END_MEMBER  /* instance `number` of `level`, which is a member of the level above */
};

struct link_end {
    enum link_end_kind kind;
    uint32_t level;
    uint64_t number;
};

/* The ends of link `link` (< n_links), from `a` to `b`; half duplex carries both ways. */
void topology_link_ends(const struct topology *topology, uint64_t link, struct link_end *a, struct link_end *b);

/* What a link is besides topology_link: its latency, of a switch's two links that of both together; whether an override
 * makes it slower; whether both directions share it. */
double topology_link_latency(const struct topology *topology, uint64_t link);
bool topology_link_is_degraded(const struct topology *topology, uint64_t link);
bool topology_link_is_half_duplex(const struct topology *topology, uint64_t link);

/* Calls `visit` with every GPU or switch that a NIC or member reaches without a link; each may come several times. */
void link_end_each_inside(const struct topology *topology, struct link_end end,
                          void (*visit)(void *context, struct link_end inside), void *context);

/* The place of a GPU that is at the end, or the first one below it: tells which instance of an outer level the end is
 * in. Of a switch of a graph: 0. */
uint64_t link_end_place(const struct topology *topology, struct link_end end);

/* Places in the cluster and in one instance of `level`, and how many instances of it there are. A graph is one
 * instance of each of its classes. */
uint64_t topology_places(const struct topology *topology);
uint64_t topology_level_places(const struct topology *topology, uint32_t level);
uint64_t topology_level_instances(const struct topology *topology, uint32_t level);

/* Members of one instance of full size: of a graph, all GPUs. */
uint64_t topology_level_members(const struct topology *topology, uint32_t level);

/* Rails, or NICs of a member: sets of cables in one instance. */
uint64_t topology_level_lanes(const struct topology *topology, uint32_t level);

/* Switches in one instance of the level: none where members are joined by cables alone; one, in which all rails meet,
 * or one a rail (cross_rail). Of a graph: all, counted at level 0. */
uint64_t topology_level_switches(const struct topology *topology, uint32_t level);

/* What the port into `level` of the GPU at `place` hangs on: the GPU, or a switch of an inner level. */
struct link_end topology_port_end(const struct topology *topology, uint32_t level, uint64_t place);

#endif
