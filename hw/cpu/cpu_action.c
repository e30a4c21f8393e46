/* cpu_action.c - runs of lanes as long as memory allows: of tensors with all their lanes, one run of all rows. */
#include "hw/cpu/cpu_action.h"

#include <assert.h>

const struct operand *action_read(const struct action *action, enum tensor tensor)
{
    return operand_find(action->reads, action->op->n_reads, tensor);
}

const struct operand *action_write(const struct action *action, enum tensor tensor)
{
    return operand_find(action->writes, action->op->n_writes, tensor);
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
