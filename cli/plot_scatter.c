/* plot_scatter.c - predicted over measured step time, every pair a point.
 *
 * Both axes are logarithmic and have one range, and the panel is square, so that the diagonal is where prediction and
 * measurement agree and a band of +-10 % is as wide everywhere. Whiskers show the measured spread and the
 * prediction's interval, where there are any.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_compare.h"
#include "cli/plot_style.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

static const char *const colors[] = {PLOT_BLUE,   PLOT_VERMILLION, PLOT_GREEN, PLOT_ORANGE,
                                     PLOT_PURPLE, PLOT_SKY,        PLOT_INK,   PLOT_GREY};
#define N_COLORS (sizeof colors / sizeof *colors)
static const int points[] = {7, 5, 9, 11, 13, 15};
#define RATIO_MIN 6 /* of the ends of an axis, so that it has tics */
#define N_POINTS (sizeof points / sizeof *points)

struct scatter {
    const struct comparison *comparison;
    const struct plot_target *target;
    FILE *stream;
    const char **algorithms; /* in the order of their first pair */
    size_t n_algorithms;
    struct unit unit;
    double low, high; /* of both axes, in the unit */
};

static const char *algorithm_of(const struct compared_pair *pair)
{
    const char *algorithm = run_setting(&pair->subject->experiment, "schedule.algorithm");
    return algorithm ? algorithm : "";
}

static void add_algorithm(struct scatter *scatter, const char *algorithm)
{
    for (size_t i = 0; i < scatter->n_algorithms; i++)
        if (strcmp(scatter->algorithms[i], algorithm) == 0)
            return;
    scatter->algorithms = memory_resized(scatter->algorithms, scatter->n_algorithms + 1, sizeof *scatter->algorithms);
    scatter->algorithms[scatter->n_algorithms++] = algorithm;
}

static void widen(struct scatter *scatter, const struct compared_run *run)
{
    scatter->low = fmin(scatter->low, run->seconds);
    scatter->high = fmax(scatter->high, run->seconds);
    if (run->low > run->seconds / 4) /* what reaches further is cut off by the frame */
        scatter->low = fmin(scatter->low, run->low);
    if (run->high < run->seconds * 4)
        scatter->high = fmax(scatter->high, run->high);
}

static void scatter_init(struct scatter *scatter)
{
    const struct comparison *comparison = scatter->comparison;
    scatter->low = INFINITY;
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        add_algorithm(scatter, algorithm_of(&comparison->pairs[i]));
        widen(scatter, comparison->pairs[i].subject);
        widen(scatter, comparison->pairs[i].reference);
    }
    double ratio = scatter->high / scatter->low, margin = fmax(fmax(1.15, pow(ratio, 0.06)), sqrt(RATIO_MIN / ratio));
    scatter->unit = unit_of_seconds(scatter->high);
    scatter->low /= scatter->unit.size * margin;
    scatter->high *= margin / scatter->unit.size;
}

/* x, its low and high, y, its low and high; bounds that are not there are the value itself. */
static void write_bounds(const struct scatter *scatter, const struct compared_run *run)
{
    double unit = scatter->unit.size, low = isnan(run->low) ? run->seconds : fmax(run->low, 1e-3 * run->seconds),
           high = isnan(run->high) ? run->seconds : run->high;
    fprintf(scatter->stream, "%.9g %.9g %.9g", run->seconds / unit, low / unit, high / unit);
}

static void write_data(const struct scatter *scatter)
{
    const struct comparison *comparison = scatter->comparison;
    for (size_t k = 0; k < scatter->n_algorithms; k++) {
        fprintf(scatter->stream, "$data%zu << EOD\n", k);
        for (size_t i = 0; i < comparison->n_pairs; i++) {
            const struct compared_pair *pair = &comparison->pairs[i];
            if (strcmp(algorithm_of(pair), scatter->algorithms[k]) != 0)
                continue;
            write_bounds(scatter, pair->reference);
            fputc(' ', scatter->stream);
            write_bounds(scatter, pair->subject);
            fputc('\n', scatter->stream);
        }
        fputs("EOD\n", scatter->stream);
    }
}

