/* plot_sensitivity.h - a sensitivity as a gnuplot script: a tornado. */
#ifndef CPSIM_CLI_PLOT_SENSITIVITY_H
#define CPSIM_CLI_PLOT_SENSITIVITY_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/plots.h"
#include "cli/sensitivity.h"

/* `width` is of a terminal in characters, used for "-" only. False when no constant has an effect. */
bool plot_script_sensitivity(const struct sensitivity *sensitivity, const struct plot_target *target, int width,
                             FILE *stream);

#endif
