/* layer_layout.c - which rows, and whether sizes fit: numbers of elements are held against each other. */
#include "hw/layer_layout.h"

#include <inttypes.h>

bool op_is_on_layer(const struct program *program, const struct op *op)
{
    const uint32_t buffer = op->n_writes ? *program_writes(program, op) : *program_reads(program, op);
    return op_is_of_layer(op) || tensor_is_of_layer((enum tensor)program->buffers[buffer].tensor);
}

struct block layer_layout_rows(const struct program *program, const struct op *op, uint32_t buffer)
{
    const struct buffer *of = &program->buffers[buffer];
    if (op_is_of_layer(op))
        return (struct block){0, of->first, (uint32_t)of->rows};
    bool shorter = false;
    for (uint32_t i = 0; i < (uint32_t)op->n_reads + op->n_writes; i++)
        shorter = shorter || program->buffers[program_reads(program, op)[i]].rows > of->rows;
    return (struct block){0, shorter ? of->first : op->q.first, op->q.count};
}

/* ---- sizes ---- */

static uint64_t elements_of(const struct schedule *schedule, const struct buffer *buffer)
{
    if (tensor_is_of_layer((enum tensor)buffer->tensor))
        return buffer->rows * buffer->columns;
    return schedule_tensor_elements(schedule, (enum tensor)buffer->tensor, buffer->rows, buffer->lanes);
}

static bool is_written(const struct program *program, const struct op *op, uint32_t buffer)
{
    for (uint32_t i = 0; i < op->n_writes; i++)
        if (program_writes(program, op)[i] == buffer)
            return true;
    return false;
}

/* What an operation reads, by the part it plays, and writes: elements. */
struct sizes {
    uint64_t first, others, weight, written; /* `others`: what follows the first and is no weight */
};

static struct sizes sizes_of(const struct schedule *schedule, const struct program *program, const struct op *op)
{
    struct sizes sizes = {0};
    uint32_t operands = 0;
    for (uint32_t i = 0; i < op->n_reads; i++) {
        uint32_t index = program_reads(program, op)[i];
        uint64_t elements = elements_of(schedule, &program->buffers[index]);
        if (is_written(program, op, index))
            continue;
        if (program->buffers[index].tensor == TENSOR_WEIGHT)
            sizes.weight += elements;
        else if (operands++ == 0)
            sizes.first = elements;
        else
            sizes.others += elements;
    }
    for (uint32_t i = 0; i < op->n_writes; i++)
        sizes.written += elements_of(schedule, &program->buffers[program_writes(program, op)[i]]);
    return sizes;
}

static struct sizes product_sizes(const struct layer_work *work)
{
    const uint64_t n = work->rows, m = work->columns, k = work->depth;
    if (work->form == PRODUCT_WEIGHT_GRADIENT)
        return (struct sizes){k * n, k * m, 0, n * m};
    return (struct sizes){n * k, 0, m * k, n * m};
}

/* Of those that are not products. */
static struct sizes plain_sizes(const struct schedule *schedule, enum op_kind kind, const struct layer_work *work)
{
    const struct transformer *model = &schedule->experiment->model;
    const uint64_t n = work->rows * work->columns;
    const uint64_t norm = (model->norm == NORM_LAYER ? 2 : 1) * work->columns;
    const uint64_t gates = model->mlp == MLP_GATED ? 2 : 1;
    switch (kind) {
    case OP_NORM:
        return (struct sizes){n, 0, norm, n};
    case OP_NORM_BACKWARD:
        return (struct sizes){n, n, norm, n + norm};
    case OP_ACTIVATE:
        return (struct sizes){n * gates, 0, 0, n};
    case OP_ACTIVATE_BACKWARD: /* columns: those of up, which is written */
        return (struct sizes){n / gates, n, 0, n};
    case OP_ADD:
        return (struct sizes){n, n, 0, n};
    default:
        return (struct sizes){0};
    }
}

static bool sizes_equal(const struct sizes *a, const struct sizes *b)
{
    return a->first == b->first && a->others == b->others && a->weight == b->weight && a->written == b->written;
}

bool layer_layout_check(const struct schedule *schedule, const struct program *program, const struct op *op,
                        struct diagnostics *diag)
{
    const struct layer_work *work = program_work(program, op);
    struct sizes found = sizes_of(schedule, program, op), due;
    if (op->kind == OP_PRODUCT)
        due = product_sizes(work);
    else
        due = plain_sizes(schedule, (enum op_kind)op->kind, work);
    if (op->kind == OP_PRODUCT && work->form != PRODUCT_WEIGHT_GRADIENT) { /* its operand may lie in several buffers */
        found.first += found.others;
        found.others = 0;
    }
    if (sizes_equal(&found, &due))
        return true;
    char text[256];
    program_describe_op(program, (uint32_t)(op - program->ops), text, sizeof text);
    return diagnostics_add(diag,
                           "rank %" PRIu32 ": '%s' reads %" PRIu64 " + %" PRIu64 " numbers and %" PRIu64
                           " weights and writes %" PRIu64 ", but its work is of %" PRIu64 " + %" PRIu64 ", %" PRIu64
                           " and %" PRIu64,
                           program->rank, text, found.first, found.others, found.weight, found.written, due.first,
                           due.others, due.weight, due.written);
}
