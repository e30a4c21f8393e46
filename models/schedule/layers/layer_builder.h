/* layer_builder.h - what the files that build a program of layers share: dimensions, weights, and operations on whole
 * buffers.
 *
 * A hidden tensor has `rows` rows of hidden between the products of the tp group, each rank's own under sequence
 * parallelism, and `tokens` rows where products work on it.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LAYERS_LAYER_BUILDER_H
#define CPSIM_MODELS_SCHEDULE_LAYERS_LAYER_BUILDER_H

#include "models/input/step.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/peers.h"

/* Weights that are gathered and whose gradients are summed together: a layer's, the embedding, the last norm and head.
 */
struct weight_unit {
    uint32_t first, count; /* in layer_builder.weights */
    uint64_t elements;
    uint32_t bucket; /* whose gradients are summed in one go */
    bool gathered, last_of_bucket;
};

struct weight {
    struct matrix shape;
    uint64_t inputs; /* its rows that are multiplied with: not a bias's */
    enum model_part part;
    uint32_t value, gradient; /* buffers; gradient NO_BUFFER in a forward pass */
    bool added;               /* something is in the gradient */
};

/* What the forward pass of a layer leaves for its backward pass: buffers. */
struct layer_kept {
    uint32_t x, normed, q, kv, o, lse, middle, normed_mlp, up, down; /* `middle`: x plus attention's */
    uint32_t value, gate; /* parts of kv and up that alternate recomputation keeps */
    uint32_t *map;        /* [buffer of the attention program]: those of its own in this program */
};

/* The members of a sum or gather, as this rank names them, and the rings that it flows over. */
struct ring_neighbours {
    uint32_t next, previous;
};
struct layer_team {
    uint32_t count, me;
    uint32_t *members;
    uint32_t list; /* 1 + where they are in program.lists; 0: not yet */
    uint32_t node; /* members of a node, each of which has a ring; 1: one ring over all */
    struct ring_neighbours inside, across;
};

struct layer_builder {
    const struct schedule *schedule;
    const struct experiment *experiment;
    const struct transformer *model;
    const struct step_setting *step;
    struct program *program;
    struct program attention; /* the algorithm's */
    struct layout layout;
    struct layers_place place;
    bool written_out;
    uint64_t tokens, rows;
    uint64_t q, kv, ffn, up, vocab; /* columns of this tp rank: of Q; of K, as of V; of the MLP, of its way up */
    enum dtype hidden, linear,
        gradient;                   /* of activations; that the layers' products compute in; of weights' gradients */
    bool splits_rows;               /* sequence parallelism */
    struct layer_team tensor, data; /* tp; dp x cp */
    struct weight *weights;
    struct weight_unit *units; /* [layer]; then the embedding, then the last norm and head (scope model) */
    uint32_t n_weights, n_units, n_layers;
    uint32_t optimizer_state;   /* buffer; NO_BUFFER: none */
    uint32_t share;             /* buffer: what a rank keeps of weights that are shared out; NO_BUFFER: they are not */
    uint32_t *shards, n_shards; /* gradients that are summed and this rank's, from stage 2 on: [bucket] */
    struct layer_kept *kept;    /* [layer] */
    struct {
        uint32_t normed, logits, d_normed; /* buffers that the head's forward pass leaves for its backward pass */
        uint32_t wide, log_softmax;        /* and those of an eager loss */
    } head;
};

/* ---- layer_builder.c: dimensions and single operations ---- */

void layer_builder_init(struct layer_builder *b, const struct schedule *schedule, struct layers_place place,
                        bool written_out, struct program *program);
void layer_builder_fini(struct layer_builder *b);

/* Adds a buffer of rows x columns; `layer` goes into its name. */
uint32_t layer_buffer(struct layer_builder *b, const char *name, uint32_t layer, enum tensor tensor, enum dtype dtype,
                      enum buffer_role role, uint64_t rows, uint64_t columns);
/* An activation of `rows` rows of hidden. */
uint32_t layer_hidden(struct layer_builder *b, const char *name, uint32_t layer, uint64_t rows);

/* Lists of buffers as arguments: LIST(a, b). */
struct buffer_list {
    const uint32_t *items;
    size_t count;
};
#define LIST(...)                                                                                                      \
    ((struct buffer_list){(const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)})

