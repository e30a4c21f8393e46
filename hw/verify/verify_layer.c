/* verify_layer.c - makes the whole layer's inputs, asks the reference, and compares each rank's part. */
#include "hw/verify/verify_layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "hw/run/layer_tensors.h"
#include "hw/verify/roundings.h"
#include "hw/verify/verify_problem.h"
#include "models/base/memory.h"

/* ---- how much it takes ---- */

static double tokens_of(const struct layer_shape *shape)
{
    return (double)shape->positions * (double)shape->items;
}

static double weights_of(const struct transformer *model)
{
    double count = 0;
    for (int w = 0; w < REFERENCE_WEIGHTS; w++) {
        size_t rows, columns;
        reference_weight_shape(model, (enum reference_weight)w, &rows, &columns);
        count += (double)rows * (double)columns;
    }
    return count;
}

bool verify_layer_check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct layer_shape shape = layer_shape_of(schedule);
    const struct transformer *model = shape.model;
    const double tokens = tokens_of(&shape), passes = schedule->experiment->train ? 3 : 1;
    const double attention = tokens * (double)shape.positions * 2 * model->q_heads * model->head_dim;
    const double work = passes * (tokens * weights_of(model) + attention);
    if (schedule->experiment->dtype == DTYPE_BF16 && model->hidden < VERIFY_LAYER_HIDDEN_MIN)
        return experiment_complain(schedule->experiment, "model", "hidden", diag,
                                   "hardware mode cannot verify rows of %" PRIu32 " numbers in bf16, expected at least "
                                   "%d, or fp32",
                                   model->hidden, VERIFY_LAYER_HIDDEN_MIN);
    if (work <= VERIFY_LAYER_WORK_MAX)
        return true;
    return diagnostics_add(diag,
                           "hardware mode verifies a layer in full, which takes %.2g multiplications here, expected at "
                           "most %.2g: a shorter seq_len, a smaller model, or scope = attention",
                           work, VERIFY_LAYER_WORK_MAX);
}

double verify_layer_bytes(const struct schedule *schedule)
{
    const struct layer_shape shape = layer_shape_of(schedule);
    const struct transformer *model = shape.model;
    const double q = (double)model->q_heads * model->head_dim, kv = (double)model->kv_heads * model->head_dim;
    const double columns = 10.0 * model->hidden + 4 * (q + kv) + 6.0 * model->ffn + model->q_heads;
    return sizeof(double) * (tokens_of(&shape) * columns + 2 * weights_of(model));
}

struct whole {
    struct layer_shape shape;
    double *x, *dy, *weights[REFERENCE_WEIGHTS];
    struct layer_result result;
};

/* ---- tolerances ---- */

/* Tensors stored on the longest way to each, in the order in which they are made. */
static uint32_t ways(const struct verify_input *input, enum output output)
{
    const struct schedule *schedule = input->schedule;
    const uint32_t *degree = schedule->experiment->degree;
    const uint32_t sums = degree[PARALLEL_TP] - 1; /* of partial sums */
    const uint32_t attention = OWN_ROUNDINGS + roundings_of_sums(schedule, input->programs, OUTPUT_O);
    uint32_t keys = roundings_of_sums(schedule, input->programs, OUTPUT_DK);
    const uint32_t queries = roundings_of_sums(schedule, input->programs, OUTPUT_DQ);
    keys = keys > queries ? keys : queries;
    const uint32_t narrow = schedule->experiment->step.weight_gradients_fp32
                                ? 0
                                : degree[PARALLEL_CP] * degree[PARALLEL_DP] + (output == OUTPUT_DNORM_1) * sums +
                                      (output == OUTPUT_DNORM_2) * sums;
    const uint32_t n1 = 1, qkv = n1 + 1, o = qkv + SCORE_ROUNDINGS + attention, h1 = o + 2 + sums, n2 = h1 + 1,
                   u = n2 + 1, d = u + 1;
    const uint32_t du = u + 2, dn2 = du + 1 + sums, dh1 = dn2 + 2, d_o = dh1 + 1;
    const uint32_t dqkv = d_o + SCORE_ROUNDINGS + attention + OWN_ROUNDINGS + keys, dn1 = dqkv + 1 + sums;
    switch (output) {
    case OUTPUT_Y:
        return d + 2 + sums;
    case OUTPUT_DX:
        return dn1 + 2;
    case OUTPUT_DNORM_1:
        return dn1 + narrow;
    case OUTPUT_DW_Q:
    case OUTPUT_DW_K:
    case OUTPUT_DW_V:
        return dqkv + narrow;
    case OUTPUT_DW_O:
        return dh1 + narrow;
    case OUTPUT_DNORM_2:
        return dn2 + narrow;
    case OUTPUT_DW_UP:
        return du + narrow;
    default:
        return d + narrow;
    }
}

