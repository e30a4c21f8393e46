/* compute_cpu.c - the backend 'cpu': each kind of operation as a call of kernels/attention.h on host memory.
 *
 * Which rows an operation is on, its blocks say; where they are, layout.h. A merge or sum is the first one when the
 * operation does not read its target.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/compute.h"
#include "hw/layout.h"
#include "kernels/attention.h"
#include "models/base/memory.h"

struct compute {
    const struct schedule *schedule;
    struct attention_keys *keys; /* one for each rank: a call's */
};

static struct compute *open_cpu(const struct schedule *schedule, uint32_t rank, struct diagnostics *diag)
{
    (void)rank;
    const struct experiment *experiment = schedule->experiment;
    enum dtype dtype = experiment->dtype;
    if (dtype != DTYPE_FP32 && dtype != DTYPE_BF16) {
        diagnostics_add(diag, "backend 'cpu' cannot run dtype '%s', expected fp32 or bf16", dtype_name(dtype));
        return NULL;
    }
    if (dtype == DTYPE_BF16 && experiment->model.head_dim % 2) { /* the fp32 LSE behind a bf16 O would be unaligned */
        diagnostics_add(diag, "backend 'cpu' cannot run bf16 with head_dim = %u, expected an even one",
                        experiment->model.head_dim);
        return NULL;
    }
    struct compute *cpu = memory_zeroed(1, sizeof *cpu);
    cpu->schedule = schedule;
    cpu->keys = memory_zeroed(schedule->ranks, sizeof *cpu->keys);
    return cpu;
}

static void close_cpu(struct compute *cpu)
{
    if (cpu)
        free(cpu->keys);
    free(cpu);
}

/* Whole cache lines: the kernels like their vectors aligned. */
static void *allocate(struct compute *cpu, uint64_t bytes)
{
    (void)cpu;
    return bytes <= SIZE_MAX - 64 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void release(struct compute *cpu, void *memory)
{
    (void)cpu;
    free(memory);
}

static void write_memory(struct compute *cpu, void *target, const void *host, uint64_t bytes)
{
    (void)cpu;
    memcpy(target, host, bytes);
}

static void read_memory(struct compute *cpu, void *host, const void *source, uint64_t bytes)
{
    (void)cpu;
    memcpy(host, source, bytes);
}

static void fill(struct compute *cpu, void *target, int byte, uint64_t bytes)
{
    (void)cpu;
    memset(target, byte, bytes);
}

/* ---- one operation ---- */

/* A buffer that the operation reads or writes, at the operation's rows. */
struct operand {
    const struct buffer *buffer;
    void *arrays[LAYOUT_ARRAYS_MAX];
    struct block block;
};

struct action {
    struct compute *cpu;
    const struct program *program;
    const struct op *op;
    void *const *memory;
    const struct between_tiles *between_tiles;
};

static struct operand operand_of(const struct action *action, bool write, uint32_t i)
{
    const struct program *program = action->program;
    uint32_t index = write ? program_writes(program, action->op)[i] : program_reads(program, action->op)[i];
    const struct buffer *buffer = &program->buffers[index];
    struct layout layout = layout_of(action->cpu->schedule, buffer);
    struct operand operand = {.buffer = buffer,
                              .block = layout_block(action->cpu->schedule, program, action->op, write, i)};
    for (uint32_t a = 0; a < layout.n_arrays; a++)
        operand.arrays[a] = layout_rows(&layout, buffer, action->memory[index], a, operand.block);
    return operand;
}

/* The first operand that is a `tensor`; false if there is none. */
static bool find_operand(const struct action *action, bool write, enum tensor tensor, struct operand *operand)
{
    uint32_t count = write ? action->op->n_writes : action->op->n_reads;
    for (uint32_t i = 0; i < count; i++) {
        *operand = operand_of(action, write, i);
        if (operand->buffer->tensor == tensor)
            return true;
    }
    return false;
}

static struct operand get_operand(const struct action *action, bool write, enum tensor tensor)
{
    struct operand operand = {0};
    bool found = find_operand(action, write, tensor, &operand);
    assert(found);
    (void)found;
    return operand;
}

static size_t heads_of(const struct action *action)
{
    return (size_t)action->cpu->schedule->experiment->batch * action->cpu->schedule->q_heads;
}

static size_t dim_of(const struct action *action)
{
    return action->cpu->schedule->experiment->model.head_dim;
}

static struct attention_rows rows_of(const struct action *action, struct block block)
{
    struct attention_rows rows = {.rows = block.count};
    rows.n_spans = sharding_block_spans(&action->cpu->schedule->sharding, block, rows.spans);
    return rows;
}

/* What both directions have in common: queries and keys. */
static struct attention_call call_of(const struct action *action)
{
    const struct schedule *schedule = action->cpu->schedule;
    const struct experiment *experiment = schedule->experiment;
    struct operand q = get_operand(action, false, TENSOR_Q);
    size_t n_keys = 0;
    for (uint32_t i = 0; i < action->op->n_reads; i++) {
        struct operand kv = operand_of(action, false, i);
        if (kv.buffer->tensor == TENSOR_KV)
            action->cpu->keys[n_keys++] =
                (struct attention_keys){.positions = rows_of(action, kv.block), .k = kv.arrays[0], .v = kv.arrays[1]};
    }
    return (struct attention_call){
        .mask = &experiment->mask,
        .batch = experiment->batch,
        .q_heads = schedule->q_heads,
        .kv_heads = schedule->kv_heads,
        .head_dim = experiment->model.head_dim,
        .scale = (float)(1 / sqrt((double)experiment->model.head_dim)),
        .dtype = experiment->dtype,
        .queries = rows_of(action, q.block),
        .q = q.arrays[0],
        .keys = action->cpu->keys,
        .n_keys = n_keys,
        .between_tiles = action->between_tiles ? action->between_tiles->call : NULL,
        .between_tiles_context = action->between_tiles ? action->between_tiles->context : NULL,
    };
}

static void attend(const struct action *action)
{
    struct attention_call call = call_of(action);
    struct operand partial, o, lse;
    if (find_operand(action, true, TENSOR_PARTIAL, &partial)) {
        attention_forward(&call, partial.arrays[0], partial.arrays[1]);
        return;
    }
    o = get_operand(action, true, TENSOR_O);
    lse = get_operand(action, true, TENSOR_LSE);
    attention_forward(&call, o.arrays[0], lse.arrays[0]);
}

static void attend_backward(const struct action *action)
{
    struct attention_call call = call_of(action);
    size_t n_keys = 0;
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        struct operand dkv = operand_of(action, true, i);
        if (dkv.buffer->tensor != TENSOR_DKV)
            continue;
        assert(n_keys < call.n_keys);
        action->cpu->keys[n_keys].dk = dkv.arrays[0];
        action->cpu->keys[n_keys++].dv = dkv.arrays[1];
        call.dkv_dtype = (enum dtype)dkv.buffer->dtype;
    }
    struct operand dq = get_operand(action, true, TENSOR_DQ);
    assert(dq.buffer->dtype == call.dtype && n_keys == call.n_keys);
    attention_backward(&call, get_operand(action, false, TENSOR_DO).arrays[0],
                       get_operand(action, false, TENSOR_LSE).arrays[0],
                       get_operand(action, false, TENSOR_DELTA).arrays[0], dq.arrays[0]);
}

