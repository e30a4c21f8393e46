/* utilization.h - how much of the devices' peak a step used.
 *
 * MFU counts the FLOPs that the model asks for, HFU those that were executed, recomputation included (Chowdhery et al.
 * 2022; Korthikanti et al. 2022); both against `seconds` of `peak_flops_per_s`, which is that of all devices together.
 * For layer programs, which have the seconds.
 */
#ifndef CPSIM_MODELS_LAYER_UTILIZATION_H
#define CPSIM_MODELS_LAYER_UTILIZATION_H

#include "models/layer/flops.h"

double utilization_of_model(const struct step_flops *step, double seconds, double peak_flops_per_s);    /* MFU */
double utilization_of_hardware(const struct step_flops *step, double seconds, double peak_flops_per_s); /* HFU */

/* MFU by PaLM's definition: the rate of tokens against the peak divided by flops_of_token_palm. */
double utilization_palm(double flops_of_token, double tokens_per_s, double peak_flops_per_s);

#endif
