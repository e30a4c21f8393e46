/* plan.c - kinds of messages per outlook, routes and rates per instance. */
#include "sim/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"
#include "sim/plan_memo.h"
#include "sim/transfers.h"

#define PROBLEMS_SHOWN 8

/* ---- instances ---- */

/* How fast the GPU of each instance is, if an override says so of any. */
static void plan_speeds(struct plan *plan)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    if (simulation->cost->topology->overrides.n_gpus == 0)
        return;
    plan->speed = memory_zeroed(ensemble->n_instances, sizeof *plan->speed);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct instance *self = &ensemble->instances[i];
        plan->speed[i] = topology_gpu_speed(simulation->cost->topology,
                                            placement_gpu(simulation->placement, self->group, self->rank));
    }
}

/* ---- outlooks ---- */

/* Where outlooks are found again by their surroundings. */
struct known_outlook {
    uint32_t index;
    uint32_t *surroundings; /* the key */
    UT_hash_handle hh;
};

/* The kinds of one outlook under way. */
struct kinds {
    struct kind_of_message *items;
    uint32_t *sibling; /* [kind]: an earlier one of the same peer; UINT32_MAX: none */
    uint32_t *newest;  /* [peer] */
    uint32_t count;
    size_t capacity, sibling_capacity;
};

static uint32_t kind_of(struct kinds *kinds, uint32_t peer, const struct transfer *transfer)
{
    for (uint32_t k = kinds->newest[peer]; k != UINT32_MAX; k = kinds->sibling[k])
        if (transfers_equal(&kinds->items[k].transfer, transfer))
            return k;
    memory_grow(kinds->items, kinds->count, kinds->capacity);
    memory_grow(kinds->sibling, kinds->count, kinds->sibling_capacity);
    kinds->items[kinds->count] = (struct kind_of_message){peer, *transfer};
    kinds->sibling[kinds->count] = kinds->newest[peer];
    return kinds->newest[peer] = kinds->count++;
}

static struct outlook make_outlook(const struct plan *plan, const struct surroundings *surroundings)
{
    struct outlook outlook = {.shape = surroundings_shape(surroundings)};
    const struct shape *shape = &plan->simulation->ensemble->shapes[outlook.shape];
    const struct program *program = shape->program;
    struct kinds kinds = {.newest = memory_zeroed(shape->messages.n_peers, sizeof *kinds.newest)};
    memset(kinds.newest, 0xff, shape->messages.n_peers * sizeof *kinds.newest);
    struct transfer *transfers = memory_zeroed(program->n_ops, sizeof *transfers);
    transfers_of(plan->simulation, surroundings, transfers);
    outlook.kind_of = memory_zeroed(program->n_ops, sizeof *outlook.kind_of);
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == OP_SEND)
            outlook.kind_of[i] = kind_of(&kinds, shape->messages.peer_of[i], &transfers[i]);
    outlook.kinds = kinds.items;
    outlook.n_kinds = kinds.count;
    free(transfers);
    free(kinds.sibling);
    free(kinds.newest);
    return outlook;
}

/* One that a plan before has made, or a new one, which plans to come may find. */
static struct outlook find_outlook(const struct plan *plan, const struct surroundings *surroundings)
{
    struct plan_memo *memo = plan->simulation->memo;
    struct outlook outlook;
    if (memo && plan_memo_find_outlook(memo, surroundings, &outlook))
        return outlook;
    outlook = make_outlook(plan, surroundings);
    if (memo)
        plan_memo_keep_outlook(memo, surroundings, plan->simulation->ensemble, &outlook);
    return outlook;
}

static void plan_outlooks(struct plan *plan)
{
    const struct ensemble *ensemble = plan->simulation->ensemble;
    struct neighbourhood neighbourhood;
    struct surroundings surroundings = {0};
    struct known_outlook *known = NULL, *found, *next;
    size_t capacity = 0;
    neighbourhood_init(&neighbourhood, plan->simulation);
    plan->outlook_of = memory_zeroed(ensemble->n_instances, sizeof *plan->outlook_of);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        surroundings_of(&neighbourhood, i, &surroundings);
        size_t size = surroundings.count * sizeof *surroundings.numbers;
        HASH_FIND(hh, known, surroundings.numbers, size, found);
        if (!found) {
            found = memory_zeroed(1, sizeof *found);
            found->index = plan->n_outlooks;
            found->surroundings = memory_zeroed(1, size);
            memcpy(found->surroundings, surroundings.numbers, size);
            HASH_ADD_KEYPTR(hh, known, found->surroundings, size, found);
            memory_grow(plan->outlooks, plan->n_outlooks, capacity);
            plan->outlooks[plan->n_outlooks++] = find_outlook(plan, &surroundings);
        }
        plan->outlook_of[i] = found->index;
    }
    HASH_ITER(hh, known, found, next)
    {
        HASH_DEL(known, found);
        free(found->surroundings);
        free(found);
    }
    free(surroundings.numbers);
    neighbourhood_fini(&neighbourhood);
}

