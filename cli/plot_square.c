/* plot_square.c - see plot_square.h. */
#include "cli/plot_square.h"

#include <math.h>

#define RATIO_MIN 6 /* of the ends of an axis, so that it has tics */

const struct plot_area plot_square_area = {1500, PLOT_HEAD + PLOT_SQUARE_SIDE + 90};

static const char *const colors[] = {PLOT_BLUE,   PLOT_VERMILLION, PLOT_GREEN, PLOT_ORANGE,
                                     PLOT_PURPLE, PLOT_SKY,        PLOT_INK,   PLOT_GREY};
static const int points[] = {7, 5, 9, 11, 13, 15};

const char *plot_square_color(size_t series)
{
    return colors[series % (sizeof colors / sizeof *colors)];
}

int plot_square_point(size_t series)
{
    return points[series % (sizeof points / sizeof *points)];
}

double plot_square_x(double pixels)
{
    return pixels / plot_square_area.width;
}

double plot_square_y(double pixels)
{
    return 1 - pixels / plot_square_area.height;
}

void plot_square_range(struct plot_square *square, double low, double high)
{
    double ratio = high / low, margin = fmax(fmax(1.15, pow(ratio, 0.06)), sqrt(RATIO_MIN / ratio));
    square->unit = unit_of_seconds(high);
    square->low = low / (square->unit.size * margin);
    square->high = high * (margin / square->unit.size);
}

void plot_square_panel(FILE *stream)
{
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset grid x y linecolor '" PLOT_PALE "' linewidth 1 linetype 1\n"
            "set errorbars 0.5\n",
            plot_square_x(PLOT_SQUARE_LEFT), plot_square_x(PLOT_SQUARE_LEFT + PLOT_SQUARE_SIDE),
            plot_square_y(PLOT_HEAD), plot_square_y(PLOT_HEAD + PLOT_SQUARE_SIDE));
}

/* Tics at 1, 2 and 5 times the powers of ten; at the powers alone where those would crowd. */
void plot_square_axis(const struct plot_square *square, FILE *stream, char axis, bool in_words)
{
    static const int steps[] = {1, 2, 5};
    double ratio = square->high / square->low;
    int n_steps = ratio > 1e4 ? 1 : 3;
    fprintf(stream, "set logscale %c\nset %crange [%.9g:%.9g]\nset %ctics (", axis, axis, square->low, square->high,
            axis);
    const char *separator = "";
    for (double power = pow(10, floor(log10(square->low))); power <= square->high; power *= 10) {
        for (int i = 0; i < n_steps; i++) {
            double at = steps[i] * power;
            if (at < square->low || at > square->high)
                continue;
            fputs(separator, stream);
            if (in_words) {
                struct unit unit = unit_of_seconds(at * square->unit.size * 1.0001); /* 1 ms may be a bit less */
                fprintf(stream, "'%.4g %s' ", at * square->unit.size / unit.size, unit.name);
            }
            fprintf(stream, "%.9g", at);
            separator = ", ";
        }
    }
    fputs(")\n", stream);
}

static double clamp(const struct plot_square *square, double value)
{
    return fmin(fmax(value, square->low), square->high);
}

/* The edges of the bands are kept inside the frame here: gnuplot cuts a filled corner off wrongly. */
void plot_square_band_data(const struct plot_square *square, FILE *stream)
{
    enum { STEPS = 200 };
    const double factors[] = {1 - square->outer, 1 - square->inner, 1 + square->inner, 1 + square->outer};
    fputs("$band << EOD\n", stream);
    for (int i = 0; i <= STEPS; i++) {
        double x = square->low * pow(square->high / square->low, (double)i / STEPS);
        fprintf(stream, "%.6g", x);
        for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
            fprintf(stream, " %.6g", clamp(square, factors[k] * x));
        fputc('\n', stream);
    }
    fputs("EOD\n", stream);
}

/* Outside the frame, at the upper right end, where the line reaches it. */
void plot_square_band_names(const struct plot_square *square, FILE *stream)
{
    const double factors[] = {1 - square->outer, 1 - square->inner};
    for (int i = 0; i < 2; i++)
        fprintf(stream, "set label %d '%s' at first %.9g, first %.9g offset 0.7,0 left textcolor '" PLOT_FAINT "'\n",
                10 + i, square->names[i], square->high, factors[i] * square->high);
}
