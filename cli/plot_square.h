/* plot_square.h - a square panel of predicted over measured time: both axes logarithmic and of one range, so that the
 * diagonal is where the two agree and a band of +-10 % is as wide everywhere.
 */
#ifndef CPSIM_CLI_PLOT_SQUARE_H
#define CPSIM_CLI_PLOT_SQUARE_H

#include "cli/plot_style.h"

struct plot_square {
    struct unit unit;
    double low, high;     /* of both axes, in the unit */
    double inner, outer;  /* half widths of the bands around the diagonal, as shares */
    const char *names[2]; /* of the outer, the inner band: "-20%", "-10%" */
};

#define PLOT_SQUARE_LEFT 110 /* pixels to the left of the panel */
#define PLOT_SQUARE_SIDE 900 /* of the panel */
extern const struct plot_area plot_square_area;

/* A position on the screen, from pixels from the left and from the top. */
double plot_square_x(double pixels);
double plot_square_y(double pixels);

/* Sets the range to hold times from `low` to `high` seconds, with some margin, in a unit that suits the largest. */
void plot_square_range(struct plot_square *square, double low, double high);

/* Margins of the panel in a file, its grid, and how its error bars look. */
void plot_square_panel(FILE *stream);
/* Scale and tics of one axis, 'x' or 'y'. With `in_words` tics are times with units, as suits many powers of ten. */
void plot_square_axis(const struct plot_square *square, FILE *stream, char axis, bool in_words);
/* The data $band, for plot_square_bands: x, then the lower edges of both bands, the outer first, then the upper. */
void plot_square_band_data(const struct plot_square *square, FILE *stream);
/* What the bands are called, at their ends. */
void plot_square_band_names(const struct plot_square *square, FILE *stream);

/* Colours and point types that tell series apart. */
const char *plot_square_color(size_t series);
int plot_square_point(size_t series);

#endif
