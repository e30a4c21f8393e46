/* plot_compare.h - the plots of a comparison, one file each, and what they share. */
#ifndef CPSIM_CLI_PLOT_COMPARE_H
#define CPSIM_CLI_PLOT_COMPARE_H

#include "cli/compare.h"
#include "cli/plots.h"

void plot_scatter(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream);
void plot_phases(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream);
void plot_timelines(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream);

/* What tells a pair apart, for people: "cp 4, ring"; "pair 1" where nothing does. The caller frees it. */
char *plot_pair_label(const struct comparison *comparison, size_t pair);

#endif
