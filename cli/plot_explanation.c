/* plot_explanation.c - the critical path from left to right, a lane a phase, coloured by what its time went for.
 *
 * A lane is cut into cells, about as wide as can be seen, and each has the colour of what fills most of it: however
 * many pieces there are, a drawing has as many boxes as can be told apart.
 */
#include "cli/plot_explanation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_style.h"
#include "cli/summary.h"
#include "models/base/memory.h"

#define CELLS 1100
#define FILE_LINE 150 /* characters that the answer has room for */
#define NOTHING PATH_KIND_COUNT

static const struct plot_paint paints[PATH_KIND_COUNT] = {
    [PATH_ATTENTION] = {"attention", PLOT_BLUE, '#', "attention"},
    [PATH_MERGE] = {"merges and sums", PLOT_SKY, '+', "merge"},
    [PATH_OTHER] = {"other kernels", PLOT_PURPLE, 'o', "other"},
    [PATH_START] = {"kernel starts", PLOT_GREY, '^', "start"},
    [PATH_SLOWED] = {"kernels slowed", "#004B76", '%', "slowed"},
    [PATH_LATENCY] = {"latency", "#F0E442", '-', "latency"},
    [PATH_TRANSFER] = {"transfer", PLOT_ORANGE, '=', "transfer"},
    [PATH_SHARED] = {"sharing links", PLOT_VERMILLION, '!', "sharing"},
    [PATH_WAITING] = {"waiting for SMs", PLOT_GREEN, '.', "waiting"},
    [PATH_HOST] = {"host", PLOT_INK, 'h', "host"},
    [PATH_PRODUCT] = {"matrix products", PLOT_WINE, '@', "product"},
};

/* In a piece they come in this order. */
static const enum path_kind order[PATH_KIND_COUNT] = {PATH_HOST,      PATH_WAITING, PATH_LATENCY, PATH_START,
                                                      PATH_ATTENTION, PATH_MERGE,   PATH_OTHER,   PATH_SLOWED,
                                                      PATH_TRANSFER,  PATH_SHARED,  PATH_PRODUCT};

struct chart {
    const struct explanation *explanation;
    double begin[PHASE_COUNT], longest; /* of the phases */
    enum phase lanes[PHASE_COUNT];      /* those that take time */
    int n_lanes;
    size_t n_cells; /* of the longest */
    int *kinds;     /* [lane][cell]: what fills most of it; NOTHING */
    bool drawn[PATH_KIND_COUNT];
    char title[600], *answer;
};

static void fill(double (*cells)[PATH_KIND_COUNT], double cell_seconds, double begin, double end, enum path_kind kind,
                 size_t n_cells)
{
    begin = fmax(begin, 0); /* a replica may begin a phase before the one that ends last does */
    for (size_t cell = (size_t)(begin / cell_seconds); cell < n_cells; cell++) {
        double left = (double)cell * cell_seconds, right = left + cell_seconds;
        if (left >= end)
            break;
        cells[cell][kind] += fmax(0, fmin(end, right) - fmax(begin, left));
    }
}

static int most_of(const double seconds[PATH_KIND_COUNT])
{
    int most = NOTHING;
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (seconds[kind] > 0 && (most == NOTHING || seconds[kind] > seconds[most]))
            most = kind;
    return most;
}

static void cut_lane(struct chart *chart, int lane)
{
    const struct step_path *path = &chart->explanation->path;
    double(*cells)[PATH_KIND_COUNT] = memory_zeroed(chart->n_cells, sizeof *cells);
    double cell_seconds = chart->longest / (double)chart->n_cells;
    for (size_t i = 0; i < path->count; i++) {
        const struct path_piece *piece = &path->pieces[i];
        if (piece->phase != chart->lanes[lane])
            continue;
        double at = piece->begin - chart->begin[piece->phase];
        for (int k = 0; k < PATH_KIND_COUNT; k++) {
            double seconds = piece->seconds[order[k]];
            if (seconds > 0)
                fill(cells, cell_seconds, at, at + seconds, order[k], chart->n_cells);
            at += seconds;
        }
    }
    for (size_t cell = 0; cell < chart->n_cells; cell++) {
        int most = most_of(cells[cell]);
        chart->kinds[(size_t)lane * chart->n_cells + cell] = most;
        if (most != NOTHING)
            chart->drawn[most] = true;
    }
    free(cells);
}

static void chart_init(struct chart *chart, const struct explanation *explanation, size_t n_cells)
{
    *chart = (struct chart){.explanation = explanation, .n_cells = n_cells};
    char experiment[512];
    summary_experiment(&explanation->prediction.experiment, experiment, sizeof experiment);
    snprintf(chart->title, sizeof chart->title, "Critical path: %s", experiment);
    size_t size;
    FILE *stream = open_memstream(&chart->answer, &size);
    if (stream) {
        explanation_sentence_write(explanation, stream);
        fclose(stream);
    }
    const double *phase_end = explanation->prediction.timeline.phase_end;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        chart->begin[phase] = phase ? phase_end[phase - 1] : 0;
        double seconds = phase_end[phase] - chart->begin[phase];
        chart->longest = fmax(chart->longest, seconds);
        if (seconds > 0)
            chart->lanes[chart->n_lanes++] = (enum phase)phase;
    }
    chart->kinds = memory_zeroed((size_t)chart->n_lanes * n_cells, sizeof *chart->kinds);
    for (int lane = 0; lane < chart->n_lanes; lane++)
        cut_lane(chart, lane);
}

