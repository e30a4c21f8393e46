/* operand.c - addresses and strides of operands, from the layout of their buffers. */
#include "hw/operand.h"

#include "models/schedule/accesses.h"

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

void operands_of(const struct schedule *schedule, const struct program *program, const struct op *op,
                 void *const *memory, struct operand *operands)
{
    struct access_walk walk;
    struct access access;
    accesses_begin(&walk, schedule, program, op);
    while (accesses_next(&walk, &access))
        *operands++ = operand_of(schedule, program, memory, access.buffer, access.block, access.lanes);
}

const struct operand *operand_find(const struct operand *operands, uint32_t count, enum tensor tensor)
{
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].buffer->tensor == tensor)
            return &operands[i];
    return NULL;
}
