/* plot_style.h - how all plots look: terminals and sizes, one palette, titles, ticks; and safe ways to write to a
 * script.
 *
 * Colours are Okabe and Ito's, told apart with any colour vision, with greys for what is not work. Text goes between
 * single quotes, where gnuplot substitutes nothing, and enhanced text is off: a file name is never markup.
 */
#ifndef CPSIM_CLI_PLOT_STYLE_H
#define CPSIM_CLI_PLOT_STYLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/plots.h"
#include "cli/quantity.h"

#define PLOT_BLUE "#0072B2"
#define PLOT_SKY "#56B4E9"
#define PLOT_GREEN "#009E73"
#define PLOT_ORANGE "#E69F00"
#define PLOT_VERMILLION "#D55E00"
#define PLOT_PURPLE "#CC79A7"
#define PLOT_YELLOW "#F0E442"
#define PLOT_WINE "#882255" /* Tol's, for a ninth */
#define PLOT_GREY "#999999"
#define PLOT_PALE "#DDDDDD"
#define PLOT_INK "#222222"
#define PLOT_FAINT "#666666"

#define PLOT_TICS "set tics nomirror out scale 0.5 textcolor '" PLOT_INK "'\n"

/* Something drawn: its colour in a file, its character in the terminal, its name in the legend. */
struct plot_paint {
    const char *name, *color;
    char character;
    const char *short_name; /* in the terminal */
};

/* A drawing area: pixels of a file (a PDF has as many hundredths of an inch), characters of a terminal. */
struct plot_area {
    int width, height;
};

bool plot_on_terminal(const struct plot_target *target);

/* Starts a script: terminal, output, fonts, grid. `area` fits the target's kind. */
void plot_begin(FILE *stream, const struct plot_target *target, struct plot_area area);
/* Closes the output, so that the file is whole. */
void plot_end(FILE *stream);

/* What is shown, and the answer below it in grey, at the top left; below them a line for the legend. A file's panels
 * start PLOT_HEAD pixels below its top. */
#define PLOT_HEAD 150
void plot_titles(FILE *stream, const struct plot_target *target, struct plot_area area, const char *title,
                 const char *answer);

/* Ticks of a linear axis ('x' or 'y') from 0 up to `maximum`, at most about `most` of them, at steps of 1, 2 or 5 times
 * a power of ten and all with the decimals of the step: 0.0, 0.5, 1.0. */
void plot_ticks(FILE *stream, char axis, double maximum, int most);

/* A dashed line across the plot at `value` of the y axis, with its name above its right end, readable over bars too.
 * Uses arrow 1 and label 4. */
void plot_limit(FILE *stream, double value, const char *name);

/* Writes `text` as a quoted string; control characters become '?'. */
void plot_text(FILE *stream, const char *text);

/* In the terminal the legend stands behind the name of the axis, in the same quoted string: gnuplot's own would cross
 * the drawing. Writes "  # name". */
void plot_terminal_legend_entry(FILE *stream, char character, const char *name);

#endif