static double tolerance_of(const struct verify_input *input, const struct whole *whole, enum output output)
{
    bool narrow = dtype_output(input->schedule->experiment->dtype) == DTYPE_BF16;
    double gain = output == OUTPUT_Y ? whole->result.forward_gain : whole->result.backward_gain;
    return gain * (narrow ? ways(input, output) * 0x1p-8 : FP32_TOLERANCE);
}

/* ---- the whole ---- */

static double *make_hidden(const struct verify_input *input, const struct layer_shape *shape, bool of_gradient)
{
    const size_t hidden = shape->model->hidden;
    double *numbers = memory_zeroed(shape->positions * shape->items * hidden, sizeof *numbers), *next = numbers;
    for (uint64_t position = 0; position < shape->positions; position++)
        for (uint64_t item = 0; item < shape->items; item++)
            for (uint64_t c = 0; c < hidden; c++)
                *next++ = layer_hidden_number(input->schedule, input->seed, of_gradient,
                                              (struct layer_token){position, item}, c);
    return numbers;
}

static double *make_weight(const struct verify_input *input, const struct transformer *model,
                           enum reference_weight weight)
{
    size_t rows, columns;
    reference_weight_shape(model, weight, &rows, &columns);
    double *numbers = memory_zeroed(rows * columns, sizeof *numbers);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t c = 0; c < columns; c++)
            numbers[row * columns + c] = layer_weight_number(input->schedule, input->seed, weight, row, c);
    return numbers;
}

static void make_whole(const struct verify_input *input, struct whole *whole)
{
    *whole = (struct whole){.shape = layer_shape_of(input->schedule)};
    whole->x = make_hidden(input, &whole->shape, false);
    if (input->schedule->experiment->train)
        whole->dy = make_hidden(input, &whole->shape, true);
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        whole->weights[w] = make_weight(input, whole->shape.model, (enum reference_weight)w);
    layer_reference(&whole->shape, (const double *const *)whole->weights, whole->x, whole->dy, &whole->result);
}

static void free_whole(struct whole *whole)
{
    free(whole->x);
    free(whole->dy);
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        free(whole->weights[w]);
    layer_result_fini(&whole->result);
}

/* ---- comparing ---- */

static void compare_hidden(const struct verify_input *input, const struct whole *whole, uint32_t rank,
                           struct layers_place place, const float *got, const double *expected,
                           struct tensor_check *check)
{
    const struct experiment *experiment = input->schedule->experiment;
    const uint64_t hidden = whole->shape.model->hidden, tp = experiment->degree[PARALLEL_TP];
    uint64_t rows = sharding_rows(&input->schedule->sharding, place.rank) * experiment->batch;
    rows = tp > 1 && experiment->step.sequence_parallel ? rows / tp : rows;
    double floor = root_mean_square(expected, whole->shape.positions * whole->shape.items * hidden);
    for (uint64_t row = 0; row < rows; row++) {
        const struct layer_token token = layer_token_of(input->schedule, place, rows, row);
        tensor_check_row(check, rank, token.position, got ? got + row * hidden : NULL,
                         expected + (token.position * whole->shape.items + token.item) * hidden, hidden, floor);
    }
}

