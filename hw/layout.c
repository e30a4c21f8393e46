/* layout.c - offsets and pieces of blocks; what the layout cannot hold is refused before anything runs. */
#include "hw/layout.h"

#include <assert.h>
#include <inttypes.h>

#include "hw/layer_layout.h"

struct lanes layout_lanes(const struct schedule *schedule, enum tensor tensor, struct lanes lanes)
{
    if (tensor_is_of_layer(tensor))
        return (struct lanes){0, 1, 0, 1};
    return tensor_goes_by_keys(tensor) ? schedule_kv_lanes(schedule, lanes) : lanes;
}

struct buffer_layout layout_of(const struct schedule *schedule, const struct buffer *buffer)
{
    enum dtype dtype = (enum dtype)buffer->dtype, wide = dtype_accumulator(dtype);
    uint32_t dim = schedule->experiment->model.head_dim;
    struct buffer_layout layout = {.lanes = layout_lanes(schedule, (enum tensor)buffer->tensor, buffer->lanes),
                                   .n_arrays = 1};
    for (int a = 0; a < LAYOUT_ARRAYS_MAX; a++)
        layout.arrays[a].dtype = dtype;
    layout.arrays[0].width = dim;
    switch ((enum tensor)buffer->tensor) {
    case TENSOR_KV:
    case TENSOR_DKV:
        layout.n_arrays = 2;
        layout.arrays[1].width = dim;
        break;
    case TENSOR_PARTIAL:
        layout.n_arrays = 2;
        layout.arrays[1].width = 1;
        layout.arrays[1].dtype = wide;
        break;
    case TENSOR_STATE:
        layout.n_arrays = 3;
        layout.arrays[1].width = layout.arrays[2].width = 1;
        break;
    case TENSOR_LSE:
    case TENSOR_DELTA:
    case TENSOR_TOP:
    case TENSOR_DENOMINATOR:
        layout.arrays[0].width = 1;
        break;
    case TENSOR_HIDDEN:
    case TENSOR_WIDE:
    case TENSOR_LOGITS:
    case TENSOR_WEIGHT:
    case TENSOR_WEIGHT_GRADIENT:
    case TENSOR_OPTIMIZER:
        layout.arrays[0].width = (uint32_t)buffer->columns;
        break;
    default:
        break;
    }
    uint64_t lanes = (uint64_t)layout.lanes.heads * layout.lanes.items, offset = 0;
    for (uint32_t a = 0; a < layout.n_arrays; a++) {
        layout.arrays[a].row_bytes = lanes * layout.arrays[a].width * dtype_bytes(layout.arrays[a].dtype);
        layout.arrays[a].offset = offset;
        offset += buffer->rows * layout.arrays[a].row_bytes;
    }
    return layout;
}

/* ---- where things are ---- */

static uint64_t place_of(const struct buffer *buffer, struct block block)
{
    if (buffer->rows == 0)
        return 0;
    return (block.first + buffer->rows - buffer->first % buffer->rows) % buffer->rows;
}

static bool holds_rows(const struct buffer *buffer, struct block block)
{
    return block.count == 0 || place_of(buffer, block) + block.count <= buffer->rows;
}

void *layout_rows(const struct buffer_layout *layout, const struct buffer *buffer, void *memory, uint32_t array,
                  struct block block)
{
    assert(array < layout->n_arrays && holds_rows(buffer, block));
    return (char *)memory + layout->arrays[array].offset + place_of(buffer, block) * layout->arrays[array].row_bytes;
}

uint64_t layout_lane_offset(const struct buffer_layout *layout, uint32_t array, struct lanes lanes)
{
    uint64_t item = lanes.item - layout->lanes.item, head = lanes.head - layout->lanes.head;
    return (item * layout->lanes.heads + head) * layout->arrays[array].width * dtype_bytes(layout->arrays[array].dtype);
}

struct cargo layout_cargo(const struct schedule *schedule, const struct program *program, const struct op *op)
{
    struct access access = access_of(schedule, program, op, op->kind == OP_RECEIVE, 0);
    enum tensor tensor = (enum tensor)program->buffers[access.buffer].tensor;
    return (struct cargo){access.block, layout_lanes(schedule, tensor, access.lanes), (enum part)op->part};
}