void layer_add(struct layer_builder *b, enum op_kind kind, struct layer_work work, struct buffer_list reads,
               struct buffer_list writes);

/* A product with some columns of a weight. `x`: what is multiplied, and whatever else is needed of its result. */
void layer_product_part(struct layer_builder *b, uint32_t layer, uint32_t weight, uint64_t columns,
                        struct buffer_list x, struct buffer_list result);

/* Products with a whole weight, in each of the three forms; a weight's gradient is added to what is there. */
void layer_product(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, struct buffer_list result);
void layer_input_gradient(struct layer_builder *b, uint32_t layer, uint32_t weight, struct buffer_list dy, uint32_t dx);
void layer_weight_gradient(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, struct buffer_list dy);

void layer_norm(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, uint32_t y);
void layer_norm_backward(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t dy, uint32_t x,
                         uint32_t dx);
void layer_sum(struct layer_builder *b, uint32_t layer, enum model_part part, uint32_t x, uint32_t y, uint32_t sum);

/* Index in layer_builder.weights. */
static inline uint32_t layer_weight_index(const struct layer_builder *b, uint32_t layer, enum layer_weight weight)
{
    return b->units[layer].first + (uint32_t)weight;
}

/* ---- teams.c: sums and gathers ---- */

void layer_teams_init(struct layer_builder *b);
void layer_teams_fini(struct layer_builder *b);

/* All rows of a hidden tensor whose `rows` own ones are in `part`: a new buffer, or `part` where nothing is parted. */
uint32_t layer_gather_rows(struct layer_builder *b, const char *name, uint32_t layer, uint32_t part);
/* `partial` has all rows, to be summed over tp: what is then this rank's `rows` rows of the sum: a new buffer where
 * rows are parted, else `partial`. */
uint32_t layer_sum_rows(struct layer_builder *b, const char *name, uint32_t layer, uint32_t partial);
/* Norms' gradients, by each tp rank's own rows, become whole, if they are summed over dp x cp next or used. */
void layer_sum_norms(struct layer_builder *b, struct buffer_list gradients);
/* `buffers`, each on every tp rank, become their sum. */
void layer_sum_tensor(struct layer_builder *b, struct buffer_list buffers);

/* A flowing collective of the dp x cp ranks, `bytes` of data in all (of every member's part). */
void layer_flow(struct layer_builder *b, enum collective_call call, enum stream stream, enum traffic traffic,
                uint64_t bytes, struct buffer_list reads, struct buffer_list writes);
/* `buffer`, rows of numbers on every dp x cp rank, becomes their sum, written out. */
void layer_sum_data(struct layer_builder *b, uint32_t buffer);

/* ---- weights.c: weights, their gradients, the optimizer ---- */

void layer_weights_init(struct layer_builder *b);
/* Makes a unit's weights present, once a pass: gathers them where they are shared out. */
void layer_gather_unit(struct layer_builder *b, uint32_t unit);
/* A unit's pass has ended: its weights may be given up. */
void layer_release_unit(struct layer_builder *b, uint32_t unit);
/* Gradients stay what they are until a later micro-batch adds to them. */
bool layer_gradients_wait(const struct layer_builder *b);
/* All gradients of a unit are there: sums its bucket's once the last of it is. */
void layer_reduce_unit(struct layer_builder *b, uint32_t unit);
/* Behind the last sum. */
void layer_optimize(struct layer_builder *b);

/* ---- layer_forward.c, layer_backward.c, head.c ---- */

/* Adds a buffer for a layer's own tensor of its attention program, and maps the latter to it. */
uint32_t layer_attention_buffer(struct layer_builder *b, struct layer_kept *kept, enum tensor tensor);

/* Layer `layer` from x to y, its result. `again`: in the backward pass, as far as step.recompute wants it; there is no
 * result then. */
uint32_t layer_forward(struct layer_builder *b, uint32_t layer, uint32_t x, bool again);
/* From the gradient of its result to that of x. */
uint32_t layer_backward(struct layer_builder *b, uint32_t layer, uint32_t dy);

uint32_t embedding_forward(struct layer_builder *b);
void embedding_backward(struct layer_builder *b, uint32_t dx);
/* The last norm, the logits and the loss; `x` is the last layer's result. */
void head_forward(struct layer_builder *b, uint32_t x);
uint32_t head_backward(struct layer_builder *b, uint32_t x);

#endif