/* Columns [first, first + count) of a rank's part of a weight's gradient. */
struct columns {
    enum reference_weight weight;
    uint64_t first, count;
};

static struct columns columns_of(const struct schedule *schedule, const struct layer_part *part, enum output output)
{
    const uint64_t dim = schedule->experiment->model.head_dim;
    const uint64_t q = schedule->q_heads * dim, kv = schedule->kv_heads * dim;
    switch (output) {
    case OUTPUT_DW_Q:
        return (struct columns){part->weight, 0, q};
    case OUTPUT_DW_K:
        return (struct columns){part->weight, q, kv};
    case OUTPUT_DW_V:
        return (struct columns){part->weight, q + kv, kv};
    default:
        return (struct columns){part->weight, 0, part->shape.columns};
    }
}

static enum reference_weight weight_of(enum output output)
{
    static const enum reference_weight weights[OUTPUT_COUNT] = {
        [OUTPUT_DNORM_1] = REFERENCE_NORM_1, [OUTPUT_DW_Q] = REFERENCE_QKV,     [OUTPUT_DW_K] = REFERENCE_QKV,
        [OUTPUT_DW_V] = REFERENCE_QKV,       [OUTPUT_DW_O] = REFERENCE_O,       [OUTPUT_DNORM_2] = REFERENCE_NORM_2,
        [OUTPUT_DW_UP] = REFERENCE_UP,       [OUTPUT_DW_DOWN] = REFERENCE_DOWN,
    };
    return weights[output];
}

static void compare_weight(const struct verify_input *input, const struct whole *whole, uint32_t rank,
                           struct layers_place place, enum output output, const float *got, struct tensor_check *check)
{
    const struct layer_part part = layer_part_of(input->schedule, place, weight_of(output));
    const struct columns columns = columns_of(input->schedule, &part, output);
    const double *gradient = whole->result.d_weights[part.weight];
    size_t whole_rows, whole_columns;
    reference_weight_shape(whole->shape.model, part.weight, &whole_rows, &whole_columns);
    double *expected = memory_zeroed(part.shape.rows * columns.count, sizeof *expected);
    for (uint64_t row = 0; row < part.shape.rows; row++)
        for (uint64_t c = 0; c < columns.count; c++)
            expected[row * columns.count + c] =
                gradient[layer_part_row(&part, row) * whole_columns + layer_part_column(&part, columns.first + c)];
    double floor = root_mean_square(expected, part.shape.rows * columns.count);
    if (output == OUTPUT_DW_Q || output == OUTPUT_DW_K)
        floor = fmax(floor, output == OUTPUT_DW_Q ? whole->result.query_floor : whole->result.key_floor);
    for (uint64_t row = 0; row < part.shape.rows; row++)
        tensor_check_row(check, rank, layer_part_row(&part, row), got ? got + row * columns.count : NULL,
                         expected + row * columns.count, columns.count, floor);
    free(expected);
}

void verify_layer(const struct verify_input *input, const struct layers_place *places,
                  struct verification *verification)
{
    struct whole whole;
    *verification = (struct verification){.kind = CHECK_FULL};
    make_whole(input, &whole);
    for (int t = OUTPUT_ATTENTION_COUNT; t < OUTPUT_COUNT; t++) {
        struct tensor_check *check = &verification->tensors[t];
        if (t != OUTPUT_Y && !input->schedule->experiment->train)
            continue;
        *check = (struct tensor_check){.present = true, .tolerance = tolerance_of(input, &whole, (enum output)t)};
        for (uint32_t i = 0; i < input->n_ranks; i++) {
            const float *got = input->outputs[i].tensors[t];
            const uint32_t rank = input->first_rank + i;
            if (t == OUTPUT_Y || t == OUTPUT_DX)
                compare_hidden(input, &whole, rank, places[i], got, t == OUTPUT_Y ? whole.result.y : whole.result.dx,
                               check);
            else
                compare_weight(input, &whole, rank, places[i], (enum output)t, got, check);
        }
    }
    free_whole(&whole);
}
