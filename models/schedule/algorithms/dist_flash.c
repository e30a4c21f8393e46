/* dist_flash.c - DistFlashAttn: ranks that would have nothing to do attend for those that have too much.
 *
 * Under the causal mask with contiguous shards, rank 0 sees one block and the last rank P. A rank may attend a block
 * for another: it takes that one's queries, uses its own keys, and returns the partial result, which its owner merges.
 * Which blocks, the distance t = (b - a) mod P from the keys of a to the queries of b says:
 *   t <= P/2   b fetches K and V of a, at step t
 *   t > P/2    a helps b at step P - t: gets its queries, returns O and LSE
 * So at step t rank r deals with rank r - t alone, fetching its keys, attending its queries, or both, as far as there
 * is something to see; and serves rank r + t. Under the causal mask exactly one of both is needed: the paper's
 * algorithm. The rule holds for every mask, sharding and P. Nobody helps at t = P/2 (even P), where both ends fetch
 * instead of doing the same block twice: under the causal mask half of the ranks then idle. Odd P has no such step and
 * is perfectly balanced.
 *
 * In units of half a shard's square (the diagonal block is one, any other two), the causal forward pass has P^2 of work
 * and takes P + 1 steps of it for even P, P for odd: faster than one rank by P^2/(P+1), or P. A ring takes 2P - 1.
 *
 * Only rows that see, or are seen by, something at the other end move, and nothing else ever does: schedule.skip has
 * nothing to choose. The fetch for the next step is posted before the kernels of this one; results return on the stream
 * of gradients and are merged behind the kernels of the step after.
 *
 * Per helped block: forward Q there, Q + L back (Q: queries of a shard, L: a number a row and head); backward Q, dO,
 * LSE and delta there, dQ back: 3Q + 2L. Sending O instead of delta, as the paper's code does, would be 4Q + L. Per
 * fetched block: KV; backward KV and dKV back.
 */
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"
#include "models/schedule/algorithms/rotation.h"
#include "models/schedule/mask.h"

/* Queries of one rank and keys of another, cut to the rows that see each other; counts 0: there are none. */
struct pair {
    struct block q, k;
};

/* What arrives for one step; NO_BUFFER where it does not. */
struct arrived {
    uint32_t kv, q, d_o, lse, delta;
};

/* What came back from the rank that a step served: of its help, and of the keys that it fetched. */
struct returned {
    uint32_t result, dkv; /* PARTIAL or dQ; NO_BUFFER: none */
    struct pair pair;
};

struct dist_flash {
    struct builder *b;
    enum phase phase;
    uint32_t steps;                         /* after the first, which is the rank's own block */
    struct rotation kv, q, d_o, lse, delta; /* arrived */
    struct rotation result_out, result_in;  /* PARTIAL or dQ, of others' queries and of own ones */
    struct rotation dkv_out, dkv_in;
    uint32_t dkv_part, dkv_sum; /* gradient of the own keys: of helped queries, and of all */
    struct returned pending;    /* on its way here, not yet added */
};

static struct pair pair_of(const struct builder *b, uint32_t queries, uint32_t keys)
{
    struct pair pair = {circle_queries(&b->circle, queries), circle_keys(&b->circle, keys)};
    if (pair.q.count == 0 || pair.k.count == 0 ||
        mask_trim(&b->schedule->experiment->mask, &b->schedule->sharding, &pair.q, &pair.k) == 0)
        pair.q.count = pair.k.count = 0;
    return pair;
}

/* What `rank` does at `step`: with keys that it fetches, and with queries that it helps. */
static struct pair fetched(const struct builder *b, uint32_t rank, uint32_t step)
{
    return pair_of(b, rank, circle_back(&b->circle, rank, step));
}

static struct pair helped(const struct builder *b, uint32_t rank, uint32_t step)
{
    if (2 * step >= b->ranks)
        return (struct pair){{rank, 0, 0}, {rank, 0, 0}};
    return pair_of(b, circle_back(&b->circle, rank, step), rank);
}

/* ---- exchange ---- */

