/* layer_scene.h - for tests: experiments of a whole layer, made by hand. */
#ifndef CPSIM_TESTS_HW_LAYER_SCENE_H
#define CPSIM_TESTS_HW_LAYER_SCENE_H

#include "tests/hw/scene.h"

static inline struct experiment make_layer(const char *algorithm, uint32_t tp, uint32_t cp, uint32_t dp)
{
    struct experiment experiment = make_experiment(algorithm, cp, 16 * cp);
    experiment.model.hidden = 20;
    experiment.model.ffn = 12;
    experiment.model.layers = 1;
    experiment.model.vocab = 8;
    experiment.degree[PARALLEL_TP] = tp;
    experiment.degree[PARALLEL_DP] = dp;
    experiment.collective = COLLECTIVE_RING;
    experiment.step = (struct step_setting){.scope = SCOPE_LAYER,
                                            .sequence_parallel = true,
                                            .weight_gradients_fp32 = true,
                                            .bucket_layers = 1,
                                            .loss_chunks = 1,
                                            .micro_batches = 1};
    return experiment;
}

static inline const char *layer_describe(const struct experiment *e, char text[512])
{
    char attention[256];
    snprintf(text, 512, "%s hidden %u ffn %u mlp %d norm %d tp %u dp %u sp %d recompute %d fp32 gradients %d",
             scene_describe(e, attention), e->model.hidden, e->model.ffn, (int)e->model.mlp, (int)e->model.norm,
             e->degree[PARALLEL_TP], e->degree[PARALLEL_DP], e->step.sequence_parallel, (int)e->step.recomputation,
             e->step.weight_gradients_fp32);
    return text;
}

#endif