/* Runs that touch, as one. */
struct runs {
    void (*visit)(void *context, void *run, uint64_t bytes);
    void *context;
    char *run;
    uint64_t run_bytes, bytes; /* of the run, if there is one; of all */
};

static void end_run(struct runs *runs)
{
    if (runs->run)
        runs->visit(runs->context, runs->run, runs->run_bytes);
    runs->run = NULL;
}

static void add_run(struct runs *runs, char *run, uint64_t bytes)
{
    runs->bytes += bytes;
    if (runs->run && runs->run + runs->run_bytes == run) {
        runs->run_bytes += bytes;
        return;
    }
    end_run(runs);
    runs->run = run;
    runs->run_bytes = bytes;
}

/* Of one array: all its rows at once, or each row, or each item of it. */
static void add_array(struct runs *runs, const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                      const struct cargo *cargo, uint32_t array)
{
    const struct lanes all = layout->lanes, lanes = cargo->lanes;
    char *row = layout_rows(layout, buffer, memory, array, cargo->block);
    if (lanes_equal(lanes, all)) {
        add_run(runs, row, cargo->block.count * layout->arrays[array].row_bytes);
        return;
    }
    uint64_t head_bytes = layout->arrays[array].width * dtype_bytes(layout->arrays[array].dtype);
    row += layout_lane_offset(layout, array, lanes);
    for (uint32_t r = 0; r < cargo->block.count; r++, row += layout->arrays[array].row_bytes)
        for (uint32_t i = 0; i < lanes.items; i++)
            add_run(runs, row + i * all.heads * head_bytes, lanes.heads * head_bytes);
}

/* Of a buffer of keys and values, whether the cargo is of `array` too. */
static bool carries(const struct buffer *buffer, const struct cargo *cargo, uint32_t array)
{
    return !tensor_goes_by_keys((enum tensor)buffer->tensor) || (cargo->part & (array == 0 ? PART_K : PART_V));
}

uint64_t layout_runs(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                     const struct cargo *cargo, void (*visit)(void *context, void *run, uint64_t bytes), void *context)
{
    struct runs runs = {.visit = visit, .context = context};
    for (uint32_t a = 0; a < layout->n_arrays; a++)
        if (carries(buffer, cargo, a))
            add_array(&runs, layout, buffer, memory, cargo, a);
    end_run(&runs);
    return runs.bytes;
}

struct piece_list {
    struct piece_of_memory *pieces;
    uint32_t count;
};

static void add_piece(void *context, void *run, uint64_t bytes)
{
    struct piece_list *list = context;
    if (list->count < PIECES_MAX)
        list->pieces[list->count] = (struct piece_of_memory){run, bytes};
    list->count++;
}

uint32_t layout_pieces(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                       struct block block, enum part part, struct piece_of_memory pieces[PIECES_MAX])
{
    const struct cargo cargo = {block, layout->lanes, part};
    return layout_cargo_pieces(layout, buffer, memory, &cargo, pieces);
}

uint32_t layout_cargo_pieces(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                             const struct cargo *cargo, struct piece_of_memory pieces[PIECES_MAX])
{
    struct piece_list list = {pieces, 0};
    layout_runs(layout, buffer, memory, cargo, add_piece, &list);
    return list.count;
}

uint32_t layout_cargo_arrays(const struct buffer_layout *layout, const struct buffer *buffer, const struct cargo *cargo,
                             uint64_t bytes[LAYOUT_ARRAYS_MAX])
{
    const uint64_t lanes = (uint64_t)cargo->lanes.heads * cargo->lanes.items;
    uint32_t count = 0;
    for (uint32_t a = 0; a < layout->n_arrays; a++)
        if (carries(buffer, cargo, a))
            bytes[count++] =
                cargo->block.count * lanes * layout->arrays[a].width * dtype_bytes(layout->arrays[a].dtype);
    return count;
}

/* ---- checks ---- */

static bool check_buffer(const struct schedule *schedule, const struct program *program, const struct buffer *buffer,
                         struct diagnostics *diag)
{
    struct buffer_layout layout = layout_of(schedule, buffer);
    uint32_t last = layout.n_arrays - 1;
    uint64_t bytes = layout.arrays[last].offset + buffer->rows * layout.arrays[last].row_bytes;
    if (bytes == buffer->bytes)
        return true;
    return diagnostics_add(diag,
                           "rank %" PRIu32 ": buffer '%s' says %" PRIu64 " bytes but its rows and lanes are %" PRIu64,
                           program->rank, buffer->name, buffer->bytes, bytes);
}