static void send_queries(struct dist_flash *h, uint32_t group, uint32_t peer, struct block queries)
{
    struct builder *b = h->b;
    const uint32_t sent[] = {b->q, b->d_o, b->lse, b->delta};
    for (int i = 0; i < (h->phase == PHASE_FORWARD ? 1 : 4); i++)
        builder_send(b, b->exchange, group, TRAFFIC_OTHER, sent[i], peer, queries);
}

static void receive_queries(struct dist_flash *h, uint32_t group, uint32_t peer, struct block queries,
                            struct arrived *arrived)
{
    struct builder *b = h->b;
    struct rotation *from[] = {&h->q, &h->d_o, &h->lse, &h->delta};
    uint32_t *into[] = {&arrived->q, &arrived->d_o, &arrived->lse, &arrived->delta};
    for (int i = 0; i < (h->phase == PHASE_FORWARD ? 1 : 4); i++) {
        *into[i] = rotation_take(from[i]);
        builder_receive(b, b->exchange, group, TRAFFIC_OTHER, *into[i], peer, queries);
    }
}

/* Serves rank r + step and gets what this rank needs of rank r - step. */
static struct arrived exchange(struct dist_flash *h, uint32_t step)
{
    struct builder *b = h->b;
    struct arrived arrived = {NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER};
    enum traffic traffic = h->phase == PHASE_FORWARD ? TRAFFIC_FORWARD_KV : TRAFFIC_REPLAY_KV;
    uint32_t group = program_new_group(b->program), back = builder_back(b, step), ahead = builder_ahead(b, step);
    struct pair theirs = fetched(b, ahead, step), given = helped(b, ahead, step);
    if (theirs.k.count)
        builder_send(b, b->exchange, group, traffic, b->kv, ahead, theirs.k);
    if (given.q.count)
        send_queries(h, group, ahead, given.q);
    struct pair mine = fetched(b, b->rank, step), taken = helped(b, b->rank, step);
    if (mine.k.count) {
        arrived.kv = rotation_take(&h->kv);
        builder_receive(b, b->exchange, group, traffic, arrived.kv, back, mine.k);
    }
    if (taken.q.count)
        receive_queries(h, group, back, taken.q, &arrived);
    return arrived;
}

/* ---- one step ---- */

/* Attends the other's queries with the own keys. Returns what is to be sent back. */
static uint32_t help(struct dist_flash *h, struct pair pair, struct arrived arrived)
{
    struct builder *b = h->b;
    uint32_t result = rotation_take(&h->result_out);
    struct attention a = {.q = pair.q,
                          .k = pair.k,
                          .lanes = b->lanes,
                          .stream = STREAM_COMPUTE,
                          .q_buffer = arrived.q,
                          .kv = &b->kv,
                          .n_kv = 1};
    if (h->phase == PHASE_FORWARD) {
        builder_add_attend(b, &a, &result, 1);
        return result;
    }
    builder_add_attend_backward(b, &a, arrived.d_o, arrived.lse, arrived.delta, result, &h->dkv_part);
    builder_accumulate(b, STREAM_COMPUTE, h->dkv_sum, h->dkv_part, pair.k, false);
    return result;
}

/* Attends fetched keys. Returns the gradient that is to be sent back, NO_BUFFER forward. */
static uint32_t attend_fetched(struct dist_flash *h, struct pair pair, struct arrived arrived)
{
    if (h->phase == PHASE_FORWARD) {
        builder_attend(h->b, pair.k, &arrived.kv, 1);
        return NO_BUFFER;
    }
    uint32_t dkv = rotation_take(&h->dkv_out);
    builder_attend_backward(h->b, pair.k, &arrived.kv, 1, &dkv, true);
    return dkv;
}

static void add_pending(struct dist_flash *h)
{
    struct builder *b = h->b;
    bool forward = h->phase == PHASE_FORWARD;
    uint32_t sum = forward ? b->state : b->dq_sum;
    if (h->pending.result != NO_BUFFER)
        builder_on_queries(b, forward ? OP_MERGE : OP_ACCUMULATE, STREAM_COMPUTE, h->pending.pair.q, b->lanes,
                           (uint32_t[]){h->pending.result, sum}, 2, &sum, 1);
    if (h->pending.dkv != NO_BUFFER)
        builder_accumulate(b, STREAM_COMPUTE, h->dkv_sum, h->pending.dkv, h->pending.pair.k, false);
    h->pending.result = h->pending.dkv = NO_BUFFER;
}

