/* program.c - growing arrays of buffers, operations and accesses, and the words for what is in them. */
#include "models/schedule/program.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

void program_init(struct program *program, uint32_t rank)
{
    memset(program, 0, sizeof *program);
    program->rank = rank;
}

void program_fini(struct program *program)
{
    free(program->buffers);
    free(program->ops);
    free(program->accesses);
    free(program->collectives);
    free(program->lists);
    free(program->works);
    memset(program, 0, sizeof *program);
}

uint32_t program_add_buffer(struct program *program, const char *name, struct buffer buffer)
{
    memory_grow(program->buffers, program->n_buffers, program->buffer_capacity);
    snprintf(buffer.name, sizeof buffer.name, "%s", name);
    program->buffers[program->n_buffers] = buffer;
    return program->n_buffers++;
}

uint32_t program_new_array(struct program *program)
{
    return ++program->n_arrays;
}

static uint32_t add_list(struct program *program, const uint32_t *items, uint32_t count)
{
    uint32_t first = program->n_lists;
    for (uint32_t i = 0; i < count; i++) {
        memory_grow(program->lists, program->n_lists, program->list_capacity);
        program->lists[program->n_lists++] = items[i];
    }
    return first;
}

void program_begin_collective(struct program *program, enum collective_call call, enum stream stream, uint32_t n,
                              uint32_t me, const uint32_t *members, const uint32_t *sources, const uint32_t *targets)
{
    assert(program->open_collective == 0 && me < n);
    struct collective collective = {.call = (uint8_t)call,
                                    .stream = (uint8_t)stream,
                                    .phase = program->phase,
                                    .n_members = n,
                                    .me = me,
                                    .members = add_list(program, members, n),
                                    .sources = add_list(program, sources, n),
                                    .targets = add_list(program, targets, n),
                                    .first_op = program->n_ops};
    memory_grow(program->collectives, program->n_collectives, program->collective_capacity);
    program->collectives[program->n_collectives] = collective;
    program->open_collective = ++program->n_collectives;
}

void program_begin_flow(struct program *program, enum collective_call call, enum stream stream, uint32_t n, uint32_t me,
                        const uint32_t *members, uint32_t *list)
{
    assert(program->open_collective == 0 && me < n);
    if (*list == 0)
        *list = add_list(program, members, n) + 1;
    const struct collective collective = {.call = (uint8_t)call,
                                          .stream = (uint8_t)stream,
                                          .phase = program->phase,
                                          .flowing = true,
                                          .n_members = n,
                                          .me = me,
                                          .members = *list - 1,
                                          .first_op = program->n_ops};
    memory_grow(program->collectives, program->n_collectives, program->collective_capacity);
    program->collectives[program->n_collectives] = collective;
    program->open_collective = ++program->n_collectives;
}

void program_end_collective(struct program *program)
{
    assert(program->open_collective);
    program->collectives[program->open_collective - 1].end_op = program->n_ops;
    program->open_collective = 0;
}

uint32_t program_add_work(struct program *program, struct layer_work work)
{
    memory_grow(program->works, program->n_works, program->work_capacity);
    program->works[program->n_works] = work;
    return program->n_works++;
}

static void add_accesses(struct program *program, const uint32_t *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(buffers[i] < program->n_buffers);
        memory_grow(program->accesses, program->n_accesses, program->access_capacity);
        program->accesses[program->n_accesses++] = buffers[i];
    }
}

uint32_t program_add_op(struct program *program, struct op op, const uint32_t *reads, size_t n_reads,
                        const uint32_t *writes, size_t n_writes)
{
    assert(n_reads <= UINT16_MAX && n_writes <= UINT16_MAX);
    op.access = program->n_accesses;
    op.collective = program->open_collective;
    assert(!op.collective || op.stream == program->collectives[op.collective - 1].stream);
    op.n_reads = (uint16_t)n_reads;
    op.n_writes = (uint16_t)n_writes;
    add_accesses(program, reads, n_reads);
    add_accesses(program, writes, n_writes);
    memory_grow(program->ops, program->n_ops, program->op_capacity);
    program->ops[program->n_ops] = op;
    return program->n_ops++;
}

uint32_t program_new_group(struct program *program)
{
    return ++program->n_groups;
}

void program_end_phase(struct program *program, enum phase phase)
{
    for (int p = (int)phase; p < PHASE_COUNT; p++)
        program->phase_end[p] = program->n_ops;
    program->phase = (uint8_t)(phase + 1);
}

void program_trim(struct program *program)
{
    memory_trim(program->buffers, program->n_buffers, program->buffer_capacity);
    memory_trim(program->ops, program->n_ops, program->op_capacity);
    memory_trim(program->accesses, program->n_accesses, program->access_capacity);
    memory_trim(program->collectives, program->n_collectives, program->collective_capacity);
    memory_trim(program->lists, program->n_lists, program->list_capacity);
    memory_trim(program->works, program->n_works, program->work_capacity);
}

enum phase program_phase(const struct program *program, uint32_t op)
{
    return op < program->phase_end[PHASE_FORWARD] ? PHASE_FORWARD : PHASE_BACKWARD;
}

