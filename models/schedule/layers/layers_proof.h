/* layers_proof.h - what the files of the layers' checker share: the walk over one rank's program. */
#ifndef CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_PROOF_H
#define CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_PROOF_H

#include "models/schedule/checker/findings.h"
#include "models/schedule/schedule.h"

/* What is known of a buffer at a point of the walk. */
struct proof_buffer {
    bool written;
    bool fresh;             /* gathered weights: not used yet, so whose they are is not known */
    bool of_norm;           /* a gradient: of a norm's weights */
    bool used_up;           /* a gradient: the optimizer has read it */
    uint32_t layer;         /* whose weights, or whose gradient */
    uint32_t contributions; /* to a gradient since it was begun */
    uint32_t tensor_sums;   /* of a norm's gradient over tp */
    uint32_t data_sums;     /* over dp x cp, in place */
    uint32_t updates;       /* weights: by the optimizer; that are not gathered yet */
};

/* Products and the like of one layer; of the ends, which are number n_layers: embedding, last norm, head. */
enum proof_step {
    STEP_NORM,
    STEP_QUERY,
    STEP_OUTPUT,
    STEP_MLP,
    STEP_EMBED,
    STEP_HEAD, /* rows, for it may go by chunks */
    STEP_KINDS,
};

struct proof_layer {
    uint64_t forward[STEP_KINDS], input[STEP_KINDS], weight[STEP_KINDS];
    uint32_t summed; /* gradients over dp x cp */
};

struct proof {
    const struct schedule *schedule;
    const struct experiment *experiment;
    const struct program *program;
    struct findings *findings;
    struct proof_buffer *buffers; /* [buffer] */
    struct proof_layer *layers;   /* [layer]; then the ends */
    uint64_t tokens, rows;        /* of a tp group, and of one rank's hidden tensors between products */
    uint32_t n_layers, ranks, tp; /* dp x cp */
    bool sums;                    /* gradients are summed over dp x cp in this program */
    bool splits_rows;
    uint32_t optimized; /* how often the optimizer ran */
};

/* A buffer as a matrix of tokens (or inputs) x columns. */
struct proof_shape {
    uint64_t rows, columns;
};
struct proof_shape proof_shape_of(const struct proof *proof, uint32_t buffer);

/* layers_shapes.c: rows, columns and depth of an operation of a layer against its buffers. */
void proof_check_shapes(struct proof *proof, uint32_t op);

/* layers_flows.c: the collective that operation `op` begins, and what it does to weights and gradients. */
void proof_walk_flow(struct proof *proof, uint32_t op);
/* Both ends of all messages. */
void proof_check_ends(const struct schedule *schedule, const struct program *programs, struct findings *findings);

static inline const char *proof_name(const struct proof *proof, uint32_t buffer)
{
    return proof->program->buffers[buffer].name;
}

#endif
