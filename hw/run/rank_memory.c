/* rank_memory.c - gives buffers memory and takes it back, keeping what was freed for the next of its size. */
#include "hw/run/rank_memory.h"

#include <stdlib.h>
#include <string.h>

#include "hw/run/layer_tensors.h"
#include "models/base/memory.h"

static void find_inputs(struct rank_memory *memory)
{
    const struct program *program = memory->program;
    struct layer_buffers layer;
    layer_buffers_find(program, &layer);
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        const struct buffer *buffer = &program->buffers[b];
        memory->is_input[b] =
            b == layer.x || b == layer.dy || buffer->tensor == TENSOR_WEIGHT ||
            (buffer->role == ROLE_RESIDENT &&
             (buffer->tensor == TENSOR_Q || buffer->tensor == TENSOR_KV || buffer->tensor == TENSOR_DO));
    }
}

/* Sorts lives into lists by the point of their birth or death (a counting sort). */
static void list_points(struct point_list *list, const struct lifetimes *lifetimes, uint32_t n_buffers, bool births)
{
    list->starts = memory_zeroed((size_t)lifetimes->n_points + 2, sizeof *list->starts);
    list->buffers = memory_zeroed((size_t)n_buffers * PHASE_COUNT, sizeof *list->buffers);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t b = 0; b < n_buffers; b++) {
            for (int phase = 0; phase < PHASE_COUNT; phase++) {
                struct life life = lifetimes->lives[b][phase];
                if (life.born >= life.dies)
                    continue;
                uint32_t point = births ? life.born : life.dies;
                if (pass == 0)
                    list->starts[point + 2]++;
                else
                    list->buffers[list->starts[point + 1]++] = b;
            }
        }
        for (uint32_t p = 2; pass == 0 && p < lifetimes->n_points + 2; p++)
            list->starts[p] += list->starts[p - 1];
    }
}

static uint64_t sum_bytes(const struct point_list *list, const struct program *program, uint32_t point)
{
    uint64_t bytes = 0;
    for (uint32_t i = list->starts[point]; i < list->starts[point + 1]; i++)
        bytes += program->buffers[list->buffers[i]].bytes;
    return bytes;
}

/* Each buffer alone, or with the others of its array. */
static void find_pieces(struct rank_memory *memory)
{
    const struct program *program = memory->program;
    uint32_t *first = memory_zeroed((size_t)program->n_arrays + 1, sizeof *first); /* 1 + an array's first buffer */
    memory->leaders = memory_zeroed(program->n_buffers, sizeof *memory->leaders);
    memory->offsets = memory_zeroed(program->n_buffers, sizeof *memory->offsets);
    memory->piece_bytes = memory_zeroed(program->n_buffers, sizeof *memory->piece_bytes);
    memory->piece_stays = memory_zeroed(program->n_buffers, sizeof *memory->piece_stays);
    memory->pieces = memory_zeroed(program->n_buffers, sizeof *memory->pieces);
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        uint32_t array = program->buffers[b].array, leader = array && first[array] ? first[array] - 1 : b;
        if (array)
            first[array] = leader + 1;
        memory->leaders[b] = leader;
        memory->offsets[b] = memory->piece_bytes[leader];
        memory->piece_bytes[leader] += program->buffers[b].bytes;
        memory->piece_stays[leader] = memory->piece_stays[leader] || memory->is_input[b];
    }
    free(first);
}

void rank_memory_init(struct rank_memory *memory, const struct stream_order *order, const struct compute_ops *ops,
                      struct compute *compute)
{
    const struct program *program = order->program;
    *memory = (struct rank_memory){
        .program = program,
        .ops = ops,
        .compute = compute,
        .memory = memory_zeroed(program->n_buffers, sizeof *memory->memory),
        .is_input = memory_zeroed(program->n_buffers, sizeof *memory->is_input),
    };
    lifetimes_init(&memory->lifetimes, order);
    list_points(&memory->births, &memory->lifetimes, program->n_buffers, true);
    list_points(&memory->deaths, &memory->lifetimes, program->n_buffers, false);
    find_inputs(memory);
    find_pieces(memory);
    uint64_t bytes = 0;
    for (uint32_t point = 0; point < memory->lifetimes.n_points; point++) {
        bytes += sum_bytes(&memory->births, program, point) - sum_bytes(&memory->deaths, program, point);
        memory->mark_bytes = bytes > memory->mark_bytes ? bytes : memory->mark_bytes;
    }
}

