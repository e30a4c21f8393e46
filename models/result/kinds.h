/* kinds.h - what a rank computes and what it waits for, by kind: the split of a step's time.
 *
 * Messages are of context parallelism (CP: keys, values, queries, their gradients), of tensor parallelism (TP:
 * activations, among the ranks that share a layer) or of data parallelism (DP: weights and their gradients, over all
 * ranks that hold the same weights, which those of a CP group do too).
 */
#ifndef CPSIM_MODELS_RESULT_KINDS_H
#define CPSIM_MODELS_RESULT_KINDS_H

#include <stdbool.h>

#include "models/schedule/program.h"

enum wait_kind { WAIT_CP, WAIT_TP, WAIT_DP, WAIT_KINDS };

/* Where two run at once, in two streams, the first of them has the time. */
enum compute_part {
    COMPUTE_ATTENTION, /* its kernels */
    COMPUTE_PRODUCTS,
    COMPUTE_OPTIMIZER,
    COMPUTE_OTHER, /* norms, activation functions, sums, copies: what goes element by element */
    COMPUTE_PARTS
};

enum wait_kind wait_kind_of(enum traffic traffic);

/* Of a local operation. */
enum compute_part compute_part_of(const struct op *op);

/* Whether operation `op` computes in the backward phase what the forward phase had computed: attention and what merges
 * it, products of layers, norms and activation functions. (Sums of residuals cannot be told from sums of gradients and
 * are not counted.) */
bool op_is_recomputed(const struct program *program, uint32_t op);

/* "CP", "TP", "DP"; as keys "cp", "tp", "dp"; "attention", "products", "optimizer", "other". */
const char *wait_kind_name(enum wait_kind kind);
const char *wait_kind_key(enum wait_kind kind);
const char *compute_part_name(enum compute_part part);

#endif
