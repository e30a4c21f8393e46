/* walk.h - the programs' operations carried out in double precision: real arrays behind every buffer of every rank.
 *
 * What `--events` prints comes from here; nothing here prints. One CP group, a few positions. Row r of a block is in
 * place (r - first) mod rows of a buffer, as program.h says; for every place and lane the walk knows which position's
 * numbers are there, so that reading rows that a buffer does not hold is an error whatever owner or group they are
 * counted by. Which rows and lanes an operation touches, models/schedule/accesses.h says. Numbers that were never
 * written are NaN, so a read of them shows in the results.
 *
 * Numbers of a row in one lane: Q, O, dO, dQ, numerator: [head_dim]; KV, dKV: [2][head_dim] (K, then V), its lanes
 * being KV heads; LSE, delta, top, denominator: 1; partial and state: [2 + head_dim] (m, l, a). A partial result keeps
 * m, l and a, where a kernel would hand out O = a / l and LSE = m + ln l, so that the running maximum is that of the
 * scores.
 */
#ifndef CPSIM_HW_VERIFY_WALK_H
#define CPSIM_HW_VERIFY_WALK_H

#include "hw/verify/events.h"
#include "models/base/diagnostics.h"
#include "models/schedule/accesses.h"
#include "models/schedule/schedule.h"

/* What a buffer holds now. */
struct holding {
    double *data;          /* [place][lane][numbers]; lanes: item by item, in each the heads */
    int64_t *positions;    /* [place][lane]; -1: nothing yet */
    struct block attended; /* a partial result: the keys that it is of */
    struct lanes lanes;    /* its own: KV heads where the tensor goes by keys */
    size_t numbers;
};

/* Whole tensors of the sequence, by position; laid out as kernels/reference.h wants them, the items of a batch being
 * so many more heads. */
struct whole {
    double *q, *k, *v, *d_o, *o, *lse, *dq, *dk, *dv;
};

struct walk {
    const struct schedule *schedule;
    const struct program *programs;
    size_t items, q_heads, kv_heads, head_dim;
    double scale;
    struct whole input;        /* q, k, v, d_o; the rest NULL */
    struct holding **holdings; /* [rank][buffer] */
    double *attended;          /* m, l, a of the last OP_ATTEND: [rows of op.q][lanes of op.lanes][2 + head_dim] */
};

/* Fills the inputs with fixed numbers in [-1, 1] that depend on tensor, position, head, item and index only; dO_i =
 * G_i / S, the gradient of the mean over the queries of <G_i, O_i>. */
void walk_init(struct walk *walk, const struct schedule *schedule, const struct program *programs);
void walk_fini(struct walk *walk);

/* Carries out operation `op` of `rank`; of a message, `op` is the send and `receive` the other end's index. False, with
 * a message, when a buffer does not hold what is to be read. */
bool walk_do(struct walk *walk, uint32_t rank, uint32_t op, uint32_t receive, struct diagnostics *diag);

/* ---- rows ---- */

static inline uint32_t lanes_count(struct lanes lanes)
{
    return lanes.heads * lanes.items;
}

/* Rows of a block in a buffer, in some of its lanes. */
struct view {
    uint32_t rank, buffer;
    uint32_t first, count;
    struct lanes lanes; /* as the holding's */
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
};

struct view walk_view(const struct walk *walk, uint32_t rank, const struct access *access);
/* The numbers of its row i in its lane `lane`, or in a head of an item: where they belong, whether or not the buffer
 * holds them. */
double *walk_lane(const struct walk *walk, const struct view *view, size_t i, uint32_t lane);
double *walk_at(const struct walk *walk, const struct view *view, size_t i, uint32_t item, uint32_t head);
/* The position whose numbers are there, -1 for none. */
int64_t *walk_held(const struct walk *walk, const struct view *view, size_t i, uint32_t lane);
/* The first buffer of `tensor` that `op` reads (or writes); false when there is none. */
bool walk_find(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor,
               struct view *view);

/* Numbers of one row in one lane; the lanes of a tensor that `lanes` of query heads stand for; the KV head that a query
 * head reads. */
size_t walk_numbers(const struct walk *walk, enum tensor tensor);
struct lanes walk_tensor_lanes(const struct walk *walk, enum tensor tensor, struct lanes lanes);
uint32_t walk_kv_head(const struct walk *walk, uint32_t q_head);

/* The positions of `block`, also of BLOCK_ALL, in the order of owners and rows; returns how many. `positions` has room
 * for the whole sequence. */
size_t walk_positions(const struct walk *walk, struct block block, uint64_t *positions);

/* ---- results ---- */

/* Collects resident O, LSE and, when training, dQ, dK, dV into `result` (allocated here; NaN where nobody has a value):
 * those of `rank`, or of all ranks (BLOCK_ALL). walk_free_whole frees it. */
void walk_collect(const struct walk *walk, uint32_t rank, struct whole *result);
void walk_reference(const struct walk *walk, struct whole *result); /* the same from kernels/reference.h */
void walk_free_whole(struct whole *whole);

/* ---- walk_copies.c: operations that move numbers and leave them as they are ---- */

/* What an operation touches, one of its tensors after the other. */
void walk_layout(struct walk *walk, uint32_t rank, const struct op *op);
bool walk_message(struct walk *walk, uint32_t rank, const struct op *send, uint32_t receive, struct diagnostics *diag);

/* Makes the buffers that `op` writes hold what it writes; false with a message when one cannot, or when it is to be
 * added to and does not hold it. */
bool walk_claim(struct walk *walk, uint32_t rank, const struct op *op, struct diagnostics *diag);

#endif
