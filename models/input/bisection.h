/* bisection.h - how much a level carries between the two halves of its members, and how far its ports are shared.
 *
 * The members of one instance of a level are split in two as evenly as can be: a torus across its longest dimension
 * (the last of equal ones), all others by number, the first half the smaller one. The bisection is the maximum flow,
 * one way, from all GPUs of one half to all of the other over links of this level and those inside, each at its
 * bandwidth: what no routing can exceed. A graph has no levels: its GPUs are split by number, and its last class stands
 * for all.
 */
#ifndef CPSIM_MODELS_INPUT_BISECTION_H
#define CPSIM_MODELS_INPUT_BISECTION_H

#include "models/input/topology.h"

struct bisection {
    uint64_t members[2]; /* in either half; the first has no more than the second */
    uint64_t gpus;       /* in the half that has fewer */
    double bytes_per_s;  /* of the narrower direction, in the instance where it is narrowest; 0 if nothing joins them */
};

/* The bisection of a level: from closed forms where this level and those inside are of kinds that have some, and all
 * nodes and links are alike; else by maximum flow. False where that would take too long (more than BISECTION_LINKS_MAX
 * links), of a level of one member, and of a graph's classes but the last. */
#define BISECTION_LINKS_MAX 65536
bool topology_bisection(const struct topology *topology, uint32_t level, struct bisection *bisection);

/* Whether it has a closed form. */
bool bisection_is_closed(const struct topology *topology, uint32_t level);

/* The same by each of the two ways; by flow with the GPUs in the smaller half, and INFINITY where no instance has GPUs
 * in both. */
double bisection_closed(const struct topology *topology, uint32_t level);
double bisection_by_flow(const struct topology *topology, uint32_t level, uint64_t *gpus);

/* What the inside of a member can bring to its ports into `level`, over what those ports carry; 1 where each port is a
 * GPU's own, INFINITY where several GPUs share one with no link between, and for kinds without closed form NAN. By the
 * levels' bandwidths. */
double topology_oversubscription(const struct topology *topology, uint32_t level);

#endif
