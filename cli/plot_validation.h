/* plot_validation.h - predicted over measured time of every published measurement. */
#ifndef CPSIM_CLI_PLOT_VALIDATION_H
#define CPSIM_CLI_PLOT_VALIDATION_H

#include "cli/plots.h"
#include "cli/validation.h"

/* Writes the gnuplot script. `width` is of a terminal in characters, used for "-" only. */
bool plot_script_validation(const struct validation *validation, const struct plot_target *target, int width,
                            FILE *stream);

#endif
