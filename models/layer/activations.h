/* activations.h - what one layer's forward pass keeps for its backward pass, tensor by tensor.
 *
 * The list is the one of Korthikanti et al. 2022, section 4: the operands of every matrix product, what a softmax, a
 * norm or an activation function needs of itself, a byte per element for a mask of dropout; its closed forms are what
 * the tests hold the sum against. What is small beside hidden is left out there and here: the means and deviations of
 * norms. A tensor that two operations need stands once.
 *
 * FlashAttention keeps no tensor of rows x keys, but O (which the output projection needs anyway) and the LSE in fp32.
 * A gated MLP keeps gate and up, and their product, with the activation function fused into it.
 *
 * Tensor parallelism parts heads and the columns of the MLP. What is a whole row of hidden every rank of the group
 * keeps in full, unless sequence parallelism parts the rows. A context-parallel rank has its own rows only, whatever
 * of the others' keys and values its algorithm keeps beside them. For layer programs, which allocate these.
 */
#ifndef CPSIM_MODELS_LAYER_ACTIVATIONS_H
#define CPSIM_MODELS_LAYER_ACTIVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/dtype.h"
#include "models/input/experiment.h"
#include "models/layer/parts.h"

/* How a rank works on a layer. */
struct activation_setting {
    uint64_t rows; /* tokens of this rank's tensor-parallel group: batch x seq_len / cp */
    uint64_t keys; /* that a row's scores are made for: seq_len; of no effect with flash */
    uint32_t tp;   /* divides q_heads, kv_heads and ffn */
    bool sequence_parallel;
    bool flash;
    enum recomputation recomputation;
    enum dtype dtype;
};

/* What parts a tensor between the ranks of a tensor-parallel group. */
enum activation_split {
    SPLIT_COLUMNS, /* heads, or columns of the MLP: always */
    SPLIT_ROWS,    /* rows of hidden: with sequence parallelism, else each rank has them all */
};

struct activation {
    const char *name;
    enum activation_split split;
    double bytes; /* of the rank that has most */
};

#define ACTIVATIONS_MAX 20

/* Fills `list` and returns how many there are. */
size_t activations_of_layer(const struct transformer *model, const struct activation_setting *setting,
                            struct activation list[ACTIVATIONS_MAX]);

double activations_total(const struct activation *list, size_t n);

#endif
