/* layer_layout.h - tensors of layers in memory: matrices of rows x columns.
 *
 * Tokens are in the order of the rank's positions and, at each, of the batch's items: so Q, K and V, with all their
 * lanes, are matrices too, a row of all heads for each token. Layers' own operations are on whole buffers. Messages and
 * sums are on rows [op.q.first, + op.q.count); where a sum or copy has buffers of different lengths, these are rows of
 * the longest, and a shorter one holds just them, from its first row on.
 */
#ifndef CPSIM_HW_LAYER_LAYOUT_H
#define CPSIM_HW_LAYER_LAYOUT_H

#include "hw/layout.h"

/* Whether an operation is on tensors of layers: one of theirs, or a message, a sum or a copy. */
bool op_is_on_layer(const struct program *program, const struct op *op);

/* The rows of `buffer` that such an operation is on, as a block. */
struct block layer_layout_rows(const struct program *program, const struct op *op, uint32_t buffer);

/* Checks that a layer's own operation finds matrices of the sizes that its work says. False with a message. */
bool layer_layout_check(const struct schedule *schedule, const struct program *program, const struct op *op,
                        struct diagnostics *diag);

#endif
