/* plot_algorithms.c - all algorithms beside each other, a line each, best first: where the step goes, what the links
 * carry, what memory it takes.
 *
 * Bars lie, so that names can be read. In the terminal only the time is drawn.
 */
#include "cli/plot_algorithms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/algorithms.h"
#include "cli/plot_style.h"
#include "cli/plot_sweep.h"
#include "cli/sweep_json.h"
#include "models/base/memory.h"

#define PARTS_MAX SWEEP_CLASSES_MAX

static const struct plot_paint time_paints[] = {
    {"computing", PLOT_BLUE, '#', "computing"},
    {"exposed", PLOT_VERMILLION, '!', "exposed"},
    {"idle", PLOT_PALE, '.', "idle"},
};
static const char *const class_colors[PARTS_MAX] = {PLOT_GREEN, PLOT_ORANGE, PLOT_PURPLE,
                                                    PLOT_SKY,   PLOT_GREY,   PLOT_INK};

/* One panel: stacked parts of every line. */
struct panel {
    const char *title;
    char names[PARTS_MAX][40];
    const char *colors[PARTS_MAX];
    char characters[PARTS_MAX];
    int n_parts;
    struct unit unit;
    double *edges; /* [line][part + 1], in the unit */
    double highest, limit;
};

struct chart {
    const json_t *sweep;
    size_t n_lines;
    const json_t **points; /* [line]: those that ran, best first */
    char **names;
    struct panel time, bytes, memory;
};

static double *edge(const struct panel *panel, size_t line, int part)
{
    return &panel->edges[line * (PARTS_MAX + 1) + (size_t)part];
}

/* Appends the next part of a line. */
static void add_part(struct panel *panel, size_t line, int part, double value)
{
    *edge(panel, line, part + 1) = *edge(panel, line, part) + value / panel->unit.size;
    panel->highest = fmax(panel->highest, *edge(panel, line, part + 1));
}

static void panel_init(struct panel *panel, const char *title, struct unit unit, size_t n_lines)
{
    *panel = (struct panel){.title = title, .unit = unit};
    panel->edges = memory_zeroed(n_lines * (PARTS_MAX + 1), sizeof *panel->edges);
}

static char *name_of(const struct chart *chart, const json_t *point)
{
    char *name = memory_text("");
    size_t i;
    json_t *key;
    json_array_foreach(json_object_get(chart->sweep, "keys"), i, key)
    {
        const json_t *value = json_object_get(json_object_get(point, "set"), json_string_value(key));
        char number[40] = "";
        if (json_is_number(value))
            snprintf(number, sizeof number, "%.10g", json_number_value(value));
        char *longer =
            memory_format("%s%s%s", name, i ? ", " : "", json_is_string(value) ? json_string_value(value) : number);
        free(name);
        name = longer;
    }
    return name;
}

/* ---- numbers ---- */

static void fill_time(struct chart *chart, double slowest)
{
    struct panel *panel = &chart->time;
    panel_init(panel, "Step time", unit_of_seconds(slowest), chart->n_lines);
    panel->n_parts = 3;
    for (int part = 0; part < 3; part++) {
        snprintf(panel->names[part], sizeof panel->names[part], "%s", time_paints[part].name);
        panel->colors[part] = time_paints[part].color;
        panel->characters[part] = time_paints[part].character;
    }
    for (size_t line = 0; line < chart->n_lines; line++) {
        const json_t *step = sweep_step(chart->points[line]);
        add_part(panel, line, 0, sweep_number(step, "compute_seconds"));
        add_part(panel, line, 1, sweep_number(step, "exposed_seconds"));
        add_part(panel, line, 2, sweep_number(step, "idle_seconds"));
    }
}

static void fill_bytes(struct chart *chart)
{
    struct panel *panel = &chart->bytes;
    struct sweep_classes classes = {0};
    double most = 0;
    for (size_t line = 0; line < chart->n_lines; line++) {
        const json_t *run = sweep_run_of(chart->points[line]);
        double bytes = 0;
        sweep_add_classes(&classes, run);
        for (size_t c = 0; c < classes.count; c++)
            bytes += sweep_class_bytes_per_rank(run, classes.names[c]);
        most = fmax(most, bytes);
    }
    panel_init(panel, "Bytes over links, per rank", unit_of_bytes(most), chart->n_lines);
    panel->n_parts = (int)classes.count;
    for (int part = 0; part < panel->n_parts; part++) {
        snprintf(panel->names[part], sizeof panel->names[part], "%s", classes.names[part]);
        panel->colors[part] = class_colors[part];
        for (size_t line = 0; line < chart->n_lines; line++)
            add_part(panel, line, part,
                     sweep_class_bytes_per_rank(sweep_run_of(chart->points[line]), classes.names[part]));
    }
}

