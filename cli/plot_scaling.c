/* plot_scaling.c - a sweep in four panels: step time, efficiency, exposed share, memory.
 *
 * The first swept key is the horizontal axis: a number (or quantity) makes curves, on a logarithmic axis when its
 * values span a factor of four or more; words make bars. The other swept keys tell series apart. Points that did not
 * run are left out. All ranges are set from the data, so that one point, or equal values, are as good as many.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_style.h"
#include "cli/plot_sweep.h"

enum panel { PANEL_TIME, PANEL_EFFICIENCY, PANEL_EXPOSED, PANEL_MEMORY, PANELS };

static const char *const series_colors[] = {PLOT_BLUE,   PLOT_VERMILLION, PLOT_GREEN, PLOT_ORANGE,
                                            PLOT_PURPLE, PLOT_SKY,        PLOT_INK,   PLOT_GREY};
#define N_COLORS (sizeof series_colors / sizeof *series_colors)
static const int series_points[] = {7, 5, 9, 11, 13, 15};
#define N_POINT_TYPES (sizeof series_points / sizeof *series_points)

struct axes {
    const struct sweep_data *data;
    const struct plot_target *target;
    FILE *stream;
    struct unit seconds, memory;
};

static double panel_value(const struct axes *axes, enum panel panel, const struct sweep_point *point)
{
    switch (panel) {
    case PANEL_TIME:
        return point->seconds / axes->seconds.size;
    case PANEL_EFFICIENCY:
        return axes->data->x_is_cp ? 100 * point->efficiency : point->tflops;
    case PANEL_EXPOSED:
        return point->seconds > 0 ? 100 * point->exposed_seconds / point->seconds : 0;
    default:
        return point->peak_bytes / axes->memory.size;
    }
}

static void panel_title(const struct axes *axes, enum panel panel, char *text, size_t size)
{
    switch (panel) {
    case PANEL_TIME:
        snprintf(text, size, "Step time (%s)", axes->seconds.name);
        break;
    case PANEL_EFFICIENCY:
        snprintf(text, size, "%s",
                 axes->data->x_is_cp ? "Parallel efficiency (%)" : "Attention rate per rank (TFLOP/s)");
        break;
    case PANEL_EXPOSED:
        snprintf(text, size, "Exposed communication (%% of the step)");
        break;
    default:
        snprintf(text, size, "Peak memory per rank (%s)", axes->memory.name);
        break;
    }
}

static bool draws_device_line(const struct axes *axes)
{
    return axes->data->device_bytes > 0 && axes->data->max_peak_bytes > 0.4 * axes->data->device_bytes;
}

/* The ideal: the first series' first point, its work divided by as many ranks as there are. */
static double ideal_seconds(const struct sweep_data *data, double x)
{
    return data->ideal_rank_seconds / x;
}

static const char ideal_style[] = "with lines linecolor '" PLOT_GREY "' linewidth 1.5 dashtype 2";

static bool draws_ideal(const struct axes *axes)
{
    return axes->data->x_is_cp && axes->data->n_x > 1;
}

static void write_data(const struct axes *axes)
{
    const struct sweep_data *data = axes->data;
    for (int panel = 0; panel < PANELS; panel++) {
        for (size_t series = 0; series < data->n_series; series++) {
            fprintf(axes->stream, "$data%d_%zu << EOD\n", panel, series);
            for (size_t i = 0; i < data->n_points; i++)
                if (data->points[i].series == series)
                    fprintf(axes->stream, "%.9g %.9g\n", data->points[i].x,
                            panel_value(axes, (enum panel)panel, &data->points[i]));
            fputs("EOD\n", axes->stream);
        }
    }
}

static void write_x_axis(const struct axes *axes)
{
    const struct sweep_data *data = axes->data;
    double low = data->x_min, high = data->x_max;
    if (!data->numeric) {
        low -= 0.6;
        high += 0.6;
    } else if (data->logarithmic) {
        double margin = pow(high / low, 0.05);
        low /= margin;
        high *= margin;
        fputs("set logscale x 2\n", axes->stream);
    } else {
        double margin = high > low ? 0.06 * (high - low) : high != 0 ? 0.5 * fabs(high) : 1;
        low -= margin;
        high += margin;
    }
    fprintf(axes->stream, "set xrange [%.9g:%.9g]\nset xtics (", low, high);
    for (size_t i = 0; i < data->n_x; i++) {
        fputs(i ? ", " : "", axes->stream);
        plot_text(axes->stream, data->x_names[i]);
        fprintf(axes->stream, " %.9g", data->x_values[i]);
    }
    fputs(")\nset xlabel ", axes->stream);
    plot_text(axes->stream, data->x_name);
    fputc('\n', axes->stream);
}

