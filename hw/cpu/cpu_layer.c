/* cpu_layer.c - operations of layers, on whole buffers: products, norms, activation functions, sums.
 *
 * A matrix of a product may lie in several buffers, some of its columns in each: Q, K and V, whose rows of all items
 * and heads are rows of tokens and columns. Rows of norms and activation functions are made fp32 on their way.
 */
#include <assert.h>
#include <stdlib.h>

#include "hw/cpu/cpu_action.h"
#include "kernels/layer.h"
#include "kernels/product.h"
#include "models/base/memory.h"

#define SLABS_MAX 8

/* Columns of a matrix, dense rows of `columns` elements. */
struct slab {
    void *at;
    size_t columns;
    enum dtype dtype;
};

struct matrix {
    struct slab slabs[SLABS_MAX];
    size_t n_slabs, columns; /* of all parts */
};

static const struct buffer *buffer_at(const struct action *action, uint32_t index)
{
    return &action->program->buffers[index];
}

/* ---- operands ---- */

static void add_buffer(const struct action *action, struct matrix *matrix, uint32_t index)
{
    const struct buffer *buffer = buffer_at(action, index);
    const struct buffer_layout layout = layout_of(action->schedule, buffer);
    for (uint32_t a = 0; a < layout.n_arrays; a++) {
        assert(matrix->n_slabs < SLABS_MAX);
        const struct slab slab = {(char *)action->memory[index] + layout.arrays[a].offset,
                                  (size_t)layout.arrays[a].width * layout.lanes.heads, layout.arrays[a].dtype};
        matrix->slabs[matrix->n_slabs++] = slab;
        matrix->columns += slab.columns;
    }
}

static bool is_written(const struct action *action, uint32_t index)
{
    for (uint32_t i = 0; i < action->op->n_writes; i++)
        if (program_writes(action->program, action->op)[i] == index)
            return true;
    return false;
}

static bool is_weight(const struct action *action, uint32_t index)
{
    return buffer_at(action, index)->tensor == TENSOR_WEIGHT;
}

/* Whether what is written to `index` is added to what is there. */
static bool adds_to(const struct action *action, uint32_t index)
{
    for (uint32_t i = 0; i < action->op->n_reads; i++)
        if (program_reads(action->program, action->op)[i] == index)
            return true;
    return false;
}

/* The i-th buffer read that is neither a weight nor written. */
static uint32_t operand(const struct action *action, uint32_t i)
{
    const uint32_t *reads = program_reads(action->program, action->op);
    for (uint32_t r = 0; r < action->op->n_reads; r++)
        if (!is_weight(action, reads[r]) && !is_written(action, reads[r]) && i-- == 0)
            return reads[r];
    assert(false);
    return NO_BUFFER;
}

static uint32_t weight_of(const struct action *action)
{
    const uint32_t *reads = program_reads(action->program, action->op);
    uint32_t r = 0;
    while (!is_weight(action, reads[r]))
        r++;
    assert(r < action->op->n_reads);
    return reads[r];
}

/* From the `from`-th operand on. */
static struct matrix operands(const struct action *action, uint32_t from)
{
    struct matrix matrix = {.n_slabs = 0};
    const uint32_t *reads = program_reads(action->program, action->op);
    for (uint32_t r = 0, i = 0; r < action->op->n_reads; r++)
        if (!is_weight(action, reads[r]) && !is_written(action, reads[r]) && i++ >= from)
            add_buffer(action, &matrix, reads[r]);
    return matrix;
}

static struct matrix matrix_of(const struct action *action, uint32_t index)
{
    struct matrix matrix = {.n_slabs = 0};
    add_buffer(action, &matrix, index);
    return matrix;
}

static struct matrix results(const struct action *action)
{
    struct matrix matrix = {.n_slabs = 0};
    for (uint32_t i = 0; i < action->op->n_writes; i++)
        add_buffer(action, &matrix, program_writes(action->program, action->op)[i]);
    return matrix;
}

/* Columns [first, ...) of a dense matrix of one part. */
static struct product_operand columns_from(const struct matrix *matrix, size_t first, bool transposed)
{
    assert(matrix->n_slabs == 1);
    const struct slab *slab = &matrix->slabs[0];
    return (struct product_operand){.dtype = slab->dtype,
                                    .at = (char *)slab->at + first * dtype_bytes(slab->dtype),
                                    .stride = slab->columns,
                                    .transposed = transposed};
}

static struct product_operand whole(const struct slab *slab, bool transposed)
{
    return (struct product_operand){
        .dtype = slab->dtype, .at = slab->at, .stride = slab->columns, .transposed = transposed};
}

/* ---- products ---- */