static void chart_fini(struct chart *chart)
{
    free(chart->kinds);
    free(chart->answer);
}

/* From `cell` on, how many are of its kind. */
static size_t run_length(const struct chart *chart, int lane, size_t cell)
{
    const int *kinds = &chart->kinds[(size_t)lane * chart->n_cells];
    size_t end = cell + 1;
    while (end < chart->n_cells && kinds[end] == kinds[cell])
        end++;
    return end - cell;
}

/* Lines "begin end lane" of each kind that is drawn. */
static void write_boxes(const struct chart *chart, struct unit unit, FILE *stream)
{
    double cell = chart->longest / unit.size / (double)chart->n_cells;
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++) {
        if (!chart->drawn[kind])
            continue;
        fprintf(stream, "$%s << EOD\n", paints[kind].short_name);
        for (int lane = 0; lane < chart->n_lanes; lane++)
            for (size_t c = 0, length; c < chart->n_cells; c += length) {
                length = run_length(chart, lane, c);
                if (chart->kinds[(size_t)lane * chart->n_cells + c] == kind)
                    fprintf(stream, "%.9g %.9g %d\n", (double)c * cell, (double)(c + length) * cell, lane);
            }
        fputs("EOD\n", stream);
    }
}

static void write_names(const struct chart *chart, FILE *stream)
{
    fputs("set ytics (", stream);
    for (int lane = 0; lane < chart->n_lanes; lane++)
        fprintf(stream, "%s'%s' %d", lane ? ", " : "", phase_name(chart->lanes[lane]), lane);
    fputs(")\n", stream);
}

static void cut(char *text, size_t length)
{
    if (text && strlen(text) > length)
        memcpy(text + length - 3, "...", 4);
}

static void write_file_plot(const struct chart *chart, const struct plot_target *target, FILE *stream)
{
    struct unit unit = unit_of_seconds(chart->longest);
    const struct plot_area area = {1400, PLOT_HEAD + 90 + 110 * chart->n_lanes};
    cut(chart->answer, FILE_LINE);
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, chart->title, chart->answer ? chart->answer : "");
    fprintf(stream,
            "set lmargin at screen 0.07\nset rmargin at screen 0.97\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nset xrange [0:%.9g]\nset yrange [%.9g:-0.6]\n"
            "set xlabel 'since the phase began (%s)'\nset border 1\nunset grid\nset tics scale 0\n",
            1 - (PLOT_HEAD - 10.0) / area.height, 70.0 / area.height, chart->longest / unit.size, chart->n_lanes - 0.4,
            unit.name);
    write_names(chart, stream);
    plot_ticks(stream, 'x', chart->longest / unit.size, 12);
    write_boxes(chart, unit, stream);
    fputs("plot NaN notitle", stream);
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (chart->drawn[kind])
            fprintf(stream, ", \\\n    $%s using 1:3:1:2:($3-0.4):($3+0.4) with boxxyerror fillcolor '%s' title '%s'",
                    paints[kind].short_name, paints[kind].color, paints[kind].name);
    fputc('\n', stream);
}

#define TERMINAL_LEFT 10

static void write_terminal_plot(const struct chart *chart, const struct plot_target *target, int width, FILE *stream)
{
    struct unit unit = unit_of_seconds(chart->longest);
    double cell = chart->longest / unit.size / (double)chart->n_cells;
    const struct plot_area area = {width, 2 * chart->n_lanes + 6};
    plot_begin(stream, target, area);
    cut(chart->answer, (size_t)width - 2); /* a longer line would not be drawn at all */
    plot_titles(stream, target, area, chart->answer ? chart->answer : "", "");
    fprintf(stream,
            "set margins %d, 3, 4, 2\nunset border\nunset key\nset tics nomirror out scale 0\nset xrange [%.9g:%.9g]\n"
            "set yrange [%d:0]\nset xlabel 'since the phase began (%s)",
            TERMINAL_LEFT, 0.5 * cell, chart->longest / unit.size - 0.5 * cell, chart->n_lanes > 1 ? 1 : 2, unit.name);
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (chart->drawn[kind])
            plot_terminal_legend_entry(stream, paints[kind].character, paints[kind].short_name);
    fputs("'\n", stream);
    write_names(chart, stream);
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++) {
        if (!chart->drawn[kind])
            continue;
        fprintf(stream, "$%s << EOD\n", paints[kind].short_name);
        for (int lane = 0; lane < chart->n_lanes; lane++)
            for (size_t c = 0; c < chart->n_cells; c++)
                if (chart->kinds[(size_t)lane * chart->n_cells + c] == kind)
                    fprintf(stream, "%.9g %d\n", ((double)c + 0.5) * cell, lane);
        fputs("EOD\n", stream);
    }
    fputs("plot NaN notitle", stream);
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (chart->drawn[kind])
            fprintf(stream, ", $%s with points pointtype '%c' notitle", paints[kind].short_name,
                    paints[kind].character);
    fputc('\n', stream);
}

bool plot_script_explanation(const struct explanation *explanation, const struct plot_target *target, int width,
                             FILE *stream)
{
    bool terminal = plot_on_terminal(target);
    struct chart chart;
    chart_init(&chart, explanation, terminal ? (size_t)(width - TERMINAL_LEFT - 3) : CELLS);
    if (terminal)
        write_terminal_plot(&chart, target, width, stream);
    else
        write_file_plot(&chart, target, stream);
    plot_end(stream);
    chart_fini(&chart);
    return !ferror(stream);
}
