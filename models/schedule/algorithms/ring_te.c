/* ring_te.c - the ring of TransformerEngine (AttnFuncWithCPAndKVP2P), which is Megatron's default: cp_comm_type p2p.
 *
 * What sets it apart from ring.c:
 *   - K and V are one message. Step i's kernel is in the first or the second compute stream by i mod 2, so that the
 *     launch and the tail of one hide behind the other, unless the implementation has one compute stream.
 *   - Nothing is merged on the way. Every step leaves its output, of exactly the rows it computed, and adds its LSE to
 *     the rank's; a pass at the end corrects all outputs by the final LSE and sums them, in the model's type.
 *   - All received blocks stay until the forward pass ends (one array), and the last one is kept for the backward pass.
 *     With Q, KV, L the bytes of a shard's queries, of its K and V, of its LSE, a zigzag rank r of P thus needs P KV +
 *     ((r + 1) + (P - 1 - r) / 2) (Q + L) beside its Q, O and LSE: it grows with the
 *     whole sequence, like an all-gather.
 *   - Backward, the ring turns the other way, from the block kept: that of rank r + 1 first, the own one last. Behind
 *     each block its gradient goes, one message later, so that all P - 1 of them end at home: message 0 is KV, messages
 *     1 to P - 2 are KV with the dKV of the block before, message P - 1 is dKV. (There the pair is one message of two
 *     tensors; here it is two, posted together.) Bytes sent: (P-1) KV forward, (P-1) (KV + dKV) backward, without the
 *     P-th message that ring.c needs to bring dKV home.
 *   - Backward kernels are all in one stream; dQ is summed in the model's type (dKV as `gradients` says: there, model).
 *     Two KV and two dKV take turns; the first KV is a copy of the block kept. (There the last dKV is the
 *     result and the block kept stays to the end; here that is freed, and the result has its own buffer:
 *     as many bytes.)
 *
 * The first rank to compute something for a block gives all of its rows a gradient; until then there is none to send.
 * The half blocks of zigzag sharding come from the mask: any other mask and sharding works alike.
 */
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/growing_sum.h"

static uint32_t count_attends(const struct builder *b)
{
    uint32_t attends = 0;
    for (uint32_t place = 0; place < b->ranks; place++)
        attends += circle_attends(&b->circle, b->queries, circle_keys(&b->circle, place));
    return attends;
}

/* ---- forward ---- */

/* A step's output, of exactly the rows it computed. */
struct output {
    uint32_t buffer;
    struct block rows;
};

struct forward {
    struct builder *b;
    bool once;
    uint32_t array; /* of received blocks */
    struct output *outputs;
    uint32_t n_outputs;
};

/* Passes the block of the step before (in `held`) on and receives this step's. Returns the buffer that then holds it.
 */
static uint32_t exchange(const struct forward *f, uint32_t step, uint32_t held)
{
    struct builder *b = f->b;
    struct block leaves = circle_keys(&b->circle, builder_back(b, step - 1)),
                 arrives = circle_keys(&b->circle, builder_back(b, step));
    uint32_t received = NO_BUFFER, group = program_new_group(b->program);
    if (leaves.count)
        builder_send(b, b->exchange, group, TRAFFIC_FORWARD_KV, held, builder_ahead(b, 1), leaves);
    if (arrives.count) {
        char name[16];
        snprintf(name, sizeof name, "kv %u", step);
        received = builder_buffer_block(b, name, TENSOR_KV, b->model, ROLE_RECEIVED, arrives,
                                        b->program->buffers[b->kv].lanes);
        bool kept = step + 1 == b->ranks && b->schedule->experiment->train;
        b->program->buffers[received].array = kept ? 0 : f->array;
        builder_receive(b, b->exchange, group, TRAFFIC_FORWARD_KV, received, builder_back(b, 1), arrives);
    }
    return received;
}

