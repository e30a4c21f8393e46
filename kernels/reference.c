/* reference.c - attention written down as its definition, row by row.
 *
 * Every mask shows a query one run of keys [first, last], its own position among them, so no row is empty. Formulas:
 * softmax shifted by the row's maximum; backward from the whole-row LSE, as in FlashAttention (Dao et al., 2022,
 * arXiv:2205.14135, appendix B): P_ij = exp(S_ij - LSE_i), dS_ij = P_ij (dO_i . V_j - delta_i), delta_i = dO_i . O_i.
 */
#include "kernels/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/rows.h"
#include "models/schedule/mask.h"

/* Index of row `row` of head `head`, of `heads` heads of `dim` numbers. */
static size_t at(size_t row, size_t head, size_t heads, size_t dim)
{
    return (row * heads + head) * dim;
}

static size_t kv_head_of(const struct reference_shape *shape, size_t q_head)
{
    return q_head / (shape->q_heads / shape->kv_heads);
}

/* One row of one head: q, o: [head_dim]; k, v: head kv of [rows][kv_heads][head_dim]. Returns the row's LSE. */
static double forward_row(const struct reference_shape *shape, size_t row, size_t kv, const double *q, const double *k,
                          const double *v, double *o)
{
    const size_t dim = shape->head_dim;
    uint64_t first, last;
    mask_key_range(shape->mask, row, &first, &last);
    double max = -INFINITY, sum = 0;
    for (uint64_t j = first; j <= last; j++)
        max = fmax(max, shape->scale * row_dot(q, &k[at(j, kv, shape->kv_heads, dim)], dim));
    memset(o, 0, dim * sizeof *o);
    for (uint64_t j = first; j <= last; j++) {
        size_t key = at(j, kv, shape->kv_heads, dim);
        double weight = exp(shape->scale * row_dot(q, &k[key], dim) - max);
        sum += weight;
        row_add_scaled(o, weight, &v[key], dim);
    }
    for (size_t d = 0; d < dim; d++)
        o[d] /= sum;
    return max + log(sum);
}

void reference_forward_row(const struct reference_shape *shape, size_t row, const double *q, const double *all_k,
                           const double *all_v, double *o, double *lse)
{
    for (size_t head = 0; head < shape->q_heads; head++) {
        size_t query = head * shape->head_dim;
        lse[head] = forward_row(shape, row, kv_head_of(shape, head), &q[query], all_k, all_v, &o[query]);
    }
}

void reference_forward(const struct reference_shape *shape, const double *q, const double *k, const double *v,
                       double *o, double *lse)
{
    for (size_t row = 0; row < shape->rows; row++) {
        size_t query = at(row, 0, shape->q_heads, shape->head_dim);
        reference_forward_row(shape, row, &q[query], k, v, &o[query], &lse[at(row, 0, shape->q_heads, 1)]);
    }
}

void reference_backward(const struct reference_shape *shape, const double *q, const double *k, const double *v,
                        const double *o, const double *lse, const double *d_o, double *dq, double *dk, double *dv)
{
    const size_t dim = shape->head_dim;
    memset(dq, 0, shape->rows * shape->q_heads * dim * sizeof *dq);
    memset(dk, 0, shape->rows * shape->kv_heads * dim * sizeof *dk);
    memset(dv, 0, shape->rows * shape->kv_heads * dim * sizeof *dv);
    for (size_t row = 0; row < shape->rows; row++) {
        uint64_t first, last;
        mask_key_range(shape->mask, row, &first, &last);
        for (size_t head = 0; head < shape->q_heads; head++) {
            size_t query = at(row, head, shape->q_heads, dim);
            double row_lse = lse[at(row, head, shape->q_heads, 1)];
            double delta = row_dot(&d_o[query], &o[query], dim);
            for (uint64_t j = first; j <= last; j++) {
                size_t key = at(j, kv_head_of(shape, head), shape->kv_heads, dim);
                double p = exp(shape->scale * row_dot(&q[query], &k[key], dim) - row_lse);
                double ds = p * (row_dot(&d_o[query], &v[key], dim) - delta);
                row_add_scaled(&dv[key], p, &d_o[query], dim);
                row_add_scaled(&dq[query], shape->scale * ds, &k[key], dim);
                row_add_scaled(&dk[key], shape->scale * ds, &q[query], dim);
            }
        }
    }
}

void reference_query_gradient(const struct reference_shape *shape, size_t row, const double *q, const double *all_k,
                              const double *all_v, const double *d_o, const double *lse, const double *delta,
                              double *dq)
{
    const size_t dim = shape->head_dim;
    uint64_t first, last;
    mask_key_range(shape->mask, row, &first, &last);
    memset(dq, 0, shape->q_heads * dim * sizeof *dq);
    for (size_t head = 0; head < shape->q_heads; head++) {
        size_t query = head * dim;
        for (uint64_t j = first; j <= last; j++) {
            size_t key = at(j, kv_head_of(shape, head), shape->kv_heads, dim);
            double p = exp(shape->scale * row_dot(&q[query], &all_k[key], dim) - lse[head]);
            double ds = p * (row_dot(&d_o[query], &all_v[key], dim) - delta[head]);
            row_add_scaled(&dq[query], shape->scale * ds, &all_k[key], dim);
        }
    }
}

void reference_key_gradients(const struct reference_shape *shape, size_t row, const double *key, const double *value,
                             const double *all_q, const double *all_d_o, const double *all_lse, const double *all_delta,
                             double *dk, double *dv)
{
    const size_t dim = shape->head_dim;
    uint64_t first, last;
    mask_query_range(shape->mask, row, &first, &last);
    memset(dk, 0, shape->kv_heads * dim * sizeof *dk);
    memset(dv, 0, shape->kv_heads * dim * sizeof *dv);
    for (size_t head = 0; head < shape->q_heads; head++) {
        size_t kv = kv_head_of(shape, head) * dim;
        for (uint64_t i = first; i <= last; i++) {
            size_t number = at(i, head, shape->q_heads, 1), query = number * dim;
            double p = exp(shape->scale * row_dot(&all_q[query], &key[kv], dim) - all_lse[number]);
            double ds = p * (row_dot(&all_d_o[query], &value[kv], dim) - all_delta[number]);
            row_add_scaled(&dv[kv], p, &all_d_o[query], dim);
            row_add_scaled(&dk[kv], shape->scale * ds, &all_q[query], dim);
        }
    }
}
