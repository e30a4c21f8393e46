/* plot_sensitivity.c - a line per constant, steepest on top: how much longer or shorter the step is with it raised, and
 * with it lowered, a bar each from the middle. Where the two bars are of unequal length the constant is at a kink.
 */
#include "cli/plot_sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_style.h"
#include "cli/summary.h"
#include "models/base/memory.h"
#include "models/input/units.h"

#define LINES_MAX 30 /* what is below hardly shows */
#define TERMINAL_LINES_MAX 16

static const struct plot_paint paints[2] = {{"raised by 2 %", PLOT_BLUE, '#', "raised"},
                                            {"lowered by 2 %", PLOT_ORANGE, '=', "lowered"}};

struct chart {
    const struct sensitivity *sensitivity;
    size_t lines;
    double reach; /* the longest bar, in percent of the step */
    char title[600], answer[256];
};

/* Percent by which the step is longer with the constant raised (0) or lowered (1). */
static double percent(const struct chart *chart, size_t line, int paint)
{
    const struct elasticity *elasticity = &chart->sensitivity->rows[line].elasticity;
    double seconds = paint ? elasticity->lowered_seconds : elasticity->raised_seconds;
    return 100 * (seconds / chart->sensitivity->seconds - 1);
}

static void chart_init(struct chart *chart, const struct sensitivity *sensitivity, size_t most)
{
    char experiment[512], value[48];
    *chart = (struct chart){.sensitivity = sensitivity,
                            .lines = sensitivity->n_effects < most ? sensitivity->n_effects : most};
    for (size_t line = 0; line < chart->lines; line++)
        for (int paint = 0; paint < 2; paint++)
            chart->reach = fmax(chart->reach, fabs(percent(chart, line, paint)));
    const struct sensitivity_row *first = &sensitivity->rows[0];
    summary_experiment(&sensitivity->prediction.experiment, experiment, sizeof experiment);
    snprintf(chart->title, sizeof chart->title, "What the step hangs on: %s", experiment);
    if (chart->lines == 0)
        return;
    units_print(value, sizeof value, first->constant->dimension, first->constant->value);
    snprintf(chart->answer, sizeof chart->answer, "step %s; most on %.60s (%s), elasticity %+.2f",
             text_of_seconds(sensitivity->seconds).text, first->constant->name, value, first->elasticity.both);
}

static void write_names(const struct chart *chart, FILE *stream)
{
    fputs("set ytics (", stream);
    for (size_t line = 0; line < chart->lines; line++) {
        fputs(line ? ", " : "", stream);
        plot_text(stream, chart->sensitivity->rows[line].constant->name);
        fprintf(stream, " %zu", line);
    }
    fputs(")\n", stream);
}