static void attend(struct forward *f, uint32_t step, uint32_t held)
{
    struct builder *b = f->b;
    const struct experiment *experiment = b->schedule->experiment;
    bool second = step % 2 && experiment->overlap && !experiment->implementation.one_stream;
    struct attention a = {.q = b->queries,
                          .k = circle_keys(&b->circle, builder_back(b, step)),
                          .lanes = b->lanes,
                          .stream = second ? STREAM_COMPUTE_2 : STREAM_COMPUTE,
                          .q_buffer = b->q,
                          .kv = &held,
                          .n_kv = 1};
    if (!circle_cut(&b->circle, &a.q, &a.k))
        return;
    if (f->n_outputs == 0)
        a.q = b->queries;
    if (f->once) {
        builder_add_attend(b, &a, (uint32_t[]){b->o, b->lse}, 2);
        return;
    }
    char name[24];
    snprintf(name, sizeof name, "partial %u", step);
    struct output out = {builder_buffer_block(b, name, TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, a.q, b->lanes), a.q};
    builder_add_attend(b, &a, &out.buffer, 1);
    builder_on_queries(b, OP_SUM_LSE, a.stream, a.q, b->lanes, (uint32_t[]){out.buffer, b->lse}, f->n_outputs ? 2 : 1,
                       &b->lse, 1);
    f->outputs[f->n_outputs++] = out;
}

/* Returns the buffer of the last block received. */
static uint32_t forward(struct builder *b)
{
    struct forward f = {.b = b,
                        .once = count_attends(b) == 1,
                        .array = program_new_array(b->program),
                        .outputs = memory_zeroed(b->ranks, sizeof *f.outputs)};
    uint32_t held = b->kv;
    for (uint32_t step = 0;; step++) {
        uint32_t next = step + 1 < b->ranks ? exchange(&f, step + 1, held) : NO_BUFFER;
        attend(&f, step, held);
        if (step + 1 == b->ranks)
            break;
        held = next;
    }
    for (uint32_t i = 0; i < f.n_outputs; i++)
        builder_on_queries(b, OP_CORRECT, STREAM_COMPUTE, f.outputs[i].rows, b->lanes,
                           (uint32_t[]){f.outputs[i].buffer, b->lse, b->o}, i ? 3 : 2, &b->o, 1);
    free(f.outputs);
    program_end_phase(b->program, PHASE_FORWARD);
    return held;
}

/* ---- backward ---- */

struct backward {
    struct builder *b;
    const uint32_t *begins; /* [place]: the step in which the first contribution to its dKV is computed */
    bool once;
    uint32_t kv[2], dkv[2];     /* step i: kv[i % 2] and dkv[i % 2], unless the latter is the rank's own */
    uint32_t dq_part, dkv_part; /* one step's */
    struct growing_sum dq;
};

/* Whose block this rank holds at `step`. */
static uint32_t owner_at(const struct builder *b, uint32_t step)
{
    return builder_ahead(b, 1 + step);
}

static struct block keys_at(const struct builder *b, uint32_t step)
{
    return circle_keys(&b->circle, owner_at(b, step));
}

/* Where the gradient of that block is: at the last step the rank's own one comes home. */
static uint32_t gradient_at(const struct backward *w, uint32_t step)
{
    bool last = step + 1 == w->b->ranks;
    return last && (w->b->gradient == w->b->output || w->begins[w->b->place] == step) ? w->b->dkv : w->dkv[step % 2];
}

/* Message `step`, behind the kernel of this step: its block goes on with the gradient of the one before. */
static void exchange_backward(struct backward *w, uint32_t step)
{
    struct builder *b = w->b;
    uint32_t group = program_new_group(b->program), to = builder_back(b, 1), from = builder_ahead(b, 1);
    struct block held = keys_at(b, step);
    bool more = step + 1 < b->ranks;
    if (more && held.count)
        builder_send(b, b->exchange, group, TRAFFIC_REPLAY_KV, w->kv[step % 2], to, held);
    if (step > 0 && keys_at(b, step - 1).count && w->begins[owner_at(b, step - 1)] < step)
        builder_send(b, b->exchange, group, TRAFFIC_GRADIENT, gradient_at(w, step - 1), to, keys_at(b, step - 1));
    if (more && keys_at(b, step + 1).count)
        builder_receive(b, b->exchange, group, TRAFFIC_REPLAY_KV, w->kv[(step + 1) % 2], from, keys_at(b, step + 1));
    if (step > 0 && held.count && w->begins[owner_at(b, step)] < step)
        builder_receive(b, b->exchange, group, TRAFFIC_GRADIENT, gradient_at(w, step), from, held);
}

