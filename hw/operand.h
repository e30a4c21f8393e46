/* operand.h - what an operation reads or writes: a buffer, at the operation's rows and lanes; the buffer may hold more
 * of either. Lanes of a key-side operand are KV heads.
 */
#ifndef CPSIM_HW_OPERAND_H
#define CPSIM_HW_OPERAND_H

#include <stddef.h>

#include "hw/layout.h"

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

/* A buffer at some rows and (query) lanes, all of which it holds. */
struct operand operand_of(const struct schedule *schedule, const struct program *program, void *const *memory,
                          uint32_t buffer, struct block block, struct lanes lanes);

/* All of an operation's: its reads, then its writes. Used for one operation after the other; starts as zeros. */
struct operand_list {
    struct operand *items;
    size_t capacity;
};

void operand_list_fill(struct operand_list *list, const struct schedule *schedule, const struct program *program,
                       const struct op *op, void *const *memory);
void operand_list_fini(struct operand_list *list);

/* Of a layout copy between a whole buffer (what it writes if `write`, else what it reads) and slices of its lanes: the
 * lanes of the whole, `operand`, that `slice` has. */
struct operand operand_part(const struct schedule *schedule, const struct program *program, const struct op *op,
                            void *const *memory, const struct operand *operand, bool write, const struct buffer *slice);

/* The first of a tensor; NULL if there is none. */
const struct operand *operand_find(const struct operand *operands, uint32_t count, enum tensor tensor);

/* Rows, items and heads of arrays that are walked side by side. */
struct extent {
    size_t rows, items, heads;
};

static inline struct extent operand_extent(const struct operand *operand)
{
    return (struct extent){operand->block.count, operand->lanes.items, operand->lanes.heads};
}

#endif