/* Tics at 1, 2 and 5 times the powers of ten, so that a short axis has some. */
static void write_logarithmic_y(FILE *stream, double low, double high)
{
    static const int steps[] = {1, 2, 5};
    fprintf(stream, "set logscale y\nset format y '%%g'\nset yrange [%.9g:%.9g]\nset ytics (", low, high);
    const char *separator = "";
    for (double power = pow(10, floor(log10(low))); power <= high; power *= 10) {
        for (int i = 0; i < 3; i++) {
            if (steps[i] * power < low || steps[i] * power > high)
                continue;
            fprintf(stream, "%s%.9g", separator, steps[i] * power);
            separator = ", ";
        }
    }
    fputs(")\n", stream);
}

static void write_linear_y(FILE *stream, double high)
{
    fprintf(stream, "unset logscale y\nset yrange [0:%.9g]\n", high);
    plot_ticks(stream, 'y', high, 8);
}

static void write_y_range(const struct axes *axes, enum panel panel)
{
    const struct sweep_data *data = axes->data;
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < data->n_points; i++) {
        double value = panel_value(axes, panel, &data->points[i]);
        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (panel == PANEL_MEMORY && draws_device_line(axes))
        high = fmax(high, data->device_bytes / axes->memory.size);
    if (panel == PANEL_TIME && draws_ideal(axes))
        low = fmin(low, ideal_seconds(data, data->x_max) / axes->seconds.size);
    bool logarithmic = panel == PANEL_TIME && data->logarithmic && low > 0 && high >= 3 * low;
    if (logarithmic)
        write_logarithmic_y(axes->stream, low / 1.3, high * 1.3);
    else if (panel == PANEL_EXPOSED)
        write_linear_y(axes->stream, high < 4 ? 5 : high < 90 ? high * 1.12 : 100);
    else
        write_linear_y(axes->stream, high > 0 ? high * 1.12 : 1);
}

/* The style of a series, the same for its curves and its entry in the legend. */
static void write_style(const struct axes *axes, size_t series)
{
    const char *color = series_colors[series % N_COLORS];
    if (axes->data->numeric)
        fprintf(axes->stream, "with linespoints linecolor '%s' linewidth 2.2 pointtype %d pointsize 1.1 dashtype %zu",
                color, series_points[series % N_POINT_TYPES], 1 + series / N_COLORS);
    else
        fprintf(axes->stream, "with boxes fillcolor '%s'", color);
}

static void write_curve(const struct axes *axes, int panel, size_t series)
{
    fprintf(axes->stream, "$data%d_%zu using ", panel, series);
    double width = 0.8 / (double)axes->data->n_series, offset = ((double)series + 0.5) * width - 0.4;
    if (axes->data->numeric)
        fputs("1:2 ", axes->stream);
    else
        fprintf(axes->stream, "($1%+.9g):2:(%.9g) ", offset, width * 0.92);
    write_style(axes, series);
}

static void write_panel_plot(const struct axes *axes, enum panel panel)
{
    const struct sweep_data *data = axes->data;
    fputs("plot ", axes->stream);
    if (panel == PANEL_TIME && draws_ideal(axes))
        fprintf(axes->stream, "%.9g/x %s notitle, \\\n    ", ideal_seconds(data, 1) / axes->seconds.size, ideal_style);
    for (size_t series = 0; series < data->n_series; series++) {
        write_curve(axes, (int)panel, series);
        fputs(series + 1 < data->n_series ? " notitle, \\\n    " : " notitle\n", axes->stream);
    }
}

/* The legend is a plot of its own, over the whole width: one beside a panel would get no more room than the panel. */
static void write_legend(const struct axes *axes, int width_characters)
{
    const struct sweep_data *data = axes->data;
    size_t longest = 0;
    for (size_t i = 0; i < data->n_series; i++)
        longest = strlen(data->series_names[i]) > longest ? strlen(data->series_names[i]) : longest;
    size_t columns = (size_t)width_characters / (longest + 8);
    columns = columns ? columns : 1;
    fprintf(axes->stream, "set key maxcols %zu\nplot NaN notitle", columns);
    for (size_t series = 0; series < data->n_series && data->n_series > 1; series++) {
        fputs(", \\\n    keyentry ", axes->stream);
        write_style(axes, series);
        fputs(" title ", axes->stream);
        plot_text(axes->stream, data->series_names[series]);
    }
    if (draws_ideal(axes))
        fprintf(axes->stream, ", \\\n    keyentry %s title 'ideal: step time falls as 1 / cp'", ideal_style);
    fputc('\n', axes->stream);
}

/* ---- a file: two rows of two panels ---- */

static const struct plot_area file_area = {1500, 980};

