/* stretches.h - where a rank's rows are in a joined shard: for layout copies between the two (SPLIT_ROWS, JOIN_ROWS).
 */
#ifndef CPSIM_HW_STRETCHES_H
#define CPSIM_HW_STRETCHES_H

#include <stddef.h>

#include "models/schedule/sharding.h"

/* Rows of a part that are one progression of positions, and where they are among the joined rows: evenly apart. */
struct stretch {
    size_t count;
    size_t part_row;         /* from the part's first */
    size_t joined_row, step; /* from the joined block's first */
};

/* All rows of `part`, which `joined` has too; returns how many stretches they are. */
uint32_t stretches_of(const struct sharding *sharding, struct block joined, struct block part,
                      struct stretch stretches[SHARD_SPANS_MAX]);

#endif
