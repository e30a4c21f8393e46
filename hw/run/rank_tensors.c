/* rank_tensors.c - rows of inputs are made one by one, by position, and written some at a time; results are read array
 * by array. */
#include "hw/run/rank_tensors.h"

#include <stdlib.h>

#include "hw/layout.h"
#include "hw/run/rank_layer.h"
#include "hw/verify/inputs.h"
#include "models/base/memory.h"

/* ---- inputs ---- */

/* The rank's own rows of an input: its queries, or all its keys. */
static struct block input_block(const struct rank_tensors *t, const struct buffer *buffer)
{
    if (tensor_goes_by_keys((enum tensor)buffer->tensor))
        return sharding_keys(&t->schedule->sharding, t->program->rank);
    return schedule_queries(t->schedule, t->program->rank);
}

/* Inputs are made by position with all heads of all items; the buffer's lanes are cut from that. */
static void make_row(const struct rank_tensors *t, uint64_t seed, const struct buffer_layout *layout, enum dtype dtype,
                     enum input input, uint64_t position, char *row)
{
    const struct lanes lanes = layout->lanes;
    uint64_t dim = layout->arrays[0].width, count = lanes.heads * dim;
    uint64_t heads = input == INPUT_K || input == INPUT_V ? t->schedule->kv_heads : t->schedule->q_heads;
    for (uint64_t i = 0; i < lanes.items; i++, row += count * dtype_bytes(dtype))
        input_row(seed, input, position, ((lanes.item + i) * heads + lanes.head) * dim, count, dtype, row);
}

/* Rows of an array on their way to a backend, to which few long copies are quicker than many short ones. */
struct chunk {
    char *target; /* where its first row goes */
    char *rows;
    uint64_t bytes, room;
};

#define CHUNK_BYTES (UINT64_C(4) << 20)

static void send_chunk(const struct rank_tensors *t, struct chunk *chunk)
{
    if (chunk->bytes)
        t->ops->write(t->compute, chunk->target, chunk->rows, chunk->bytes);
    chunk->target += chunk->bytes;
    chunk->bytes = 0;
}

/* Rows follow each other in the array as they do in the block: one after the other in the order of its positions. */
static void write_array(const struct rank_tensors *t, uint64_t seed, uint32_t index, uint32_t array, enum input input)
{
    const struct buffer *buffer = &t->program->buffers[index];
    if (buffer->bytes == 0) /* no batch item is this rank's */
        return;
    struct buffer_layout layout = layout_of(t->schedule, buffer);
    uint64_t row_bytes = layout.arrays[array].row_bytes;
    struct block block = input_block(t, buffer);
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(&t->schedule->sharding, block, spans);
    struct chunk chunk = {.target = layout_rows(&layout, buffer, t->memory[index], array, block)};
    chunk.room = row_bytes * block.count < CHUNK_BYTES ? row_bytes * block.count : CHUNK_BYTES;
    chunk.room = chunk.room < row_bytes ? row_bytes : chunk.room;
    chunk.rows = memory_zeroed(1, chunk.room);
    for (uint32_t s = 0; s < n_spans; s++) {
        for (uint64_t i = 0; i < spans[s].count; i++, chunk.bytes += row_bytes) {
            if (chunk.bytes + row_bytes > chunk.room)
                send_chunk(t, &chunk);
            make_row(t, seed, &layout, (enum dtype)buffer->dtype, input, spans[s].first + i * spans[s].stride,
                     chunk.rows + chunk.bytes);
        }
    }
    send_chunk(t, &chunk);
    free(chunk.rows);
}

void rank_tensors_write_input(const struct rank_tensors *t, uint64_t seed, uint32_t buffer)
{
    enum tensor tensor = (enum tensor)t->program->buffers[buffer].tensor;
    if (tensor_is_of_layer(tensor)) {
        rank_layer_write(t, seed, buffer);
    } else if (tensor == TENSOR_KV) {
        write_array(t, seed, buffer, 0, INPUT_K);
        write_array(t, seed, buffer, 1, INPUT_V);
    } else {
        write_array(t, seed, buffer, 0, tensor == TENSOR_Q ? INPUT_Q : INPUT_DO);
    }
}

/* ---- outputs ---- */

const char *output_name(enum output output)
{
    static const char *const names[OUTPUT_COUNT] = {
        [OUTPUT_O] = "O",
        [OUTPUT_LSE] = "LSE",
        [OUTPUT_DQ] = "dQ",
        [OUTPUT_DK] = "dK",
        [OUTPUT_DV] = "dV",
        [OUTPUT_Y] = "y",
        [OUTPUT_DX] = "dx",
        [OUTPUT_DNORM_1] = "dnorm_1",
        [OUTPUT_DW_Q] = "dW_q",
        [OUTPUT_DW_K] = "dW_k",
        [OUTPUT_DW_V] = "dW_v",
        [OUTPUT_DW_O] = "dW_o",
        [OUTPUT_DNORM_2] = "dnorm_2",
        [OUTPUT_DW_UP] = "dW_up",
        [OUTPUT_DW_DOWN] = "dW_down",
    };
    return names[output];
}

void outputs_fini(struct outputs *outputs)
{
    for (int i = 0; i < OUTPUT_COUNT; i++)
        free(outputs->tensors[i]);
    *outputs = (struct outputs){0};
}

static float *read_array(const struct rank_tensors *t, uint32_t index, uint32_t array)
{
    const struct buffer *buffer = &t->program->buffers[index];
    struct buffer_layout layout = layout_of(t->schedule, buffer);
    uint64_t bytes = buffer->rows * layout.arrays[array].row_bytes, size = dtype_bytes((enum dtype)buffer->dtype);
    float *numbers = memory_zeroed(bytes / size, sizeof *numbers);
    if (bytes == 0)
        return numbers;
    char *raw = memory_zeroed(1, bytes);
    t->ops->read(t->compute, raw, (char *)t->memory[index] + layout.arrays[array].offset, bytes);
    for (uint64_t i = 0; i < bytes / size; i++)
        numbers[i] = number_read((enum dtype)buffer->dtype, raw, i);
    free(raw);
    return numbers;
}

void rank_tensors_read(const struct rank_tensors *t, struct outputs *outputs)
{
    *outputs = (struct outputs){0};
    for (uint32_t b = 0; b < t->program->n_buffers; b++) {
        if (t->program->buffers[b].role != ROLE_RESIDENT)
            continue;
        switch (t->program->buffers[b].tensor) {
        case TENSOR_O:
            outputs->tensors[OUTPUT_O] = read_array(t, b, 0);
            break;
        case TENSOR_LSE:
            outputs->tensors[OUTPUT_LSE] = read_array(t, b, 0);
            break;
        case TENSOR_DQ:
            outputs->tensors[OUTPUT_DQ] = read_array(t, b, 0);
            break;
        case TENSOR_DKV:
            outputs->tensors[OUTPUT_DK] = read_array(t, b, 0);
            outputs->tensors[OUTPUT_DV] = read_array(t, b, 1);
            break;
        default:
            break;
        }
    }
}
