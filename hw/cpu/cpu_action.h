/* cpu_action.h - one local operation on host memory: its operands, and the walk over their lanes. For the backend 'cpu'
 * only (compute_cpu.c, cpu_*.c).
 *
 * An operand is a buffer that the operation reads or writes, at the operation's rows and lanes; the buffer may hold
 * more of either. Lanes of a key-side operand are KV heads.
 */
#ifndef CPSIM_HW_CPU_CPU_ACTION_H
#define CPSIM_HW_CPU_CPU_ACTION_H

#include "hw/compute.h"
#include "hw/layout.h"
#include "kernels/attention.h"

/* One array of an operand. Strides are in elements. */
struct operand_array {
    char *first; /* its first row's first lane */
    size_t row, item;
    uint32_t width; /* numbers of one head */
    enum dtype dtype;
};

struct operand {
    const struct buffer *buffer;
    struct block block;
    struct lanes lanes; /* as layout_lanes gives them */
    uint32_t n_arrays;
    struct operand_array arrays[LAYOUT_ARRAYS_MAX];
};

struct action {
    const struct schedule *schedule;
    const struct program *program;
    const struct op *op;
    void *const *memory;
    const struct between_tiles *between_tiles;
    const struct operand *reads, *writes; /* op->n_reads, op->n_writes of them */
    struct attention_keys *keys;          /* room for a call's: one for each rank */
};

/* A buffer at some rows and (query) lanes, all of which it holds. */
struct operand operand_of(const struct schedule *schedule, const struct program *program, void *const *memory,
                          uint32_t buffer, struct block block, struct lanes lanes);

/* The first operand of a tensor; NULL if there is none. */
const struct operand *action_read(const struct action *action, enum tensor tensor);
const struct operand *action_write(const struct action *action, enum tensor tensor);

/* Whether the operation reads the buffer of its i-th write too: what it writes is then added to. */
static inline bool action_adds(const struct action *action, uint32_t i)
{
    for (uint32_t r = 0; r < action->op->n_reads; r++)
        if (action->reads[r].buffer == action->writes[i].buffer)
            return true;
    return false;
}

/* Rows, items and heads of arrays that are walked side by side. */
struct extent {
    size_t rows, items, heads;
};

static inline struct extent operand_extent(const struct operand *operand)
{
    return (struct extent){operand->block.count, operand->lanes.items, operand->lanes.heads};
}

#define WALK_ARRAYS_MAX 6

/* Calls `visit` for runs of lanes that follow each other in all of the `n` arrays, as long as they do; `at` has the
 * address of the first of them in each array. */
void lanes_walk(struct extent extent, const struct operand_array *const *arrays, size_t n,
                void (*visit)(const void *context, void *const *at, size_t lanes), const void *context);

/* target = source, or += source when `add`, lane by lane. */
void lanes_sum(struct extent extent, const struct operand_array *target, const struct operand_array *source, bool add);

/* The operations, by what they are like. */
void cpu_attend(const struct action *action);
void cpu_attend_backward(const struct action *action);
void cpu_elements(const struct action *action); /* each number, or each lane of each row, alone */
void cpu_copy(const struct action *action);     /* layout copies */

#endif
