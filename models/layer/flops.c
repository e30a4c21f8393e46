/* flops.c - products in double: exact as long as they stay below 2^53, and no count overflows. */
#include "models/layer/flops.h"

#include "models/layer/parameters.h"

struct flops flops_of_layer(const struct transformer *model, double tokens, double visible_pairs)
{
    static const enum model_part products[] = {MODEL_QUERY, MODEL_KEY, MODEL_VALUE, MODEL_OUTPUT, MODEL_MLP};
    struct parameters layer = parameters_of_layer(model);
    struct flops flops = {{0}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        flops.of[products[i]] = 2 * tokens * (double)layer.weights[products[i]];
    flops.of[MODEL_ATTENTION] = 4 * visible_pairs * model->q_heads * model->head_dim;
    return flops;
}

static struct flops scaled(struct flops flops, double factor)
{
    for (int part = 0; part < MODEL_PARTS; part++)
        flops.of[part] *= factor;
    return flops;
}

struct step_flops flops_of_step(const struct transformer *model, double tokens, double visible_pairs,
                                enum recomputation recomputation, bool flash)
{
    struct flops layers = scaled(flops_of_layer(model, tokens, visible_pairs), model->layers);
    struct step_flops step = {.forward = layers};
    step.forward.of[MODEL_HEAD] = 2 * tokens * model->hidden * model->vocab;
    step.backward = scaled(step.forward, 2);
    if (recomputation == RECOMPUTE_FULL || recomputation == RECOMPUTE_AROUND)
        step.recomputed = layers;
    if (recomputation == RECOMPUTE_AROUND)
        step.recomputed.of[MODEL_ATTENTION] = 0;
    if (recomputation == RECOMPUTE_ALTERNATE) {
        step.recomputed.of[MODEL_KEY] = layers.of[MODEL_KEY];
        step.recomputed.of[MODEL_OUTPUT] = layers.of[MODEL_OUTPUT];
        step.recomputed.of[MODEL_MLP] = model->mlp == MLP_GATED ? layers.of[MODEL_MLP] / 3 : 0; /* up; never down */
    }
    if (recomputation == RECOMPUTE_SELECTIVE)
        step.recomputed.of[MODEL_ATTENTION] = layers.of[MODEL_ATTENTION];
    if (flash)
        step.recomputed.of[MODEL_ATTENTION] += layers.of[MODEL_ATTENTION] / 2;
    return step;
}

double flops_total(const struct flops *flops)
{
    double total = 0;
    for (int part = 0; part < MODEL_PARTS; part++)
        total += flops->of[part];
    return total;
}

double flops_of_model(const struct step_flops *step)
{
    return flops_total(&step->forward) + flops_total(&step->backward);
}

double flops_of_hardware(const struct step_flops *step)
{
    return flops_of_model(step) + flops_total(&step->recomputed);
}

double flops_of_token_palm(const struct transformer *model, uint64_t parameters, uint64_t seq_len)
{
    return 6 * (double)parameters + 12 * (double)model->layers * model->q_heads * model->head_dim * (double)seq_len;
}
