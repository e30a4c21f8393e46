/* packing.c - copies runs of memory to where they are one piece, and back. */
#include "hw/run/packing.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

static size_t take(struct packings *packings, uint64_t bytes)
{
    size_t found = 0;
    while (found < packings->count && (packings->items[found].busy || packings->items[found].bytes != bytes))
        found++;
    if (found == packings->count) {
        memory_grow(packings->items, packings->count, packings->capacity);
        packings->items[packings->count++] = (struct packing){memory_zeroed(1, bytes), bytes, false};
    }
    packings->items[found].busy = true;
    return found;
}

/* The place in the packed message where the next run goes, or comes from. */
struct copying {
    const struct compute_ops *ops;
    struct compute *compute;
    char *packed;
    bool into_packed;
};

static void copy_run(void *context, void *run, uint64_t bytes)
{
    struct copying *copying = context;
    if (copying->into_packed)
        copying->ops->read(copying->compute, copying->packed, run, bytes);
    else
        copying->ops->write(copying->compute, run, copying->packed, bytes);
    copying->packed += bytes;
}

static const struct buffer *buffer_of(const struct program *program, const struct op *message)
{
    bool sends = message->kind == OP_SEND;
    return &program->buffers[sends ? *program_reads(program, message) : *program_writes(program, message)];
}

uint32_t packing_begin(struct packings *packings, const struct compute_ops *ops, struct compute *compute,
                       const struct schedule *schedule, const struct program *program, const struct op *message,
                       void *memory, struct piece_of_memory pieces[PIECES_MAX], size_t *packing)
{
    const struct buffer *buffer = buffer_of(program, message);
    struct layout layout = layout_of(schedule, buffer);
    struct cargo cargo = layout_cargo(schedule, program, message);
    uint32_t count = layout_cargo_pieces(&layout, buffer, memory, &cargo, pieces);
    *packing = NOT_PACKED;
    if (count <= PIECES_MAX)
        return count;
    *packing = take(packings, message->bytes);
    char *packed = packings->items[*packing].memory;
    struct copying copying = {ops, compute, packed, true};
    if (message->kind == OP_SEND)
        layout_runs(&layout, buffer, memory, &cargo, copy_run, &copying);
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
    struct layout layout = layout_of(schedule, buffer);
    struct cargo cargo = layout_cargo(schedule, program, message);
    struct copying copying = {ops, compute, packings->items[packing].memory, false};
    if (message->kind == OP_RECEIVE)
        layout_runs(&layout, buffer, memory, &cargo, copy_run, &copying);
    packings->items[packing].busy = false;
}

void packings_fini(struct packings *packings)
{
    for (size_t i = 0; i < packings->count; i++)
        free(packings->items[i].memory);
    free(packings->items);
    memset(packings, 0, sizeof *packings);
}
