/* pass_q.c - queries travel around a ring, keys stay; partial results go home at the end.
 *
 * Step i: rank r holds the queries of rank r - i, attends them with its own keys, keeps the partial result, and passes
 * the queries on to r + 1. After P - 1 exchanges each rank has a partial result of every other's queries; one
 * all-to-all returns them, and their owner merges them. Bytes sent per rank when all is visible: (P-1) Q around the
 * ring, (P-1) (Q + L) home, L being a number a row and head; a ring of keys sends (P-1) KV. So few new tokens on a long
 * cached prefix make queries the smaller load: both ways it is 2 T Hq against 2 (T + Pc) Hk, T new and Pc cached tokens
 * (the return included; the ring alone, which kernels can hide, T Hq). But the return is exposed, and the partial
 * results of all others are held until then.
 *
 * Partial results in which nothing is seen are neither computed nor returned. With skip = transfer, queries travel as
 * far as the last rank that they see anything of.
 *
 * Decoding, a rank's queries are those of its batch items, all ranks' of the same rows; a rank without items passes on
 * those of others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/collective.h"
#include "models/schedule/algorithms/ring_pass.h"
#include "models/schedule/algorithms/rotation.h"
#include "models/schedule/mask.h"

struct pass_q {
    struct builder *b;
    struct rotation received; /* queries of others, unless dealt out by item */
    uint32_t *partials;       /* [owner]: of its queries with the own keys; NO_BUFFER: nothing is seen */
};

static bool by_item(const struct builder *b)
{
    return b->schedule->queries == QUERIES_BY_ITEM;
}

/* The queries of `owner` that see something of the keys of `holder`; count 0: none. Those dealt out by item all or
 * none: they are few, and their owner's own keys may see nothing of them, so the first result to be merged, which must
 * be of all rows, may be any. */
static struct block attended(const struct builder *b, uint32_t owner, uint32_t holder)
{
    const struct schedule *schedule = b->schedule;
    struct block queries = circle_queries(&b->circle, owner), keys = circle_keys(&b->circle, holder), seeing = queries;
    if (!circle_attends(&b->circle, queries, keys))
        return (struct block){queries.owner, 0, 0};
    if (by_item(b) || schedule->experiment->skip == SKIP_NONE)
        return queries;
    mask_trim(&schedule->experiment->mask, &schedule->sharding, &seeing, &keys);
    return seeing;
}

/* Steps from `owner` to the last rank that needs its queries. */
static uint32_t reach_of(const struct builder *b, uint32_t owner)
{
    uint32_t steps = b->ranks - 1;
    if (circle_queries(&b->circle, owner).count == 0)
        return 0;
    while (steps > 0 && b->schedule->experiment->skip == SKIP_TRANSFER &&
           attended(b, owner, circle_ahead(&b->circle, owner, steps)).count == 0)
        steps--;
    return steps;
}

static uint32_t received_buffer(struct pass_q *x, uint32_t owner)
{
    struct builder *b = x->b;
    if (!by_item(b))
        return rotation_take(&x->received);
    char name[40]; /* of each owner's own items: no other's queries fit in */
    snprintf(name, sizeof name, "q %u", owner);
    return builder_buffer_block(b, name, TENSOR_Q, b->model, ROLE_RECEIVED, circle_queries(&b->circle, owner),
                                schedule_query_lanes(b->schedule, owner));
}

/* Passes on the queries of the step before, in buffer `held`, and receives those of `step`. Returns their buffer. */
static uint32_t exchange(struct pass_q *x, uint32_t step, uint32_t held)
{
    struct builder *b = x->b;
    uint32_t leaving = builder_back(b, step - 1), arriving = builder_back(b, step);
    uint32_t into = NO_BUFFER, group = program_new_group(b->program);
    if (reach_of(b, leaving) >= step)
        builder_send(b, b->exchange, group, TRAFFIC_OTHER, held, builder_ahead(b, 1),
                     circle_queries(&b->circle, leaving));
    if (reach_of(b, arriving) >= step) {
        into = received_buffer(x, arriving);
        builder_receive(b, b->exchange, group, TRAFFIC_OTHER, into, builder_back(b, 1),
                        circle_queries(&b->circle, arriving));
    }
    return into;
}

/* Attends the queries of `owner`, held in `held`, with the own keys. */
static void attend_for(struct pass_q *x, uint32_t owner, uint32_t held)
{
    struct builder *b = x->b;
    struct block queries = attended(b, owner, b->rank), rest = queries, keys = circle_keys(&b->circle, b->rank);
    if (queries.count == 0)
        return;
    mask_trim(&b->schedule->experiment->mask, &b->schedule->sharding, &rest, &keys);
    struct attention a = {.q = queries,
                          .k = keys,
                          .lanes = schedule_query_lanes(b->schedule, owner),
                          .stream = STREAM_COMPUTE,
                          .q_buffer = held,
                          .kv = &b->kv,
                          .n_kv = 1};
    char name[40];
    snprintf(name, sizeof name, "partial %u", owner);
    x->partials[owner] = builder_buffer_block(b, name, TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, queries, a.lanes);
    builder_add_attend(b, &a, &x->partials[owner], 1);
}

