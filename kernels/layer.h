/* layer.h - what a transformer layer does beside matrix products and attention, on CPUs: norms and activation
 * functions, forward and backward, a row at a time in fp32. (Whoever keeps other types converts the rows.)
 *
 * With x of n numbers, r = 1 / sqrt(mean((x - m)^2) + eps) and c = (x - m) r, where m = mean(x) in a layer norm and 0
 * in an RMS norm: y = c * scale (+ shift in a layer norm) g = dy * scale, dx = r (g - mean(g) - c mean(g c)), without
 * mean(g) in an RMS norm dscale += dy c, dshift += dy (Ba et al. 2016, arXiv:1607.06450; Zhang and Sennrich 2019,
 * arXiv:1910.07467.) Weights of a norm: n scales, then in a layer norm n shifts.
 *
 * A gated MLP goes down with silu(gate) * up, silu(z) = z / (1 + e^-z) (Shazeer 2020, arXiv:2002.05202); a plain one
 * with gelu(up) = up Phi(up), Phi being the normal distribution (Hendrycks and Gimpel 2016, arXiv:1606.08415).
 */
#ifndef CPSIM_KERNELS_LAYER_H
#define CPSIM_KERNELS_LAYER_H

#include <stddef.h>

#include "models/input/experiment.h"

#define LAYER_NORM_EPSILON 1e-5

/* Numbers of a norm's weights, for rows of n. */
size_t layer_norm_weights(enum norm_kind kind, size_t n);

void layer_norm_row(enum norm_kind kind, size_t n, const float *x, const float *weights, float *y);
/* Writes dx and adds to `d_weights`, which are summed over many rows: in double precision. */
void layer_norm_row_backward(enum norm_kind kind, size_t n, const float *dy, const float *x, const float *weights,
                             float *dx, double *d_weights);

/* `up`: n numbers; of a gated MLP n gates, then n numbers. `down`: n. */
void layer_activate_row(enum mlp_kind kind, size_t n, const float *up, float *down);
void layer_activate_row_backward(enum mlp_kind kind, size_t n, const float *d_down, const float *up, float *d_up);

#endif
