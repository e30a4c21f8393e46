/* builder.c - operations follow from three facts: what the mask lets the rows see, whether the rank attends once or
 * several times, and whether anything has been summed yet. */
#include "models/schedule/algorithms/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/mask.h"

/* ---- buffers ---- */

uint32_t builder_buffer_block(struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                              enum buffer_role role, struct block block, struct lanes lanes)
{
    struct buffer buffer = {
        .tensor = (uint8_t)tensor,
        .dtype = (uint8_t)dtype,
        .role = (uint8_t)role,
        .first = block.first,
        .rows = block.count,
        .bytes = schedule_tensor_bytes(b->schedule, tensor, dtype, block.count, lanes),
        .lanes = lanes,
    };
    return program_add_buffer(b->program, name, buffer);
}

uint32_t builder_buffer_lanes(struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                              enum buffer_role role, uint64_t rows, struct lanes lanes)
{
    return builder_buffer_block(b, name, tensor, dtype, role, (struct block){0, 0, (uint32_t)rows}, lanes);
}

uint32_t builder_buffer(struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                        enum buffer_role role, uint64_t rows)
{
    return builder_buffer_lanes(b, name, tensor, dtype, role, rows, builder_lanes_of(b, tensor));
}

struct lanes builder_lanes_of(const struct builder *b, enum tensor tensor)
{
    struct lanes lanes = b->lanes;
    if (tensor_goes_by_keys(tensor) && b->schedule->queries == QUERIES_BY_ITEM) {
        lanes.item = b->schedule->lanes.item;
        lanes.items = b->schedule->lanes.items;
    }
    return lanes;
}

uint32_t builder_buffer_numbered(struct builder *b, const char *name, uint32_t index, enum tensor tensor,
                                 enum dtype dtype, enum buffer_role role, uint64_t rows)
{
    char numbered[40];
    snprintf(numbered, sizeof numbered, "%s %u", name, index);
    return builder_buffer(b, numbered, tensor, dtype, role, rows);
}

static void add_residents(struct builder *b)
{
    struct block keys = sharding_keys(&b->schedule->sharding, b->rank), q = b->queries;
    struct lanes all = b->schedule->lanes;
    b->q = builder_buffer_block(b, "q", TENSOR_Q, b->model, ROLE_RESIDENT, q, b->lanes);
    b->kv = builder_buffer_block(b, "kv", TENSOR_KV, b->model, ROLE_RESIDENT, keys, all);
    b->o = builder_buffer_block(b, "o", TENSOR_O, b->output, ROLE_RESIDENT, q, b->lanes);
    b->lse = builder_buffer_block(b, "lse", TENSOR_LSE, b->accumulator, ROLE_RESIDENT, q, b->lanes);
    if (b->schedule->experiment->train) {
        b->d_o = builder_buffer_block(b, "do", TENSOR_DO, b->output, ROLE_RESIDENT, q, b->lanes);
        b->dq = builder_buffer_block(b, "dq", TENSOR_DQ, b->output, ROLE_RESIDENT, q, b->lanes);
        b->dkv = builder_buffer_block(b, "dkv", TENSOR_DKV, b->output, ROLE_RESIDENT, keys, all);
    }
}

void builder_init(struct builder *b, const struct schedule *schedule, struct program *program)
{
    const struct experiment *experiment = schedule->experiment;
    struct circle circle = circle_of_ranks(schedule);
    *b = (struct builder){
        .schedule = schedule,
        .program = program,
        .circle = circle,
        .place = program->rank,
        .rank = program->rank,
        .ranks = schedule->ranks,
        .queries = circle_queries(&circle, program->rank),
        .lanes = schedule_query_lanes(schedule, program->rank),
        .model = experiment->dtype,
        .output = dtype_output(experiment->dtype),
        .accumulator = dtype_accumulator(experiment->dtype),
        .exchange = experiment->overlap ? STREAM_EXCHANGE : STREAM_COMPUTE,
        .returns = experiment->overlap ? STREAM_GRADIENT : STREAM_COMPUTE,
        .partial = NO_BUFFER,
        .state = NO_BUFFER,
        .delta = NO_BUFFER,
        .dq_part = NO_BUFFER,
        .dq_sum = NO_BUFFER,
    };
    b->gradient = experiment->gradient_accumulator ? b->accumulator : b->output;
    add_residents(b);
}

uint32_t builder_ahead(const struct builder *b, uint32_t steps)
{
    return circle_ahead(&b->circle, b->place, steps);
}

uint32_t builder_back(const struct builder *b, uint32_t steps)
{
    return circle_back(&b->circle, b->place, steps);
}

/* ---- single operations ---- */

