/* layer_cost.c - seconds of what a layer does beside attention.
 *
 * A matrix product goes by the device's table of products (product_cost.h). In a narrower type than its operands have
 * in memory (fp8), these are cast before: each is read and written once, by a kernel of its own. All else streams: a
 * norm, an activation, a sum reads and writes its buffers once, by the rate of element-wise steps; a look-up and the
 * optimizer touch the rows and elements that their work names.
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
    case OP_LOSS: /* logits in fp32, read; and written, where this pass makes their gradient */
        return elements * (double)sizeof(float) * (op->n_writes > 1 || op->n_reads > 1 ? 2.0 : 1.0);
    case OP_OPTIMIZE:
        return elements * (ADAM_BYTES + gradient + element);
    default:
        return buffer_bytes(program, op);
    }
}

double cost_layer_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    double kernels = 1.0;
    if (op->kind == OP_PRODUCT)
        kernels += casts(cost, program_work(program, op));
    return kernels * cost_launch_seconds(cost);
}

double cost_layer_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct layer_work *work = program_work(program, op);
    double seconds = cost_layer_fixed_seconds(cost, program, op);
    if (op->kind == OP_PRODUCT) {
        const struct product product = {.rows = (double)work->rows,
                                        .columns = (double)work->columns,
                                        .depth = (double)work->depth,
                                        .dtype = (enum dtype)work->dtype};
        return seconds + cast_seconds(cost, work) + product_seconds(cost->device, &product);
    }
    double bytes = mechanism_counts(cost->without, MECHANISM_STEPS) ? streamed_bytes(cost, program, op) : 0.0;
    return seconds + bytes / elementwise_rate(cost);
}
