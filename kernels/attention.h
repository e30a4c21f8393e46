/* attention.h - attention on one block, on CPUs: forward (partial O and LSE), backward (from the whole row's LSE and
 * delta), and the memory-bound steps around them.
 *
 * Layout of every tensor, row-major: [row][batch][head][dim]; LSE, delta, m, l: [row][batch][head]. A KV tensor is K,
 * then V, each [row][batch][kv_head][dim]. Attention may be on some rows, items and heads of a larger tensor: a call
 * gives the address of the first of them, and how far it is from row to row and from item to item. Inputs, O and block
 * gradients are of the call's dtype (fp32, or bf16 stored with fp32 arithmetic); sums are fp32; LSE is a natural
 * logarithm; a row that sees no key gets O = 0, LSE = -inf. Rows stand for positions: query row i of the block is
 * position i of its spans, in order, and positions ascend within the queries and within each key buffer. Any mask, by
 * global positions.
 * Inputs are finite: a NaN is never hidden from the rows that see it, but may spread to rows computed beside them.
 *
 * One implementation per instruction set (baseline, AVX2 + FMA, AVX-512), chosen at run time; no BLAS, no -ffast-math.
 * Single-threaded: a rank is a core. A call allocates its working arrays: packed fp32 copies of the keys of one KV head
 * and their gradient sums (forward 2, backward 5 times keys x head dim) and some tiles. Between tiles a call runs
 * `between_tiles`, so that messages can be progressed.
 */
#ifndef CPSIM_KERNELS_ATTENTION_H
#define CPSIM_KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "models/base/dtype.h"
#include "models/input/experiment.h"
#include "models/schedule/sharding.h"

/* Positions of a run of rows. */
struct attention_rows {
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans;
    size_t rows;
};

/* Elements from one row of a tensor to the next, and from one batch item to the next; heads follow each other. With
 * `row` 0 the tensor holds the call's heads and items and nothing else. */
struct attention_strides {
    size_t row, item;
};

/* One buffer of keys; a call may have several (gathered shards). */
struct attention_keys {
    struct attention_rows positions;
    const void *k, *v;
    void *dk, *dv;                              /* backward: written (not added to), of dkv_dtype */
    struct attention_strides strides, gradient; /* of K and V; of dK and dV */
};

struct attention_call {
    const struct mask *mask;
    uint32_t batch, q_heads, kv_heads, head_dim;
    /* Query heads that share a KV head (0: q_heads / kv_heads), and how many of the first KV head's come before the
     * call's first: KV head of the call's query head h is (group_offset + h) / group. */
    uint32_t group, group_offset;
    float scale;
    enum dtype dtype;     /* of Q, K, V, dO, O and dQ */
    enum dtype dkv_dtype; /* of dK, dV: dtype, or fp32 */
    struct attention_rows queries;
    const void *q;
    struct {
        struct attention_strides q, o, lse, d_o, delta, dq;
    } strides; /* of the queries' tensors */
    const struct attention_keys *keys;
    size_t n_keys;
    void (*between_tiles)(void *context); /* NULL: none */
    void *between_tiles_context;
};

/* Writes O of the call's dtype and LSE in fp32, of the block alone. */
void attention_forward(const struct attention_call *call, void *o, float *lse);

/* Writes dQ of the call's dtype and every key's dK, dV, from dO, and LSE and delta of the whole rows. */
void attention_backward(const struct attention_call *call, const void *d_o, const float *lse, const float *delta,
                        void *dq);

/* Online softmax state of `rows` x heads (heads = batch * q_heads): merges a partial result. With `first` the state is
 * overwritten. m' = max(m, LSE), l' = l e^(m-m') + e^(LSE-m'), a' = a e^(m-m') + O e^(LSE-m'); -inf with -inf stays
 * empty. */
void attention_merge(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const void *o, const float *lse,
                     float *a, float *m, float *l, int first);
/* O = a / l, LSE = m + ln l; of an empty row 0 and -inf. */
void attention_finish(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const float *a, const float *m,
                      const float *l, void *o, float *lse);
/* delta_i = sum_k dO_ik O_ik. */
void attention_delta(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const void *o, const void *d_o,
                     float *delta);
/* target += source (or = source when `first`), element by element, of any two of fp32 and bf16. */
void attention_accumulate(size_t count, enum dtype target_dtype, void *target, enum dtype source_dtype,
                          const void *source, int first);

/* The rest is for partial results over keys that several ranks hold. Numbers are of rows x heads, one after the other.
 * An empty part (LSE = -inf) takes no part, and where all are empty O = 0 and LSE = -inf. */

/* lse = ln(e^lse + e^part), or = part when `first`. */
void attention_sum_lse(size_t count, const float *part, float *lse, int first);
/* O = O + part e^(part_lse - lse) (or without O when `first`), lse being that of all parts. */
void attention_correct(size_t rows, size_t heads, size_t head_dim, enum dtype part_dtype, const void *part,
                       const float *part_lse, const float *lse, enum dtype o_dtype, void *o, int first);
/* top = max(top, other). */
void attention_raise(size_t count, const float *other, float *top);
/* numerator = O e^(lse - top), denominator = e^(lse - top). */
void attention_weigh(size_t rows, size_t heads, size_t head_dim, enum dtype part_dtype, const void *part,
                     const float *part_lse, const float *top, enum dtype numerator_dtype, void *numerator,
                     float *denominator);
/* O = numerator / denominator, lse = top + ln denominator. */
void attention_normalize(size_t rows, size_t heads, size_t head_dim, enum dtype numerator_dtype, const void *numerator,
                         const float *denominator, const float *top, enum dtype o_dtype, void *o, float *lse);

/* The instruction sets built in; the best that this CPU has is used unless attention_use chooses another (tests). */
const char *attention_isa(void);
int attention_use(const char *isa); /* "baseline", "avx2", "avx512", or NULL: the best; 0 if this CPU lacks it */

#endif
