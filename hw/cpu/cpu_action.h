/* cpu_action.h - one local operation on host memory: its operands, and the walk over their lanes. For the backend 'cpu'
 * only (compute_cpu.c, cpu_*.c).
 */
#ifndef CPSIM_HW_CPU_CPU_ACTION_H
#define CPSIM_HW_CPU_CPU_ACTION_H

#include "hw/compute.h"
#include "hw/operand.h"
#include "kernels/attention.h"

struct action {
    const struct schedule *schedule;
    const struct program *program;
    const struct op *op;
    void *const *memory;
    const struct between_tiles *between_tiles;
    const struct operand *reads, *writes; /* op->n_reads, op->n_writes of them */
    struct attention_keys *keys;          /* room for a call's: one for each rank */
};

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
void cpu_layer(const struct action *action);    /* of layers: whole buffers, no operands */

#endif