/* Sends back what this step made for rank r - step, and awaits what rank r + step made for this one. */
static void return_results(struct dist_flash *h, uint32_t step, struct pair taken, uint32_t result, struct pair mine,
                           uint32_t dkv)
{
    struct builder *b = h->b;
    bool forward = h->phase == PHASE_FORWARD;
    enum traffic traffic = forward ? TRAFFIC_OTHER : TRAFFIC_GRADIENT;
    uint32_t group = program_new_group(b->program), back = builder_back(b, step), ahead = builder_ahead(b, step);
    if (result != NO_BUFFER)
        builder_send(b, b->returns, group, traffic, result, back, taken.q);
    if (dkv != NO_BUFFER)
        builder_send(b, b->returns, group, traffic, dkv, back, mine.k);
    h->pending.pair.q = helped(b, ahead, step).q;
    h->pending.pair.k = fetched(b, ahead, step).k;
    if (h->pending.pair.q.count) {
        h->pending.result = rotation_take(&h->result_in);
        builder_receive(b, b->returns, group, traffic, h->pending.result, ahead, h->pending.pair.q);
    }
    if (h->pending.pair.k.count && !forward) {
        h->pending.dkv = rotation_take(&h->dkv_in);
        builder_receive(b, b->returns, group, traffic, h->pending.dkv, ahead, h->pending.pair.k);
    }
}

static void step_with(struct dist_flash *h, uint32_t step, struct arrived arrived)
{
    struct pair taken = helped(h->b, h->b->rank, step), mine = fetched(h->b, h->b->rank, step);
    uint32_t result = arrived.q == NO_BUFFER ? NO_BUFFER : help(h, taken, arrived);
    uint32_t dkv = arrived.kv == NO_BUFFER ? NO_BUFFER : attend_fetched(h, mine, arrived);
    add_pending(h);
    return_results(h, step, taken, result, mine, dkv);
}

/* ---- phases ---- */

/* How many blocks of a kind there will be, and the rows that a buffer for them has room for. */
struct need {
    uint32_t uses;
    struct block room;
};

static void need_block(struct need *need, struct block block)
{
    if (block.count == 0)
        return;
    need->uses++;
    need->room = block_cover(need->room, block);
}

/* Of all steps: keys fetched, queries helped; own queries that others help, own keys that they fetch. */
struct needs {
    struct need keys, queries, own_queries, own_keys;
};

static struct needs needs_of(const struct dist_flash *h)
{
    const struct builder *b = h->b;
    struct needs needs = {.keys.uses = 0};
    for (uint32_t step = 1; step <= h->steps; step++) {
        need_block(&needs.keys, fetched(b, b->rank, step).k);
        need_block(&needs.queries, helped(b, b->rank, step).q);
        need_block(&needs.own_queries, helped(b, builder_ahead(b, step), step).q);
        need_block(&needs.own_keys, fetched(b, builder_ahead(b, step), step).k);
    }
    return needs;
}

static void rotate(struct dist_flash *h, struct rotation *rotation, const char *name, enum tensor tensor,
                   enum dtype dtype, enum buffer_role role, const struct need *need)
{
    rotation_init(rotation, h->b, name, tensor, dtype, role, need->room, rotation_count(h->b, need->uses));
}

static void add_forward_buffers(struct dist_flash *h, const struct needs *needs)
{
    struct builder *b = h->b;
    rotate(h, &h->kv, "kv", TENSOR_KV, b->model, ROLE_RECEIVED, &needs->keys);
    rotate(h, &h->q, "q", TENSOR_Q, b->model, ROLE_RECEIVED, &needs->queries);
    rotate(h, &h->result_out, "partial out", TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, &needs->queries);
    rotate(h, &h->result_in, "partial in", TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, &needs->own_queries);
}

