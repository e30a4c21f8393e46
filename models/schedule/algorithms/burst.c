/* burst.c - BurstAttention: forward a ring; backward, not keys but queries travel.
 *
 * Backward, K, V and their gradients stay where they are. What goes round is all that a row of queries needs there, {Q,
 * dO, LSE, delta}, and one step behind it, in the other stream, the dQ to which every rank adds its share; from the
 * last one it goes home. With Q, L the bytes of a shard's queries and of its LSE (fp32), in place of (P-1) KV + P dKV a
 * rank sends (P-1) (2Q + 2L) + P dQ: 3Q a step instead of 2KV, which is less if there are more than 3/4 as many KV
 * heads as query heads. dQ travels in the type that `gradients` names (there, the model's); dK and dV are summed at
 * home, in the accumulator's type. Source: MayDomine/Burst-Attention with optimize_bwd_comm.
 *
 * Rows travel in blocks of kv_block in both directions; with skip = transfer, as far as the last rank with keys that
 * any of them sees, and their dQ goes home straight from there.
 */
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/growing_sum.h"
#include "models/schedule/algorithms/ring_pass.h"

/* What a block of queries needs where keys are. */
enum { PACK_Q, PACK_DO, PACK_LSE, PACK_DELTA, PACK_SIZE };

struct pack {
    uint32_t buffers[PACK_SIZE];
};

struct burst {
    struct builder *b;
    const uint32_t *reach; /* [place * blocks_max + j]: steps that block j of a place's queries travels */
    uint32_t j, blocks_max;
    bool once;          /* this rank attends a single block */
    struct pack *slots; /* received packs, in rotation */
    uint32_t n_slots, next_slot;
    uint32_t travelling[2], home; /* dQ: step i's is travelling[i % 2]; the own block's return */
    uint32_t dq_part, dkv_part;   /* one block's */
    struct growing_sum dkv;
};

static uint32_t reach_at(const struct burst *u, uint32_t step)
{
    return u->reach[(size_t)builder_back(u->b, step) * u->blocks_max + u->j];
}

/* The queries that this rank holds at `step`: as many rows as keys, in training; count 0 if they do not come so far. */
static struct block queries_at(const struct burst *u, uint32_t step)
{
    struct block block = circle_block(&u->b->circle, builder_back(u->b, step), u->j);
    if (step > reach_at(u, step))
        block.count = 0;
    return block;
}

/* Round `step`: passes on the pack of the step before and receives this step's, which it returns. */
static const struct pack *exchange(struct burst *u, uint32_t step, const struct pack *held)
{
    struct builder *b = u->b;
    struct block leaves = queries_at(u, step - 1), arrives = queries_at(u, step);
    const struct pack *slot = NULL;
    uint32_t group = program_new_group(b->program);
    if (leaves.count && step <= reach_at(u, step - 1))
        for (int i = 0; i < PACK_SIZE; i++)
            builder_send(b, b->exchange, group, TRAFFIC_OTHER, held->buffers[i], builder_ahead(b, 1), leaves);
    if (arrives.count) {
        slot = &u->slots[u->next_slot++ % u->n_slots];
        for (int i = 0; i < PACK_SIZE; i++)
            builder_receive(b, b->exchange, group, TRAFFIC_OTHER, slot->buffers[i], builder_back(b, 1), arrives);
    }
    return slot;
}

/* Round `step`: passes on the dQ of the step before, or sends it home from where its journey ends; receives this
 * step's; and the own block's, if it comes home in this round. */
static void return_gradients(struct burst *u, uint32_t step)
{
    struct builder *b = u->b;
    uint32_t group = program_new_group(b->program);
    struct block leaves = queries_at(u, step - 1), arrives = queries_at(u, step), own = queries_at(u, 0);
    if (leaves.count && reach_at(u, step - 1) > 0) {
        bool goes_home = step - 1 == reach_at(u, step - 1);
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, u->travelling[(step - 1) % 2],
                     goes_home ? builder_back(b, step - 1) : builder_ahead(b, 1), leaves);
    }
    if (step < b->ranks && arrives.count)
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, u->travelling[step % 2], builder_back(b, 1), arrives);
    if (own.count && reach_at(u, 0) > 0 && step == reach_at(u, 0) + 1) {
        uint32_t home = u->home == NO_BUFFER ? u->travelling[step % 2] : u->home;
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, home, builder_ahead(b, reach_at(u, 0)), own);
        if (home != b->dq)
            builder_cast(b, STREAM_COMPUTE, b->dq, home, own);
    }
}

/* The queries held on this rank's keys. The own ones come first and see themselves: so every row of dQ has something.
 */
static void attend(struct burst *u, uint32_t step, const struct pack *held)
{
    struct builder *b = u->b;
    struct attention a = {.q = queries_at(u, step),
                          .k = circle_keys(&b->circle, b->place),
                          .lanes = b->lanes,
                          .stream = STREAM_COMPUTE,
                          .kv = &b->kv,
                          .n_kv = 1};
    if (!circle_cut(&b->circle, &a.q, &a.k))
        return;
    bool stays = step == 0 && reach_at(u, 0) == 0;
    a.q_buffer = held->buffers[PACK_Q];
    a.k = growing_sum_reach(&u->dkv, a.k);
    builder_add_attend_backward(b, &a, held->buffers[PACK_DO], held->buffers[PACK_LSE], held->buffers[PACK_DELTA],
                                stays ? b->dq : u->dq_part, u->once ? &b->dkv : &u->dkv_part);
    if (!stays)
        builder_accumulate(b, STREAM_COMPUTE, u->travelling[step % 2], u->dq_part, a.q, step == 0);
    if (!u->once)
        growing_sum_add(&u->dkv, b, u->dkv_part, a.k);
}