static struct product_call call_of(const struct action *action)
{
    return (struct product_call){.between_blocks = action->between_tiles->call,
                                 .between_blocks_context = action->between_tiles->context};
}

static void multiply(const struct action *action, const struct layer_work *work)
{
    const struct matrix x = operands(action, 0), w = matrix_of(action, weight_of(action)), y = results(action);
    struct product_call call = call_of(action);
    call.rows = work->rows;
    call.depth = work->depth;
    for (size_t p = 0, first = 0; p < y.n_slabs; first += y.slabs[p++].columns) {
        call.columns = y.slabs[p].columns;
        call.a = whole(&x.slabs[0], false);
        call.b = columns_from(&w, first, false);
        call.c = y.slabs[p].at;
        call.c_dtype = y.slabs[p].dtype;
        call.add = adds_to(action, program_writes(action->program, action->op)[0]);
        product_multiply(&call);
    }
}

/* The parts of dY each add to dX, in fp32 if there are several: it is rounded once. */
static void input_gradient(const struct action *action, const struct layer_work *work)
{
    const struct matrix dy = operands(action, 0), w = matrix_of(action, weight_of(action)), dx = results(action);
    const uint32_t written = program_writes(action->program, action->op)[0];
    const size_t count = work->rows * work->columns;
    float *sum = dy.n_slabs > 1 ? memory_zeroed(count, sizeof *sum) : NULL;
    struct product_call call = call_of(action);
    call.rows = work->rows;
    call.columns = work->columns;
    call.c = sum ? (void *)sum : dx.slabs[0].at;
    call.c_dtype = sum ? DTYPE_FP32 : dx.slabs[0].dtype;
    call.add = !sum && adds_to(action, written);
    for (size_t p = 0, first = 0; p < dy.n_slabs; first += dy.slabs[p++].columns) {
        call.depth = dy.slabs[p].columns;
        call.a = whole(&dy.slabs[p], false);
        call.b = columns_from(&w, first, true);
        product_multiply(&call);
        call.add = true;
    }
    if (sum)
        attention_accumulate(count, dx.slabs[0].dtype, dx.slabs[0].at, DTYPE_FP32, sum, !adds_to(action, written));
    free(sum);
}

static void weight_gradient(const struct action *action, const struct layer_work *work)
{
    const struct matrix x = matrix_of(action, operand(action, 0)), dy = operands(action, 1), dw = results(action);
    struct product_call call = call_of(action);
    call.rows = work->rows;
    call.depth = work->depth;
    call.c_dtype = dw.slabs[0].dtype;
    call.c_stride = dw.columns;
    call.add = adds_to(action, program_writes(action->program, action->op)[0]);
    for (size_t p = 0, first = 0; p < dy.n_slabs; first += dy.slabs[p++].columns) {
        call.columns = dy.slabs[p].columns;
        call.a = whole(&x.slabs[0], true);
        call.b = whole(&dy.slabs[p], false);
        call.c = (char *)dw.slabs[0].at + first * dtype_bytes(call.c_dtype);
        product_multiply(&call);
    }
}

static void product(const struct action *action, const struct layer_work *work)
{
    if (work->form == PRODUCT_OUTPUT)
        multiply(action, work);
    else if (work->form == PRODUCT_INPUT_GRADIENT)
        input_gradient(action, work);
    else
        weight_gradient(action, work);
}

/* ---- row by row ---- */

#define ROWS_BETWEEN 64 /* messages are looked after so often */

static void look_after_messages(const struct action *action, uint64_t row)
{
    if (row % ROWS_BETWEEN == 0)
        action->between_tiles->call(action->between_tiles->context);
}

/* Row `row` of a matrix of one part, to and from fp32. */
static void read_row(const struct matrix *matrix, uint64_t row, float *numbers)
{
    const struct slab *slab = &matrix->slabs[0];
    attention_accumulate(slab->columns, DTYPE_FP32, numbers, slab->dtype,
                         (const char *)slab->at + row * slab->columns * dtype_bytes(slab->dtype), 1);
}

static void write_row(const struct matrix *matrix, uint64_t row, const float *numbers, bool add)
{
    const struct slab *slab = &matrix->slabs[0];
    attention_accumulate(slab->columns, slab->dtype, (char *)slab->at + row * slab->columns * dtype_bytes(slab->dtype),
                         DTYPE_FP32, numbers, !add);
}

/* All of a norm's weights. */
static float *read_weights(const struct action *action, size_t count)
{
    const struct matrix matrix = matrix_of(action, weight_of(action));
    float *weights = memory_zeroed(count, sizeof *weights);
    attention_accumulate(count, DTYPE_FP32, weights, matrix.slabs[0].dtype, matrix.slabs[0].at, 1);
    return weights;
}