void builder_on_queries(struct builder *b, enum op_kind kind, enum stream stream, struct block queries,
                        struct lanes lanes, const uint32_t *reads, size_t n_reads, const uint32_t *writes,
                        size_t n_writes)
{
    struct op op = {.kind = (uint8_t)kind, .stream = (uint8_t)stream, .q = queries, .lanes = lanes};
    program_add_op(b->program, op, reads, n_reads, writes, n_writes);
}

void builder_on_keys(struct builder *b, enum op_kind kind, enum stream stream, struct block keys, struct lanes lanes,
                     const uint32_t *reads, size_t n_reads, const uint32_t *writes, size_t n_writes)
{
    struct op op = {.kind = (uint8_t)kind, .stream = (uint8_t)stream, .k = keys, .lanes = lanes};
    program_add_op(b->program, op, reads, n_reads, writes, n_writes);
}

/* One source, one target, and in all lanes of the source. */
static void on_rows(struct builder *b, enum op_kind kind, enum stream stream, struct block rows, uint32_t target,
                    uint32_t source, bool reads_target)
{
    const struct buffer *held = &b->program->buffers[source];
    (tensor_goes_by_keys((enum tensor)held->tensor) ? builder_on_keys : builder_on_queries)(
        b, kind, stream, rows, held->lanes, (uint32_t[]){source, target}, reads_target ? 2 : 1, &target, 1);
}

void builder_accumulate(struct builder *b, enum stream stream, uint32_t target, uint32_t source, struct block rows,
                        bool first)
{
    on_rows(b, OP_ACCUMULATE, stream, rows, target, source, !first);
}

void builder_cast(struct builder *b, enum stream stream, uint32_t target, uint32_t source, struct block rows)
{
    on_rows(b, OP_CAST, stream, rows, target, source, false);
}

/* `head`, then the buffers of `middle`, then those of `tail`, as one list. The caller frees it. */
static uint32_t *buffer_list(uint32_t head, const uint32_t *middle, size_t n_middle, const uint32_t *tail,
                             size_t n_tail)
{
    uint32_t *list = memory_zeroed(1 + n_middle + n_tail, sizeof *list);
    list[0] = head;
    memcpy(list + 1, middle, n_middle * sizeof *list);
    if (n_tail)
        memcpy(list + 1 + n_middle, tail, n_tail * sizeof *list);
    return list;
}

static struct op attention_op(const struct builder *b, enum op_kind kind, const struct attention *a)
{
    return (struct op){
        .kind = (uint8_t)kind,
        .stream = (uint8_t)a->stream,
        .q = a->q,
        .k = a->k,
        .lanes = a->lanes,
        .pairs = mask_block_pairs(&b->schedule->experiment->mask, &b->schedule->sharding, a->q, a->k),
    };
}

void builder_add_attend(struct builder *b, const struct attention *a, const uint32_t *writes, size_t n_writes)
{
    uint32_t *reads = buffer_list(a->q_buffer, a->kv, a->n_kv, NULL, 0);
    program_add_op(b->program, attention_op(b, OP_ATTEND, a), reads, 1 + a->n_kv, writes, n_writes);
    free(reads);
}

void builder_add_attend_backward(struct builder *b, const struct attention *a, uint32_t d_o, uint32_t lse,
                                 uint32_t delta, uint32_t dq, const uint32_t *dkv)
{
    uint32_t *reads = buffer_list(a->q_buffer, a->kv, a->n_kv, (uint32_t[]){d_o, lse, delta}, 3);
    uint32_t *writes = buffer_list(dq, dkv, a->n_kv, NULL, 0);
    program_add_op(b->program, attention_op(b, OP_ATTEND_BACKWARD, a), reads, 1 + a->n_kv + 3, writes, 1 + a->n_kv);
    free(reads);
    free(writes);
}

static void add_message(struct builder *b, enum op_kind kind, enum stream stream, uint32_t group, enum traffic traffic,
                        uint32_t buffer, uint32_t peer, struct block block, struct lanes lanes)
{
    const struct buffer *held = &b->program->buffers[buffer];
    enum tensor tensor = (enum tensor)held->tensor;
    uint64_t bytes = schedule_tensor_bytes(b->schedule, tensor, (enum dtype)held->dtype, block.count, lanes);
    bool sends = kind == OP_SEND, by_keys = tensor_goes_by_keys(tensor);
    bool split = by_keys && b->schedule->experiment->split_kv && b->schedule->algorithm->uses & USES_SPLIT_KV;
    struct op op = {.kind = (uint8_t)kind,
                    .stream = (uint8_t)stream,
                    .traffic = (uint8_t)traffic,
                    .group = group,
                    .lanes = lanes,
                    .peer = peer};
    *(by_keys ? &op.k : &op.q) = block;
    for (int part = split ? PART_K : PART_ALL; part <= (split ? PART_V : PART_ALL); part++) {
        op.part = (uint8_t)part;
        op.bytes = split ? bytes / 2 : bytes;
        program_add_op(b->program, op, &buffer, sends, &buffer, !sends);
    }
}