static void attend_backward(struct backward *w, uint32_t step)
{
    struct builder *b = w->b;
    struct attention a = {.q = b->queries,
                          .k = keys_at(b, step),
                          .lanes = b->lanes,
                          .stream = STREAM_COMPUTE,
                          .q_buffer = b->q,
                          .kv = &w->kv[step % 2],
                          .n_kv = 1};
    if (!circle_cut(&b->circle, &a.q, &a.k))
        return;
    uint32_t begins = w->begins[owner_at(b, step)], target = gradient_at(w, step);
    bool first = begins == step, alone = first && step + 1 == b->ranks;
    if (first)
        a.k = keys_at(b, step);
    a.q = growing_sum_reach(&w->dq, a.q);
    builder_add_attend_backward(b, &a, b->d_o, b->lse, b->delta, w->once ? b->dq : w->dq_part,
                                alone ? &b->dkv : &w->dkv_part);
    if (!w->once)
        growing_sum_add(&w->dq, b, w->dq_part, a.q);
    if (!alone)
        builder_accumulate(b, STREAM_COMPUTE, target, w->dkv_part, a.k, first);
}

static void add_buffers(struct backward *w, uint32_t kept)
{
    struct builder *b = w->b;
    uint64_t rows = sharding_rows_max(&b->schedule->sharding);
    if (b->queries.count) {
        builder_delta(b);
        if (!w->once)
            w->dq_part = builder_buffer_block(b, "dq part", TENSOR_DQ, b->output, ROLE_WORKSPACE, b->queries, b->lanes);
    }
    if (b->ranks == 1) { /* nothing moves */
        w->kv[0] = kept;
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        w->kv[i] = builder_buffer_numbered(b, "kv turn", i, TENSOR_KV, b->model, ROLE_RECEIVED, rows);
        w->dkv[i] = builder_buffer_numbered(b, "dkv turn", i, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    }
    w->dkv_part = builder_buffer(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, rows);
    if (keys_at(b, 0).count)
        builder_cast(b, STREAM_COMPUTE, w->kv[0], kept, keys_at(b, 0));
}

static void backward(struct builder *b, uint32_t kept)
{
    struct backward w = {
        .b = b, .begins = b->schedule->algorithm_data, .once = count_attends(b) == 1, .dq = {.buffer = b->dq}};
    uint32_t last = b->ranks - 1;
    add_buffers(&w, kept);
    for (uint32_t step = 0; step < b->ranks; step++) {
        exchange_backward(&w, step);
        attend_backward(&w, step);
    }
    if (gradient_at(&w, last) != b->dkv && keys_at(b, last).count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, gradient_at(&w, last), keys_at(b, last));
    program_end_phase(b->program, PHASE_BACKWARD);
}

/* ---- the algorithm ---- */

/* The first step in which anything is computed for each place's dKV; its own rank's is the last. */
static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    uint32_t *begins = memory_zeroed(circle.places, sizeof *begins);
    for (uint32_t place = 0; place < circle.places && schedule->experiment->train; place++)
        while (begins[place] + 1 < circle.places &&
               !circle_computes(&circle, circle_back(&circle, place, 1 + begins[place]), circle_keys(&circle, place)))
            begins[place]++;
    return begins;
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    uint32_t kept = forward(&b);
    if (schedule->experiment->train)
        backward(&b, kept);
}

const struct algorithm_ops algorithm_ring_te = {
    .name = "ring-te",
    .summary =
        "TransformerEngine's ring (Megatron's p2p): two compute streams, outputs corrected at the end, dKV in step",
    .uses = USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS,
    .prepare = prepare,
    .build = build,
};
