/* compute_cpu.c - the backend 'cpu': each kind of operation on host memory, with the kernels of kernels/attention.h.
 *
 * Which rows and lanes an operation is on, models/schedule/accesses.h says; where they are, layout.h; what is done with
 * them, cpu_*.c.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hw/compute.h"
#include "hw/cpu/cpu_action.h"
#include "hw/layer_layout.h"
#include "models/base/memory.h"

struct compute {
    const struct schedule *schedule;
    struct attention_keys *keys;  /* one for each rank: a call's */
    struct operand_list operands; /* of the operation that runs */
};

static struct compute *open_cpu(const struct schedule *schedule, uint32_t rank, const struct compute_settings *settings,
                                struct diagnostics *diag)
{
    (void)rank;
    (void)settings;
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
    if (!cpu)
        return;
    free(cpu->keys);
    operand_list_fini(&cpu->operands);
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

static void run(struct compute *cpu, const struct program *program, uint32_t index, void *const *memory,
                const struct between_tiles *between_tiles)
{
    const struct op *op = &program->ops[index];
    assert(!op_is_message(op));
    const bool of_layer = op_is_of_layer(op), has_lanes = op->lanes.heads && op->lanes.items;
    if (!of_layer && !has_lanes && !op_is_on_layer(program, op))
        return;
    if (!of_layer)
        operand_list_fill(&cpu->operands, cpu->schedule, program, op, memory);
    const struct action action = {
        .schedule = cpu->schedule,
        .program = program,
        .op = op,
        .memory = memory,
        .between_tiles = between_tiles,
        .reads = cpu->operands.items,
        .writes = cpu->operands.items + op->n_reads,
        .keys = cpu->keys,
    };
    if (of_layer)
        cpu_layer(&action);
    else if (op->kind == OP_ATTEND)
        cpu_attend(&action);
    else if (op->kind == OP_ATTEND_BACKWARD)
        cpu_attend_backward(&action);
    else if (op_is_layout(op))
        cpu_copy(&action);
    else
        cpu_elements(&action);
}

const struct compute_ops compute_cpu = {
    .name = "cpu",
    .summary = "attention and layers on this machine's CPU, one core a rank",
    .layers = true,
    .open = open_cpu,
    .close = close_cpu,
    .allocate = allocate,
    .release = release,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .run = run,
};