/* A class has the outlook of the rank that it was made from. */
static void borrow_outlooks(struct plan *plan, const struct plan *whole)
{
    const struct ensemble *ensemble = plan->simulation->ensemble;
    plan->n_outlooks = whole->n_outlooks;
    plan->outlooks = memory_zeroed(whole->n_outlooks, sizeof *plan->outlooks);
    for (uint32_t o = 0; o < whole->n_outlooks; o++) {
        plan->outlooks[o] = whole->outlooks[o];
        plan->outlooks[o].borrowed = true;
    }
    plan->outlook_of = memory_zeroed(ensemble->n_instances, sizeof *plan->outlook_of);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct instance *self = &ensemble->instances[i];
        plan->outlook_of[i] = whole->outlook_of[(size_t)self->group * ensemble->ranks + self->rank];
    }
}

/* ---- ways and paths ---- */

static void take_hops(struct plan *plan, uint32_t way)
{
    const struct folding *folding = plan->simulation->folding;
    if (!folding)
        return;
    plan->ways[way].hops = folding->hops + folding->first_hop[way];
    plan->ways[way].n_hops = folding->first_hop[way + 1] - folding->first_hop[way];
}

/* The route of instance `i` to its peer `p`, if it has none yet. */
static bool find_way(struct plan *plan, uint32_t i, uint32_t p, struct diagnostics *why)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    const struct instance *self = &ensemble->instances[i];
    uint32_t way = self->first_peer + p;
    struct route *route = &plan->ways[way].route;
    if (route->n_links > 0)
        return true;
    struct rank_place peer = ensemble_peer_place(ensemble, i, ensemble->shapes[self->shape].messages.peers[p]);
    take_hops(plan, way);
    return topology_route(simulation->cost->topology, placement_gpu(simulation->placement, self->group, self->rank),
                          placement_gpu(simulation->placement, peer.group, peer.rank), route, why);
}

/* Lanes opened so far from one instance: to whom, over which way, at which rate. */
struct lanes_open {
    uint32_t *newest;  /* [instance]: the newest path to it; UINT32_MAX: none. All so between two instances */
    uint32_t *earlier; /* [kind]: the path to the same instance before; UINT32_MAX: none */
};

/* An earlier path of the same way and rate shares its lane; others have theirs. */
static void choose_lane(struct path *paths, uint32_t kind, uint32_t target, struct lanes_open *open)
{
    struct path *path = &paths[kind];
    double rate = path->cost.bytes_per_s;
    path->opens_lane = true;
    open->earlier[kind] = open->newest[target];
    open->newest[target] = kind;
    for (uint32_t k = open->earlier[kind]; k != UINT32_MAX; k = open->earlier[k]) {
        if (paths[k].way == path->way && paths[k].cost.bytes_per_s <= rate && paths[k].cost.bytes_per_s >= rate) {
            path->lane = paths[k].lane;
            path->opens_lane = false;
            return;
        }
        path->lane = paths[k].lane >= path->lane ? paths[k].lane + 1 : path->lane;
    }
}

static void plan_instance(struct plan *plan, uint32_t i, struct lanes_open *open, uint64_t *problems,
                          struct diagnostics *diag)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    const struct instance *self = &ensemble->instances[i];
    const struct outlook *outlook = &plan->outlooks[plan->outlook_of[i]];
    struct path *paths = plan->paths + plan->first_path[i];
    for (uint32_t k = 0; k < outlook->n_kinds; k++) {
        uint32_t p = outlook->kinds[k].peer;
        struct diagnostics why;
        diagnostics_init(&why);
        if (!find_way(plan, i, p, &why) && (*problems)++ < PROBLEMS_SHOWN) {
            char peer[64];
            ensemble_describe_peer(ensemble, i, ensemble->shapes[self->shape].messages.peers[p], peer, sizeof peer);
            diagnostics_add(diag, "rank %" PRIu32 " of group %" PRIu32 " cannot send to %s: %s", self->rank,
                            self->group, peer, why.lines[0]);
        }
        diagnostics_fini(&why);
        paths[k].way = self->first_peer + p;
        paths[k].cost = cost_transfer(simulation->cost, &plan->ways[paths[k].way].route, &outlook->kinds[k].transfer);
        paths[k].factor = cost_message_factor(simulation->cost, &paths[k].cost);
        paths[k].sms = cost_message_sms(simulation->cost, &paths[k].cost);
        choose_lane(paths, k, ensemble->peers[paths[k].way].instance, open);
    }
    for (uint32_t k = 0; k < outlook->n_kinds; k++)
        open->newest[ensemble->peers[paths[k].way].instance] = UINT32_MAX;
}

