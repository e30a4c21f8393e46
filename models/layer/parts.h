/* parts.h - what a transformer is made of, for counts by part.
 *
 * models/layer is arithmetic: parameters, FLOPs, activation bytes and utilization of a struct transformer that
 * transformer_is_complete and transformer_check have accepted. Pure functions: no program, no device, no time.
 */
#ifndef CPSIM_MODELS_LAYER_PARTS_H
#define CPSIM_MODELS_LAYER_PARTS_H

enum model_part {
    MODEL_QUERY, /* the projections to Q, K and V, and from the heads' outputs back */
    MODEL_KEY,
    MODEL_VALUE,
    MODEL_OUTPUT,
    MODEL_ATTENTION, /* S = Q K^T and O = P V: FLOPs, no parameters */
    MODEL_MLP,
    MODEL_NORM,      /* parameters; its FLOPs are not counted, being no matrix product's */
    MODEL_EMBEDDING, /* of tokens and positions: parameters; a look-up has no FLOPs */
    MODEL_HEAD,      /* logits: its parameters are the embedding's where the two are tied */
    MODEL_PARTS,
};

/* What is not kept for the backward pass but computed again in it (Korthikanti et al. 2022). */
enum recomputation {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* attention from Q, K and V: scores, softmax and its dropout */
    RECOMPUTE_FULL,      /* the layer from its input */
};

#endif
