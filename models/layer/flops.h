/* flops.h - how many FLOPs a transformer takes, by part: those of its matrix products.
 *
 * A product with a matrix of n elements takes 2 n a token forward and twice that backward (the gradients of its input
 * and of its weights). Attention takes 4 x visible pairs x query heads x head dim forward, twice that backward. These
 * are model FLOPs. Hardware FLOPs add what is computed again: the forward pass of what was not kept (enum
 * recomputation; never the head's), and the scores that FlashAttention's backward kernel makes once more: half of
 * attention's forward, so that it takes 2.5 times the forward in all.
 */
#ifndef CPSIM_MODELS_LAYER_FLOPS_H
#define CPSIM_MODELS_LAYER_FLOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/experiment.h"
#include "models/layer/parts.h"

struct flops {
    double of[MODEL_PARTS];
};

struct step_flops {
    struct flops forward, backward; /* model FLOPs */
    struct flops recomputed;        /* in the backward pass, beside them */
};

/* One layer's forward over `tokens` tokens that see `visible_pairs` (query, key) pairs, counted for one head. */
struct flops flops_of_layer(const struct transformer *model, double tokens, double visible_pairs);

/* Forward and backward of all layers and the head; `visible_pairs` are one layer's. */
struct step_flops flops_of_step(const struct transformer *model, double tokens, double visible_pairs,
                                enum recomputation recomputation, bool flash);

double flops_total(const struct flops *flops);
double flops_of_model(const struct step_flops *step);    /* forward and backward */
double flops_of_hardware(const struct step_flops *step); /* and recomputed */

/* A token's FLOPs as Chowdhery et al. 2022 (PaLM, appendix B) count them: 6 N + 12 L H Q T, with N all parameters, so
 * the embedding too, L layers of H heads of dimension Q, and every token seeing all T of its sequence. */
double flops_of_token_palm(const struct transformer *model, uint64_t parameters, uint64_t seq_len);

#endif
