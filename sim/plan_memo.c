/* plan_memo.c - a few local times and orders, of which the first gives way; outlooks while they are few. */
#include "sim/plan_memo.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"
#include "models/cost/local_costs.h"

#define LOCALS_MAX 16 /* an interval asks for the middle, and two for each local constant */
#define ORDERS_MAX 4
#define OUTLOOK_OPERATIONS_MAX ((size_t)4 << 20) /* of all outlooks that are kept */

struct kept_locals {
    struct local_costs costs;
    struct local_times *times; /* NULL: none */
};

struct kept_order {
    struct instance *instances; /* of the ensemble; NULL: none */
    struct peer *peers;
    uint32_t n_instances;
    size_t n_peers;
    struct run_order order;
    struct order_times times; /* by the last plan */
};

struct kept_outlook {
    struct outlook outlook;
    uint32_t *surroundings; /* the key */
    UT_hash_handle hh;
};

struct kept_partition {
    struct crossing_graph graph; /* no nodes: none */
    uint32_t *node_labels, *link_labels, *hops;
    struct way *ways;
    struct partition partition;
};

struct plan_memo {
    struct communicators communicators; /* zero: not found yet */
    struct member_patterns patterns;    /* too */
    struct kept_locals locals[LOCALS_MAX];
    struct kept_order orders[ORDERS_MAX];
    struct kept_partition partition;
    size_t next_locals, next_order; /* to give way */
    struct kept_outlook *outlooks;
    size_t outlook_operations;
};

struct plan_memo *plan_memo_create(void)
{
    return memory_zeroed(1, sizeof(struct plan_memo));
}

const struct communicators *plan_memo_communicators(struct plan_memo *memo, const struct ensemble *whole)
{
    if (!memo->communicators.members)
        communicators_init(&memo->communicators, whole);
    return &memo->communicators;
}

const struct member_patterns *plan_memo_patterns(struct plan_memo *memo, const struct ensemble *whole)
{
    if (!memo->patterns.shapes)
        member_patterns_init(&memo->patterns, whole);
    return &memo->patterns;
}

/* ---- local times ---- */

struct local_times *plan_memo_locals(struct plan_memo *memo, const struct ensemble *ensemble, const struct cost *cost)
{
    struct local_costs costs;
    local_costs_of(&costs, cost);
    for (size_t i = 0; i < LOCALS_MAX && memo->locals[i].times; i++) {
        if (local_costs_equal(&memo->locals[i].costs, &costs)) {
            memo->locals[i].times->users++;
            return memo->locals[i].times;
        }
    }
    struct kept_locals *place = &memo->locals[memo->next_locals++ % LOCALS_MAX];
    local_times_release(place->times);
    *place = (struct kept_locals){costs, local_times_create(ensemble, cost)};
    place->times->users++;
    return place->times;
}

/* ---- outlooks ---- */

bool plan_memo_find_outlook(const struct plan_memo *memo, const struct surroundings *surroundings,
                            struct outlook *outlook)
{
    struct kept_outlook *found;
    size_t size = surroundings->count * sizeof *surroundings->numbers;
    HASH_FIND(hh, memo->outlooks, surroundings->numbers, size, found);
    if (found)
        *outlook = found->outlook;
    return found;
}

void plan_memo_keep_outlook(struct plan_memo *memo, const struct surroundings *surroundings,
                            const struct ensemble *ensemble, struct outlook *outlook)
{
    uint32_t n_ops = ensemble->shapes[outlook->shape].program->n_ops;
    if (memo->outlook_operations + n_ops > OUTLOOK_OPERATIONS_MAX)
        return;
    memo->outlook_operations += n_ops;
    outlook->borrowed = outlook->kept = true;
    struct kept_outlook *kept = memory_zeroed(1, sizeof *kept);
    size_t size = surroundings->count * sizeof *surroundings->numbers;
    kept->outlook = *outlook;
    kept->surroundings = memory_zeroed(1, size);
    memcpy(kept->surroundings, surroundings->numbers, size);
    HASH_ADD_KEYPTR(hh, memo->outlooks, kept->surroundings, size, kept);
}

/* ---- partitions ---- */

static void *copy_of(const void *items, size_t count, size_t size)
{
    void *copy = memory_zeroed(count, size);
    memcpy(copy, items, count * size);
    return copy;
}

static void forget_partition(struct kept_partition *kept)
{
    free(kept->node_labels);
    free(kept->link_labels);
    free(kept->hops);
    free(kept->ways);
    partition_fini(&kept->partition);
    *kept = (struct kept_partition){0};
}

