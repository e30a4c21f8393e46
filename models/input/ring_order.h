/* ring_order.h - in which order the CP ranks of a group go over the group's GPUs: parallel.ring.
 *
 * A group has cp GPUs, those of its cp indices 0 to cp - 1, which ascend with them. A ring order is a permutation of
 * the indices: the rank at place p of the ring sits on the GPU of index order[p]. (Rank r is at place r, unless its
 * algorithm wants other ranks to be neighbours, schedule.inner: the order says how places go over GPUs.) A node is one
 * instance of the topology's first level, and the lane of a GPU its index inside its node; a graph is one node. Take
 * two nodes of four GPUs, and cp = 8:
 *
 *   natural     0 1 2 3 4 5 6 7  as the GPUs are numbered
 *   node-major  0 1 2 3 4 5 6 7  node after node, in each as numbered: as few steps from node to node as can be. Where
 *                                GPUs are numbered node by node, as in every topology of levels, that is natural
 *   rail        0 4 1 5 2 6 3 7  lane after lane, each over all nodes in their order: every step changes the node, as
 *                                long as there are two
 *   snake       0 1 2 3 7 6 5 4  node after node, every second one backwards, so that a step from node to node stays on
 *                                its lane; if the number of nodes is even, so does the step from the last to the first.
 *                                The same holds level by level (of the pods every second one backwards, nodes and all),
 *                                and in a torus dimension by dimension: with all of its members in the group it is a
 *                                Hamiltonian path, each step one hop. torus:3x2: 0 1 2 5 4 3
 *   list        each index once, the same in every group: 0,2,1,3 seats the second rank on the third GPU
 *
 * Where nodes are of unequal sizes, the last lanes are in some of them only, and a snake may change its lane.
 *
 * Groups may hold different parts of their nodes, so rail and snake may be different permutations in different groups.
 */
#ifndef CPSIM_MODELS_INPUT_RING_ORDER_H
#define CPSIM_MODELS_INPUT_RING_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/experiment.h"
#include "models/input/topology.h"

/* Fills order[cp] for a group whose cp index i is GPU first + i * stride. Time cp log cp at most. */
void ring_order_of(const struct experiment *experiment, const struct topology *topology, uint64_t first,
                   uint64_t stride, uint32_t *order);

/* Whether the order is that of the indices. */
bool ring_order_is_natural(const uint32_t *order, uint32_t cp);

#endif