static void fill_memory(struct chart *chart, double largest)
{
    struct panel *panel = &chart->memory;
    panel_init(panel, "Peak memory per rank", unit_of_memory(largest), chart->n_lines);
    panel->n_parts = 1;
    panel->colors[0] = PLOT_GREY;
    for (size_t line = 0; line < chart->n_lines; line++) {
        const json_t *step = sweep_step(chart->points[line]);
        add_part(panel, line, 0, sweep_memory_bytes(chart->points[line]));
        panel->limit = sweep_number(step, "device_bytes") / panel->unit.size;
    }
    if (panel->highest < 0.4 * panel->limit) /* far off, it would only squeeze the bars */
        panel->limit = 0;
    panel->highest = fmax(panel->highest, panel->limit);
}

static void chart_init(struct chart *chart, const json_t *sweep)
{
    const json_t *points = json_object_get(sweep, "points");
    size_t *order = algorithms_order(sweep), count = json_array_size(points);
    *chart = (struct chart){.sweep = sweep};
    chart->points = memory_zeroed(count, sizeof *chart->points);
    chart->names = memory_zeroed(count, sizeof *chart->names);
    double slowest = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(points, order[i]), *step = sweep_step(point);
        if (!step)
            continue;
        chart->names[chart->n_lines] = name_of(chart, point);
        chart->points[chart->n_lines++] = point;
        slowest = fmax(slowest, sweep_number(step, "seconds"));
        largest = fmax(largest, sweep_memory_bytes(point));
    }
    fill_time(chart, slowest);
    fill_bytes(chart);
    fill_memory(chart, largest);
    free(order);
}

static void chart_fini(struct chart *chart)
{
    for (size_t line = 0; line < chart->n_lines; line++)
        free(chart->names[line]);
    free(chart->names);
    free(chart->points);
    free(chart->time.edges);
    free(chart->bytes.edges);
    free(chart->memory.edges);
}

/* ---- drawing ---- */

static void write_names(const struct chart *chart, bool shown, FILE *stream)
{
    fputs("set ytics (", stream);
    for (size_t line = 0; line < chart->n_lines; line++) {
        fputs(line ? ", " : "", stream);
        plot_text(stream, shown ? chart->names[line] : "");
        fprintf(stream, " %zu", line);
    }
    fputs(")\n", stream);
}

/* Ranges that hold the bars, and something where there is nothing. */
static double range_of(const struct panel *panel)
{
    return panel->highest > 0 ? panel->highest * 1.06 : 1;
}

static void write_file_panel(const struct chart *chart, const struct panel *panel, double left, double right,
                             struct plot_area area, FILE *stream)
{
    static const char *const blocks[] = {"$time", "$bytes", "$memory"};
    const char *block = blocks[panel == &chart->time ? 0 : panel == &chart->bytes ? 1 : 2];
    for (int part = 0; part < panel->n_parts; part++) {
        fprintf(stream, "%s%d << EOD\n", block, part);
        for (size_t line = 0; line < chart->n_lines; line++)
            fprintf(stream, "%zu %.9g %.9g\n", line, *edge(panel, line, part), *edge(panel, line, part + 1));
        fputs("EOD\n", stream);
    }
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset label 3 '%s (%s)' at graph 0, graph 1 offset 0,2.6 left font ',14' "
            "textcolor '" PLOT_INK "'\nset key at graph 0, graph 1 left bottom horizontal maxrows 1 Left reverse "
            "samplen 1 width -1 font ',11' textcolor '" PLOT_INK "'\nset xrange [0:%.9g]\n",
            left, right, 1 - (PLOT_HEAD + 30.0) / area.height, 50.0 / area.height, panel->title, panel->unit.name,
            range_of(panel));
    plot_ticks(stream, 'x', range_of(panel), 5);
    write_names(chart, panel == &chart->time, stream);
    fputs("unset arrow 1\n", stream);
    if (panel->limit > 0)
        fprintf(stream,
                "set arrow 1 from first %.9g, graph 0 to first %.9g, graph 1 nohead front linecolor '" PLOT_VERMILLION
                "' linewidth 2 dashtype 2\n",
                panel->limit, panel->limit);
    fputs("plot NaN notitle", stream);
    for (int part = 0; part < panel->n_parts; part++)
        fprintf(stream, ", \\\n    %s%d using 2:1:2:3:($1-0.38):($1+0.38) with boxxyerror fillcolor '%s' title '%s'",
                block, part, panel->colors[part], panel->names[part]);
    if (panel->limit > 0)
        fputs(", \\\n    keyentry with lines linecolor '" PLOT_VERMILLION "' linewidth 2 dashtype 2 title 'device'",
              stream);
    fputs("\nunset label 1\nunset label 2\n", stream);
}

