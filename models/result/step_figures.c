/* step_figures.c - models/layer's counts over a report's seconds. */
#include "models/result/step_figures.h"

#include "models/layer/parameters.h"
#include "models/layer/utilization.h"

/* FLOPs of one micro-batch of one replica, as far as the scope goes: zero backward in a forward pass. `visible_pairs`
 * are the report's. */
static struct step_flops flops_of(const struct experiment *experiment, uint64_t visible_pairs)
{
    struct transformer model = experiment->model;
    double tokens = (double)experiment->seq_len * experiment->batch;
    bool layer = experiment->step.scope == SCOPE_LAYER;
    if (layer)
        model.layers = 1;
    struct step_flops step =
        flops_of_step(&model, tokens, (double)visible_pairs * experiment->batch, experiment->step.recomputation, true);
    if (layer)
        step.forward.of[MODEL_HEAD] = step.backward.of[MODEL_HEAD] = 0;
    if (!experiment->train)
        step.backward = step.recomputed = (struct flops){{0}};
    return step;
}

struct step_figures step_figures_of(const struct experiment *experiment, const struct report *report,
                                    double peak_flops_per_s)
{
    const uint32_t *degree = experiment->degree;
    bool whole = experiment->step.scope == SCOPE_MODEL;
    double passes = (double)degree[PARALLEL_DP] * experiment->step.micro_batches, gpus = report->n_ranks;
    struct step_flops flops = flops_of(experiment, report->visible_pairs);
    struct parameters parameters =
        whole ? parameters_of_model(&experiment->model) : parameters_of_layer(&experiment->model);
    struct step_figures figures = {
        .parameters = parameters_total(&parameters),
        .tokens = (double)experiment->seq_len * experiment->batch * passes,
    };
    if (!(report->seconds > 0))
        return figures;
    figures.tokens_per_s_per_gpu = figures.tokens / gpus / report->seconds;
    figures.model_flops_per_gpu_s = flops_of_model(&flops) * passes / gpus / report->seconds;
    figures.executed_flops_per_gpu_s = report->flops / gpus / report->seconds;
    if (!(peak_flops_per_s > 0))
        return figures;
    figures.mfu = utilization_of_model(&flops, report->seconds, peak_flops_per_s * gpus / passes);
    figures.hfu = figures.executed_flops_per_gpu_s / peak_flops_per_s;
    if (whole && experiment->train)
        figures.mfu_palm =
            utilization_palm(flops_of_token_palm(&experiment->model, figures.parameters, experiment->seq_len),
                             figures.tokens_per_s_per_gpu, peak_flops_per_s);
    return figures;
}
