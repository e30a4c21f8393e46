/* builder.c - operations follow from three facts: what the mask lets the rows see, whether the rank attends once or
 * several times, and whether anything has been summed yet. */
#include "models/schedule/algorithms/builder.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/mask.h"

uint32_t builder_buffer(struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                        enum buffer_role role, uint64_t rows)
{
    return program_add_buffer(b->program, name, tensor, dtype, role, rows,
                              schedule_tensor_bytes(b->schedule, tensor, dtype, rows));
}

void builder_init(struct builder *b, const struct schedule *schedule, struct program *program)
{
    const struct experiment *experiment = schedule->experiment;
    uint64_t rows = sharding_rows(&schedule->sharding, program->rank);
    *b = (struct builder){
        .schedule = schedule,
        .program = program,
        .rank = program->rank,
        .ranks = schedule->ranks,
        .queries = {.owner = program->rank, .first = 0, .count = (uint32_t)rows},
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
    b->q = builder_buffer(b, "q", TENSOR_Q, b->model, ROLE_RESIDENT, rows);
    b->kv = builder_buffer(b, "kv", TENSOR_KV, b->model, ROLE_RESIDENT, rows);
    b->o = builder_buffer(b, "o", TENSOR_O, b->output, ROLE_RESIDENT, rows);
    b->lse = builder_buffer(b, "lse", TENSOR_LSE, b->accumulator, ROLE_RESIDENT, rows);
    if (experiment->train) {
        b->d_o = builder_buffer(b, "do", TENSOR_DO, b->output, ROLE_RESIDENT, rows);
        b->dq = builder_buffer(b, "dq", TENSOR_DQ, b->output, ROLE_RESIDENT, rows);
        b->dkv = builder_buffer(b, "dkv", TENSOR_DKV, b->output, ROLE_RESIDENT, rows);
    }
}

/* ---- blocks ---- */

static uint64_t rows_per_block(const struct schedule *schedule)
{
    return schedule->experiment->kv_block ? schedule->experiment->kv_block : SEQ_LEN_MAX;
}

uint32_t builder_blocks(const struct schedule *schedule, uint32_t owner)
{
    uint64_t rows = sharding_rows(&schedule->sharding, owner), per_block = rows_per_block(schedule);
    return (uint32_t)(rows / per_block + (rows % per_block != 0));
}

struct block builder_block(const struct schedule *schedule, uint32_t owner, uint32_t j)
{
    uint64_t rows = sharding_rows(&schedule->sharding, owner), first = j * rows_per_block(schedule);
    uint64_t left = first < rows ? rows - first : 0;
    uint64_t count = left < rows_per_block(schedule) ? left : rows_per_block(schedule);
    return (struct block){.owner = owner, .first = count ? (uint32_t)first : 0, .count = (uint32_t)count};
}

uint64_t builder_block_rows_max(const struct schedule *schedule)
{
    uint64_t rows = sharding_rows_max(&schedule->sharding);
    return rows < rows_per_block(schedule) ? rows : rows_per_block(schedule);
}

uint32_t builder_blocks_max(const struct schedule *schedule)
{
    uint64_t rows = sharding_rows_max(&schedule->sharding), per_block = rows_per_block(schedule);
    return (uint32_t)(rows / per_block + (rows % per_block != 0));
}

static struct block whole_shard(const struct schedule *schedule, uint32_t rank)
{
    return (struct block){.owner = rank, .first = 0, .count = (uint32_t)sharding_rows(&schedule->sharding, rank)};
}

static bool sees(const struct schedule *schedule, uint32_t rank, struct block keys)
{
    struct block queries = whole_shard(schedule, rank);
    return queries.count && keys.count &&
           mask_block_pairs(&schedule->experiment->mask, &schedule->sharding, queries, keys) > 0;
}

bool builder_computes(const struct schedule *schedule, uint32_t rank, struct block keys)
{
    if (schedule->experiment->skip == SKIP_NONE)
        return keys.count > 0 && sharding_rows(&schedule->sharding, rank) > 0;
    return sees(schedule, rank, keys);
}

bool builder_needs(const struct schedule *schedule, uint32_t rank, struct block keys)
{
    return keys.count > 0 && (schedule->experiment->skip != SKIP_TRANSFER || sees(schedule, rank, keys));
}

/* ---- attention ---- */

void builder_begin(struct builder *b, enum phase phase, uint32_t attends)
{
    uint64_t rows = b->queries.count;
    b->once = attends < 2;
    b->started = false;
    if (attends == 0)
        return;
    if (phase == PHASE_FORWARD && !b->once) {
        b->partial = builder_buffer(b, "partial", TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, rows);
        b->state = builder_buffer(b, "state", TENSOR_STATE, b->accumulator, ROLE_ACCUMULATOR, rows);
    }
    if (phase == PHASE_BACKWARD) {
        b->delta = builder_buffer(b, "delta", TENSOR_DELTA, b->accumulator, ROLE_WORKSPACE, rows);
        struct op delta = {.kind = OP_DELTA, .stream = STREAM_COMPUTE, .q = b->queries};
        program_add_op(b->program, delta, (uint32_t[]){b->o, b->d_o}, 2, &b->delta, 1);
        if (!b->once) {
            b->dq_part = builder_buffer(b, "dq part", TENSOR_DQ, b->output, ROLE_WORKSPACE, rows);
            b->dq_sum = builder_buffer(b, "dq sum", TENSOR_DQ, b->accumulator, ROLE_ACCUMULATOR, rows);
        }
    }
}

/* Cuts `queries` and `keys` to the rows that see each other and returns the pairs; all of them stay where the first
 * result of a state or sum must cover every row, and where an invisible block is computed whole. */
static uint64_t cut(const struct builder *b, struct block *queries, struct block *keys, bool all_queries, bool all_keys)
{
    const struct mask *mask = &b->schedule->experiment->mask;
    struct block q = *queries, k = *keys;
    uint64_t pairs = keys->owner == BLOCK_ALL ? mask_block_pairs(mask, &b->schedule->sharding, q, k)
                                              : mask_trim(mask, &b->schedule->sharding, &q, &k);
    if (pairs && !all_queries)
        *queries = q;
    if (pairs && !all_keys)
        *keys = k;
    return pairs;
}

static bool nothing_to_do(const struct builder *b, struct block keys)
{
    if (b->queries.count == 0 || keys.count == 0)
        return true;
    return b->schedule->experiment->skip != SKIP_NONE &&
           mask_block_pairs(&b->schedule->experiment->mask, &b->schedule->sharding, b->queries, keys) == 0;
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

void builder_attend(struct builder *b, struct block keys, const uint32_t *kv, size_t n_kv)
{
    if (nothing_to_do(b, keys))
        return;
    struct op attend = {.kind = OP_ATTEND, .stream = STREAM_COMPUTE, .q = b->queries, .k = keys};
    attend.pairs = cut(b, &attend.q, &attend.k, !b->started, false);
    uint32_t *reads = buffer_list(b->q, kv, n_kv, NULL, 0);
    if (b->once) {
        program_add_op(b->program, attend, reads, 1 + n_kv, (uint32_t[]){b->o, b->lse}, 2);
    } else {
        program_add_op(b->program, attend, reads, 1 + n_kv, &b->partial, 1);
        struct op merge = {.kind = OP_MERGE, .stream = STREAM_COMPUTE, .q = attend.q};
        program_add_op(b->program, merge, (uint32_t[]){b->partial, b->state}, b->started ? 2 : 1, &b->state, 1);
    }
    b->started = true;
    free(reads);
}

struct block builder_attend_backward(struct builder *b, struct block keys, const uint32_t *kv, size_t n_kv,
                                     const uint32_t *dkv, bool whole)
{
    if (nothing_to_do(b, keys))
        return (struct block){.owner = keys.owner, .first = 0, .count = 0};
    struct op attend = {.kind = OP_ATTEND_BACKWARD, .stream = STREAM_COMPUTE, .q = b->queries, .k = keys};
    attend.pairs = cut(b, &attend.q, &attend.k, !b->started, whole);
    uint32_t *reads = buffer_list(b->q, kv, n_kv, (uint32_t[]){b->d_o, b->lse, b->delta}, 3);
    uint32_t *writes = buffer_list(b->once ? b->dq : b->dq_part, dkv, n_kv, NULL, 0);
    program_add_op(b->program, attend, reads, 1 + n_kv + 3, writes, 1 + n_kv);
    if (!b->once) {
        struct op add = {.kind = OP_ACCUMULATE, .stream = STREAM_COMPUTE, .q = attend.q};
        program_add_op(b->program, add, (uint32_t[]){b->dq_part, b->dq_sum}, b->started ? 2 : 1, &b->dq_sum, 1);
    }
    b->started = true;
    free(reads);
    free(writes);
    return attend.k;
}

void builder_end(struct builder *b, enum phase phase)
{
    if (b->started && !b->once) {
        if (phase == PHASE_FORWARD) {
            struct op finish = {.kind = OP_FINISH, .stream = STREAM_COMPUTE, .q = b->queries};
            program_add_op(b->program, finish, &b->state, 1, (uint32_t[]){b->o, b->lse}, 2);
        } else {
            struct op cast = {.kind = OP_CAST, .stream = STREAM_COMPUTE, .q = b->queries};
            program_add_op(b->program, cast, &b->dq_sum, 1, &b->dq, 1);
        }
    }
    program_end_phase(b->program, phase);
}

/* ---- key-side sums and messages ---- */

void builder_accumulate(struct builder *b, enum stream stream, uint32_t target, uint32_t source, struct block keys,
                        bool first)
{
    struct op add = {.kind = OP_ACCUMULATE, .stream = (uint8_t)stream, .k = keys};
    program_add_op(b->program, add, (uint32_t[]){source, target}, first ? 1 : 2, &target, 1);
}

void builder_cast(struct builder *b, enum stream stream, uint32_t target, uint32_t source, struct block keys)
{
    struct op cast = {.kind = OP_CAST, .stream = (uint8_t)stream, .k = keys};
    program_add_op(b->program, cast, &source, 1, &target, 1);
}

static void add_message(struct builder *b, enum op_kind kind, enum stream stream, uint32_t group, enum traffic traffic,
                        uint32_t buffer, uint32_t peer, struct block keys)
{
    const struct buffer *held = &b->program->buffers[buffer];
    uint64_t bytes = schedule_tensor_bytes(b->schedule, (enum tensor)held->tensor, (enum dtype)held->dtype, keys.count);
    bool sends = kind == OP_SEND, split = b->schedule->experiment->split_kv;
    struct op op = {.kind = (uint8_t)kind,
                    .stream = (uint8_t)stream,
                    .traffic = (uint8_t)traffic,
                    .group = group,
                    .k = keys,
                    .peer = peer};
    for (int part = split ? PART_K : PART_ALL; part <= (split ? PART_V : PART_ALL); part++) {
        op.part = (uint8_t)part;
        op.bytes = split ? bytes / 2 : bytes;
        program_add_op(b->program, op, &buffer, sends, &buffer, !sends);
    }
}

void builder_send(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                  uint32_t peer, struct block keys)
{
    add_message(b, OP_SEND, stream, group, traffic, buffer, peer, keys);
}

void builder_receive(struct builder *b, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                     uint32_t peer, struct block keys)
{
    add_message(b, OP_RECEIVE, stream, group, traffic, buffer, peer, keys);
}
