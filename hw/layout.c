/* layout.c - offsets and pieces of blocks; what the layout cannot hold is refused before anything runs. */
#include "hw/layout.h"

#include <assert.h>
#include <inttypes.h>

struct layout layout_of(const struct schedule *schedule, const struct buffer *buffer)
{
    uint64_t batch = schedule->experiment->batch, dim = schedule->experiment->model.head_dim;
    uint64_t heads = batch * schedule->q_heads, keys = batch * schedule->kv_heads * dim;
    enum dtype dtype = (enum dtype)buffer->dtype, wide = dtype_accumulator(dtype);
    uint64_t size = dtype_bytes(dtype);
    struct layout layout = {.n_arrays = 1};
    layout.arrays[0].row_bytes = heads * dim * size;
    layout.arrays[0].dtype = layout.arrays[1].dtype = layout.arrays[2].dtype = dtype;
    switch ((enum tensor)buffer->tensor) {
    case TENSOR_KV:
    case TENSOR_DKV:
        layout.n_arrays = 2;
        layout.arrays[0].row_bytes = layout.arrays[1].row_bytes = keys * size;
        break;
    case TENSOR_PARTIAL:
        layout.n_arrays = 2;
        layout.arrays[1].row_bytes = heads * dtype_bytes(wide);
        layout.arrays[1].dtype = wide;
        break;
    case TENSOR_STATE:
        layout.n_arrays = 3;
        layout.arrays[1].row_bytes = layout.arrays[2].row_bytes = heads * size;
        break;
    case TENSOR_LSE:
    case TENSOR_DELTA:
        layout.arrays[0].row_bytes = heads * size;
        break;
    default:
        break;
    }
    for (uint32_t a = 1; a < layout.n_arrays; a++)
        layout.arrays[a].offset = layout.arrays[a - 1].offset + buffer->rows * layout.arrays[a - 1].row_bytes;
    return layout;
}

/* ---- which rows ---- */

struct block layout_owner_part(const struct schedule *schedule, struct block block, uint32_t owner)
{
    uint32_t rows = (uint32_t)sharding_rows(&schedule->sharding, owner);
    uint32_t first = block.first < rows ? block.first : rows;
    return (struct block){owner, first, block.count < rows - first ? block.count : rows - first};
}

struct block layout_block(const struct schedule *schedule, const struct program *program, const struct op *op,
                          bool write, uint32_t i)
{
    const uint32_t *buffers = write ? program_writes(program, op) : program_reads(program, op);
    uint8_t tensor = program->buffers[buffers[i]].tensor;
    struct block block = op_block_for(op, (enum tensor)tensor);
    if (block.owner != BLOCK_ALL)
        return block;
    /* Its turn among the buffers of its tensor; sources and targets of a sum are two such sequences. */
    uint32_t turn = 0, parts = 0;
    for (uint32_t j = 0; j < i; j++)
        turn += program->buffers[buffers[j]].tensor == tensor;
    for (uint32_t owner = 0; owner < schedule->ranks; owner++)
        parts += layout_owner_part(schedule, block, owner).count > 0;
    turn = parts ? turn % parts : 0;
    for (uint32_t owner = 0; owner < schedule->ranks; owner++) {
        struct block part = layout_owner_part(schedule, block, owner);
        if (part.count > 0 && turn-- == 0)
            return part;
    }
    return (struct block){program->rank, 0, 0};
}

/* ---- where they are ---- */

static uint64_t place_of(const struct buffer *buffer, struct block block)
{
    return buffer->rows ? block.first % buffer->rows : 0;
}

void *layout_rows(const struct layout *layout, const struct buffer *buffer, void *memory, uint32_t array,
                  struct block block)
{
    assert(array < layout->n_arrays && place_of(buffer, block) + block.count <= buffer->rows);
    return (char *)memory + layout->arrays[array].offset + place_of(buffer, block) * layout->arrays[array].row_bytes;
}

uint32_t layout_pieces(const struct layout *layout, const struct buffer *buffer, void *memory, struct block block,
                       enum part part, struct piece_of_memory pieces[PIECES_MAX])
{
    bool halved = tensor_goes_by_keys((enum tensor)buffer->tensor);
    uint32_t n = 0;
    for (uint32_t a = 0; a < layout->n_arrays; a++) {
        if (halved && !(part & (a == 0 ? PART_K : PART_V)))
            continue;
        char *rows = layout_rows(layout, buffer, memory, a, block);
        uint64_t bytes = block.count * layout->arrays[a].row_bytes;
        if (n && (char *)pieces[n - 1].memory + pieces[n - 1].bytes == rows)
            pieces[n - 1].bytes += bytes;
        else
            pieces[n++] = (struct piece_of_memory){rows, bytes};
    }
    return n;
}

/* ---- checks ---- */

static bool check_access(const struct schedule *schedule, const struct program *program, const struct op *op,
                         bool write, uint32_t i, struct diagnostics *diag)
{
    const struct buffer *buffer =
        &program->buffers[write ? program_writes(program, op)[i] : program_reads(program, op)[i]];
    struct block block = layout_block(schedule, program, op, write, i);
    if (place_of(buffer, block) + block.count <= buffer->rows)
        return true;
    char text[256];
    program_describe_op(program, (uint32_t)(op - program->ops), text, sizeof text);
    return diagnostics_add(
        diag, "rank %" PRIu32 ": '%s': rows %" PRIu32 "+%" PRIu32 " do not fit buffer '%s' of %" PRIu64 " rows",
        program->rank, text, block.first, block.count, buffer->name, buffer->rows);
}

static bool check_message(const struct schedule *schedule, const struct program *program, const struct op *op,
                          struct diagnostics *diag)
{
    bool write = op->kind == OP_RECEIVE;
    if (op->n_reads + op->n_writes != 1)
        return diagnostics_add(diag, "rank %" PRIu32 ": a message names %d buffers, expected 1", program->rank,
                               op->n_reads + op->n_writes);
    const struct buffer *buffer = &program->buffers[write ? *program_writes(program, op) : *program_reads(program, op)];
    struct layout layout = layout_of(schedule, buffer);
    struct piece_of_memory pieces[PIECES_MAX];
    uint64_t bytes = 0;
    uint32_t n = layout_pieces(&layout, buffer, &layout, layout_block(schedule, program, op, write, 0),
                               (enum part)op->part, pieces);
    for (uint32_t i = 0; i < n; i++)
        bytes += pieces[i].bytes;
    if (bytes == op->bytes)
        return true;
    return diagnostics_add(
        diag, "rank %" PRIu32 ": a message of buffer '%s' says %" PRIu64 " bytes but its rows are %" PRIu64,
        program->rank, buffer->name, op->bytes, bytes);
}

bool layout_check(const struct schedule *schedule, const struct program *program, struct diagnostics *diag)
{
    bool good = true;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        bool fits = true;
        for (uint32_t a = 0; a < op->n_reads; a++)
            fits = check_access(schedule, program, op, false, a, diag) && fits;
        for (uint32_t a = 0; a < op->n_writes; a++)
            fits = check_access(schedule, program, op, true, a, diag) && fits;
        good = fits && (!op_is_message(op) || check_message(schedule, program, op, diag)) && good;
    }
    return good;
}