static size_t longest_name(const struct chart *chart)
{
    size_t longest = 8;
    for (size_t line = 0; line < chart->lines; line++) {
        size_t length = strlen(chart->sensitivity->rows[line].constant->name);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void write_file_plot(const struct chart *chart, const struct plot_target *target, FILE *stream)
{
    int lines = chart->lines < 3 ? 3 : (int)chart->lines;
    const struct plot_area area = {1400, PLOT_HEAD + 90 + 38 * lines};
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, chart->title, chart->answer);
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen 0.93\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset xrange [%.9g:%.9g]\nset yrange [%.9g:-0.6]\n"
            "set xlabel 'change of the step (%%)'\nset border 1\nunset grid\nset grid x linecolor '" PLOT_PALE
            "' linewidth 1 linetype 1\nset tics scale 0\nset format x '%%+.1f'\n"
            "set arrow 2 from first 0, graph 0 to first 0, graph 1 nohead front linecolor '" PLOT_INK "'\n",
            fmin(0.03 + 0.0064 * (double)longest_name(chart), 0.4), 1 - (PLOT_HEAD - 10.0) / area.height,
            70.0 / area.height, -1.15 * chart->reach, 1.15 * chart->reach, lines - 0.4);
    write_names(chart, stream);
    for (size_t line = 0; line < chart->lines; line++) /* labels 1 and 2 are the titles */
        fprintf(stream, "set label %zu '%+.3f' at graph 1.005, first %zu left font ',12' textcolor '" PLOT_INK "'\n",
                10 + line, chart->sensitivity->rows[line].elasticity.both, line);
    fputs("set label 3 'elasticity' at graph 1.005, graph 1 offset 0,1 left font ',12' textcolor '" PLOT_FAINT "'\n",
          stream);
    for (int paint = 0; paint < 2; paint++) {
        fprintf(stream, "$%s << EOD\n", paints[paint].short_name);
        for (size_t line = 0; line < chart->lines; line++)
            fprintf(stream, "%zu %.9g\n", line, percent(chart, line, paint));
        fputs("EOD\n", stream);
    }
    fputs("plot NaN notitle", stream);
    for (int paint = 0; paint < 2; paint++)
        fprintf(stream, ", \\\n    $%s using 2:1:(0):2:($1%+.3g):($1%+.3g) with boxxyerror fillcolor '%s' title '%s'",
                paints[paint].short_name, paint ? 0.02 : -0.36, paint ? 0.36 : -0.02, paints[paint].color,
                paints[paint].name);
    fputc('\n', stream);
}

/* A bar is a line of characters; the two of a constant share one, the other side each, or the longer shows. */
static void write_terminal_bars(const struct chart *chart, int paint, int columns, FILE *stream)
{
    fprintf(stream, "$%s << EOD\n-99 -99\n", paints[paint].short_name);
    for (size_t line = 0; line < chart->lines; line++) {
        double end = percent(chart, line, paint), step = 2 * chart->reach / (columns - 1);
        for (int i = 1; (i - 0.5) * step <= fabs(end); i++)
            fprintf(stream, "%.9g %zu\n", copysign(i * step, end), line);
    }
    fputs("EOD\n", stream);
}

static void write_terminal_plot(const struct chart *chart, const struct plot_target *target, int width, FILE *stream)
{
    int longest = (int)longest_name(chart), left = (longest > width / 2 ? width / 2 : longest) + 2;
    int columns = (width - left - 3) | 1, lines = chart->lines < 2 ? 2 : (int)chart->lines;
    const struct plot_area area = {width, lines + 6};
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, chart->answer, "");
    fprintf(stream,
            "set margins %d, 3, 4, 2\nunset border\nunset key\nset tics nomirror out scale 0\nset xrange [%.9g:%.9g]\n"
            "set yrange [%d:0]\nset format x '%%+.1f'\nset xlabel 'change of the step (%%)",
            left, -chart->reach, chart->reach, lines - 1);
    for (int paint = 0; paint < 2; paint++)
        plot_terminal_legend_entry(stream, paints[paint].character, paints[paint].name);
    fputs("'\n", stream);
    write_names(chart, stream);
    for (int paint = 0; paint < 2; paint++)
        write_terminal_bars(chart, paint, columns, stream);
    fputs("plot NaN notitle", stream);
    for (int paint = 0; paint < 2; paint++)
        fprintf(stream, ", $%s with points pointtype '%c' notitle", paints[paint].short_name, paints[paint].character);
    fputc('\n', stream);
}

bool plot_script_sensitivity(const struct sensitivity *sensitivity, const struct plot_target *target, int width,
                             FILE *stream)
{
    bool terminal = plot_on_terminal(target);
    struct chart chart;
    chart_init(&chart, sensitivity, terminal ? TERMINAL_LINES_MAX : LINES_MAX);
    if (chart.lines == 0)
        return false;
    if (terminal)
        write_terminal_plot(&chart, target, width, stream);
    else
        write_file_plot(&chart, target, stream);
    plot_end(stream);
    return !ferror(stream);
}
