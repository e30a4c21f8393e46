/* contents.h - what a buffer holds while the checker walks the programs.
 *
 * A buffer's contents are a list of pieces: runs of rows of one owner's shard, in ascending order, none overlapping.
 * For results (partial outputs, states, O, gradients) a piece also says of which attended blocks it is the sum: a node
 * of the sums. Invariant: every leaf of that sum covers all rows of the piece, because a piece is made with the rows of
 * its leaf and only ever cut.
 *
 * K and V of a KV buffer, dK and dV of a dKV buffer, may arrive apart: each half has contents of its own; and so has
 * each of the buffer's cells (cells.h), for its lanes may come and go apart.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_CONTENTS_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/schedule/program.h"
#include "models/schedule/sharding.h"

struct piece {
    uint32_t owner, first, count;
    uint32_t sum; /* node of the sums; SUM_EMPTY for inputs */
};

struct contents {
    struct piece *pieces;
    uint32_t count, capacity;
};

/* Which parts an access touches, as bits of enum part: of tensors without parts, only the first. */
static inline unsigned op_parts_for(const struct op *op, enum tensor tensor)
{
    if (!tensor_goes_by_keys(tensor))
        return PART_K;
    return op_is_message(op) ? op->part : (unsigned)PART_ALL;
}

void contents_fini(struct contents *contents);

/* Replaces `run` by what is held of `rows` (one owner's): pieces in row order without gaps; rows that are not held are
 * pieces with an empty sum. True when all are held. */
bool contents_read(const struct contents *contents, struct block rows, struct contents *run);

/* Replaces the rows that `run` covers (`rows`, one owner's) and leaves others as they are. */
void contents_write(struct contents *contents, struct block rows, const struct contents *run);

/* Makes `run` one piece. */
void contents_set(struct contents *run, struct block rows, uint32_t sum);

/* Adds rows after all that are there: to the last piece if they go on from it with the same sum. */
void contents_append(struct contents *run, struct block rows, uint32_t sum);
void contents_extend(struct contents *run, const struct contents *more);

/* "keys of rank 1, rows 0-511 and ...", or "nothing". */
void contents_describe(const struct contents *contents, enum tensor tensor, char *text, size_t size);

#endif
