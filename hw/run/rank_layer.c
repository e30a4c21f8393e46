/* rank_layer.c - rows of a layer's inputs are made number by number; results are read whole, and cut by columns. */
#include "hw/run/rank_layer.h"

#include <stdlib.h>

#include "hw/numbers.h"
#include "hw/run/layer_tensors.h"
#include "models/base/memory.h"

/* ---- inputs ---- */

static void make_hidden_row(const struct rank_tensors *t, uint64_t seed, bool of_gradient, const struct buffer *buffer,
                            uint64_t row, char *numbers)
{
    const struct layer_token token = layer_token_of(t->schedule, t->place, buffer->rows, row);
    for (uint64_t c = 0; c < buffer->columns; c++)
        number_write((enum dtype)buffer->dtype, numbers, c,
                     (float)layer_hidden_number(t->schedule, seed, of_gradient, token, c));
}

static void make_weight_row(const struct rank_tensors *t, uint64_t seed, const struct layer_part *part,
                            const struct buffer *buffer, uint64_t row, char *numbers)
{
    const uint64_t whole = layer_part_row(part, row);
    for (uint64_t c = 0; c < buffer->columns; c++)
        number_write((enum dtype)buffer->dtype, numbers, c,
                     (float)layer_weight_number(t->schedule, seed, part->weight, whole, layer_part_column(part, c)));
}

void rank_layer_write(const struct rank_tensors *t, uint64_t seed, uint32_t index)
{
    const struct buffer *buffer = &t->program->buffers[index];
    const uint64_t row_bytes = buffer->columns * dtype_bytes((enum dtype)buffer->dtype);
    struct layer_buffers buffers;
    layer_buffers_find(t->program, &buffers);
    int weight = 0;
    while (weight < REFERENCE_WEIGHTS && buffers.weights[weight] != index)
        weight++;
    struct layer_part part = {.schedule = t->schedule};
    if (weight < REFERENCE_WEIGHTS)
        part = layer_part_of(t->schedule, t->place, (enum reference_weight)weight);
    char *numbers = memory_zeroed(1, row_bytes ? row_bytes : 1);
    for (uint64_t row = 0; row < buffer->rows; row++) {
        if (weight < REFERENCE_WEIGHTS)
            make_weight_row(t, seed, &part, buffer, row, numbers);
        else
            make_hidden_row(t, seed, index == buffers.dy, buffer, row, numbers);
        t->ops->write(t->compute, (char *)t->memory[index] + row * row_bytes, numbers, row_bytes);
    }
    free(numbers);
}

/* ---- outputs ---- */

/* Columns [first, first + count) of all rows. */
static float *read_columns(const struct rank_tensors *t, uint32_t index, uint64_t first, uint64_t count)
{
    const struct buffer *buffer = &t->program->buffers[index];
    float *numbers = memory_zeroed(buffer->rows * count + 1, sizeof *numbers);
    char *raw = memory_zeroed(1, buffer->bytes + 1);
    if (buffer->bytes)
        t->ops->read(t->compute, raw, t->memory[index], buffer->bytes);
    for (uint64_t row = 0; row < buffer->rows; row++)
        for (uint64_t c = 0; c < count; c++)
            numbers[row * count + c] = number_read((enum dtype)buffer->dtype, raw, row * buffer->columns + first + c);
    free(raw);
    return numbers;
}

static void read_whole(const struct rank_tensors *t, uint32_t index, struct outputs *outputs, enum output output)
{
    if (index != NO_BUFFER && t->memory[index])
        outputs->tensors[output] = read_columns(t, index, 0, t->program->buffers[index].columns);
}

static void read_qkv(const struct rank_tensors *t, uint32_t index, struct outputs *outputs)
{
    const uint64_t dim = t->schedule->experiment->model.head_dim;
    const uint64_t q = t->schedule->q_heads * dim, kv = t->schedule->kv_heads * dim;
    if (index == NO_BUFFER || !t->memory[index])
        return;
    outputs->tensors[OUTPUT_DW_Q] = read_columns(t, index, 0, q);
    outputs->tensors[OUTPUT_DW_K] = read_columns(t, index, q, kv);
    outputs->tensors[OUTPUT_DW_V] = read_columns(t, index, q + kv, kv);
}

void rank_tensors_read_layer(const struct rank_tensors *t, enum phase phase, struct outputs *outputs)
{
    struct layer_buffers buffers;
    layer_buffers_find(t->program, &buffers);
    if (phase == PHASE_FORWARD) {
        read_whole(t, buffers.y, outputs, OUTPUT_Y);
        return;
    }
    read_whole(t, buffers.dx, outputs, OUTPUT_DX);
    read_whole(t, buffers.gradients[REFERENCE_NORM_1], outputs, OUTPUT_DNORM_1);
    read_qkv(t, buffers.gradients[REFERENCE_QKV], outputs);
    read_whole(t, buffers.gradients[REFERENCE_O], outputs, OUTPUT_DW_O);
    read_whole(t, buffers.gradients[REFERENCE_NORM_2], outputs, OUTPUT_DNORM_2);
    read_whole(t, buffers.gradients[REFERENCE_UP], outputs, OUTPUT_DW_UP);
    read_whole(t, buffers.gradients[REFERENCE_DOWN], outputs, OUTPUT_DW_DOWN);
}
