/* validation_work.c - as those count who publish: a causal mask sees half of all pairs, not S (S + 1) / 2.
 *
 * Of attention alone the backward pass counts 2.5 times the forward, what FlashAttention's kernel computes; of a whole
 * model twice, as of any product (models/layer/flops.h). That some count all pairs of a causal model too is a metric of
 * its own, so that no set mixes the two.
 */
#include "cli/validation_work.h"

#include "models/layer/flops.h"
#include "models/schedule/mask.h"

/* Visible pairs of one head and one sequence. */
static double pairs_of(const struct experiment *experiment)
{
    double rows = (double)experiment->seq_len;
    if (experiment->mask.kind == MASK_FULL)
        return rows * rows;
    if (experiment->mask.kind == MASK_CAUSAL)
        return rows * rows / 2;
    const struct span all = {0, 1, experiment->seq_len};
    return (double)mask_pairs(&experiment->mask, all, all);
}

/* TFLOP of one rank's forward pass of attention. */
static double forward_tflop(const struct prediction *prediction)
{
    const struct experiment *experiment = &prediction->experiment;
    double pairs = experiment->new_tokens == 0 && experiment->mask.kind <= MASK_CAUSAL
                       ? pairs_of(experiment)
                       : (double)prediction->report.visible_pairs;
    double ranks = (double)experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_TP];
    return 4e-12 * pairs * experiment->model.q_heads * experiment->model.head_dim * experiment->batch / ranks;
}

#define BACKWARD_FLOPS 2.5 /* over those forward */

/* Sequences that one tp x cp group works on in a step. */
static double sequences_of(const struct experiment *experiment)
{
    return (double)experiment->batch * experiment->step.micro_batches;
}

static double tokens_of_rank(const struct experiment *experiment)
{
    double ranks = (double)experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_TP];
    return sequences_of(experiment) * (double)experiment->seq_len / ranks;
}

/* TFLOP that the model asks of one rank in a step. */
static double model_tflop(const struct experiment *experiment, double pairs)
{
    double ranks = (double)experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_TP];
    double sequences = sequences_of(experiment), tokens = sequences * (double)experiment->seq_len;
    struct step_flops flops = flops_of_step(&experiment->model, tokens, sequences * pairs, RECOMPUTE_NONE, false);
    return 1e-12 * (experiment->train ? flops_of_model(&flops) : flops_total(&flops.forward)) / ranks;
}

double validation_work(enum metric metric, const struct prediction *prediction)
{
    const struct experiment *experiment = &prediction->experiment;
    double rows = (double)experiment->seq_len;
    switch (metric) {
    case METRIC_ITERATIONS_PER_SECOND:
        return 1;
    case METRIC_TFLOPS_PER_RANK:
        return forward_tflop(prediction) * (experiment->train ? 1 + BACKWARD_FLOPS : 1);
    case METRIC_FORWARD_TFLOPS_PER_RANK:
        return forward_tflop(prediction);
    case METRIC_BACKWARD_TFLOPS_PER_RANK:
        return forward_tflop(prediction) * BACKWARD_FLOPS;
    case METRIC_TOKENS_PER_SECOND_PER_RANK:
        return tokens_of_rank(experiment);
    case METRIC_MODEL_TFLOPS_PER_RANK:
        return model_tflop(experiment, pairs_of(experiment));
    case METRIC_UNMASKED_MODEL_TFLOPS_PER_RANK:
        return model_tflop(experiment, rows * rows);
    default:
        return 0;
    }
}