void builder_send_lanes(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                        uint32_t peer, struct block block, struct lanes lanes)
{
    add_message(b, OP_SEND, stream, group, traffic, buffer, peer, block, lanes);
}

void builder_receive_lanes(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                           uint32_t peer, struct block block, struct lanes lanes)
{
    add_message(b, OP_RECEIVE, stream, group, traffic, buffer, peer, block, lanes);
}

void builder_send(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                  uint32_t peer, struct block block)
{
    builder_send_lanes(b, stream, group, traffic, buffer, peer, block, b->program->buffers[buffer].lanes);
}

void builder_receive(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                     uint32_t peer, struct block block)
{
    builder_receive_lanes(b, stream, group, traffic, buffer, peer, block, b->program->buffers[buffer].lanes);
}

/* ---- the pattern ---- */

void builder_delta(struct builder *b)
{
    b->delta = builder_buffer_block(b, "delta", TENSOR_DELTA, b->accumulator, ROLE_WORKSPACE, b->queries, b->lanes);
    builder_on_queries(b, OP_DELTA, STREAM_COMPUTE, b->queries, b->lanes, (uint32_t[]){b->o, b->d_o}, 2, &b->delta, 1);
}

void builder_begin(struct builder *b, enum phase phase, uint32_t attends)
{
    struct block q = b->queries;
    b->once = attends < 2;
    b->started = false;
    if (attends == 0)
        return;
    if (phase == PHASE_FORWARD && !b->once) {
        b->partial = builder_buffer_block(b, "partial", TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, q, b->lanes);
        b->state = builder_buffer_block(b, "state", TENSOR_STATE, b->accumulator, ROLE_ACCUMULATOR, q, b->lanes);
    }
    if (phase == PHASE_BACKWARD) {
        builder_delta(b);
        if (!b->once) {
            b->dq_part = builder_buffer_block(b, "dq part", TENSOR_DQ, b->output, ROLE_WORKSPACE, q, b->lanes);
            b->dq_sum = builder_buffer_block(b, "dq sum", TENSOR_DQ, b->accumulator, ROLE_ACCUMULATOR, q, b->lanes);
        }
    }
}

/* The working queries on `keys`, cut to the rows that see each other; all of them stay where the first result of a
 * state or sum must cover every row, and where an invisible block is computed whole. */
static struct attention cut(const struct builder *b, struct block keys, const uint32_t *kv, size_t n_kv, bool all_keys)
{
    struct attention a = {.q = b->queries,
                          .k = keys,
                          .lanes = b->lanes,
                          .stream = STREAM_COMPUTE,
                          .q_buffer = b->q,
                          .kv = kv,
                          .n_kv = n_kv};
    struct block q = a.q, k = a.k;
    if (keys.owner == BLOCK_ALL || !mask_trim(&b->schedule->experiment->mask, &b->schedule->sharding, &q, &k))
        return a;
    if (b->started)
        a.q = q;
    if (!all_keys)
        a.k = k;
    return a;
}

void builder_attend(struct builder *b, struct block keys, const uint32_t *kv, size_t n_kv)
{
    if (!circle_attends(&b->circle, b->queries, keys))
        return;
    struct attention a = cut(b, keys, kv, n_kv, false);
    if (b->once) {
        builder_add_attend(b, &a, (uint32_t[]){b->o, b->lse}, 2);
    } else {
        builder_add_attend(b, &a, &b->partial, 1);
        builder_on_queries(b, OP_MERGE, STREAM_COMPUTE, a.q, b->lanes, (uint32_t[]){b->partial, b->state},
                           b->started ? 2 : 1, &b->state, 1);
    }
    b->started = true;
}

struct block builder_attend_backward(struct builder *b, struct block keys, const uint32_t *kv, size_t n_kv,
                                     const uint32_t *dkv, bool whole)
{
    if (!circle_attends(&b->circle, b->queries, keys))
        return (struct block){.owner = keys.owner, .first = 0, .count = 0};
    struct attention a = cut(b, keys, kv, n_kv, whole);
    builder_add_attend_backward(b, &a, b->d_o, b->lse, b->delta, b->once ? b->dq : b->dq_part, dkv);
    if (!b->once)
        builder_accumulate(b, STREAM_COMPUTE, b->dq_sum, b->dq_part, a.q, !b->started);
    b->started = true;
    return a.k;
}

void builder_end(struct builder *b, enum phase phase)
{
    if (!b->started || b->once)
        return;
    if (phase == PHASE_FORWARD)
        builder_on_queries(b, OP_FINISH, STREAM_COMPUTE, b->queries, b->lanes, &b->state, 1, (uint32_t[]){b->o, b->lse},
                           2);
    else
        builder_cast(b, STREAM_COMPUTE, b->dq, b->dq_sum, b->queries);
}
