/* layer_cost.c - seconds of what a layer does beside attention.
 *
 * A matrix product goes by the device's table of products (product_cost.h). In a narrower type than its operands have
 * in memory (fp8), these are cast before: each is read and written once, by a kernel of its own. All else streams: a
 * norm, an activation, a sum reads and writes its buffers once, by the rate of element-wise steps; a look-up and the
 * optimizer touch the rows and elements that their work names. An implementation may take more kernels and passes for
 * norms and activations; what it takes for rotary embeddings is counted with the product that makes Q and K, and with
 * that of their gradients.
 */
#include <math.h>

#include "models/cost/cost_parts.h"
#include "models/cost/product_cost.h"

/* Of one parameter, bytes of what the optimizer reads and writes: the weight and two moments in fp32, both ways. */
#define ADAM_BYTES 24.0

/* Types that the products of an experiment's layers are computed in: those of the layers, and of the head. */
static enum dtype linear_type(const struct experiment *experiment)
{
    return experiment->step.linear == LINEAR_FP8 ? DTYPE_FP8 : dtype_output(experiment->dtype);
}

/* What the profile lacks is said where the topology names it. */
static bool check_products(const struct cost *cost, enum dtype dtype, struct diagnostics *diag)
{
    return product_table_of(cost->device, dtype) ||
           topology_complain(cost->topology, "device", diag,
                             "device '%s' has no rates of matrix products in dtype '%s', expected a section [product "
                             "%s] in its profile, or scope = attention",
                             cost->device->name, dtype_name(dtype), dtype_name(dtype));
}

bool cost_layers_check(const struct cost *cost, struct diagnostics *diag)
{
    const struct experiment *experiment = cost->schedule->experiment;
    enum dtype linear = linear_type(experiment), head = dtype_output(experiment->dtype);
    bool good = check_products(cost, linear, diag);
    return (head == linear || check_products(cost, head, diag)) && good;
}

double cost_products_spread(const struct cost *cost)
{
    const struct experiment *experiment = cost->schedule->experiment;
    if (experiment->step.scope == SCOPE_ATTENTION)
        return 0.0;
    const struct product_table *table = product_table_of(cost->device, linear_type(experiment));
    return table ? table->spread : 0.0;
}

static double elementwise_rate(const struct cost *cost)
{
    double rate = cost->device->step_bytes_per_s[STEP_ELEMENTWISE];
    return rate > 0.0 ? rate : cost_memory_bytes_per_s(cost->device);
}

/* Operands that are cast before the product, and what that takes beside launches. */
static double casts(const struct cost *cost, const struct layer_work *work)
{
    return work->dtype == DTYPE_FP8 && mechanism_counts(cost->without, MECHANISM_STEPS) ? 2.0 : 0.0;
}

static double cast_seconds(const struct cost *cost, const struct layer_work *work)
{
    double elements = ((double)work->rows + (double)work->columns) * (double)work->depth;
    double bytes = (double)dtype_bytes(dtype_output(cost->schedule->experiment->dtype)) + 1.0;
    return casts(cost, work) > 0.0 ? elements * bytes / elementwise_rate(cost) : 0.0;
}

static double buffer_bytes(const struct program *program, const struct op *op)
{
    const uint32_t *accesses = program_reads(program, op);
    double bytes = 0.0;
    for (uint32_t i = 0; i < (uint32_t)op->n_reads + op->n_writes; i++)
        bytes += (double)program->buffers[accesses[i]].bytes;
    return bytes;
}

/* Of one logit, in all buffers that the operation goes over. */
static double logits_bytes(const struct program *program, const struct op *op)
{
    const uint32_t *accesses = program_reads(program, op);
    double bytes = 0.0;
    for (uint32_t i = 0; i < (uint32_t)op->n_reads + op->n_writes; i++) {
        const struct buffer *buffer = &program->buffers[accesses[i]];
        bytes += buffer->tensor == TENSOR_LOGITS ? (double)dtype_bytes((enum dtype)buffer->dtype) : 0.0;
    }
    return bytes;
}

