/* reference.h - attention, forward and backward, in double precision over a whole sequence: the truth that everything
 * else is held against. Simple enough to be believed by reading; O(S^2) per head.
 *
 * Shapes, row-major: q, o, d_o, dq: [rows][q_heads][head_dim]; k, v, dk, dv: [rows][kv_heads][head_dim];
 * lse: [rows][q_heads] (natural logarithm). A batch is so many more heads. KV head of query head h: h / (q_heads /
 * kv_heads). Row i is position i.
 */
#ifndef CPSIM_KERNELS_REFERENCE_H
#define CPSIM_KERNELS_REFERENCE_H

#include <stddef.h>

#include "models/input/experiment.h"

struct reference_shape {
    size_t rows, q_heads, kv_heads, head_dim;
    double scale; /* of Q K^T, usually 1 / sqrt(head_dim) */
    const struct mask *mask;
};

/* O_i = sum_j softmax(scale q_i k_j) v_j over the visible j, LSE_i = ln sum_j exp(scale q_i k_j). */
void reference_forward(const struct reference_shape *shape, const double *q, const double *k, const double *v,
                       double *o, double *lse);

/* Gradients of a scalar loss with dL/dO = d_o. */
void reference_backward(const struct reference_shape *shape, const double *q, const double *k, const double *v,
                        const double *o, const double *lse, const double *d_o, double *dq, double *dk, double *dv);

/* The same for single rows, O(S) each: a long sequence is checked on samples, exactly. `q`, `o`, `d_o`, `dq`, `lse` and
 * `delta` are of the row alone ([q_heads][head_dim], [q_heads]), and so are `key`, `value`, `dk` and `dv`
 * ([kv_heads][head_dim]); `all_...` are of the whole sequence. delta_i = sum_k dO_ik O_ik. */
void reference_forward_row(const struct reference_shape *shape, size_t row, const double *q, const double *all_k,
                           const double *all_v, double *o, double *lse);
void reference_query_gradient(const struct reference_shape *shape, size_t row, const double *q, const double *all_k,
                              const double *all_v, const double *d_o, const double *lse, const double *delta,
                              double *dq);
void reference_key_gradients(const struct reference_shape *shape, size_t row, const double *key, const double *value,
                             const double *all_q, const double *all_d_o, const double *all_lse, const double *all_delta,
                             double *dk, double *dv);

#endif
