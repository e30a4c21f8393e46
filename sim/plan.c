/* plan.c - one pass over each program; a path is made once for every pair of ranks that exchange messages, and
 * for every kind of message between them. */
#include "sim/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "sim/transfers.h"

#define PROBLEMS_SHOWN 8

/* Messages of one program to one peer that are alike. */
struct pair {
    uint32_t from, to;
    uint32_t op;                /* the first of them */
    uint32_t sibling;           /* an earlier pair of the same two ranks, NO_PAIR: none */
    struct transfer *transfers; /* [group of the layout] */
};

#define NO_PAIR UINT32_MAX

struct pairs {
    struct pair *items;
    uint32_t count, capacity;
};

/* What the messages of one program depend on. */
struct asked {
    const struct program *program;
    uint32_t groups;
    struct transfer *transfers; /* [group * n_ops + op] */
    const struct cost *cost;
};

static const struct transfer *transfer_of(const struct asked *asked, uint32_t group, uint32_t op)
{
    return &asked->transfers[(size_t)group * asked->program->n_ops + op];
}

static bool are_alike(const struct asked *asked, uint32_t a, uint32_t b)
{
    for (uint32_t g = 0; g < asked->groups; g++) {
        if (!transfers_equal(transfer_of(asked, g, a), transfer_of(asked, g, b)))
            return false;
    }
    return true;
}

/* The pair of send `op`. `newest`: of the pairs with its peer, NO_PAIR: none yet. */
static uint32_t pair_of(const struct asked *asked, struct pairs *pairs, uint32_t op, uint32_t *newest)
{
    for (uint32_t p = *newest; p != NO_PAIR; p = pairs->items[p].sibling) {
        if (are_alike(asked, pairs->items[p].op, op))
            return p;
    }
    memory_grow(pairs->items, pairs->count, pairs->capacity);
    struct pair *pair = &pairs->items[pairs->count];
    *pair = (struct pair){asked->program->rank, asked->program->ops[op].peer, op, *newest,
                          memory_zeroed(asked->groups, sizeof *pair->transfers)};
    for (uint32_t g = 0; g < asked->groups; g++)
        pair->transfers[g] = *transfer_of(asked, g, op);
    return *newest = pairs->count++;
}

/* Fills the steps of one program. `newest`, per peer, is scratch: NO_PAIR before and after. */
static void plan_program(struct plan *plan, const struct asked *asked, struct pairs *pairs, uint32_t *newest)
{
    const struct program *program = asked->program;
    union step *steps = memory_zeroed(program->n_ops, sizeof *steps);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind == OP_SEND) {
            steps[i].path = pair_of(asked, pairs, i, &newest[op->peer]);
        } else if (op->kind != OP_RECEIVE) {
            steps[i].seconds = cost_op_seconds(asked->cost, program, op);
            assert(steps[i].seconds >= 0 && isfinite(steps[i].seconds));
        }
    }
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind == OP_SEND)
            newest[program->ops[i].peer] = NO_PAIR;
    }
    plan->steps[program->rank] = steps;
}

static void plan_programs(struct plan *plan, struct pairs *pairs)
{
    const struct simulation *simulation = plan->simulation;
    uint32_t ranks = simulation->placement->cp, *newest = memory_zeroed(ranks, sizeof *newest);
    memset(newest, 0xff, ranks * sizeof *newest);
    struct transfers transfers;
    transfers_init(&transfers, simulation);
    struct tile_memo memo = {0};
    struct cost cost = *simulation->cost;
    cost.memo = &memo;
    for (uint32_t r = 0; r < ranks; r++) {
        const struct program *program = &simulation->programs[r];
        struct asked asked = {program, simulation->placement->groups, NULL, &cost};
        asked.transfers = memory_zeroed((size_t)asked.groups * program->n_ops + 1, sizeof *asked.transfers);
        for (uint32_t g = 0; g < asked.groups; g++)
            transfers_of(&transfers, g, r, asked.transfers + (size_t)g * program->n_ops);
        plan_program(plan, &asked, pairs, newest);
        free(asked.transfers);
    }
    transfers_fini(&transfers);
    free(newest);
}

/* An earlier way between the same two GPUs with the same rate shares its lane; others have theirs. */
static void choose_lane(struct path *paths, const struct pairs *pairs, uint32_t pair)
{
    struct path *path = &paths[pair];
    double rate = path->cost.bytes_per_s;
    for (uint32_t p = pairs->items[pair].sibling; p != NO_PAIR; p = pairs->items[p].sibling) {
        if (paths[p].cost.bytes_per_s <= rate && paths[p].cost.bytes_per_s >= rate) {
            path->lane = paths[p].lane;
            return;
        }
        path->lane = paths[p].lane >= path->lane ? paths[p].lane + 1 : path->lane;
    }
    path->opens_lane = true;
}

