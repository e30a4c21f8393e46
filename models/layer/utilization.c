/* utilization.c - FLOPs over what the devices could have done. */
#include "models/layer/utilization.h"

double utilization_of_model(const struct step_flops *step, double seconds, double peak_flops_per_s)
{
    return flops_of_model(step) / (seconds * peak_flops_per_s);
}

double utilization_palm(double flops_of_token, double tokens_per_s, double peak_flops_per_s)
{
    return flops_of_token * tokens_per_s / peak_flops_per_s;
}
