/* options_plots.h - which plots go with which mode. */
#ifndef CPSIM_CLI_OPTIONS_PLOTS_H
#define CPSIM_CLI_OPTIONS_PLOTS_H

#include "cli/options.h"

/* Gives each plot whose kind was not typed its mode's, and adds a message for every other that its mode does not have.
 */
void options_judge_plots(struct options *options, struct diagnostics *diag);

#endif
