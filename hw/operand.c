/* operand.c - addresses and strides of operands, from the layout of their buffers. */
#include "hw/operand.h"

#include <stdlib.h>

#include "hw/layer_layout.h"
#include "models/base/memory.h"
#include "models/schedule/accesses.h"

struct operand operand_of(const struct schedule *schedule, const struct program *program, void *const *memory,
                          uint32_t buffer, struct block block, struct lanes lanes)
{
    const struct buffer *held = &program->buffers[buffer];
    struct buffer_layout layout = layout_of(schedule, held);
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

void operand_list_fill(struct operand_list *list, const struct schedule *schedule, const struct program *program,
                       const struct op *op, void *const *memory)
{
    const size_t count = (size_t)op->n_reads + op->n_writes;
    if (count > list->capacity) {
        list->items = memory_resized(list->items, count, sizeof *list->items);
        list->capacity = count;
    }
    const bool on_layer = op_is_on_layer(program, op);
    struct operand *next = list->items;
    struct access_walk walk;
    struct access access;
    accesses_begin(&walk, schedule, program, op);
    while (accesses_next(&walk, &access)) {
        if (on_layer)
            access.block = layer_layout_rows(program, op, access.buffer);
        *next++ = operand_of(schedule, program, memory, access.buffer, access.block, access.lanes);
    }
}

void operand_list_fini(struct operand_list *list)
{
    free(list->items);
    *list = (struct operand_list){NULL, 0};
}

struct operand operand_part(const struct schedule *schedule, const struct program *program, const struct op *op,
                            void *const *memory, const struct operand *operand, bool write, const struct buffer *slice)
{
    const uint32_t index = write ? *program_writes(program, op) : *program_reads(program, op);
    return operand_of(schedule, program, memory, index, operand->block, lanes_common(op->lanes, slice->lanes));
}

const struct operand *operand_find(const struct operand *operands, uint32_t count, enum tensor tensor)
{
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].buffer->tensor == tensor)
            return &operands[i];
    return NULL;
}