/* The queries go round; whoever holds them attends them. */
static void pass_around(struct pass_q *x)
{
    struct builder *b = x->b;
    uint32_t held = b->q;
    for (uint32_t step = 0; step < b->ranks; step++) {
        uint32_t next = step + 1 < b->ranks ? exchange(x, step + 1, held) : NO_BUFFER;
        if (step == 0)
            builder_attend(b, circle_keys(&b->circle, b->rank), &b->kv, 1);
        else if (held != NO_BUFFER)
            attend_for(x, builder_back(b, step), held);
        held = next;
    }
}

/* What rank `from` returns to rank `to`. */
static struct piece returned_piece(const void *context, uint32_t from, uint32_t to)
{
    const struct builder *b = context;
    return (struct piece){attended(b, to, from), schedule_query_lanes(b->schedule, to)};
}

/* The partial results go home, and are merged there. */
static void go_home(struct pass_q *x)
{
    struct builder *b = x->b;
    struct team team = team_of_all(b);
    struct slot *out = memory_zeroed(2 * (size_t)b->ranks, sizeof *out), *in = out + b->ranks;
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        char name[40];
        out[rank] = (struct slot){x->partials[rank], attended(b, rank, b->rank)};
        in[rank] = (struct slot){NO_BUFFER, attended(b, b->rank, rank)};
        if (rank == b->rank || in[rank].block.count == 0)
            continue;
        snprintf(name, sizeof name, "returned %u", rank);
        in[rank].buffer =
            builder_buffer_block(b, name, TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, in[rank].block, b->lanes);
    }
    const struct pieces pieces = {returned_piece, b, TENSOR_PARTIAL, b->output};
    collective_all_to_all(b, b->exchange, TRAFFIC_OTHER, &team, out, in, &pieces);
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        if (in[rank].buffer == NO_BUFFER)
            continue;
        builder_on_queries(b, OP_MERGE, STREAM_COMPUTE, in[rank].block, b->lanes,
                           (uint32_t[]){in[rank].buffer, b->state}, b->started ? 2 : 1, &b->state, 1);
        b->started = true;
    }
    team_fini(&team);
    free(out);
}

/* Partial results of the own queries, of which one that is made elsewhere counts as several: it is to be merged. */
static uint32_t count_attends(const struct builder *b)
{
    uint32_t attends = 0;
    for (uint32_t rank = 0; rank < b->ranks && attends < 2; rank++)
        if (attended(b, b->rank, rank).count)
            attends += rank == b->rank ? 1 : 2;
    return attends;
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct pass_q x = {.b = &b, .partials = memory_zeroed(b.ranks, sizeof *x.partials)};
    struct block room = {0, 0, 0};
    uint32_t arrivals = 0;
    for (uint32_t rank = 0; rank < b.ranks; rank++) {
        x.partials[rank] = NO_BUFFER;
        struct block queries = circle_queries(&b.circle, rank);
        uint32_t away = circle_back(&b.circle, b.rank, rank); /* steps from it to here */
        if (rank == b.rank || reach_of(&b, rank) < away)
            continue;
        arrivals++;
        room = block_cover(room, queries);
    }
    rotation_init(&x.received, &b, "q", TENSOR_Q, b.model, ROLE_RECEIVED, room,
                  rotation_count(&b, by_item(&b) ? 0 : arrivals));

    builder_begin(&b, PHASE_FORWARD, count_attends(&b));
    pass_around(&x);
    if (b.ranks > 1)
        go_home(&x);
    builder_end(&b, PHASE_FORWARD);
    program_end_phase(program, PHASE_FORWARD);
    rotation_fini(&x.received);
    free(x.partials);
}

static const char *no_effect(const struct schedule *schedule, enum algorithm_key key)
{
    bool own_buffers = key == USES_BUFFERS && schedule->queries == QUERIES_BY_ITEM; /* one for each owner's items */
    return own_buffers ? "and fewer new_tokens than ranks" : NULL;
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    return schedule->queries == QUERIES_BY_ITEM || ring_pass_check(schedule, schedule->ranks, diag);
}

const struct algorithm_ops algorithm_pass_q = {
    .name = "pass-q",
    .summary = "queries travel around a ring and keys stay; an all-to-all returns partial results",
    .constraint = "pass = forward; buffers >= 2 on more than two ranks, unless decoding",
    .uses = USES_BUFFERS | USES_SKIP_TRANSFER | USES_COLLECTIVE | USES_OVERLAP,
    .can = CAN_PREFILL | CAN_DECODE,
    .moves_queries = true,
    .no_effect = no_effect,
    .check = check,
    .build = build,
};
