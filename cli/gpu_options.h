/* gpu_options.h - the options that only a run on GPUs has a use for: which are set, where they have an effect, and how
 * they are typed. */
#ifndef CPSIM_CLI_GPU_OPTIONS_H
#define CPSIM_CLI_GPU_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "hw/hardware.h"
#include "hw/transport.h"

#define GPU_OPTIONS 10

const char *gpu_option_name(size_t option); /* "--graph" */
bool gpu_option_is_for_runs(size_t option); /* a calibration has no use for it */
bool gpu_option_is_set(const struct hardware_settings *settings, size_t option);

/* False with a message for each option that has no effect with this backend; `why` no other was chosen, or NULL. */
bool gpu_options_check_compute(const struct hardware_settings *settings, const struct compute_ops *compute,
                               const char *why, struct diagnostics *diag);
/* The same of the transport. */
bool gpu_options_check_transport(const struct hardware_settings *settings, const struct transport_ops *transport,
                                 struct diagnostics *diag);

/* Each that is set, as it is typed, with a blank before it. */
void gpu_options_print(const struct hardware_settings *settings, FILE *stream);

#endif