static bool lanes_empty(struct lanes lanes)
{
    return lanes.heads == 0 || lanes.items == 0;
}

/* Whether the buffer holds the operation's lanes: all of them, unless it is a slice of them. */
static bool holds_lanes(const struct op *op, const struct access *access, const struct buffer *buffer)
{
    if (lanes_empty(op->lanes))
        return true;
    bool sliced = access->write ? op->kind == OP_SPLIT_LANES : op->kind == OP_JOIN_LANES;
    return sliced ? !lanes_empty(access->lanes) : lanes_within(op->lanes, buffer->lanes);
}

static bool complain_of_access(const struct program *program, const struct op *op, const struct access *access,
                               struct diagnostics *diag)
{
    const struct buffer *buffer = &program->buffers[access->buffer];
    const struct lanes asked = op->lanes, held = buffer->lanes;
    char text[256];
    program_describe_op(program, (uint32_t)(op - program->ops), text, sizeof text);
    if (!holds_rows(buffer, access->block))
        return diagnostics_add(
            diag, "rank %" PRIu32 ": '%s': rows %" PRIu32 "+%" PRIu32 " do not fit buffer '%s' of %" PRIu64 " rows",
            program->rank, text, access->block.first, access->block.count, buffer->name, buffer->rows);
    return diagnostics_add(diag,
                           "rank %" PRIu32 ": '%s': heads %" PRIu32 "+%" PRIu32 " of items %" PRIu32 "+%" PRIu32
                           " do not fit buffer '%s' of heads %" PRIu32 "+%" PRIu32 ", items %" PRIu32 "+%" PRIu32,
                           program->rank, text, asked.head, asked.heads, asked.item, asked.items, buffer->name,
                           held.head, held.heads, held.item, held.items);
}

static void skip_run(void *context, void *run, uint64_t bytes)
{
    (void)context;
    (void)run;
    (void)bytes;
}

static bool check_message(const struct schedule *schedule, const struct program *program, const struct op *op,
                          const struct access *access, struct diagnostics *diag)
{
    const struct buffer *buffer = &program->buffers[access->buffer];
    struct buffer_layout layout = layout_of(schedule, buffer);
    struct cargo cargo = layout_cargo(schedule, program, op);
    uint64_t bytes = layout_runs(&layout, buffer, &layout, &cargo, skip_run, NULL);
    if (bytes == op->bytes)
        return true;
    return diagnostics_add(
        diag, "rank %" PRIu32 ": a message of buffer '%s' says %" PRIu64 " bytes but its rows are %" PRIu64,
        program->rank, buffer->name, op->bytes, bytes);
}

static bool check_op(const struct schedule *schedule, const struct program *program, const struct op *op,
                     struct diagnostics *diag)
{
    bool message = op_is_message(op), good = true, on_layer = op_is_on_layer(program, op);
    struct access_walk walk;
    struct access access;
    if (op_is_of_layer(op))
        return layer_layout_check(schedule, program, op, diag);
    if (message && op->n_reads + op->n_writes != 1)
        return diagnostics_add(diag, "rank %" PRIu32 ": a message names %d buffers, expected 1", program->rank,
                               op->n_reads + op->n_writes);
    accesses_begin(&walk, schedule, program, op);
    while (accesses_next(&walk, &access)) {
        const struct buffer *buffer = &program->buffers[access.buffer];
        if (on_layer)
            access.block = layer_layout_rows(program, op, access.buffer);
        if (!holds_rows(buffer, access.block) || (!on_layer && !holds_lanes(op, &access, buffer)))
            good = complain_of_access(program, op, &access, diag);
        else if (message)
            good = check_message(schedule, program, op, &access, diag);
    }
    return good;
}

bool layout_check(const struct schedule *schedule, const struct program *program, struct diagnostics *diag)
{
    bool good = true;
    for (uint32_t b = 0; b < program->n_buffers; b++)
        good = check_buffer(schedule, program, &program->buffers[b], diag) && good;
    for (uint32_t i = 0; i < program->n_ops; i++)
        good = check_op(schedule, program, &program->ops[i], diag) && good;
    return good;
}
