/* layers.h - the program of a rank for a whole layer or a whole training step (workload.scope).
 *
 * Forward: the embedding, every layer - a norm, the product to Q, K and V, attention by the schedule's algorithm, the
 * product back, a norm, the MLP - then the last norm, the head and the loss. Backward: the same in reverse, what was
 * not kept (step.recompute) made again before; gradients of weights summed over dp x cp beside it; the optimizer. Of
 * scope `layer` the layer alone, from a resident input and from a resident gradient of its output.
 *
 * The ranks of a tp group share heads and the columns of the MLP (Megatron's way): products to Q, K, V and up are by
 * columns, those back and down by rows, whose sums are all-reduced; with sequence parallelism they are reduce-scattered
 * by rows, and gathered again in front of the next product, so that each rank has norms and residuals of its own rows
 * only (Korthikanti et al. 2022). What was gathered is not kept but gathered again backward.
 *
 * What the dp x cp ranks share (step.zero): 0 nothing: gradients are all-reduced. 1 what the optimizer keeps: gradients
 * are reduce-scattered, the new weights gathered. 2 gradients too. 3 weights too: each layer's are gathered before its
 * forward and its backward pass, one layer ahead of the products; what a rank keeps of them is the optimizer's.
 *
 * Attention is the algorithm's own program, spliced in (splice.h). Every CP group runs the same program, so tp and dp
 * indices are named by how far ahead they are (peers.h); collectives among them are flowing (program.h), over one ring,
 * or, where a node has several of the members, over as many, each of which leaves the node at another member: the way
 * NCCL's rings do. Written out, as hardware needs them, they are rings of steps on rows of their buffers, and the
 * program is that of one tp and dp index.
 *
 * Not here: rotary embeddings, dropout, clipping of gradients by their norm, pipelines.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_H
#define CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_H

#include "models/schedule/schedule.h"

/* The weights of a layer, in the order in which they are used. The rows of a matrix are its inputs, and one more for a
 * bias; those of a norm its scale, and its shift. */
enum layer_weight {
    LAYER_NORM_ATTENTION,
    LAYER_QKV, /* columns: the rank's query heads, its key heads, its value heads */
    LAYER_OUTPUT,
    LAYER_NORM_MLP,
    LAYER_UP, /* gated: columns of the gate, then of up */
    LAYER_DOWN,
    LAYER_WEIGHTS,
};

/* Which rank of the layout a program with written-out collectives is for. */
struct layers_place {
    uint32_t rank; /* CP rank */
    uint32_t tp_index, dp_index;
};

/* Appends the whole program of CP rank `rank`, the same for every tp and dp index, to an empty one. */
void layers_build(const struct schedule *schedule, uint32_t rank, struct program *program);

/* The same with collectives written out, for one rank of the layout. */
void layers_build_at(const struct schedule *schedule, struct layers_place place, struct program *program);

/* False, with messages, when the experiment cannot be built: rows that sequence parallelism cannot part, an algorithm
 * that leaves outputs where layers cannot go on with them. */
bool layers_check(const struct schedule *schedule, struct diagnostics *diag);

/* About how many operations a program has, of whose attention one layer's has `attention`. */
double layers_operations(const struct experiment *experiment, double attention);

/* Degrees of the layout, dp indices in the blocks that the rings of the dp x cp ranks need. */
struct layout layers_layout(const struct schedule *schedule);

/* A rank's part of a weight of a layer. */
struct matrix {
    uint64_t rows, columns;
};
struct matrix layers_matrix(const struct experiment *experiment, enum layer_weight weight);

#endif
