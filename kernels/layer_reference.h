/* layer_reference.h - a whole transformer layer, forward and backward, in double precision on one rank: the truth that
 * layers on many ranks are held against. Attention by kernels/reference.h; norms and activation functions by the
 * formulas of kernels/layer.h, written once more.
 *
 *   n1 = norm(x), Q K V = n1 W_qkv, O = attention, h1 = x + O W_o,
 *   n2 = norm(h1), u = n2 W_up, d = act(u), y = h1 + d W_down
 *
 * No biases. A token is a position of a batch item: tokens are in the order of positions, and of items at each, as
 * attention's rows are. Shapes, row-major, of T tokens, h = hidden, q = q_heads * head_dim, kv likewise:
 *   x, y, dy, dx [T][h]; W_qkv [h][q + 2 kv]: the query heads, K's, V's; W_o [q][h]; W_up [h][ffn], of a gated MLP
 *   [h][2 ffn]: gates, then the others; W_down [ffn][h]; norms: layer.h
 */
#ifndef CPSIM_KERNELS_LAYER_REFERENCE_H
#define CPSIM_KERNELS_LAYER_REFERENCE_H

#include <stddef.h>

#include "models/input/experiment.h"

struct layer_shape {
    const struct transformer *model;
    const struct mask *mask;
    size_t positions, items; /* tokens: positions * items */
};

/* The weights of a layer, in the order in which they are used. */
enum reference_weight {
    REFERENCE_NORM_1,
    REFERENCE_QKV,
    REFERENCE_O,
    REFERENCE_NORM_2,
    REFERENCE_UP,
    REFERENCE_DOWN,
    REFERENCE_WEIGHTS
};

/* Rows and columns of a weight; of a norm: one row of scales, and one of shifts. */
void reference_weight_shape(const struct transformer *model, enum reference_weight weight, size_t *rows,
                            size_t *columns);

/* What a layer makes of its input. Without a backward pass the gradients are NULL. */
struct layer_result {
    double *y, *dx;
    double *d_weights[REFERENCE_WEIGHTS];
    /* By how much the two norms together make relative errors of a token larger, at most. Forward, a norm does by the
     * root mean square of its row over the deviation that it divides by, which in a layer norm may be far smaller.
     * Backward, where that is divided by too, also by the deviation that tokens have in the mean over this one's. Both
     * are about 1 but for rows of very few numbers. */
    double forward_gain, backward_gain;
    /* What errors of delta (kernels/reference.h) come to in the gradients of W_qkv's columns of Q, and of K: where
     * softmaxes have all their weight on one key, these gradients vanish but for rounding. */
    double query_floor, key_floor;
};

/* `dy`: NULL: no backward pass. The caller calls layer_result_fini. */
void layer_reference(const struct layer_shape *shape, const double *const weights[REFERENCE_WEIGHTS], const double *x,
                     const double *dy, struct layer_result *result);
void layer_result_fini(struct layer_result *result);

#endif
