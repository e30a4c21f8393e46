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
#include "cli/plot_square.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

struct scatter {
    const struct comparison *comparison;
    const struct plot_target *target;
    FILE *stream;
    const char **algorithms; /* in the order of their first pair */
    size_t n_algorithms;
    struct plot_square square;
    double low, high; /* seconds, of all that is to be seen */
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
    scatter->square = (struct plot_square){.inner = 0.1, .outer = 0.2, .names = {"-20%", "-10%"}};
    plot_square_range(&scatter->square, scatter->low, scatter->high);
}

/* x, its low and high, y, its low and high; bounds that are not there are the value itself. */
static void write_bounds(const struct scatter *scatter, const struct compared_run *run)
{
    double unit = scatter->square.unit.size, low = isnan(run->low) ? run->seconds : fmax(run->low, 1e-3 * run->seconds),
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

static void write_axis_names(const struct scatter *scatter)
{
    fprintf(scatter->stream, "set xlabel '%s step (%s)", scatter->comparison->reference_name,
            scatter->square.unit.name);
    for (size_t k = 0; k < scatter->n_algorithms && plot_on_terminal(scatter->target); k++)
        plot_terminal_legend_entry(scatter->stream, (char)('A' + k % 26), scatter->algorithms[k]);
    fprintf(scatter->stream, "'\nset ylabel '%s step (%s)'\n", scatter->comparison->subject_name,
            scatter->square.unit.name);
}

/* ---- a file ---- */

#define WORST_LISTED 10

/* Beside the panel: the pairs that are furthest off. */
static void write_worst(const struct scatter *scatter)
{
    const struct comparison *comparison = scatter->comparison;
    if (comparison->n_pairs < 2)
        return;
    double x = plot_square_x(PLOT_SQUARE_LEFT + PLOT_SQUARE_SIDE + 60);
    fprintf(scatter->stream, "set label 20 'Largest errors' at screen %.6g,%.6g left textcolor '" PLOT_INK "'\n", x,
            plot_square_y(PLOT_HEAD + 10));
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
                plot_square_y(PLOT_HEAD + 40 + 24 * (double)i));
        free(text);
        free(label);
    }
}

static void write_file_plot(const struct scatter *scatter)
{
    FILE *stream = scatter->stream;
    const struct comparison *comparison = scatter->comparison;
    plot_begin(stream, scatter->target, plot_square_area);
    plot_titles(stream, scatter->target, plot_square_area, comparison->title, comparison->answer);
    plot_square_panel(stream);
    plot_square_axis(&scatter->square, stream, 'x', false);
    plot_square_axis(&scatter->square, stream, 'y', false);
    write_axis_names(scatter);
    plot_square_band_names(&scatter->square, stream);
    write_worst(scatter);
    plot_square_band_data(&scatter->square, stream);
    write_data(scatter);
    fputs("plot $band using 1:2:5 with filledcurves fillcolor '#eeeeee' title 'within 20%', \\\n"
          "    $band using 1:3:4 with filledcurves fillcolor '#d9d9d9' title 'within 10%', \\\n"
          "    $band using 1:1 with lines linecolor '" PLOT_FAINT "' linewidth 1.5 title 'equal'",
          stream);
    double size = comparison->n_pairs > 100 ? 0.8 : 1.2;
    for (size_t k = 0; k < scatter->n_algorithms; k++) {
        const char *color = plot_square_color(k);
        fprintf(stream,
                ", \\\n    $data%zu using 1:4:2:3:5:6 with xyerrorbars pointtype -1 linecolor '%s' linewidth "
                "1.2 notitle, \\\n    $data%zu using 1:4 with points pointtype %d pointsize %.9g linecolor '%s' title ",
                k, color, k, plot_square_point(k), size, color);
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
    plot_square_axis(&scatter->square, stream, 'x', false);
    plot_square_axis(&scatter->square, stream, 'y', false);
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