/* Block j of everyone's queries goes round. */
static void circulate(struct burst *u)
{
    struct builder *b = u->b;
    const struct pack own = {{b->q, b->d_o, b->lse, b->delta}}, *held = &own;
    for (uint32_t step = 0; step < b->ranks; step++) {
        const struct pack *next = step + 1 < b->ranks ? exchange(u, step + 1, held) : NULL;
        if (step > 0)
            return_gradients(u, step);
        attend(u, step, held);
        held = next;
    }
    if (b->ranks > 1)
        return_gradients(u, b->ranks);
}

static void add_buffers(struct burst *u, uint32_t received)
{
    static const char *const names[PACK_SIZE] = {"q", "do", "lse", "delta"};
    struct builder *b = u->b;
    const enum tensor tensors[PACK_SIZE] = {TENSOR_Q, TENSOR_DO, TENSOR_LSE, TENSOR_DELTA};
    const enum dtype dtypes[PACK_SIZE] = {b->model, b->output, b->accumulator, b->accumulator};
    uint64_t rows = circle_block_rows_max(&b->circle);
    uint32_t buffers = b->schedule->experiment->buffers;
    u->n_slots = received < buffers ? received : buffers;
    u->slots = memory_zeroed(u->n_slots, sizeof *u->slots);
    for (uint32_t slot = 0; slot < u->n_slots; slot++)
        for (int i = 0; i < PACK_SIZE; i++)
            u->slots[slot].buffers[i] =
                builder_buffer_numbered(b, names[i], slot, tensors[i], dtypes[i], ROLE_RECEIVED, rows);
    if (!u->once) {
        u->dkv_part = builder_buffer(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, b->queries.count);
        u->dkv.buffer = builder_buffer(b, "dkv sum", TENSOR_DKV, b->accumulator, ROLE_ACCUMULATOR, b->queries.count);
    }
    if (b->ranks == 1)
        return;
    u->dq_part = builder_buffer(b, "dq part", TENSOR_DQ, b->output, ROLE_WORKSPACE, rows);
    u->travelling[0] = builder_buffer(b, "dq sum 0", TENSOR_DQ, b->gradient, ROLE_ACCUMULATOR, rows);
    u->travelling[1] = builder_buffer(b, "dq sum 1", TENSOR_DQ, b->gradient, ROLE_ACCUMULATOR, rows);
    if (b->gradient == b->output)
        u->home = b->dq;
    else if (b->schedule->experiment->skip == SKIP_TRANSFER) /* may come home while another block arrives */
        u->home = builder_buffer(b, "dq home", TENSOR_DQ, b->gradient, ROLE_ACCUMULATOR, rows);
}

static void backward(struct builder *b, const uint32_t *reach)
{
    struct burst u = {.b = b, .reach = reach, .blocks_max = circle_blocks_max(&b->circle), .home = NO_BUFFER};
    struct block keys = circle_keys(&b->circle, b->place);
    uint32_t attends = 0, received = 0;
    for (u.j = 0; u.j < u.blocks_max; u.j++) {
        for (uint32_t step = 0; step < b->ranks; step++) {
            struct block queries = queries_at(&u, step);
            attends += circle_attends(&b->circle, queries, keys);
            received += step > 0 && queries.count;
        }
    }
    u.once = attends == 1;
    if (b->queries.count)
        builder_delta(b);
    add_buffers(&u, received);
    for (u.j = 0; u.j < u.blocks_max; u.j++)
        circulate(&u);
    if (!u.once && keys.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, u.dkv.buffer, keys);
    program_end_phase(b->program, PHASE_BACKWARD);
    free(u.slots);
}

/* Steps that each block of queries travels: to the last place with keys that it needs. */
static void query_reach(const struct circle *circle, uint32_t blocks, uint32_t *reach)
{
    for (uint32_t place = 0; place < circle->places; place++) {
        for (uint32_t j = 0; j < circle_blocks(circle, place); j++) {
            uint32_t i = circle->places - 1;
            while (i > 0 && circle->schedule->experiment->skip == SKIP_TRANSFER &&
                   !circle_attends(circle, circle_block(circle, place, j),
                                   circle_keys(circle, circle_ahead(circle, place, i))))
                i--;
            reach[(size_t)place * blocks + j] = i;
        }
    }
}

/* How far blocks of keys travel, then how far blocks of queries do. */
static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    uint32_t blocks = circle_blocks_max(&circle);
    size_t n = (size_t)circle.places * blocks;
    uint32_t *keys = ring_reach(&circle), *both = memory_zeroed(2 * n, sizeof *both);
    memcpy(both, keys, n * sizeof *both);
    free(keys);
    if (schedule->experiment->train)
        query_reach(&circle, blocks, both + n);
    return both;
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    struct ring_pass pass;
    const uint32_t *reach = schedule->algorithm_data;
    builder_init(&b, schedule, program);
    ring_pass_init(&pass, &b, reach);
    ring_pass_forward(&pass);
    ring_pass_fini(&pass);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train)
        backward(&b, reach + (size_t)schedule->ranks * circle_blocks_max(&b.circle));
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    return ring_pass_check(schedule, schedule->ranks, diag);
}

const struct algorithm_ops algorithm_burst = {
    .name = "burst",
    .summary = "forward a ring; backward K and V stay, and Q, dO, LSE and delta go round with dQ behind them",
    .constraint = "buffers >= 2 on more than two ranks",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS,
    .moves_queries = true,
    .check = check,
    .prepare = prepare,
    .build = build,
};
