/* verify_layer.h - holds what the ranks of a layer ended with against the whole layer in double precision on one rank
 * (kernels/layer_reference.h): y and dx of each rank's tokens, and every gradient of its part of each weight, summed
 * over all tokens of all ranks. Always in full: layers that are too much for that are refused.
 *
 * Errors are measured as verify.h says, a row of a weight's gradient being a row of it (of Q's, K's and V's columns
 * each for themselves).
 *
 * Tolerances. In fp32 a chain of as many operations as a layer has adds up what single ones leave: up to 4.4e-6 over
 * 6000 random layers, held to FP32_TOLERANCE. In bf16 each tensor on the way from the inputs to a result is rounded
 * when it is stored, by at most u = 2^-8 of its size, and what is made from it is off by as much of its own: products
 * and norms keep the size of a relative error, an activation function's slope is about 1. So the bound is u times the
 * number of tensors stored on the longest way, plus one for each addition of sums that travel so narrow: among tp
 * ranks, and of weights' gradients kept in bf16 among dp x cp. Attention's result and gradients count as in verify.h,
 * and where Q and K are rounded too, so are scores: these have a deviation of 2, by which an error of either is one of
 * the weights: SCORE_ROUNDINGS, forward and again backward. Up to five sixths of the bound were seen. Either bound
 * times what norms make of errors, which the reference says: about 1 but for rows of very few numbers; and gradients of
 * W_q and W_k are measured at least by what errors of delta come to. Sums that are forgotten are faults of order one.
 */
#ifndef CPSIM_HW_VERIFY_VERIFY_LAYER_H
#define CPSIM_HW_VERIFY_VERIFY_LAYER_H

#include "hw/verify/verify.h"

#define SCORE_ROUNDINGS 4

/* Shorter rows of hidden have errors in bf16 that nothing here bounds. */
#define VERIFY_LAYER_HIDDEN_MIN 8

/* Products of two numbers that the reference multiplies, at most. */
#define VERIFY_LAYER_WORK_MAX 2e10

/* False, with a message, when the reference would take too long, or says nothing of errors. */
bool verify_layer_check(const struct schedule *schedule, struct diagnostics *diag);
/* As verify_bytes. */
double verify_layer_bytes(const struct schedule *schedule);

/* `input->outputs` of ranks of the layout, `places` theirs: [n_ranks]. */
void verify_layer(const struct verify_input *input, const struct layers_place *places,
                  struct verification *verification);

#endif
