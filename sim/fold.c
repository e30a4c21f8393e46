/* fold.c - an ensemble with an instance for each class of another's ranks.
 *
 * Places tell apart what a rank sends to one peer from what it sends to another: ranks of one class have peers of the
 * same classes at the same places, in the order of their shape's. So all ranks of a class have one way of each class
 * that leaves the class, and a class of ways has as many ways as the class that they leave has ranks.
 */
#include "sim/fold.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "sim/crossings.h"
#include "sim/plan_memo.h"

/* An instance for each class of ranks, with room for its peers. */
static void add_instances(struct folding *folding, const struct ensemble *all, const struct partition *partition)
{
    struct ensemble *ensemble = &folding->ensemble;
    *ensemble = (struct ensemble){.layout = all->layout,
                                  .ranks = all->ranks,
                                  .groups = all->groups,
                                  .shapes = all->shapes,
                                  .n_shapes = all->n_shapes,
                                  .n_instances = partition->n_node_classes,
                                  .n_replicas = 1,
                                  .borrows_shapes = true};
    ensemble->instances = memory_zeroed(ensemble->n_instances, sizeof *ensemble->instances);
    uint32_t peers = 0;
    for (uint32_t i = 0; i < all->n_instances; i++) {
        struct instance *instance = &ensemble->instances[partition->node_class[i]];
        if (instance->stands_for == 0) {
            *instance = all->instances[i];
            instance->stands_for = 0;
            instance->first_peer = peers;
            peers += crossings_peers(all, i);
        }
        instance->stands_for += all->instances[i].stands_for;
    }
    ensemble->peers = memory_zeroed(peers, sizeof *ensemble->peers);
}

/* Replicas whose ranks are alike become one. */
static void fold_replicas(struct folding *folding, const struct crossings *crossings, const struct partition *partition)
{
    struct ensemble *ensemble = &folding->ensemble;
    if (!crossings->link_of_replica)
        return;
    uint32_t *replica_of_class = memory_zeroed(partition->n_link_classes, sizeof *replica_of_class); /* plus 1 */
    ensemble->n_replicas = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        uint32_t link = crossings->link_of_replica[ensemble->instances[i].replica];
        uint32_t *replica = &replica_of_class[partition->link_class[link]];
        if (*replica == 0)
            *replica = ++ensemble->n_replicas;
        ensemble->instances[i].replica = *replica - 1;
    }
    free(replica_of_class);
}

/* The instance of the ensemble of all ranks that a folded one was made from. */
static uint32_t original(const struct folding *folding, uint32_t instance)
{
    const struct instance *folded = &folding->ensemble.instances[instance];
    return folded->group * folding->ensemble.ranks + folded->rank;
}

static void add_peers(struct folding *folding, const struct ensemble *all, const struct partition *partition)
{
    struct ensemble *ensemble = &folding->ensemble;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct peer *peers = ensemble_peers(all, original(folding, i));
        for (uint32_t place = 0; place < crossings_peers(ensemble, i); place++)
            ensemble->peers[ensemble->instances[i].first_peer + place] =
                (struct peer){partition->node_class[peers[place].instance], peers[place].back};
    }
}

/* A class of links while hops are counted. */
struct link_class {
    uint64_t lowest, size;
    size_t met; /* 1 + index in folding.hops, where it was last met; of an earlier way if that is before this way's */
};

static struct link_class *link_classes(const struct crossings *crossings, const struct partition *partition)
{
    struct link_class *classes = memory_zeroed(partition->n_link_classes, sizeof *classes);
    for (uint32_t l = 0; l < crossings->graph.n_links; l++) {
        struct link_class *class = &classes[partition->link_class[l]];
        if (!crossings_is_real(crossings, l))
            continue;
        uint64_t link = crossings->links.keys[l];
        if (class->size++ == 0 || link < class->lowest)
            class->lowest = link;
    }
    return classes;
}

/* The hops of a way that stands for `n_alike`, from hops[first] on; returns where they end. A way crosses some links of
 * a class, and all ways of its class together cross each link of that class equally often. */