const char *tensor_name(enum tensor tensor)
{
    static const char *const names[TENSOR_COUNT] = {
        [TENSOR_Q] = "Q",
        [TENSOR_KV] = "KV",
        [TENSOR_O] = "O",
        [TENSOR_LSE] = "LSE",
        [TENSOR_PARTIAL] = "partial",
        [TENSOR_STATE] = "state",
        [TENSOR_DO] = "dO",
        [TENSOR_DELTA] = "delta",
        [TENSOR_DQ] = "dQ",
        [TENSOR_DKV] = "dKV",
        [TENSOR_TOP] = "top",
        [TENSOR_NUMERATOR] = "numerator",
        [TENSOR_DENOMINATOR] = "denominator",
        [TENSOR_HIDDEN] = "hidden",
        [TENSOR_WIDE] = "wide",
        [TENSOR_LOGITS] = "logits",
        [TENSOR_WEIGHT] = "weight",
        [TENSOR_WEIGHT_GRADIENT] = "weight gradient",
        [TENSOR_OPTIMIZER] = "optimizer",
    };
    return names[tensor];
}

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[OP_KIND_COUNT] = {
        [OP_ATTEND] = "attend",
        [OP_MERGE] = "merge",
        [OP_FINISH] = "finish",
        [OP_DELTA] = "delta",
        [OP_ATTEND_BACKWARD] = "attend-backward",
        [OP_ACCUMULATE] = "accumulate",
        [OP_CAST] = "cast",
        [OP_SPLIT_LANES] = "split-lanes",
        [OP_JOIN_LANES] = "join-lanes",
        [OP_SPLIT_ROWS] = "split-rows",
        [OP_JOIN_ROWS] = "join-rows",
        [OP_SUM_LSE] = "sum-lse",
        [OP_CORRECT] = "correct",
        [OP_TOP] = "top",
        [OP_RAISE] = "raise",
        [OP_WEIGH] = "weigh",
        [OP_NORMALIZE] = "normalize",
        [OP_PRODUCT] = "product",
        [OP_NORM] = "norm",
        [OP_NORM_BACKWARD] = "norm-backward",
        [OP_ACTIVATE] = "activate",
        [OP_ACTIVATE_BACKWARD] = "activate-backward",
        [OP_ADD] = "add",
        [OP_EMBED] = "embed",
        [OP_EMBED_BACKWARD] = "embed-backward",
        [OP_LOSS] = "loss",
        [OP_OPTIMIZE] = "optimize",
        [OP_SEND] = "send",
        [OP_RECEIVE] = "receive",
    };
    return names[kind];
}

const char *stream_name(enum stream stream)
{
    static const char *const names[STREAM_COUNT] = {"compute", "exchange", "gradient", "compute 2",
                                                    "outer",   "tensor",   "weights",  "reduction"};
    return names[stream];
}

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASE_COUNT] = {"forward", "backward"};
    return names[phase];
}

const char *traffic_name(enum traffic traffic)
{
    static const char *const names[TRAFFIC_COUNT] = {"forward_kv", "replay_kv", "gradient",       "other",
                                                     "tensor",     "weights",   "weight_gradient"};
    return names[traffic];
}

const char *buffer_role_name(enum buffer_role role)
{
    static const char *const names[ROLE_COUNT] = {"resident", "received",  "accumulators", "workspace",
                                                  "weights",  "gradients", "optimizer",    "activations"};
    return names[role];
}

const char *collective_call_name(enum collective_call call)
{
    static const char *const names[CALL_COUNT] = {"all-gather", "reduce-scatter", "all-to-all", "all-reduce"};
    return names[call];
}

static void describe_rows(struct block block, const char *what, char *text, size_t size)
{
    char rows[64];
    block_describe(block, rows, sizeof rows);
    snprintf(text, size, " %s of %s", what, rows);
}

void program_describe_op(const struct program *program, uint32_t index, char *text, size_t size)
{
    const struct op *op = &program->ops[index];
    char queries[80] = "", keys[80] = "";
    if (op->q.count)
        describe_rows(op->q, "queries", queries, sizeof queries);
    if (op->k.count)
        describe_rows(op->k, "keys", keys, sizeof keys);
    if (op_is_message(op)) {
        const uint32_t *buffer = op->kind == OP_SEND ? program_reads(program, op) : program_writes(program, op);
        const char *part = op->part == PART_K ? " (K part)" : op->part == PART_V ? " (V part)" : "";
        snprintf(text, size, "%s %s%s %s rank %" PRIu32 ", %" PRIu64 " bytes,%s%s",
                 op_kind_name((enum op_kind)op->kind), program->buffers[*buffer].name, part,
                 op->kind == OP_SEND ? "to" : "from", op->peer, op->bytes, queries, keys);
    } else {
        const char *target = op->n_writes ? program->buffers[*program_writes(program, op)].name : "nothing";
        snprintf(text, size, "%s into %s:%s%s%s", op_kind_name((enum op_kind)op->kind), target, queries,
                 op->q.count && op->k.count ? "," : "", keys);
    }
}