/* When the host has issued each operation of program `rank`; NULL when it takes no time to. */
static double *plan_issue(const struct plan *plan, uint32_t rank)
{
    const struct cost *cost = plan->simulation->cost;
    const struct program *program = &plan->simulation->programs[rank];
    double issued = 0, computed = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        issued += cost_host_seconds(cost, program, op);
        if (!op_is_message(op) && stream_computes((enum stream)op->stream))
            computed += plan->steps[rank][i].seconds;
    }
    if (issued <= 0)
        return NULL;
    double ahead = cost_synchronizes(cost) ? 0 : fmax(0, computed - issued);
    double *issue = memory_zeroed(program->n_ops, sizeof *issue);
    issued = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        issued += cost_host_seconds(cost, program, &program->ops[i]);
        issue[i] = fmax(0, issued - ahead);
    }
    return issue;
}

static bool plan_paths(struct plan *plan, const struct pairs *pairs, struct diagnostics *diag)
{
    const struct simulation *simulation = plan->simulation;
    uint64_t problems = 0;
    plan->paths_per_group = pairs->count;
    plan->n_paths = (size_t)simulation->placement->groups * pairs->count;
    plan->paths = memory_zeroed(plan->n_paths, sizeof *plan->paths);
    for (size_t i = 0; i < plan->n_paths; i++) {
        uint32_t group = (uint32_t)(i / pairs->count), number = (uint32_t)(i % pairs->count);
        const struct pair *pair = &pairs->items[number];
        struct path *path = &plan->paths[i];
        struct diagnostics why;
        diagnostics_init(&why);
        path->from = placement_gpu(simulation->placement, group, pair->from);
        path->to = placement_gpu(simulation->placement, group, pair->to);
        route_init(&path->route);
        if (!topology_route(simulation->cost->topology, path->from, path->to, &path->route, &why) &&
            problems++ < PROBLEMS_SHOWN)
            diagnostics_add(diag, "rank %" PRIu32 " of group %" PRIu32 " cannot send to rank %" PRIu32 ": %s",
                            pair->from, group, pair->to, why.lines[0]);
        diagnostics_fini(&why);
        path->cost = cost_transfer(simulation->cost, &path->route, &pair->transfers[group]);
        choose_lane(plan->paths + (size_t)group * pairs->count, pairs, number);
    }
    if (problems > PROBLEMS_SHOWN)
        diagnostics_add(diag, "%" PRIu64 " pairs of ranks cannot send; the first %d are listed", problems,
                        PROBLEMS_SHOWN);
    return problems == 0;
}

bool plan_init(struct plan *plan, const struct simulation *simulation, struct diagnostics *diag)
{
    *plan = (struct plan){.simulation = simulation};
    plan->steps = memory_zeroed(simulation->placement->cp, sizeof *plan->steps);
    struct pairs pairs = {0};
    plan_programs(plan, &pairs);
    plan->issue = memory_zeroed(simulation->placement->cp, sizeof *plan->issue);
    for (uint32_t r = 0; r < simulation->placement->cp; r++)
        plan->issue[r] = plan_issue(plan, r);
    bool good = plan_paths(plan, &pairs, diag);
    for (uint32_t p = 0; p < pairs.count; p++)
        free(pairs.items[p].transfers);
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
    for (uint32_t r = 0; plan->issue && r < plan->simulation->placement->cp; r++)
        free(plan->issue[r]);
    free(plan->issue);
    memset(plan, 0, sizeof *plan);
}

double plan_seconds(const struct plan *plan, struct activity local)
{
    return plan->steps[local.instance % plan->simulation->placement->cp][local.op].seconds;
}

double plan_fixed_seconds(const struct plan *plan, struct activity local)
{
    const struct program *program = execution_program(plan->simulation->execution, local.instance);
    return cost_op_fixed_seconds(plan->simulation->cost, program, plan_op(plan, local));
}

double plan_fill_seconds(const struct plan *plan, struct activity local)
{
    const struct program *program = execution_program(plan->simulation->execution, local.instance);
    return cost_fill_seconds(plan->simulation->cost, program, plan_op(plan, local));
}

static double issued(const struct plan *plan, struct activity end)
{
    const double *issue = plan->issue[end.instance % plan->simulation->placement->cp];
    return issue ? issue[end.op] : 0;
}

double plan_issued(const struct plan *plan, struct activity activity)
{
    if (!op_is_message(plan_op(plan, activity)))
        return issued(plan, activity);
    return fmax(issued(plan, activity), issued(plan, execution_receive_of(plan->simulation->execution, activity)));
}

uint32_t plan_sms(const struct plan *plan, struct activity send)
{
    return cost_message_sms(plan->simulation->cost, &plan->paths[plan_path(plan, send)].cost);
}

size_t plan_path(const struct plan *plan, struct activity send)
{
    uint32_t ranks = plan->simulation->placement->cp;
    return (size_t)(send.instance / ranks) * plan->paths_per_group + plan->steps[send.instance % ranks][send.op].path;
}
