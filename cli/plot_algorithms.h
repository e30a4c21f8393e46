/* plot_algorithms.h - a comparison of algorithms (cpsim.sweep/1 over schedule.algorithm) as a gnuplot script. */
#ifndef CPSIM_CLI_PLOT_ALGORITHMS_H
#define CPSIM_CLI_PLOT_ALGORITHMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/plots.h"

/* `width` is of a terminal in characters, used for "-" only. False when no point ran. */
bool plot_script_algorithms(const json_t *sweep, const struct plot_target *target, int width, FILE *stream);

#endif