static bool plan_paths(struct plan *plan, struct diagnostics *diag)
{
    const struct ensemble *ensemble = plan->simulation->ensemble;
    const struct instance *last = &ensemble->instances[ensemble->n_instances - 1];
    uint64_t problems = 0;
    uint32_t kinds_most = 0;
    plan->n_ways = (size_t)last->first_peer + ensemble->shapes[last->shape].messages.n_peers;
    plan->ways = memory_zeroed(plan->n_ways, sizeof *plan->ways);
    plan->first_path = memory_zeroed((size_t)ensemble->n_instances + 1, sizeof *plan->first_path);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        uint32_t n_kinds = plan->outlooks[plan->outlook_of[i]].n_kinds;
        plan->first_path[i + 1] = plan->first_path[i] + n_kinds;
        kinds_most = n_kinds > kinds_most ? n_kinds : kinds_most;
    }
    plan->paths = memory_zeroed(plan->first_path[ensemble->n_instances], sizeof *plan->paths);
    struct lanes_open open = {.newest = memory_zeroed(ensemble->n_instances, sizeof *open.newest),
                              .earlier = memory_zeroed(kinds_most, sizeof *open.earlier)};
    memset(open.newest, 0xff, ensemble->n_instances * sizeof *open.newest);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        plan_instance(plan, i, &open, &problems, diag);
    free(open.newest);
    free(open.earlier);
    if (problems > PROBLEMS_SHOWN)
        diagnostics_add(diag, "%" PRIu64 " pairs of ranks cannot send; the first %d are listed", problems,
                        PROBLEMS_SHOWN);
    return problems == 0;
}

bool plan_init(struct plan *plan, const struct simulation *simulation, struct diagnostics *diag)
{
    *plan = (struct plan){.simulation = simulation};
    plan->locals = simulation->memo ? plan_memo_locals(simulation->memo, simulation->ensemble, simulation->cost)
                                    : local_times_create(simulation->ensemble, simulation->cost);
    plan_speeds(plan);
    if (simulation->whole)
        borrow_outlooks(plan, simulation->whole);
    else
        plan_outlooks(plan);
    if (plan_paths(plan, diag))
        return true;
    plan_fini(plan);
    return false;
}

void outlook_fini(struct outlook *outlook)
{
    free(outlook->kinds);
    free(outlook->kind_of);
    *outlook = (struct outlook){0};
}

void plan_fini(struct plan *plan)
{
    for (size_t w = 0; w < plan->n_ways; w++)
        route_fini(&plan->ways[w].route);
    for (uint32_t o = 0; o < plan->n_outlooks; o++)
        if (!plan->outlooks[o].borrowed)
            outlook_fini(&plan->outlooks[o]);
    local_times_release(plan->locals);
    free(plan->outlooks);
    free(plan->outlook_of);
    free(plan->speed);
    free(plan->ways);
    free(plan->paths);
    free(plan->first_path);
    memset(plan, 0, sizeof *plan);
}

/* ---- what engines ask ---- */

static const struct program *program_of(const struct plan *plan, struct activity activity)
{
    return ensemble_program(plan->simulation->ensemble, activity.instance);
}

double plan_fixed_seconds(const struct plan *plan, struct activity local)
{
    return cost_op_fixed_seconds(plan->simulation->cost, program_of(plan, local), plan_op(plan, local)) /
           plan_speed(plan, local.instance);
}

double plan_fill_seconds(const struct plan *plan, struct activity local)
{
    return cost_fill_seconds(plan->simulation->cost, program_of(plan, local), plan_op(plan, local)) /
           plan_speed(plan, local.instance);
}

double plan_issued_at(const struct plan *plan, struct activity end)
{
    uint32_t shape = plan->simulation->ensemble->instances[end.instance].shape;
    const double *issue = plan->locals->issue[shape];
    if (!issue)
        return 0;
    double ahead =
        plan->locals->computed[shape] / plan_speed(plan, end.instance) - issue[program_of(plan, end)->n_ops - 1];
    return fmax(0, issue[end.op] - (cost_synchronizes(plan->simulation->cost) ? 0 : fmax(0, ahead)));
}

double plan_issued(const struct plan *plan, struct activity activity)
{
    if (!plan->locals->issues)
        return 0;
    if (!op_is_message(plan_op(plan, activity)))
        return plan_issued_at(plan, activity);
    return fmax(plan_issued_at(plan, activity),
                plan_issued_at(plan, ensemble_other_end(plan->simulation->ensemble, activity)));
}