static void merge(const struct action *action)
{
    struct operand partial = get_operand(action, false, TENSOR_PARTIAL), held;
    struct operand state = get_operand(action, true, TENSOR_STATE);
    bool first = !find_operand(action, false, TENSOR_STATE, &held);
    attention_merge(action->op->q.count, heads_of(action), dim_of(action), (enum dtype)partial.buffer->dtype,
                    partial.arrays[0], partial.arrays[1], state.arrays[0], state.arrays[1], state.arrays[2], first);
}

static void finish(const struct action *action)
{
    struct operand state = get_operand(action, false, TENSOR_STATE), o = get_operand(action, true, TENSOR_O);
    attention_finish(action->op->q.count, heads_of(action), dim_of(action), (enum dtype)o.buffer->dtype,
                     state.arrays[0], state.arrays[1], state.arrays[2], o.arrays[0],
                     get_operand(action, true, TENSOR_LSE).arrays[0]);
}

static void delta(const struct action *action)
{
    struct operand o = get_operand(action, false, TENSOR_O);
    attention_delta(action->op->q.count, heads_of(action), dim_of(action), (enum dtype)o.buffer->dtype, o.arrays[0],
                    get_operand(action, false, TENSOR_DO).arrays[0], get_operand(action, true, TENSOR_DELTA).arrays[0]);
}

static bool reads_buffer(const struct action *action, uint32_t buffer)
{
    for (uint32_t i = 0; i < action->op->n_reads; i++)
        if (program_reads(action->program, action->op)[i] == buffer)
            return true;
    return false;
}

/* The i-th target from the i-th source. A cast is a sum that does not read its target. */
static void accumulate(const struct action *action)
{
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        struct operand source = operand_of(action, false, i), target = operand_of(action, true, i);
        struct layout layout = layout_of(action->cpu->schedule, target.buffer);
        bool first = !reads_buffer(action, program_writes(action->program, action->op)[i]);
        for (uint32_t a = 0; a < layout.n_arrays; a++) {
            size_t count = target.block.count * layout.arrays[a].row_bytes / dtype_bytes(layout.arrays[a].dtype);
            attention_accumulate(count, (enum dtype)target.buffer->dtype, target.arrays[a],
                                 (enum dtype)source.buffer->dtype, source.arrays[a], first);
        }
    }
}

static void run(struct compute *cpu, const struct program *program, uint32_t op, void *const *memory,
                const struct between_tiles *between_tiles)
{
    const struct action action = {cpu, program, &program->ops[op], memory, between_tiles};
    switch ((enum op_kind)action.op->kind) {
    case OP_ATTEND:
        attend(&action);
        break;
    case OP_MERGE:
        merge(&action);
        break;
    case OP_FINISH:
        finish(&action);
        break;
    case OP_DELTA:
        delta(&action);
        break;
    case OP_ATTEND_BACKWARD:
        attend_backward(&action);
        break;
    case OP_ACCUMULATE:
    case OP_CAST:
        accumulate(&action);
        break;
    case OP_SEND:
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        assert(!"messages are the transport's");
        break;
    }
}

const struct compute_ops compute_cpu = {
    .name = "cpu",
    .summary = "attention on this machine's CPU, one core a rank",
    .open = open_cpu,
    .close = close_cpu,
    .allocate = allocate,
    .release = release,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .run = run,
};