static void add_backward_buffers(struct dist_flash *h, const struct needs *needs)
{
    struct builder *b = h->b;
    struct block own = circle_keys(&b->circle, b->rank);
    rotation_fini(&h->result_out);
    rotation_fini(&h->result_in);
    rotate(h, &h->d_o, "do", TENSOR_DO, b->output, ROLE_RECEIVED, &needs->queries);
    rotate(h, &h->lse, "lse", TENSOR_LSE, b->accumulator, ROLE_RECEIVED, &needs->queries);
    rotate(h, &h->delta, "delta", TENSOR_DELTA, b->accumulator, ROLE_RECEIVED, &needs->queries);
    rotate(h, &h->result_out, "dq out", TENSOR_DQ, b->output, ROLE_WORKSPACE, &needs->queries);
    rotate(h, &h->result_in, "dq in", TENSOR_DQ, b->output, ROLE_WORKSPACE, &needs->own_queries);
    rotate(h, &h->dkv_out, "dkv out", TENSOR_DKV, b->gradient, ROLE_WORKSPACE, &needs->keys);
    rotate(h, &h->dkv_in, "dkv in", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, &needs->own_keys);
    if (needs->queries.uses)
        h->dkv_part = builder_buffer(b, "dkv part", TENSOR_DKV, b->gradient, ROLE_WORKSPACE, own.count);
    bool summed = needs->queries.uses || needs->own_keys.uses;
    h->dkv_sum = summed ? builder_buffer(b, "dkv sum", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, own.count) : b->dkv;
}

static void walk(struct dist_flash *h)
{
    struct builder *b = h->b;
    struct block own = circle_keys(&b->circle, b->rank);
    bool early = b->schedule->experiment->buffers > 1; /* else a block is used before the next takes its place */
    struct arrived now, next = {NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER};
    h->pending = (struct returned){.result = NO_BUFFER, .dkv = NO_BUFFER};
    if (h->steps)
        next = exchange(h, 1);
    if (own.count && h->phase == PHASE_FORWARD)
        builder_attend(b, own, &b->kv, 1);
    else if (own.count)
        builder_attend_backward(b, own, &b->kv, 1, &h->dkv_sum, true);
    for (uint32_t step = 1; step <= h->steps; step++) {
        now = next;
        if (step < h->steps && early)
            next = exchange(h, step + 1);
        step_with(h, step, now);
        if (step < h->steps && !early)
            next = exchange(h, step + 1);
    }
    add_pending(h);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct dist_flash h = {.b = &b, .phase = PHASE_FORWARD, .steps = b.ranks / 2};
    struct needs needs = needs_of(&h);
    uint32_t attends = (b.queries.count > 0) + needs.keys.uses + needs.own_queries.uses;

    add_forward_buffers(&h, &needs);
    builder_begin(&b, PHASE_FORWARD, attends);
    walk(&h);
    builder_end(&b, PHASE_FORWARD);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        h.phase = PHASE_BACKWARD;
        add_backward_buffers(&h, &needs);
        builder_begin(&b, PHASE_BACKWARD, attends);
        walk(&h);
        if (h.dkv_sum != b.dkv)
            builder_cast(&b, STREAM_COMPUTE, b.dkv, h.dkv_sum, circle_keys(&b.circle, b.rank));
        builder_end(&b, PHASE_BACKWARD);
        program_end_phase(program, PHASE_BACKWARD);
    }
    struct rotation *rotations[] = {&h.kv,         &h.q,         &h.d_o,     &h.lse,   &h.delta,
                                    &h.result_out, &h.result_in, &h.dkv_out, &h.dkv_in};
    for (size_t i = 0; i < sizeof rotations / sizeof *rotations; i++)
        rotation_fini(rotations[i]);
}

const struct algorithm_ops algorithm_dist_flash = {
    .name = "dist-flash",
    .summary = "ranks with little to attend help others: take queries, return partial results (DistFlashAttn)",
    .uses = USES_BUFFERS | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL,
    .turns = TURNS,
    .moves_queries = true,
    .skips_always = true,
    .build = build,
};