/* Tics at 1, 2 and 5 times the powers of ten; at the powers alone where those would crowd. */
static void write_axis(const struct scatter *scatter, char axis)
{
    static const int steps[] = {1, 2, 5};
    int n_steps = scatter->high / scatter->low > 1e4 ? 1 : 3;
    fprintf(scatter->stream, "set logscale %c\nset %crange [%.9g:%.9g]\nset %ctics (", axis, axis, scatter->low,
            scatter->high, axis);
    const char *separator = "";
    for (double power = pow(10, floor(log10(scatter->low))); power <= scatter->high; power *= 10) {
        for (int i = 0; i < n_steps; i++) {
            if (steps[i] * power < scatter->low || steps[i] * power > scatter->high)
                continue;
            fprintf(scatter->stream, "%s%.9g", separator, steps[i] * power);
            separator = ", ";
        }
    }
    fputs(")\n", scatter->stream);
}

static void write_axis_names(const struct scatter *scatter)
{
    fprintf(scatter->stream, "set xlabel '%s step (%s)", scatter->comparison->reference_name, scatter->unit.name);
    for (size_t k = 0; k < scatter->n_algorithms && plot_on_terminal(scatter->target); k++)
        plot_terminal_legend_entry(scatter->stream, (char)('A' + k % 26), scatter->algorithms[k]);
    fprintf(scatter->stream, "'\nset ylabel '%s step (%s)'\n", scatter->comparison->subject_name, scatter->unit.name);
}

/* ---- a file ---- */

#define LEFT 110
#define SIDE 900 /* of the panel */
#define WORST_LISTED 10

static const struct plot_area file_area = {1500, PLOT_HEAD + SIDE + 90};

/* Pixels from the left and from the top, as a position on the screen. */
static double screen_x(double pixels)
{
    return pixels / file_area.width;
}

static double screen_y(double pixels)
{
    return 1 - pixels / file_area.height;
}

static double clamp(const struct scatter *scatter, double value)
{
    return fmin(fmax(value, scatter->low), scatter->high);
}

/* x, and the edges of the bands, kept inside the frame here: gnuplot cuts a filled corner off wrongly. */
static void write_bands(const struct scatter *scatter)
{
    enum { STEPS = 200 };
    static const double factors[] = {0.8, 0.9, 1.1, 1.2};
    fputs("$band << EOD\n", scatter->stream);
    for (int i = 0; i <= STEPS; i++) {
        double x = scatter->low * pow(scatter->high / scatter->low, (double)i / STEPS);
        fprintf(scatter->stream, "%.6g", x);
        for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
            fprintf(scatter->stream, " %.6g", clamp(scatter, factors[k] * x));
        fputc('\n', scatter->stream);
    }
    fputs("EOD\n", scatter->stream);
}

/* What a band is, at its upper right end: outside the frame, where the line reaches it. */
static void write_band_names(const struct scatter *scatter)
{
    static const struct {
        double factor;
        const char *name;
    } bands[] = {{0.8, "-20%"}, {0.9, "-10%"}};
    for (int i = 0; i < 2; i++)
        fprintf(scatter->stream,
                "set label %d '%s' at first %.9g, first %.9g offset 0.7,0 left textcolor '" PLOT_FAINT "'\n", 10 + i,
                bands[i].name, scatter->high, bands[i].factor * scatter->high);
}

/* Beside the panel: the pairs that are furthest off. */
static void write_worst(const struct scatter *scatter)
{
    const struct comparison *comparison = scatter->comparison;
    if (comparison->n_pairs < 2)
        return;
    double x = screen_x(LEFT + SIDE + 60);
    fprintf(scatter->stream, "set label 20 'Largest errors' at screen %.6g,%.6g left textcolor '" PLOT_INK "'\n", x,
            screen_y(PLOT_HEAD + 10));
    for (size_t i = 0; i < comparison->n_pairs && i < WORST_LISTED; i++) {
        size_t pair = comparison->by_error[i];
        char *label = plot_pair_label(comparison, pair);
        char *text = memory_format("%+.1f%%  %zu: %s", 100 * comparison->pairs[pair].values[COMPARE_STEP].error,
                                   pair + 1, label);
        enum { SHOWN = 56 };
        size_t length = strlen(text);
        if (length > SHOWN)
            snprintf(text + SHOWN - 3, 4, "...");
        fprintf(scatter->stream, "set label %zu ", 21 + i);
        plot_text(scatter->stream, text);
        fprintf(scatter->stream, " at screen %.6g,%.6g left font ',11' textcolor '" PLOT_FAINT "'\n", x,
                screen_y(PLOT_HEAD + 40 + 24 * (double)i));
        free(text);
        free(label);
    }
}

