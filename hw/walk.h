/* walk.h - the programs' operations carried out in double precision: real arrays behind every buffer of every rank.
 *
 * What `--events` prints comes from here; nothing here prints. One CP group, one batch item, a few positions. A buffer
 * holds one block of rows at a time; the rank's resident tensors hold its whole shard. Everything that was not written
 * is NaN, so a read of it shows in the results.
 *
 * A row of each tensor: Q, O, dO, dQ: [q_heads][head_dim]; KV, dKV: [2][kv_heads][head_dim] (K, then V); LSE, delta:
 * [q_heads]; partial and state: [q_heads][2 + head_dim] (m, l, a). A partial result keeps m, l and a, where a kernel
 * would hand out O = a / l and LSE = m + ln l, so that the running maximum is that of the scores.
 */
#ifndef CPSIM_HW_WALK_H
#define CPSIM_HW_WALK_H

#include "hw/events.h"
#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

/* What a buffer holds now. */
struct holding {
    struct block block;    /* count 0: nothing yet */
    struct block attended; /* a partial result: the keys that it is of */
    double *data;          /* [rows of the block][width] */
    size_t width;
};

/* Whole tensors of the sequence, by position; laid out as kernels/reference.h wants them. */
struct whole {
    double *q, *k, *v, *d_o, *o, *lse, *dq, *dk, *dv;
};

struct walk {
    const struct schedule *schedule;
    const struct program *programs;
    size_t q_heads, kv_heads, head_dim;
    double scale;
    struct whole input;        /* q, k, v, d_o; the rest NULL */
    struct holding **holdings; /* [rank][buffer] */
    double *attended;          /* m, l, a of the last OP_ATTEND: [rows of op.q][q_heads][2 + head_dim] */
};

/* Fills the inputs with fixed numbers in [-1, 1] that depend on tensor, position, head and index only; dO_i = G_i / S,
 * the gradient of the mean over the queries of <G_i, O_i>. */
void walk_init(struct walk *walk, const struct schedule *schedule, const struct program *programs);
void walk_fini(struct walk *walk);

/* Carries out operation `op` of `rank`; of a message, `op` is the send and `receive` the other end's index. False, with
 * a message, when a buffer does not hold what is to be read. */
bool walk_do(struct walk *walk, uint32_t rank, uint32_t op, uint32_t receive, struct diagnostics *diag);

/* The block of the i-th buffer that `op` reads (or writes): its queries or its keys, whichever the buffer's tensor is
 * of; of keys of all ranks, the part of the owner whose turn it is. */
struct block walk_block(const struct walk *walk, uint32_t rank, const struct op *op, bool write, uint32_t i);

/* Where row `block.first` of `block` is in `buffer` of `rank`; NULL when the buffer does not hold all of the block. */
double *walk_rows(const struct walk *walk, uint32_t rank, uint32_t buffer, struct block block);

/* Numbers in a row of `tensor`; an array of `count` NaN. */
size_t walk_row_width(const struct walk *walk, enum tensor tensor);
double *walk_make_nan(size_t count);

/* Collects the ranks' resident O, LSE and, when training, dQ, dK, dV into `result` (allocated here; NaN where no rank
 * has a value). walk_free_whole frees it. */
void walk_collect(const struct walk *walk, struct whole *result);
void walk_reference(const struct walk *walk, struct whole *result); /* the same from kernels/reference.h */
void walk_free_whole(struct whole *whole);

/* The positions of `block`, also of BLOCK_ALL, in the order of owners and rows; returns how many. `positions` has room
 * for the whole sequence. */
size_t walk_positions(const struct walk *walk, struct block block, uint64_t *positions);

#endif
