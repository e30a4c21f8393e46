/* plot_explanation.h - an explanation as a gnuplot script: the critical path, a lane a phase. */
#ifndef CPSIM_CLI_PLOT_EXPLANATION_H
#define CPSIM_CLI_PLOT_EXPLANATION_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/explain.h"
#include "cli/plots.h"

bool plot_script_explanation(const struct explanation *explanation, const struct plot_target *target, int width,
                             FILE *stream);

#endif