static void write_file_panel(const struct axes *axes, enum panel panel)
{
    FILE *stream = axes->stream;
    double left = panel % 2 ? 0.55 : 0.05, top = panel < 2 ? 1 - (PLOT_HEAD + 40.0) / file_area.height : 0.39;
    char title[80];
    panel_title(axes, panel, title, sizeof title);
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset label 3 '%s' at graph 0, graph 1 offset 0,1.2 left font ',14' textcolor "
            "'" PLOT_INK "'\n",
            left, left + 0.435, top, top - 0.285, title);
    write_y_range(axes, panel);
    if (panel == PANEL_MEMORY && draws_device_line(axes))
        plot_limit(stream, axes->data->device_bytes / axes->memory.size, "device memory");
    write_panel_plot(axes, panel);
}

static void write_file_plot(const struct axes *axes)
{
    const struct sweep_data *data = axes->data;
    FILE *stream = axes->stream;
    plot_begin(stream, axes->target, file_area);
    write_data(axes);
    fputs("set multiplot\n", stream);
    plot_titles(stream, axes->target, file_area, data->title, data->answer);
    if (data->n_series > 1 || draws_ideal(axes)) {
        fputs("set xrange [0:1]\nset yrange [0:1]\nset lmargin at screen 0.02\nset rmargin at screen 0.98\n"
              "unset border\nunset tics\n",
              stream);
        write_legend(axes, 150);
        fputs("unset label 1\nunset label 2\nset border 3\nset xtics\nset ytics\n" PLOT_TICS, stream);
    }
    fputs("unset key\n", stream);
    write_x_axis(axes);
    for (int panel = 0; panel < PANELS; panel++) {
        write_file_panel(axes, (enum panel)panel);
        fputs("unset label 1\nunset label 2\n", stream);
    }
    fputs("unset multiplot\n", stream);
}

/* ---- the terminal: time and exposed share, one below the other ---- */

static char series_letter(size_t series)
{
    return (char)('A' + series % 26);
}

/* The name of the axis and the legend, over as many lines as it takes: gnuplot leaves out what is wider than it. */
static void write_terminal_axis(const struct axes *axes, size_t width)
{
    const struct sweep_data *data = axes->data;
    static const char bar_characters[] = "*#$%@&="; /* what the dumb terminal draws line types 1 to 7 with */
    fprintf(axes->stream, "set xlabel '%s", data->x_name);
    size_t used = strlen(data->x_name);
    for (size_t series = 0; series < data->n_series && data->n_series > 1; series++) {
        size_t length = strlen(data->series_names[series]) + 4;
        if (used + length > width) {
            fputs("'.\"\\n\".'", axes->stream);
            used = 0;
        }
        used += length;
        plot_terminal_legend_entry(axes->stream, data->numeric ? series_letter(series) : bar_characters[series % 7],
                                   data->series_names[series]);
    }
    fputs("'\n", axes->stream);
}

static void write_terminal_panel(const struct axes *axes, enum panel panel)
{
    const struct sweep_data *data = axes->data;
    double width = 0.8 / (double)data->n_series;
    write_y_range(axes, panel);
    fputs("plot ", axes->stream);
    for (size_t series = 0; series < data->n_series; series++) {
        fprintf(axes->stream, "$data%d_%zu using ", (int)panel, series);
        if (data->numeric)
            fprintf(axes->stream, "1:2 with linespoints linetype %zu pointtype '%c'", series + 1,
                    series_letter(series));
        else
            fprintf(axes->stream, "($1%+.9g):2:(%.9g) with boxes linetype %zu", ((double)series + 0.5) * width - 0.4,
                    width * 0.92, series + 1);
        fputs(series + 1 < data->n_series ? " notitle, " : " notitle\n", axes->stream);
    }
}

static void write_terminal_plot(const struct axes *axes, int width)
{
    static const enum panel shown[] = {PANEL_TIME, PANEL_EXPOSED};
    FILE *stream = axes->stream;
    const struct plot_area area = {width, 20};
    plot_begin(stream, axes->target, area);
    write_data(axes);
    fputs("unset key\nset tics nomirror out scale 0.5\nset border 3\n", stream);
    write_x_axis(axes);
    write_terminal_axis(axes, (size_t)width - 10);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        char title[80];
        panel_title(axes, shown[i], title, sizeof title);
        plot_titles(stream, axes->target, area, title, "");
        write_terminal_panel(axes, shown[i]);
    }
}

bool plot_script_sweep(const json_t *sweep, const struct plot_target *target, int width, FILE *stream)
{
    struct sweep_data data;
    sweep_data_init(&data, sweep);
    bool drawn = data.n_points > 0;
    if (drawn) {
        struct axes axes = {&data, target, stream, unit_of_seconds(data.max_seconds),
                            unit_of_memory(data.max_peak_bytes)};
        if (plot_on_terminal(target))
            write_terminal_plot(&axes, width);
        else
            write_file_plot(&axes);
        plot_end(stream);
    }
    sweep_data_fini(&data);
    return drawn && !ferror(stream);
}