const struct partition *plan_memo_partition(struct plan_memo *memo, const struct crossing_graph *graph)
{
    struct kept_partition *kept = &memo->partition;
    if (kept->graph.n_nodes > 0 && crossing_graphs_equal(&kept->graph, graph))
        return &kept->partition;
    forget_partition(kept);
    kept->node_labels = copy_of(graph->node_labels, graph->n_nodes, sizeof *graph->node_labels);
    kept->link_labels = copy_of(graph->link_labels, graph->n_links, sizeof *graph->link_labels);
    kept->ways = copy_of(graph->ways, graph->n_ways, sizeof *graph->ways);
    kept->hops = copy_of(graph->hops, crossing_graph_hops(graph), sizeof *graph->hops);
    kept->graph = *graph;
    kept->graph.node_labels = kept->node_labels;
    kept->graph.link_labels = kept->link_labels;
    kept->graph.ways = kept->ways;
    kept->graph.hops = kept->hops;
    partition_init(&kept->partition, graph);
    return &kept->partition;
}

/* ---- orders ---- */

static size_t count_peers(const struct ensemble *ensemble)
{
    const struct instance *last = &ensemble->instances[ensemble->n_instances - 1];
    return (size_t)last->first_peer + ensemble->shapes[last->shape].messages.n_peers;
}

/* The shapes are the memo's, so these say it all. */
static bool is_of(const struct kept_order *kept, const struct ensemble *ensemble)
{
    size_t n_peers = count_peers(ensemble);
    return kept->n_instances == ensemble->n_instances && kept->n_peers == n_peers &&
           memcmp(kept->instances, ensemble->instances, kept->n_instances * sizeof *kept->instances) == 0 &&
           memcmp(kept->peers, ensemble->peers, n_peers * sizeof *kept->peers) == 0;
}

static void forget_order(struct kept_order *kept)
{
    free(kept->instances);
    free(kept->peers);
    run_order_fini(&kept->order);
    order_times_fini(&kept->times);
    *kept = (struct kept_order){0};
}

static bool find_order(struct run_order *order, const struct ensemble *ensemble)
{
    struct execution *execution = execution_of(ensemble);
    bool done = run_order_init(order, execution);
    execution_destroy(execution);
    return done;
}

/* The one of the ensemble, new or not; NULL on a deadlock. */
static struct kept_order *order_of(struct plan_memo *memo, const struct ensemble *ensemble)
{
    for (size_t i = 0; i < ORDERS_MAX && memo->orders[i].instances; i++)
        if (is_of(&memo->orders[i], ensemble))
            return &memo->orders[i];
    struct run_order order;
    if (!find_order(&order, ensemble))
        return NULL;
    struct kept_order *place = &memo->orders[memo->next_order++ % ORDERS_MAX];
    forget_order(place);
    size_t n_peers = count_peers(ensemble);
    *place =
        (struct kept_order){.instances = copy_of(ensemble->instances, ensemble->n_instances, sizeof *place->instances),
                            .peers = copy_of(ensemble->peers, n_peers, sizeof *place->peers),
                            .n_instances = ensemble->n_instances,
                            .n_peers = n_peers,
                            .order = order};
    return place;
}

const struct run_order *plan_memo_order(struct plan_memo *memo, const struct plan *plan,
                                        const struct order_times **times)
{
    struct kept_order *kept = order_of(memo, plan->simulation->ensemble);
    if (!kept)
        return NULL;
    if (order_times_match(&kept->times, plan)) {
        order_times_take_paths(&kept->times, plan);
    } else {
        order_times_fini(&kept->times);
        order_times_init(&kept->times, &kept->order, plan);
    }
    *times = &kept->times;
    return &kept->order;
}

void plan_memo_destroy(struct plan_memo *memo)
{
    struct kept_outlook *kept, *next;
    if (!memo)
        return;
    communicators_fini(&memo->communicators);
    member_patterns_fini(&memo->patterns);
    for (size_t i = 0; i < LOCALS_MAX; i++)
        local_times_release(memo->locals[i].times);
    for (size_t i = 0; i < ORDERS_MAX; i++)
        forget_order(&memo->orders[i]);
    forget_partition(&memo->partition);
    HASH_ITER(hh, memo->outlooks, kept, next)
    {
        HASH_DEL(memo->outlooks, kept);
        outlook_fini(&kept->outlook);
        free(kept->surroundings);
        free(kept);
    }
    free(memo);
}