/* ---- spare memory ---- */

static void drop_spare(struct rank_memory *memory)
{
    struct spare spare = memory->spares[--memory->n_spares];
    memory->spare_bytes -= spare.bytes;
    memory->ops->release(memory->compute, spare.memory);
}

static void add_spare(struct rank_memory *memory, void *block, uint64_t bytes)
{
    memory_grow(memory->spares, memory->n_spares, memory->spare_capacity);
    memory->spares[memory->n_spares++] = (struct spare){block, bytes};
    memory->spare_bytes += bytes;
}

static void *take_spare(struct rank_memory *memory, uint64_t bytes)
{
    for (size_t i = memory->n_spares; i-- > 0;) {
        if (memory->spares[i].bytes != bytes)
            continue;
        void *block = memory->spares[i].memory;
        memory->spares[i] = memory->spares[--memory->n_spares];
        memory->spare_bytes -= bytes;
        return block;
    }
    return NULL;
}

static void *take_memory(struct rank_memory *memory, uint64_t bytes)
{
    void *block = take_spare(memory, bytes);
    if (block)
        return block;
    while (memory->n_spares && memory->bytes + memory->spare_bytes + bytes > memory->mark_bytes)
        drop_spare(memory);
    while (!(block = memory->ops->allocate(memory->compute, bytes ? bytes : 1)) && memory->n_spares)
        drop_spare(memory);
    return block;
}

/* ---- steps ---- */

void rank_memory_reset(struct rank_memory *memory, bool keep_inputs)
{
    for (uint32_t b = 0; b < memory->program->n_buffers; b++) {
        if (!keep_inputs || !memory->is_input[b])
            memory->memory[b] = NULL;
        if (!memory->pieces[b] || (keep_inputs && memory->piece_stays[b]))
            continue;
        memory->ops->release(memory->compute, memory->pieces[b]);
        memory->pieces[b] = NULL;
    }
    memory->bytes = memory->peak_bytes = 0;
}

static void take_back(struct rank_memory *memory, uint32_t buffer)
{
    memory->bytes -= memory->program->buffers[buffer].bytes;
    if (memory->is_input[buffer])
        return;
    memory->memory[buffer] = NULL;
    if (memory->leaders[buffer] != buffer || memory->piece_stays[buffer])
        return;
    add_spare(memory, memory->pieces[buffer], memory->piece_bytes[buffer]);
    memory->pieces[buffer] = NULL;
}

/* False when there is not enough. */
static bool give(struct rank_memory *memory, uint32_t buffer)
{
    uint32_t leader = memory->leaders[buffer];
    void **piece = &memory->pieces[leader];
    if (!*piece && !(*piece = take_memory(memory, memory->piece_bytes[leader])))
        return false;
    memory->memory[buffer] = (char *)*piece + memory->offsets[buffer];
    return true;
}

int64_t rank_memory_at(struct rank_memory *memory, uint32_t point, void (*born)(void *context, uint32_t buffer),
                       void *context)
{
    for (uint32_t i = memory->deaths.starts[point]; i < memory->deaths.starts[point + 1]; i++)
        take_back(memory, memory->deaths.buffers[i]);
    for (uint32_t i = memory->births.starts[point]; i < memory->births.starts[point + 1]; i++) {
        uint32_t buffer = memory->births.buffers[i];
        bool kept = memory->memory[buffer]; /* an input of an earlier step */
        if (!kept && !give(memory, buffer))
            return buffer;
        memory->bytes += memory->program->buffers[buffer].bytes;
        memory->peak_bytes = memory->bytes > memory->peak_bytes ? memory->bytes : memory->peak_bytes;
        if (!kept && born)
            born(context, buffer);
    }
    return -1;
}

void rank_memory_fini(struct rank_memory *memory)
{
    rank_memory_reset(memory, false);
    while (memory->n_spares)
        drop_spare(memory);
    lifetimes_fini(&memory->lifetimes);
    free(memory->births.starts);
    free(memory->births.buffers);
    free(memory->deaths.starts);
    free(memory->deaths.buffers);
    free(memory->memory);
    free(memory->is_input);
    free(memory->leaders);
    free(memory->offsets);
    free(memory->piece_bytes);
    free(memory->piece_stays);
    free(memory->pieces);
    free(memory->spares);
    memset(memory, 0, sizeof *memory);
}
