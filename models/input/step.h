/* step.h - what of a model's training step is asked for, and how it is done: [workload] scope and [step].
 *
 * The scope says how much around attention is simulated. Under `attention` nothing here has an effect.
 */
#ifndef CPSIM_MODELS_INPUT_STEP_H
#define CPSIM_MODELS_INPUT_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum scope {
    SCOPE_ATTENTION, /* one layer's attention alone */
    SCOPE_LAYER,     /* one layer: norms, projections, attention, MLP; its weights' gradients, summed */
    SCOPE_MODEL,     /* the whole step: embedding, all layers, head and loss, sums of gradients, optimizer */
};

/* What a transformer is made of, for counts by part. */
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

/* What is not kept for the backward pass but computed again in it (none, selective and full: Korthikanti et al. 2022).
 * Alternate is torchtitan's way: of a layer's products - to Q, K and V, back from attention, gate, up and down - the
 * results of the first, third and so on are kept, and attention's. */
enum recomputation {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* attention from Q, K and V: scores, softmax and its dropout */
    RECOMPUTE_ALTERNATE, /* every second product, and what is none, but attention */
    RECOMPUTE_AROUND,    /* the layer from its input, but for attention, whose O and LSE are kept */
    RECOMPUTE_FULL,      /* the layer from its input */
};

/* What the optimizer keeps for each parameter. */
enum optimizer {
    OPTIMIZER_ADAM, /* the weight and two moments in fp32 */
    OPTIMIZER_NONE, /* nothing, and it does nothing */
};

/* How the loss is made of the logits. */
enum loss_kind {
    LOSS_FUSED, /* in fp32, by kernels that leave the gradient in place of the logits */
    LOSS_EAGER, /* as PyTorch's cross_entropy of logits that are cast to fp32: operator by operator, each with a result
                 */
};

/* Types of the operands of a layer's matrix products. */
enum linear_type { LINEAR_MODEL, LINEAR_FP8 };

struct step_setting {
    enum scope scope;
    bool sequence_parallel; /* tp ranks share the rows between products: reduce-scatter and all-gather, no all-reduce */
    enum recomputation recomputation;
    uint32_t zero;              /* stage: what the dp x cp ranks share instead of each having it: 0 nothing, 1 what the
                                   optimizer keeps, 2 gradients too, 3 weights too (FSDP) */
    bool weight_gradients_fp32; /* kept and summed in fp32; else in the model's type */
    uint32_t bucket_layers;     /* whose gradients are summed in one go */
    enum linear_type linear;
    enum optimizer optimizer;
    enum loss_kind loss;
    uint32_t loss_chunks;   /* parts of a rank's rows whose logits are made at a time; 1: all are kept */
    uint32_t micro_batches; /* forward and backward passes before the gradients are summed */
    double reserve_bytes;   /* of a device's memory that is nobody's tensor: contexts, libraries, what lies unused */
};

#endif
