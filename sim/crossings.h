/* crossings.h - the graph that an ensemble is folded by (partition.h): its instances, the ways over which they send,
 * the links that these cross; each labelled by what it is by itself.
 *
 * That the ranks of a replica wait for each other between two phases is told by a link that is none: each of them has a
 * way to itself over its replica's. So ranks are alike only if their replicas are.
 */
#ifndef CPSIM_SIM_CROSSINGS_H
#define CPSIM_SIM_CROSSINGS_H

#include "models/base/numbering.h"
#include "models/schedule/ensemble.h"
#include "sim/partition.h"

struct plan;

#define NO_WAY UINT32_MAX

/* Keys of links from here on are replicas. */
#define REPLICA_LINKS (UINT64_C(1) << 63)

struct crossings {
    const struct ensemble *ensemble;
    const struct plan *plan;
    struct crossing_graph graph; /* a node for each instance */
    uint32_t *node_labels, *link_labels;
    struct way *ways;
    uint32_t *way_of_peer; /* [index in ensemble.peers]; NO_WAY where nothing is sent */
    uint32_t *hops;
    struct numbering links;    /* links as the graph numbers them */
    uint32_t *link_of_replica; /* [replica]: what its ranks meet at; NULL: there is one */
};

/* Of an ensemble of which `plan` has been made; both outlive the graph. */
void crossings_init(struct crossings *crossings, const struct ensemble *ensemble, const struct plan *plan);
void crossings_fini(struct crossings *crossings);

/* Whether a link of the graph is one of the cluster's. */
static inline bool crossings_is_real(const struct crossings *crossings, uint32_t link)
{
    return crossings->links.keys[link] < REPLICA_LINKS;
}

static inline uint32_t crossings_peers(const struct ensemble *ensemble, uint32_t instance)
{
    return ensemble_shape(ensemble, instance)->messages.n_peers;
}

#endif
