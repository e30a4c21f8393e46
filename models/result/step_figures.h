/* step_figures.h - what people compare training runs by: tokens per second and GPU, and how much of the devices' peak
 * is used.
 *
 * MFU (Chowdhery et al. 2022): the FLOPs that the model's matrix products take, forward and backward, each once, over
 * what the devices could have computed in the step at their dense 16-bit peak; attention counts by the pairs that the
 * mask lets through. HFU: all FLOPs that were executed, so that what is computed again counts too: what was not kept,
 * the scores in FlashAttention's backward kernel; and blocks of which nothing is seen. MFU by PaLM's formula: 6 N + 12
 * L H Q T FLOPs a token, with all parameters N, and every token seeing the whole sequence, whatever the mask.
 */
#ifndef CPSIM_MODELS_RESULT_STEP_FIGURES_H
#define CPSIM_MODELS_RESULT_STEP_FIGURES_H

#include <stdbool.h>

#include "models/result/report.h"

struct step_figures {
    uint64_t parameters; /* of the model; of scope layer those of one */
    double tokens;       /* in a step, over all replicas and micro-batches */
    double tokens_per_s_per_gpu;
    double model_flops_per_gpu_s;    /* the model's FLOPs over seconds and GPUs */
    double executed_flops_per_gpu_s; /* those that were executed, as the report counts them */
    double mfu, hfu;                 /* 0 where the device states no peak */
    double mfu_palm;                 /* of a training step of a whole model; else 0 */
};

/* Of an experiment of whole layers; `peak_flops_per_s` is one device's. */
struct step_figures step_figures_of(const struct experiment *experiment, const struct report *report,
                                    double peak_flops_per_s);

#endif
