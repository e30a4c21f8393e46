/* packing.c - copies runs of memory to where they are one piece, and back. */
#include "hw/run/packing.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* NOT_PACKED when there is not enough memory. */
static size_t take(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                   enum stream stream, uint64_t bytes)
{
    size_t found = 0;
    while (found < packings->count && (packings->items[found].busy || packings->items[found].bytes != bytes ||
                                       packings->items[found].stream != stream))
        found++;
    if (found == packings->count) {
        char *memory = ops->queues ? ops->allocate(compute, bytes) : memory_zeroed(1, bytes);
        if (!memory)
            return NOT_PACKED;
        memory_grow(packings->items, packings->count, packings->capacity);
        packings->items[packings->count++] = (struct packing){memory, bytes, stream, false};
    }
    packings->items[found].busy = true;
    return found;
}

/* The place in the packed message where the next run goes, or comes from; and, of an asynchronous backend, runs of one
 * width and one distance, which will be one copy. */
struct copying {
    const struct compute_ops *ops;
    struct compute *compute;
    enum stream stream;
    bool into_packed;
    char *packed; /* where the first of these runs is */
    char *first;
    uint64_t width, pitch, rows;
};

static void copy_rows(struct copying *c)
{
    const struct queue_ops *queues = c->ops->queues;
    if (c->rows == 0)
        return;
    if (c->rows == 1)
        queues->copy(c->compute, c->stream, c->into_packed ? c->packed : c->first,
                     c->into_packed ? c->first : c->packed, c->width);
    else if (c->into_packed)
        queues->copy_rows(c->compute, c->stream, c->packed, c->width, c->first, c->pitch, c->width, c->rows);
    else
        queues->copy_rows(c->compute, c->stream, c->first, c->pitch, c->packed, c->width, c->width, c->rows);
    c->packed += c->rows * c->width;
    c->rows = 0;
}

static void queue_run(struct copying *c, char *run, uint64_t bytes)
{
    if (c->rows == 1 && bytes == c->width && run > c->first)
        c->pitch = (uint64_t)(run - c->first);
    else if (c->rows == 0 || bytes != c->width || run != c->first + c->rows * c->pitch)
        copy_rows(c);
    if (c->rows == 0) {
        c->first = run;
        c->width = bytes;
        c->pitch = 0;
    }
    c->rows++;
}

static void copy_run(void *context, void *run, uint64_t bytes)
{
    struct copying *copying = context;
    if (copying->ops->queues) {
        queue_run(copying, run, bytes);
        return;
    }
    if (copying->into_packed)
        copying->ops->read(copying->compute, copying->packed, run, bytes);
    else
        copying->ops->write(copying->compute, run, copying->packed, bytes);
    copying->packed += bytes;
}

static void copy_all(struct copying *copying, const struct buffer_layout *layout, const struct buffer *buffer,
                     void *memory, const struct cargo *cargo)
{
    layout_runs(layout, buffer, memory, cargo, copy_run, copying);
    copy_rows(copying);
}

static const struct buffer *buffer_of(const struct program *program, const struct op *message)
{
    bool sends = message->kind == OP_SEND;
    return &program->buffers[sends ? *program_reads(program, message) : *program_writes(program, message)];
}

uint32_t message_arrays(const struct schedule *schedule, const struct program *program, const struct op *message,
                        uint64_t bytes[LAYOUT_ARRAYS_MAX])
{
    const struct buffer *buffer = buffer_of(program, message);
    const struct buffer_layout layout = layout_of(schedule, buffer);
    const struct cargo cargo = layout_cargo(schedule, program, message);
    return layout_cargo_arrays(&layout, buffer, &cargo, bytes);
}

uint32_t packing_begin(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                       const struct schedule *schedule, const struct program *program, const struct op *message,
                       void *memory, struct piece_of_memory pieces[PIECES_MAX], size_t *packing)
{
    const struct buffer *buffer = buffer_of(program, message);
    struct buffer_layout layout = layout_of(schedule, buffer);
    struct cargo cargo = layout_cargo(schedule, program, message);
    uint32_t count = layout_cargo_pieces(&layout, buffer, memory, &cargo, pieces);
    *packing = NOT_PACKED;
    if (count <= PIECES_MAX)
        return count;
    *packing = take(packings, ops, compute, (enum stream)message->stream, message->bytes);
    if (*packing == NOT_PACKED)
        return 0;
    char *packed = packings->items[*packing].memory;
    struct copying copying = {ops, compute, (enum stream)message->stream, .into_packed = true, .packed = packed};
    if (message->kind == OP_SEND)
        copy_all(&copying, &layout, buffer, memory, &cargo);
    pieces[0] = (struct piece_of_memory){packed, message->bytes};
    return 1;
}

void packing_end(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                 const struct schedule *schedule, const struct program *program, const struct op *message, void *memory,
                 size_t packing)
{
    if (packing == NOT_PACKED)
        return;
    const struct buffer *buffer = buffer_of(program, message);
    struct buffer_layout layout = layout_of(schedule, buffer);
    struct cargo cargo = layout_cargo(schedule, program, message);
    struct copying copying = {ops, compute, (enum stream)message->stream, .packed = packings->items[packing].memory};
    if (message->kind == OP_RECEIVE)
        copy_all(&copying, &layout, buffer, memory, &cargo);
    packings->items[packing].busy = false;
}

void packings_fini(struct packings *packings, const struct compute_ops *ops, struct compute *compute)
{
    for (size_t i = 0; i < packings->count; i++) {
        if (ops->queues)
            ops->release(compute, packings->items[i].memory);
        else
            free(packings->items[i].memory);
    }
    free(packings->items);
    memset(packings, 0, sizeof *packings);
}