static double streamed_bytes(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct layer_work *work = program_work(program, op);
    const struct experiment *experiment = cost->schedule->experiment;
    double elements = (double)work->rows * (double)work->columns;
    double element = (double)dtype_bytes(dtype_output(experiment->dtype));
    double gradient = experiment->step.weight_gradients_fp32
                          ? (double)dtype_bytes(dtype_accumulator(dtype_output(experiment->dtype)))
                          : element;
    switch ((enum op_kind)op->kind) {
    case OP_EMBED: /* rows of the table, and where they go */
        return 2.0 * elements * element;
    case OP_EMBED_BACKWARD: /* added to rows of the table's gradient */
        return elements * (element + 2.0 * gradient);
    case OP_LOSS: /* logits, or what is made of them, read; and written, where this pass makes something of them */
        return elements * logits_bytes(program, op);
    case OP_OPTIMIZE:
        return elements * (ADAM_BYTES + gradient + element);
    default:
        return buffer_bytes(program, op);
    }
}

/* ---- an implementation's own way ---- */

static bool is_of_heads(const struct layer_work *work)
{
    return work->part == MODEL_QUERY && work->form != PRODUCT_WEIGHT_GRADIENT;
}

/* What of the implementation's steps the operation is; IMPLEMENTATION_STEPS: none. */
static enum implementation_step step_of(const struct op *op, const struct layer_work *work)
{
    switch ((enum op_kind)op->kind) {
    case OP_NORM:
        return IMPLEMENTATION_NORM;
    case OP_NORM_BACKWARD:
        return IMPLEMENTATION_NORM_BACKWARD;
    case OP_ACTIVATE:
        return IMPLEMENTATION_ACTIVATE;
    case OP_ACTIVATE_BACKWARD:
        return IMPLEMENTATION_ACTIVATE_BACKWARD;
    case OP_PRODUCT:
        if (is_of_heads(work))
            return work->form == PRODUCT_OUTPUT ? IMPLEMENTATION_ROTATE : IMPLEMENTATION_ROTATE_BACKWARD;
        return IMPLEMENTATION_STEPS;
    default:
        return IMPLEMENTATION_STEPS;
    }
}

static const struct passes *passes_of(const struct cost *cost, const struct op *op, const struct layer_work *work)
{
    enum implementation_step step = step_of(op, work);
    if (step == IMPLEMENTATION_STEPS || !mechanism_counts(cost->without, MECHANISM_IMPLEMENTATION))
        return NULL;
    const struct passes *passes = &cost_implementation(cost)->steps[step];
    return passes->given ? passes : NULL;
}

/* Elements that the passes are counted in. */
static double pass_elements(const struct cost *cost, const struct op *op, const struct layer_work *work)
{
    const struct transformer *model = &cost->schedule->experiment->model;
    double rows = (double)work->rows, kv = (double)cost->schedule->kv_heads * model->head_dim;
    if (op->kind == OP_ACTIVATE_BACKWARD && model->mlp == MLP_GATED)
        return rows * (double)work->columns / 2.0; /* of gate and up */
    if (op->kind != OP_PRODUCT)
        return rows * (double)work->columns;
    double columns = (double)(work->form == PRODUCT_OUTPUT ? work->columns : work->depth);
    return rows * (columns > kv ? columns - kv : columns); /* without V; or K alone */
}

static double pass_bytes(const struct cost *cost, const struct passes *passes, const struct op *op,
                         const struct layer_work *work)
{
    if (!mechanism_counts(cost->without, MECHANISM_STEPS))
        return 0.0;
    return passes->bytes_per_element * pass_elements(cost, op, work) + passes->bytes_per_row * (double)work->rows;
}

double cost_layer_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct layer_work *work = program_work(program, op);
    const struct passes *passes = passes_of(cost, op, work);
    double kernels = passes ? passes->kernels : 1.0;
    if (op->kind == OP_PRODUCT)
        kernels = 1.0 + casts(cost, work) + (passes ? passes->kernels : 0.0);
    return kernels * cost_launch_seconds(cost);
}

double cost_layer_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct layer_work *work = program_work(program, op);
    const struct passes *passes = passes_of(cost, op, work);
    double seconds = cost_layer_fixed_seconds(cost, program, op);
    if (passes)
        seconds += pass_bytes(cost, passes, op, work) / elementwise_rate(cost);
    if (op->kind == OP_PRODUCT) {
        const struct product product = {.rows = (double)work->rows,
                                        .columns = (double)work->columns,
                                        .depth = (double)work->depth,
                                        .dtype = (enum dtype)work->dtype};
        return seconds + cast_seconds(cost, work) + product_seconds(cost->device, &product);
    }
    if (passes)
        return seconds;
    double bytes = mechanism_counts(cost->without, MECHANISM_STEPS) ? streamed_bytes(cost, program, op) : 0.0;
    return seconds + bytes / elementwise_rate(cost);
}
