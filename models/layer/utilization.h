/* utilization.h - how much of the devices' peak a step used.
 *
 * MFU counts the FLOPs that the model asks for (Chowdhery et al. 2022), against `seconds` of `peak_flops_per_s`, which
 * is that of all devices together. HFU is of what was executed, which programs know (models/result/step_figures.h).
 */
#ifndef CPSIM_MODELS_LAYER_UTILIZATION_H
#define CPSIM_MODELS_LAYER_UTILIZATION_H

#include "models/layer/flops.h"

double utilization_of_model(const struct step_flops *step, double seconds, double peak_flops_per_s); /* MFU */

/* MFU by PaLM's definition: the rate of tokens against the peak divided by flops_of_token_palm. */
double utilization_palm(double flops_of_token, double tokens_per_s, double peak_flops_per_s);

#endif