static void norm(const struct action *action, const struct layer_work *work)
{
    const enum norm_kind kind = action->schedule->experiment->model.norm;
    const struct matrix x = operands(action, 0), y = results(action);
    float *weights = read_weights(action, layer_norm_weights(kind, work->columns));
    float *in = memory_zeroed(2 * work->columns, sizeof *in), *out = in + work->columns;
    for (uint64_t row = 0; row < work->rows; row++) {
        look_after_messages(action, row);
        read_row(&x, row, in);
        layer_norm_row(kind, work->columns, in, weights, out);
        write_row(&y, row, out, false);
    }
    free(in);
    free(weights);
}

static void norm_backward(const struct action *action, const struct layer_work *work)
{
    const enum norm_kind kind = action->schedule->experiment->model.norm;
    const size_t n = work->columns, count = layer_norm_weights(kind, n);
    const uint32_t *writes = program_writes(action->program, action->op);
    const struct matrix dy = matrix_of(action, operand(action, 0)), x = matrix_of(action, operand(action, 1));
    const struct matrix dx = matrix_of(action, writes[0]), dw = matrix_of(action, writes[1]);
    float *weights = read_weights(action, count), *in = memory_zeroed(3 * n, sizeof *in), *sums = weights;
    double *d_weights = memory_zeroed(count, sizeof *d_weights);
    for (uint64_t row = 0; row < work->rows; row++) {
        look_after_messages(action, row);
        read_row(&dy, row, in);
        read_row(&x, row, in + n);
        layer_norm_row_backward(kind, n, in, in + n, weights, in + 2 * n, d_weights);
        write_row(&dx, row, in + 2 * n, adds_to(action, writes[0]));
    }
    for (size_t i = 0; i < count; i++)
        sums[i] = (float)d_weights[i];
    attention_accumulate(count, dw.slabs[0].dtype, dw.slabs[0].at, DTYPE_FP32, sums, !adds_to(action, writes[1]));
    free(d_weights);
    free(weights);
    free(in);
}

static void activate(const struct action *action, const struct layer_work *work)
{
    const enum mlp_kind kind = action->schedule->experiment->model.mlp;
    const struct matrix up = operands(action, 0), down = results(action);
    float *in = memory_zeroed(up.columns + down.columns, sizeof *in), *out = in + up.columns;
    for (uint64_t row = 0; row < work->rows; row++) {
        look_after_messages(action, row);
        read_row(&up, row, in);
        layer_activate_row(kind, down.columns, in, out);
        write_row(&down, row, out, false);
    }
    free(in);
}

static void activate_backward(const struct action *action, const struct layer_work *work)
{
    const enum mlp_kind kind = action->schedule->experiment->model.mlp;
    const struct matrix d_down = matrix_of(action, operand(action, 0)), up = matrix_of(action, operand(action, 1));
    const struct matrix d_up = results(action);
    float *in = memory_zeroed(d_down.columns + 2 * up.columns, sizeof *in);
    float *in_up = in + d_down.columns, *out = in_up + up.columns;
    for (uint64_t row = 0; row < work->rows; row++) {
        look_after_messages(action, row);
        read_row(&d_down, row, in);
        read_row(&up, row, in_up);
        layer_activate_row_backward(kind, d_down.columns, in, in_up, out);
        write_row(&d_up, row, out, false);
    }
    free(in);
}

/* The sum may be in the place of either. */
static void add(const struct action *action, const struct layer_work *work)
{
    const uint32_t *reads = program_reads(action->program, action->op);
    const struct matrix x = matrix_of(action, reads[0]), y = matrix_of(action, reads[1]), sum = results(action);
    float *in = memory_zeroed(2 * work->columns, sizeof *in);
    for (uint64_t row = 0; row < work->rows; row++) {
        look_after_messages(action, row);
        read_row(&x, row, in);
        read_row(&y, row, in + work->columns);
        for (size_t i = 0; i < work->columns; i++)
            in[i] += in[work->columns + i];
        write_row(&sum, row, in, false);
    }
    free(in);
}

void cpu_layer(const struct action *action)
{
    static void (*const functions[OP_KIND_COUNT])(const struct action *action, const struct layer_work *work) = {
        [OP_PRODUCT] = product,
        [OP_NORM] = norm,
        [OP_NORM_BACKWARD] = norm_backward,
        [OP_ACTIVATE] = activate,
        [OP_ACTIVATE_BACKWARD] = activate_backward,
        [OP_ADD] = add,
    };
    assert(functions[action->op->kind]);
    functions[action->op->kind](action, program_work(action->program, action->op));
}