static void write_file_plot(const struct chart *chart, const struct sweep_data *words, const struct plot_target *target,
                            FILE *stream)
{
    int lines = chart->n_lines < 3 ? 3 : chart->n_lines > 40 ? 40 : (int)chart->n_lines;
    const struct plot_area area = {1600, PLOT_HEAD + 80 + 44 * lines};
    size_t longest = 0;
    for (size_t line = 0; line < chart->n_lines; line++)
        longest = strlen(chart->names[line]) > longest ? strlen(chart->names[line]) : longest;
    double names = fmin(0.03 + 0.0058 * (double)longest, 0.35), width = (0.985 - names - 0.06) / 3.6;
    plot_begin(stream, target, area);
    fputs("set multiplot\n", stream);
    plot_titles(stream, target, area, words->title, words->answer);
    fprintf(stream,
            "set yrange [%.9g:-0.6]\nset border 1\nunset grid\nset grid x linecolor '" PLOT_PALE
            "' linewidth 1 linetype 1\nset tics scale 0\n",
            fmax((double)chart->n_lines, 3) - 0.4);
    double left = names;
    write_file_panel(chart, &chart->time, left, left + 1.6 * width, area, stream);
    left += 1.6 * width + 0.03;
    write_file_panel(chart, &chart->bytes, left, left + width, area, stream);
    left += width + 0.03;
    write_file_panel(chart, &chart->memory, left, left + width, area, stream);
    fputs("unset multiplot\n", stream);
}

static void write_terminal_plot(const struct chart *chart, const struct sweep_data *words,
                                const struct plot_target *target, int width, FILE *stream)
{
    const struct panel *panel = &chart->time;
    size_t longest = 8;
    for (size_t line = 0; line < chart->n_lines; line++)
        longest = strlen(chart->names[line]) > longest ? strlen(chart->names[line]) : longest;
    int left = (int)(longest > (size_t)width / 3 ? (size_t)width / 3 : longest) + 2, n_columns = width - left - 3;
    int lines = chart->n_lines < 2 ? 2 : (int)chart->n_lines;
    const struct plot_area area = {width, lines + 6};
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, words->title, words->answer);
    fprintf(stream,
            "set margins %d, 3, 4, 2\nunset border\nunset key\nset tics nomirror out scale 0\nset xrange [0:%.9g]\n"
            "set yrange [%d:0]\nset xlabel 'step (%s)",
            left, range_of(panel), lines - 1, panel->unit.name);
    for (int part = 0; part < panel->n_parts; part++)
        plot_terminal_legend_entry(stream, panel->characters[part], time_paints[part].short_name);
    fputs("'\n", stream);
    plot_ticks(stream, 'x', range_of(panel), 6);
    write_names(chart, true, stream);
    for (int part = 0; part < panel->n_parts; part++) {
        fprintf(stream, "$time%d << EOD\n-1 -1\n", part);
        for (size_t line = 0; line < chart->n_lines; line++) {
            for (int column = 0; column < n_columns; column++) {
                double value = (column + 0.5) / n_columns * range_of(panel);
                if (value >= *edge(panel, line, part) && value < *edge(panel, line, part + 1))
                    fprintf(stream, "%.9g %zu\n", column * range_of(panel) / (n_columns - 1), line);
            }
        }
        fputs("EOD\n", stream);
    }
    fputs("plot NaN notitle", stream);
    for (int part = 0; part < panel->n_parts; part++)
        fprintf(stream, ", $time%d with points pointtype '%c' notitle", part, panel->characters[part]);
    fputc('\n', stream);
}

bool plot_script_algorithms(const json_t *sweep, const struct plot_target *target, int width, FILE *stream)
{
    struct sweep_data words;
    struct chart chart;
    sweep_data_init(&words, sweep);
    chart_init(&chart, sweep);
    bool drawn = chart.n_lines > 0;
    if (drawn) {
        if (plot_on_terminal(target))
            write_terminal_plot(&chart, &words, target, width, stream);
        else
            write_file_plot(&chart, &words, target, stream);
        plot_end(stream);
    }
    chart_fini(&chart);
    sweep_data_fini(&words);
    return drawn && !ferror(stream);
}
