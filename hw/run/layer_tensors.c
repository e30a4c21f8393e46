/* layer_tensors.c - buffers are told by what is done to them, parts by the rank's place in the layout. */
#include "hw/run/layer_tensors.h"

#include <math.h>

#include "hw/verify/inputs.h"

/* ---- buffers ---- */

/* The operation that first reads, or writes, a buffer; the program's count if none does. */
static uint32_t first_op(const struct program *program, uint32_t buffer, bool write)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        const uint32_t *list = write ? program_writes(program, op) : program_reads(program, op);
        for (uint32_t k = 0; k < (write ? op->n_writes : op->n_reads); k++)
            if (list[k] == buffer)
                return i;
    }
    return program->n_ops;
}

/* One of the four resident tensors of hidden: who is written comes out, what the forward phase does not know is of the
 * backward one. */
static void find_hidden(const struct program *program, uint32_t buffer, struct layer_buffers *buffers)
{
    uint32_t written = first_op(program, buffer, true), read = first_op(program, buffer, false);
    bool is_input = written == program->n_ops;
    bool forward = (is_input ? read : written) < program->phase_end[PHASE_FORWARD];
    *(is_input ? forward ? &buffers->x : &buffers->dy : forward ? &buffers->y : &buffers->dx) = buffer;
}

void layer_buffers_find(const struct program *program, struct layer_buffers *buffers)
{
    uint32_t weights = 0, gradients = 0;
    *buffers = (struct layer_buffers){NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER, {0}, {0}};
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        buffers->weights[w] = buffers->gradients[w] = NO_BUFFER;
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->tensor == TENSOR_HIDDEN && buffer->role == ROLE_RESIDENT)
            find_hidden(program, b, buffers);
        else if (buffer->tensor == TENSOR_WEIGHT && buffer->role == ROLE_WEIGHTS && weights < REFERENCE_WEIGHTS)
            buffers->weights[weights++] = b;
        else if (buffer->tensor == TENSOR_WEIGHT_GRADIENT && buffer->role == ROLE_GRADIENTS &&
                 gradients < REFERENCE_WEIGHTS)
            buffers->gradients[gradients++] = b;
    }
}

/* ---- which part ---- */

struct layer_shape layer_shape_of(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    return (struct layer_shape){&experiment->model, &experiment->mask, experiment->seq_len,
                                (size_t)experiment->batch * experiment->degree[PARALLEL_DP]};
}

struct layer_token layer_token_of(const struct schedule *schedule, struct layers_place place, uint64_t rows,
                                  uint64_t row)
{
    const struct sharding *sharding = &schedule->sharding;
    const uint64_t batch = schedule->experiment->batch, tokens = sharding_rows(sharding, place.rank) * batch;
    const uint64_t token = row + (rows < tokens ? place.tp_index * rows : 0);
    struct span spans[SHARD_SPANS_MAX];
    sharding_block_spans(sharding, (struct block){place.rank, (uint32_t)(token / batch), 1}, spans);
    return (struct layer_token){spans[0].first, place.dp_index * batch + token % batch};
}

struct layer_part layer_part_of(const struct schedule *schedule, struct layers_place place,
                                enum reference_weight weight)
{
    static const enum layer_weight names[REFERENCE_WEIGHTS] = {
        [REFERENCE_NORM_1] = LAYER_NORM_ATTENTION, [REFERENCE_QKV] = LAYER_QKV, [REFERENCE_O] = LAYER_OUTPUT,
        [REFERENCE_NORM_2] = LAYER_NORM_MLP,       [REFERENCE_UP] = LAYER_UP,   [REFERENCE_DOWN] = LAYER_DOWN};
    return (struct layer_part){schedule, place, weight, layers_matrix(schedule->experiment, names[weight])};
}

uint64_t layer_part_row(const struct layer_part *part, uint64_t row)
{
    bool by_rows = part->weight == REFERENCE_O || part->weight == REFERENCE_DOWN;
    return row + (by_rows ? part->place.tp_index * part->shape.rows : 0);
}

/* Side by side lie as many matrices as `widths` has columns of, of the tp rank; the whole has those of all tp ranks. */
static uint64_t column_of(const uint64_t *widths, uint64_t column, uint32_t tp_index, uint32_t tp)
{
    uint64_t before = 0;
    while (column >= *widths) {
        column -= *widths;
        before += tp * *widths++;
    }
    return before + tp_index * *widths + column;
}

uint64_t layer_part_column(const struct layer_part *part, uint64_t column)
{
    const struct schedule *schedule = part->schedule;
    const struct experiment *experiment = schedule->experiment;
    const uint32_t tp = experiment->degree[PARALLEL_TP], index = part->place.tp_index;
    const uint64_t dim = experiment->model.head_dim, kv = schedule->kv_heads * dim;
    if (part->weight == REFERENCE_QKV)
        return column_of((const uint64_t[]){schedule->q_heads * dim, kv, kv}, column, index, tp);
    if (part->weight == REFERENCE_UP)
        return column_of((const uint64_t[]){experiment->model.ffn / tp, experiment->model.ffn / tp}, column, index, tp);
    return column;
}

/* ---- inputs ---- */

static double rounded(const struct schedule *schedule, double value)
{
    return (double)number_rounded(dtype_output(schedule->experiment->dtype), (float)value);
}

double layer_hidden_number(const struct schedule *schedule, uint64_t seed, bool of_gradient, struct layer_token token,
                           uint64_t column)
{
    const uint64_t index = token.item * schedule->experiment->model.hidden + column;
    return rounded(schedule, input_number(seed, of_gradient ? INPUT_DY : INPUT_X, token.position, index));
}

double layer_weight_number(const struct schedule *schedule, uint64_t seed, enum reference_weight weight, uint64_t row,
                           uint64_t column)
{
    const struct transformer *model = &schedule->experiment->model;
    const double number = input_number(seed, (enum input)(INPUT_WEIGHTS + (int)weight), row, column);
    size_t inputs, outputs;
    if (weight == REFERENCE_NORM_1 || weight == REFERENCE_NORM_2)
        return rounded(schedule, (row == 0 ? 1 : 0) + number / 2);
    reference_weight_shape(model, weight, &inputs, &outputs);
    bool of_query = weight == REFERENCE_QKV && column < (uint64_t)model->q_heads * model->head_dim;
    return rounded(schedule, number * (of_query ? 2 : 1) * sqrt(3 / (double)inputs)); /* of variance 1 / inputs */
}
