/* crossings.c - labels are numbers of what must be equal; a way is there for each peer to whom something is sent. */
#include "sim/crossings.h"

#include <assert.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "sim/plan.h"

static uint32_t label_nodes(struct crossings *crossings)
{
    const struct ensemble *ensemble = crossings->ensemble;
    const struct plan *plan = crossings->plan;
    bool share_devices = plan->simulation->cost->topology->ranks_per_device > 1;
    struct numbering labels;
    numbering_init(&labels, 3);
    crossings->node_labels = memory_zeroed(ensemble->n_instances, sizeof *crossings->node_labels);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        uint64_t key[] = {plan->outlook_of[i], numbering_word(plan->speed ? plan->speed[i] : 1), share_devices ? i : 0};
        crossings->node_labels[i] = numbering_of(&labels, key);
    }
    numbering_fini(&labels);
    return ensemble->n_instances;
}

static size_t count_hops(const struct plan *plan)
{
    size_t count = 0;
    for (size_t w = 0; w < plan->n_ways; w++)
        count += plan->ways[w].route.n_links;
    return count + plan->simulation->ensemble->n_instances; /* one each to its replica */
}

/* The way to peer number `place` of an instance, if something is sent there. */
static void add_way(struct crossings *crossings, struct numbering *labels, uint32_t instance, uint32_t place,
                    size_t *n_hops)
{
    size_t index = crossings->ensemble->instances[instance].first_peer + place;
    const struct route *route = &crossings->plan->ways[index].route;
    crossings->way_of_peer[index] = NO_WAY;
    if (route->n_links == 0)
        return;
    struct peer peer = crossings->ensemble->peers[index];
    uint64_t key[] = {numbering_word(route->alpha_seconds), numbering_word(route->bytes_per_s), route->level};
    crossings->way_of_peer[index] = crossings->graph.n_ways;
    crossings->ways[crossings->graph.n_ways++] = (struct way){.from = instance,
                                                              .to = peer.instance,
                                                              .from_place = place,
                                                              .to_place = peer.back,
                                                              .label = numbering_of(labels, key),
                                                              .first_hop = *n_hops,
                                                              .n_hops = route->n_links};
    for (size_t h = 0; h < route->n_links; h++)
        crossings->hops[(*n_hops)++] = numbering_of(&crossings->links, &route->links[h]);
}

/* Lets an instance meet the others of its replica. */
static void meet(struct crossings *crossings, struct numbering *labels, uint32_t instance, size_t *n_hops)
{
    uint32_t replica = crossings->ensemble->instances[instance].replica;
    uint64_t key[] = {0, 0, REPLICA_LINKS}, link = REPLICA_LINKS + replica;
    crossings->ways[crossings->graph.n_ways++] = (struct way){.from = instance,
                                                              .to = instance,
                                                              .from_place = UINT32_MAX,
                                                              .to_place = UINT32_MAX,
                                                              .label = numbering_of(labels, key),
                                                              .first_hop = *n_hops,
                                                              .n_hops = 1};
    crossings->link_of_replica[replica] = numbering_of(&crossings->links, &link);
    crossings->hops[(*n_hops)++] = crossings->link_of_replica[replica];
}

static void add_ways(struct crossings *crossings)
{
    const struct ensemble *ensemble = crossings->ensemble;
    size_t peers = crossings->plan->n_ways, n_hops = 0;
    assert(peers + ensemble->n_instances < NO_WAY);
    crossings->ways = memory_zeroed(peers + ensemble->n_instances, sizeof *crossings->ways);
    if (ensemble->n_replicas > 1)
        crossings->link_of_replica = memory_zeroed(ensemble->n_replicas, sizeof *crossings->link_of_replica);
    crossings->way_of_peer = memory_zeroed(peers, sizeof *crossings->way_of_peer);
    crossings->hops = memory_zeroed(count_hops(crossings->plan), sizeof *crossings->hops);
    struct numbering labels;
    numbering_init(&labels, 3);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        for (uint32_t place = 0; place < crossings_peers(ensemble, i); place++)
            add_way(crossings, &labels, i, place, &n_hops);
        if (crossings->link_of_replica)
            meet(crossings, &labels, i, &n_hops);
    }
    numbering_fini(&labels);
}

static uint32_t label_links(struct crossings *crossings)
{
    const struct topology *topology = crossings->plan->simulation->cost->topology;
    struct numbering labels;
    numbering_init(&labels, 2);
    crossings->link_labels = memory_zeroed(crossings->links.count, sizeof *crossings->link_labels);
    for (uint32_t l = 0; l < crossings->links.count; l++) {
        bool real = crossings_is_real(crossings, l);
        struct link_info info = real ? topology_link(topology, crossings->links.keys[l]) : (struct link_info){0};
        uint64_t key[] = {numbering_word(info.bytes_per_s), real ? info.level : REPLICA_LINKS};
        crossings->link_labels[l] = numbering_of(&labels, key);
    }
    numbering_fini(&labels);
    return crossings->links.count;
}

void crossings_init(struct crossings *crossings, const struct ensemble *ensemble, const struct plan *plan)
{
    *crossings = (struct crossings){.ensemble = ensemble, .plan = plan};
    numbering_init(&crossings->links, 1);
    crossings->graph.n_nodes = label_nodes(crossings);
    add_ways(crossings);
    crossings->graph.n_links = label_links(crossings);
    crossings->graph.node_labels = crossings->node_labels;
    crossings->graph.link_labels = crossings->link_labels;
    crossings->graph.ways = crossings->ways;
    crossings->graph.hops = crossings->hops;
}

void crossings_fini(struct crossings *crossings)
{
    free(crossings->node_labels);
    free(crossings->link_labels);
    free(crossings->ways);
    free(crossings->way_of_peer);
    free(crossings->hops);
    free(crossings->link_of_replica);
    numbering_fini(&crossings->links);
}
