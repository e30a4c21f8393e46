/* walk.h - what the files that follow buffers share: the operation being applied, and reading and writing what buffers
 * hold of it, cell by cell. */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_WALK_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_WALK_H

#include "models/schedule/accesses.h"
#include "models/schedule/checker/internal.h"
#include "models/schedule/execution.h"

/* One operation being applied, to one of its cells, and room for runs of pieces. */
struct walk {
    struct check *check;
    uint32_t rank, op, cell;
    bool quiet; /* something has been said of this operation for an earlier cell */
    struct contents source, target, sum, other, parts, final;
    struct leaf_list once, twice, leaves;
    struct block
        *complete; /* [node of the sums]: rows of which it is known to have every visible pair; count 0: none */
    uint32_t n_complete;
};

static inline const struct program *walk_program(const struct walk *w)
{
    return &w->check->programs[w->rank];
}

static inline const struct op *walk_op(const struct walk *w)
{
    return &walk_program(w)->ops[w->op];
}

static inline const struct buffer *walk_buffer(const struct walk *w, uint32_t buffer)
{
    return &walk_program(w)->buffers[buffer];
}

/* Which parts of a buffer the operation touches: bits of enum part. */
static inline unsigned walk_parts(const struct walk *w, uint32_t buffer)
{
    return op_parts_for(walk_op(w), (enum tensor)walk_buffer(w, buffer)->tensor);
}

/* The next of the operation's accesses that is a write. */
static inline bool walk_next_write(struct access_walk *accesses, struct access *access)
{
    while (accesses_next(accesses, access))
        if (access->write)
            return true;
    return false;
}

/* ---- held.c ---- */

/* Reads rows of one part of a buffer, in the present cell, into `run`; complains unless all are held. */
bool walk_read(struct walk *w, uint32_t buffer, unsigned part, struct block rows, struct contents *run);
void walk_write(struct walk *w, uint32_t buffer, unsigned part, struct block rows, const struct contents *run);

/* Whether the operation reads `buffer` (and so, if it also writes it, adds to it). */
bool walk_reads(const struct walk *w, uint32_t buffer);

/* The first of the operation's reads that is of `tensor`; form_check has seen that there is one. */
uint32_t walk_find_read(const struct walk *w, enum tensor tensor);

/* Complains about the operation in the present cell, if nothing was said of it in an earlier one; the text goes on from
 * its description. */
void walk_complain(struct walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- combine.c: the present cell of operations that are more than a copy or a sum ---- */

/* Attention and delta: every operand is held, and in the backward pass is of the final O. */
void walk_read_operands(struct walk *w);
void walk_delta(struct walk *w);
/* Complains unless `buffer` (LSE, TOP) is of all keys that the operation's queries see. */
void walk_require_all_keys(struct walk *w, uint32_t buffer);
/* Complains unless both are sums of the same blocks. */
void walk_require_same_keys(struct walk *w, uint32_t numerator, uint32_t denominator);

#endif