static size_t fold_way(const struct crossings *crossings, const struct partition *partition, struct link_class *classes,
                       const struct way *way, uint32_t n_alike, struct hop *hops, size_t first)
{
    size_t end = first;
    for (size_t h = 0; h < way->n_hops; h++) {
        uint32_t index = partition->link_class[crossings->hops[way->first_hop + h]];
        if (classes[index].met <= first) {
            hops[end] = (struct hop){.link = index}; /* for now */
            classes[index].met = ++end;
        }
        hops[classes[index].met - 1].weight++;
    }
    for (size_t h = first; h < end; h++) {
        const struct link_class *class = &classes[hops[h].link];
        uint64_t crossed = (uint64_t)n_alike * hops[h].weight;
        assert(crossed % class->size == 0);
        hops[h] = (struct hop){class->lowest, (uint32_t)(crossed / class->size)};
    }
    return end;
}

/* The way from the rank that `instance` stands for first to peer number `place`; NULL if nothing is sent there. */
static const struct way *way_of(const struct folding *folding, const struct crossings *crossings, uint32_t instance,
                                uint32_t place)
{
    const struct ensemble *all = crossings->ensemble;
    uint32_t way = crossings->way_of_peer[all->instances[original(folding, instance)].first_peer + place];
    return way == NO_WAY ? NULL : &crossings->ways[way];
}

static size_t hops_at_most(const struct folding *folding, const struct crossings *crossings)
{
    size_t n_hops = 0;
    for (uint32_t i = 0; i < folding->ensemble.n_instances; i++) {
        for (uint32_t place = 0; place < crossings_peers(&folding->ensemble, i); place++) {
            const struct way *way = way_of(folding, crossings, i, place);
            n_hops += way ? way->n_hops : 0;
        }
    }
    return n_hops;
}

static size_t count_peers(const struct ensemble *ensemble)
{
    size_t count = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        count += crossings_peers(ensemble, i);
    return count;
}

static void add_hops(struct folding *folding, const struct crossings *crossings, const struct partition *partition,
                     struct link_class *classes)
{
    const struct ensemble *ensemble = &folding->ensemble;
    size_t n_hops = 0, peer = 0;
    folding->hops = memory_zeroed(hops_at_most(folding, crossings), sizeof *folding->hops);
    folding->first_hop = memory_zeroed(count_peers(ensemble) + 1, sizeof *folding->first_hop);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        for (uint32_t place = 0; place < crossings_peers(ensemble, i); place++) {
            const struct way *way = way_of(folding, crossings, i, place);
            folding->first_hop[peer++] = n_hops;
            if (way)
                n_hops = fold_way(crossings, partition, classes, way, ensemble->instances[i].stands_for, folding->hops,
                                  n_hops);
        }
    }
    folding->first_hop[peer] = n_hops;
}

static int compare_folded_links(const void *a, const void *b)
{
    uint64_t left = ((const struct folded_link *)a)->link, right = ((const struct folded_link *)b)->link;
    return (left > right) - (left < right);
}

static void add_links(struct folding *folding, const struct link_class *classes, uint32_t n_classes)
{
    folding->links = memory_zeroed(n_classes, sizeof *folding->links);
    for (uint32_t c = 0; c < n_classes; c++)
        if (classes[c].size > 0) /* else it is one of replicas */
            folding->links[folding->n_links++] = (struct folded_link){classes[c].lowest, classes[c].size};
    if (folding->n_links)
        qsort(folding->links, folding->n_links, sizeof *folding->links, compare_folded_links);
}

/* A memo's, or `own`. */
static const struct partition *find_partition(struct plan_memo *memo, const struct crossing_graph *graph,
                                              struct partition *own)
{
    if (memo)
        return plan_memo_partition(memo, graph);
    partition_init(own, graph);
    return own;
}

void fold_init(struct folding *folding, const struct ensemble *ensemble, const struct plan *plan)
{
    struct crossings crossings;
    struct partition own = {0};
    crossings_init(&crossings, ensemble, plan);
    const struct partition *partition = find_partition(plan->simulation->memo, &crossings.graph, &own);
    struct link_class *classes = link_classes(&crossings, partition);
    *folding = (struct folding){.whole = ensemble};
    add_instances(folding, ensemble, partition);
    fold_replicas(folding, &crossings, partition);
    add_peers(folding, ensemble, partition);
    add_hops(folding, &crossings, partition, classes);
    add_links(folding, classes, partition->n_link_classes);
    folding->class_of = memory_zeroed(ensemble->n_instances, sizeof *folding->class_of);
    memcpy(folding->class_of, partition->node_class, ensemble->n_instances * sizeof *folding->class_of);
    partition_fini(&own);
    crossings_fini(&crossings);
    free(classes);
}
