/* attention_cuda.h - attention on one block, on CUDA GPUs (compute capability 8.0 and later), for C.
 *
 * What the functions compute, and the layout of tensors, is what kernels/attention.h says; only these differ:
 * - all tensors are in device memory, a call is queued on `stream` (a cudaStream_t; NULL: the default stream) and
 *   returns at once;
 * - inputs, O and dQ are bf16 or fp16, with fp32 sums; head dims are 64, 128 and 256;
 * - the mask and the positions come as two arrays per key buffer: query row i sees rows [from[i], to[i]) of it, and
 *   neither array ever falls (kernels/runs.h makes them);
 * - strides are always given.
 * Tensors with head dims start at multiples of 16 bytes, and their strides are multiples of 8 elements, as those of
 * rows of whole heads are; arrays of fp32 and int32 numbers start at multiples of 4 bytes. Results do not depend on the
 * order in which thread blocks run: a call's outputs are the same bits every time.
 *
 * Functions return 0, or a CUDA error number; CUDA_INVALID for a call that breaks these rules. cuda_error_text
 * (runtime.h) names it.
 */
#ifndef CPSIM_KERNELS_CUDA_ATTENTION_CUDA_H
#define CPSIM_KERNELS_CUDA_ATTENTION_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "models/base/dtype.h"

#define CUDA_INVALID 1 /* cudaErrorInvalidValue */

/* Elements from one row of a tensor to the next, and from one batch item to the next; heads follow each other. */
struct cuda_strides {
    uint64_t row, item;
};

/* One buffer of keys: its first row's, item's and KV head's K and V. */
struct cuda_keys {
    const void *k, *v;
    void *dk, *dv;                         /* backward: written (not added to), of dkv_dtype */
    struct cuda_strides strides, gradient; /* of K and V; of dK and dV */
    const int32_t *from, *to;              /* by query row */
    uint32_t rows;                         /* at most INT32_MAX */
};

struct cuda_call {
    uint32_t items, q_heads, kv_heads, head_dim;
    /* Query heads that share a KV head, and how many of the first KV head's come before the call's first: KV head of
     * the call's query head h is (group_offset + h) / group. */
    uint32_t group, group_offset;
    float scale;          /* above 0 */
    enum dtype dtype;     /* of Q, K, V, dO, O and dQ: bf16 or fp16 */
    enum dtype dkv_dtype; /* of dK, dV: dtype, or fp32 */
    uint32_t rows;        /* queries */
    const void *q;
    struct {
        struct cuda_strides q, o, lse, d_o, delta, dq;
    } strides;
    /* The buffers, in host memory (read before the call returns) and the same structs in device memory (read by the
     * kernels). */
    const struct cuda_keys *keys, *device_keys;
    uint32_t n_keys;
    void *workspace; /* where the call's family wants one (families.h) */
};

/* Brings the kernels of the two functions below onto the current device, before anything runs there that could wait for
 * what is launched later: a first launch would (device.cuh, load_kernels). */
int cuda_attention_load(void);

/* Writes O and LSE (fp32) of the block alone; of rows that see nothing, 0 and -inf. */
int cuda_attention_forward(const struct cuda_call *call, void *o, float *lse, void *stream);

/* Writes dQ and every buffer's dK, dV, from dO, and LSE and delta of the whole rows. */
int cuda_attention_backward(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta,
                            void *dq, void *stream);

/* ---- steps on each number, or each lane of each row, alone ---- */

/* An array of an operation: its first number, and elements from row to row and item to item. */
struct cuda_array {
    void *first;
    struct cuda_strides strides;
    enum dtype dtype; /* fp32, bf16 or fp16 */
};

/* Rows, items and heads that an operation is on, and the numbers of each head in arrays that have a head dim (others,
 * LSE and the like, have one number, of fp32). Any head dim. */
struct cuda_extent {
    uint64_t rows;
    uint32_t items, heads, dim;
};

/* As cuda_attention_load, for those that follow. */
int cuda_elements_load(void);

/* kernels/attention.h has the formulas, under the same names. With `first` a target is written only. */
int cuda_merge(struct cuda_extent extent, struct cuda_array o, struct cuda_array lse, struct cuda_array a,
               struct cuda_array m, struct cuda_array l, int first, void *stream);
int cuda_finish(struct cuda_extent extent, struct cuda_array a, struct cuda_array m, struct cuda_array l,
                struct cuda_array o, struct cuda_array lse, void *stream);
int cuda_delta(struct cuda_extent extent, struct cuda_array o, struct cuda_array d_o, struct cuda_array delta,
               void *stream);
int cuda_correct(struct cuda_extent extent, struct cuda_array part, struct cuda_array part_lse, struct cuda_array lse,
                 struct cuda_array o, int first, void *stream);
int cuda_weigh(struct cuda_extent extent, struct cuda_array part, struct cuda_array part_lse, struct cuda_array top,
               struct cuda_array numerator, struct cuda_array denominator, void *stream);
int cuda_normalize(struct cuda_extent extent, struct cuda_array numerator, struct cuda_array denominator,
                   struct cuda_array top, struct cuda_array o, struct cuda_array lse, void *stream);

/* These look at `extent.dim` numbers a head (1 for LSE and the like). With `first` accumulate is a copy, with a cast
 * where dtypes differ: rows that are evenly apart, and lanes inside wider rows, are strides, so slices of lanes are
 * split and joined, and rows are interleaved, by one call for each run. */
int cuda_accumulate(struct cuda_extent extent, struct cuda_array target, struct cuda_array source, int first,
                    void *stream);
int cuda_sum_lse(struct cuda_extent extent, struct cuda_array part, struct cuda_array lse, int first, void *stream);
int cuda_raise(struct cuda_extent extent, struct cuda_array other, struct cuda_array top, void *stream);

#ifdef __cplusplus
}
#endif
#endif
