/* crossings.h - the graph that an ensemble is folded by (partition.h): its instances, the ways over which they send,
 * the links that these cross; each labelled by what it is by itself. */
#ifndef CPSIM_SIM_CROSSINGS_H
#define CPSIM_SIM_CROSSINGS_H

#include "models/base/numbering.h"
#include "models/schedule/ensemble.h"
#include "sim/partition.h"

struct plan;

#define NO_WAY UINT32_MAX

struct crossings {
    const struct ensemble *ensemble;
    const struct plan *plan;
    struct crossing_graph graph; /* a node for each instance */
    uint32_t *node_labels, *link_labels;
    struct way *ways;
    uint32_t *way_of_peer; /* [index in ensemble.peers]; NO_WAY where nothing is sent */
    uint32_t *hops;
    struct numbering links; /* links as the graph numbers them */
};

/* Of an ensemble of which `plan` has been made; both outlive the graph. */
void crossings_init(struct crossings *crossings, const struct ensemble *ensemble, const struct plan *plan);
void crossings_fini(struct crossings *crossings);

static inline uint32_t crossings_peers(const struct ensemble *ensemble, uint32_t instance)
{
    return ensemble_shape(ensemble, instance)->messages.n_peers;
}

#endif
