/* plot_topology.c - a cluster as boxes and cables: colour by link class, width by bandwidth, routes that were asked for
 * on a yellow ground. What stands where is topology_layout.h's; here it is scaled and written.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/plot_style.h"
#include "cli/summary.h"
#include "cli/topology_drawing.h"
#include "models/base/memory.h"
#include "models/input/units.h"

#define MARGIN 40.0
#define WIDTH_LEAST 900.0
#define WIDTH_MOST 1500.0
#define HEIGHT_MOST 1250.0
#define SCALE_MOST 1.5
#define LEGEND_LINE 24.0
#define TERMINAL_ROW 16.0 /* pixels of the drawing that a row of the terminal shows, unless that gives too many */
#define TERMINAL_ROWS_LEAST 24
#define TERMINAL_ROWS_MOST 50

static char *title_of(const struct topology_report *report)
{
    char name[128];
    summary_name(report->name, name, sizeof name);
    return memory_format("%s: %s x %s", name, text_of_count(report->topology->n_gpus).text, report->topology->device);
}

/* "4 x node of 8 GPUs; bisection 0.8 TB/s, 50 GB/s per GPU" */
static char *answer_of(const struct topology_report *report)
{
    const struct topology *topology = report->topology;
    uint32_t outermost = topology->n_levels - 1;
    const struct level_report *level = &report->levels[outermost];
    char wiring[128], total[32], each[32];
    topology_report_wiring(report, outermost, wiring, sizeof wiring);
    char *members = memory_format("%" PRIu64 " x %s", topology_level_members(topology, outermost),
                                  topology_member_name(topology, outermost));
    char *bisection = memory_text("");
    if (level->has_bisection) {
        free(bisection);
        units_print(total, sizeof total, DIMENSION_RATE, level->bisection.bytes_per_s);
        units_print(each, sizeof each, DIMENSION_RATE, level->bisection.bytes_per_s / (double)level->bisection.gpus);
        bisection = memory_format("; between halves %s, %s per GPU", total, each);
    }
    char *text = memory_format("%s: %s (%s)%s", topology->graph ? "graph" : topology->levels[outermost].name, members,
                               wiring, bisection);
    free(members);
    free(bisection);
    return text;
}

static struct plot_area choose_area(struct drawing *drawing, size_t legend_lines)
{
    const struct topology_layout *layout = &drawing->layout;
    drawing->scale = fmin(SCALE_MOST, (WIDTH_MOST - 2 * MARGIN) / layout->width);
    drawing->scale = fmin(drawing->scale, HEIGHT_MOST / layout->height);
    double width = fmax(WIDTH_LEAST, drawing->scale * layout->width + 2 * MARGIN);
    drawing->left = (width - drawing->scale * layout->width) / 2;
    drawing->top = PLOT_HEAD - 50 + LEGEND_LINE * (double)legend_lines;
    drawing->height = ceil(drawing->top + drawing->scale * layout->height + MARGIN);
    return (struct plot_area){(int)ceil(width), (int)drawing->height};
}

/* In a terminal as in a file: gnuplot draws boxes and cables of characters. */
static void begin(struct drawing *drawing, struct plot_area area, int columns)
{
    FILE *stream = drawing->stream;
    char *title = title_of(drawing->report), *answer = answer_of(drawing->report);
    if (plot_on_terminal(drawing->target)) {
        double rows = fmin(fmax(area.height / TERMINAL_ROW, TERMINAL_ROWS_LEAST), TERMINAL_ROWS_MOST);
        drawing->character = (double)area.width / columns;
        plot_begin(stream, drawing->target, (struct plot_area){columns, (int)rows});
        fputs("set label ", stream);
        plot_text(stream, title);
        fprintf(stream, " at screen 0.02,%.6g left\nset label ", 1 - 36.0 / area.height);
        plot_text(stream, answer);
        fprintf(stream, " at screen 0.02,%.6g left\n", 1 - 64.0 / area.height);
    } else {
        plot_begin(stream, drawing->target, area);
        plot_titles(stream, drawing->target, area, title, answer);
    }
    free(title);
    free(answer);
}

static void write_drawing(struct drawing *drawing, int columns, const struct style *styles, size_t n_styles)
{
    FILE *stream = drawing->stream;
    struct plot_area area = choose_area(drawing, n_styles + drawing_shows_routes(drawing));
    begin(drawing, area, columns);
    fprintf(stream,
            "set key at screen 0.02,%.6g left top vertical maxcols 1 Left reverse samplen 3 spacing 1.2\n"
            "unset border\nunset tics\nunset grid\n"
            "set lmargin at screen 0\nset rmargin at screen 1\nset tmargin at screen 1\nset bmargin at screen 0\n"
            "set xrange [0:%d]\nset yrange [0:%d]\n",
            1 - 84.0 / area.height, area.width, area.height);
    drawing_write_things(drawing);
    drawing_write_cables(drawing, styles, n_styles);
    plot_end(stream);
}

bool plot_script_topology(const struct topology_report *report, const struct plot_target *target, int width,
                          FILE *stream)
{
    struct drawing drawing = {.report = report, .target = target, .stream = stream};
    topology_layout_make(&drawing.layout, report->topology);
    drawing.cables = topology_cables(&drawing.layout.drawn, &drawing.n_cables);
    for (size_t i = 0; i < drawing.n_cables; i++)
        drawing.fastest = fmax(drawing.fastest, drawing.cables[i].bytes_per_s);
    drawing_find_routes(&drawing);
    size_t n_styles;
    struct style *styles = drawing_styles(&drawing, &n_styles);
    write_drawing(&drawing, width, styles, n_styles);
    free(styles);
    free(drawing.on_route);
    free(drawing.cables);
    topology_layout_fini(&drawing.layout);
    return !ferror(stream);
}
