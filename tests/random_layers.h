/* random_layers.h - for tests: what makes a random experiment (random_experiment.h) one of whole layers or of a step.
 */
#ifndef CPSIM_TESTS_RANDOM_LAYERS_H
#define CPSIM_TESTS_RANDOM_LAYERS_H

#include "tests/random_experiment.h"

/* False: its workload has no layers around it, or its rows cannot be parted. Its degrees are fixed. */
static inline bool random_layers(struct dice *dice, struct experiment *e)
{
    struct transformer *model = &e->model;
    struct step_setting *step = &e->step;
    uint32_t tp = e->degree[PARALLEL_TP];
    model->layers = 1 + dice_below(dice, 4);
    model->hidden = 1 + dice_below(dice, 30);
    model->ffn = tp * (1 + dice_below(dice, 20));
    model->vocab = 1 + dice_below(dice, 50);
    model->mlp = dice_chance(dice, 2) ? MLP_GATED : MLP_PLAIN;
    model->norm = dice_chance(dice, 2) ? NORM_RMS : NORM_LAYER;
    model->bias = (enum bias_kind)dice_below(dice, 3);
    model->tied_embeddings = dice_chance(dice, 2);
    model->positions = dice_chance(dice, 2) ? 0 : 1 + dice_below(dice, 20);
    *step = (struct step_setting){.scope = dice_chance(dice, 3) ? SCOPE_LAYER : SCOPE_MODEL,
                                  .sequence_parallel = dice_chance(dice, 2),
                                  .recomputation = (enum recomputation)dice_below(dice, RECOMPUTE_FULL + 1),
                                  .zero = dice_below(dice, 4),
                                  .weight_gradients_fp32 = dice_chance(dice, 2),
                                  .bucket_layers = 1 + dice_below(dice, model->layers),
                                  .linear = dice_chance(dice, 4) ? LINEAR_FP8 : LINEAR_MODEL,
                                  .optimizer = dice_chance(dice, 4) ? OPTIMIZER_NONE : OPTIMIZER_ADAM,
                                  .loss_chunks = dice_chance(dice, 2) ? 1 : 1 + dice_below(dice, 6),
                                  .micro_batches = 1};
    return e->new_tokens == 0;
}

static inline void random_layers_describe(const struct experiment *e, char *text, size_t size)
{
    const struct transformer *model = &e->model;
    const struct step_setting *step = &e->step;
    random_experiment_describe(e, text, size);
    size_t n = strlen(text);
    snprintf(
        text + n, size - n,
        "; layers %u, hidden %u, ffn %u, vocab %u, mlp %d, norm %d, bias %d, tied %d, positions %u; scope %d, sp %d, "
        "recompute %d, zero %u, fp32 %d, bucket %u, linear %d, optimizer %d, chunks %u; tp %u, dp %u, order %d %d %d",
        model->layers, model->hidden, model->ffn, model->vocab, (int)model->mlp, (int)model->norm, (int)model->bias,
        model->tied_embeddings, model->positions, (int)step->scope, step->sequence_parallel, (int)step->recomputation,
        step->zero, step->weight_gradients_fp32, step->bucket_layers, (int)step->linear, (int)step->optimizer,
        step->loss_chunks, e->degree[PARALLEL_TP], e->degree[PARALLEL_DP], (int)e->order[0], (int)e->order[1],
        (int)e->order[2]);
}

#endif
