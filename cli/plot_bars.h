/* plot_bars.h - a stacked bar per rank: what the memory and the time plots share. */
#ifndef CPSIM_CLI_PLOT_BARS_H
#define CPSIM_CLI_PLOT_BARS_H

#include "cli/plot_style.h"

struct bars {
    const struct prediction *prediction;
    const char *title, *answer;
    const char *quantity, *short_quantity; /* of the axis; the short one for the terminal */
    struct unit unit;
    const struct plot_paint *paints;
    int n_paints;
    /* The height of one part of an instance's bar; parts stack in the order of the paints. */
    double (*part)(const struct prediction *prediction, uint32_t instance, int paint);
    /* A mark across an instance's bar; NULL: none. */
    double (*mark)(const struct prediction *prediction, uint32_t instance);
    const char *mark_name;
    double limit; /* a line over all bars, drawn if not 0 */
    const char *limit_name;
};

void plot_bars(const struct bars *bars, const struct plot_target *target, int width, FILE *stream);

#endif
