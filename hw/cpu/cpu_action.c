/* cpu_action.c - addresses of operands, and runs of lanes as long as memory allows: of tensors with all their lanes,
 * one run of all rows. */
#include "hw/cpu/cpu_action.h"

#include <assert.h>

struct operand operand_of(const struct schedule *schedule, const struct program *program, void *const *memory,
                          uint32_t buffer, struct block block, struct lanes lanes)
{
    const struct buffer *held = &program->buffers[buffer];
    struct layout layout = layout_of(schedule, held);
    struct operand operand = {.buffer = held,
                              .block = block,
                              .lanes = layout_lanes(schedule, (enum tensor)held->tensor, lanes),
                              .n_arrays = layout.n_arrays};
    for (uint32_t a = 0; a < layout.n_arrays; a++)
        operand.arrays[a] =
            (struct operand_array){.first = (char *)layout_rows(&layout, held, memory[buffer], a, block) +
                                            layout_lane_offset(&layout, a, operand.lanes),
                                   .row = (size_t)layout.lanes.items * layout.lanes.heads * layout.arrays[a].width,
                                   .item = (size_t)layout.lanes.heads * layout.arrays[a].width,
                                   .width = layout.arrays[a].width,
                                   .dtype = layout.arrays[a].dtype};
    return operand;
}

static const struct operand *find(const struct operand *operands, uint32_t count, enum tensor tensor)
{
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].buffer->tensor == tensor)
            return &operands[i];
    return NULL;
}

const struct operand *action_read(const struct action *action, enum tensor tensor)
{
    return find(action->reads, action->op->n_reads, tensor);
}

const struct operand *action_write(const struct action *action, enum tensor tensor)
{
    return find(action->writes, action->op->n_writes, tensor);
}

/* ---- lanes side by side ---- */

/* Whether all arrays go on without a gap from one item (or row) of `heads` heads to the next. */
static bool touch(const struct operand_array *const *arrays, size_t n, bool rows, size_t heads)
{
    for (size_t i = 0; i < n; i++)
        if ((rows ? arrays[i]->row : arrays[i]->item) != heads * arrays[i]->width)
            return false;
    return true;
}

void lanes_walk(struct extent extent, const struct operand_array *const *arrays, size_t n,
                void (*visit)(const void *context, void *const *at, size_t lanes), const void *context)
{
    void *at[WALK_ARRAYS_MAX];
    assert(n <= WALK_ARRAYS_MAX);
    if (extent.rows == 0 || extent.items == 0 || extent.heads == 0)
        return;
    if (extent.items == 1 || touch(arrays, n, false, extent.heads)) {
        extent.heads *= extent.items;
        extent.items = 1;
        if (extent.rows == 1 || touch(arrays, n, true, extent.heads)) {
            extent.heads *= extent.rows;
            extent.rows = 1;
        }
    }
    for (size_t row = 0; row < extent.rows; row++) {
        for (size_t item = 0; item < extent.items; item++) {
            for (size_t i = 0; i < n; i++)
                at[i] =
                    arrays[i]->first + (row * arrays[i]->row + item * arrays[i]->item) * dtype_bytes(arrays[i]->dtype);
            visit(context, at, extent.heads);
        }
    }
}

struct sum {
    enum dtype target, source;
    size_t width;
    bool add;
};

static void sum_run(const void *context, void *const *at, size_t lanes)
{
    const struct sum *sum = context;
    attention_accumulate(lanes * sum->width, sum->target, at[0], sum->source, at[1], !sum->add);
}

void lanes_sum(struct extent extent, const struct operand_array *target, const struct operand_array *source, bool add)
{
    const struct sum sum = {target->dtype, source->dtype, target->width, add};
    assert(target->width == source->width);
    lanes_walk(extent, (const struct operand_array *const[]){target, source}, 2, sum_run, &sum);
}
