/* plan.c - one pass over each program; a path is made once for every pair of ranks that exchange messages. */
#include "sim/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

#define PROBLEMS_SHOWN 8

/* Two CP ranks, the first of which sends to the second. */
struct pair {
    uint32_t from, to;
};

struct pairs {
    struct pair *items;
    uint32_t count, capacity;
};

/* Fills the steps of program `rank`. `pair_of_peer` is scratch: for each peer the pair last seen with it; a pair of an
 * earlier program has a lower index than `first`, so nothing needs to be cleared. */
static void plan_program(struct plan *plan, uint32_t rank, struct pairs *pairs, uint32_t *pair_of_peer)
{
    const struct program *program = &plan->simulation->programs[rank];
    union step *steps = memory_zeroed(program->n_ops, sizeof *steps);
    uint32_t first = pairs->count;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind == OP_SEND) {
            uint32_t *pair = &pair_of_peer[op->peer];
            if (*pair == UINT32_MAX || *pair < first) {
                memory_grow(pairs->items, pairs->count, pairs->capacity);
                pairs->items[pairs->count] = (struct pair){rank, op->peer};
                *pair = pairs->count++;
            }
            steps[i].path = *pair;
        } else if (op->kind != OP_RECEIVE) {
            steps[i].seconds = cost_op_seconds(plan->simulation->cost, program, op);
            assert(steps[i].seconds >= 0 && isfinite(steps[i].seconds));
        }
    }
    plan->steps[rank] = steps;
}

static bool plan_paths(struct plan *plan, const struct pairs *pairs, struct diagnostics *diag)
{
    const struct simulation *simulation = plan->simulation;
    uint64_t problems = 0;
    plan->paths_per_group = pairs->count;
    plan->n_paths = (size_t)simulation->placement->groups * pairs->count;
    plan->paths = memory_zeroed(plan->n_paths, sizeof *plan->paths);
    for (size_t i = 0; i < plan->n_paths; i++) {
        uint32_t group = (uint32_t)(i / pairs->count);
        struct pair pair = pairs->items[i % pairs->count];
        struct path *path = &plan->paths[i];
        struct diagnostics why;
        diagnostics_init(&why);
        path->from = placement_gpu(simulation->placement, group, pair.from);
        path->to = placement_gpu(simulation->placement, group, pair.to);
        route_init(&path->route);
        if (!topology_route(simulation->cost->topology, path->from, path->to, &path->route, &why) &&
            problems++ < PROBLEMS_SHOWN)
            diagnostics_add(diag, "rank %" PRIu32 " of group %" PRIu32 " cannot send to rank %" PRIu32 ": %s",
                            pair.from, group, pair.to, why.lines[0]);
        diagnostics_fini(&why);
    }
    if (problems > PROBLEMS_SHOWN)
        diagnostics_add(diag, "%" PRIu64 " pairs of ranks cannot send; the first %d are listed", problems,
                        PROBLEMS_SHOWN);
    return problems == 0;
}

bool plan_init(struct plan *plan, const struct simulation *simulation, struct diagnostics *diag)
{
    uint32_t ranks = simulation->placement->cp;
    *plan = (struct plan){.simulation = simulation};
    plan->steps = memory_zeroed(ranks, sizeof *plan->steps);
    struct pairs pairs = {0};
    uint32_t *pair_of_peer = memory_zeroed(ranks, sizeof *pair_of_peer);
    memset(pair_of_peer, 0xff, ranks * sizeof *pair_of_peer);
    for (uint32_t r = 0; r < ranks; r++)
        plan_program(plan, r, &pairs, pair_of_peer);
    bool good = plan_paths(plan, &pairs, diag);
    free(pair_of_peer);
    free(pairs.items);
    if (!good)
        plan_fini(plan);
    return good;
}

void plan_fini(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_paths; i++)
        route_fini(&plan->paths[i].route);
    free(plan->paths);
    for (uint32_t r = 0; plan->steps && r < plan->simulation->placement->cp; r++)
        free(plan->steps[r]);
    free(plan->steps);
    memset(plan, 0, sizeof *plan);
}

double plan_seconds(const struct plan *plan, struct activity local)
{
    return plan->steps[local.instance % plan->simulation->placement->cp][local.op].seconds;
}

double plan_fixed_seconds(const struct plan *plan, struct activity local)
{
    return cost_op_fixed_seconds(plan->simulation->cost, plan_op(plan, local));
}

size_t plan_path(const struct plan *plan, struct activity send)
{
    uint32_t ranks = plan->simulation->placement->cp;
    return (size_t)(send.instance / ranks) * plan->paths_per_group + plan->steps[send.instance % ranks][send.op].path;
}