static void write_file_plot(const struct scatter *scatter)
{
    FILE *stream = scatter->stream;
    const struct comparison *comparison = scatter->comparison;
    plot_begin(stream, scatter->target, file_area);
    plot_titles(stream, scatter->target, file_area, comparison->title, comparison->answer);
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset grid x y linecolor '" PLOT_PALE "' linewidth 1 linetype 1\n"
            "set errorbars 0.5\n",
            screen_x(LEFT), screen_x(LEFT + SIDE), screen_y(PLOT_HEAD), screen_y(PLOT_HEAD + SIDE));
    write_axis(scatter, 'x');
    write_axis(scatter, 'y');
    write_axis_names(scatter);
    write_band_names(scatter);
    write_worst(scatter);
    write_bands(scatter);
    write_data(scatter);
    fputs("plot $band using 1:2:5 with filledcurves fillcolor '#eeeeee' title 'within 20%', \\\n"
          "    $band using 1:3:4 with filledcurves fillcolor '#d9d9d9' title 'within 10%', \\\n"
          "    $band using 1:1 with lines linecolor '" PLOT_FAINT "' linewidth 1.5 title 'equal'",
          stream);
    double size = comparison->n_pairs > 100 ? 0.8 : 1.2;
    for (size_t k = 0; k < scatter->n_algorithms; k++) {
        const char *color = colors[k % N_COLORS];
        fprintf(stream,
                ", \\\n    $data%zu using 1:4:2:3:5:6 with xyerrorbars pointtype -1 linecolor '%s' linewidth "
                "1.2 notitle, \\\n    $data%zu using 1:4 with points pointtype %d pointsize %.9g linecolor '%s' title ",
                k, color, k, points[k % N_POINTS], size, color);
        plot_text(stream, *scatter->algorithms[k] ? scatter->algorithms[k] : "pairs");
    }
    fputc('\n', stream);
}

/* ---- the terminal ---- */

/* A terminal has no room for more, and the table says more. */
static void write_terminal_title(const struct scatter *scatter, struct plot_area area)
{
    const struct comparison *comparison = scatter->comparison;
    char *title = memory_format("Step, %s over %s: %zu pair%s", comparison->subject_name, comparison->reference_name,
                                comparison->n_pairs, comparison->n_pairs == 1 ? "" : "s");
    plot_titles(scatter->stream, scatter->target, area, title, "");
    free(title);
}

static void write_terminal_plot(const struct scatter *scatter, int width)
{
    FILE *stream = scatter->stream;
    const struct plot_area area = {width, width * 2 / 5 > 34 ? 34 : width * 2 / 5};
    plot_begin(stream, scatter->target, area);
    write_terminal_title(scatter, area);
    fputs("unset key\nset tics nomirror out scale 0.5\nset border 3\n", stream);
    write_axis(scatter, 'x');
    write_axis(scatter, 'y');
    write_axis_names(scatter);
    write_data(scatter);
    fputs("set samples 200\nplot x with points pointtype '.' notitle", stream);
    for (size_t k = 0; k < scatter->n_algorithms; k++)
        fprintf(stream, ", $data%zu using 1:4 with points pointtype '%c' notitle", k, (char)('A' + k % 26));
    fputc('\n', stream);
}

void plot_scatter(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream)
{
    struct scatter scatter = {.comparison = comparison, .target = target, .stream = stream};
    scatter_init(&scatter);
    if (plot_on_terminal(target))
        write_terminal_plot(&scatter, width);
    else
        write_file_plot(&scatter);
    free(scatter.algorithms);
}
