/* plot_bars.c - stacked bars over the ranks of the critical rank's CP group.
 *
 * Every bar is drawn in full height by boxes with their own lower and upper edge, so nothing depends on how gnuplot
 * stacks. Bars thinner than a pixel would lie about gaps: of more ranks than BARS_MAX, evenly spaced ones are drawn,
 * and in the terminal, where a bar is a line, so many as fit a screen.
 */
#include "cli/plot_bars.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

#define PAINTS_MAX 12
#define BARS_MAX 512
#define TERMINAL_BARS_MAX 16
#define TICKS_MOST 8
#define BARS_WIDE_MIN 8 /* fewer are drawn as narrow as if there were so many */

/* What is drawn: `shown` of `all` ranks, evenly spaced. */
struct bar {
    uint32_t rank;
    double edges[PAINTS_MAX + 1]; /* 0, then the upper edge of each part, in the unit of the axis */
    double mark;
};

struct chart {
    const struct bars *bars;
    uint32_t all, shown;
    struct bar *items;
    bool used[PAINTS_MAX]; /* by some bar */
    double highest;        /* of bars, marks and limit */
};

static void bar_init(struct bar *bar, struct chart *chart, uint32_t rank, uint32_t instance)
{
    const struct bars *bars = chart->bars;
    bar->rank = rank;
    for (int paint = 0; paint < bars->n_paints; paint++) {
        double part = bars->part(bars->prediction, instance, paint) / bars->unit.size;
        bar->edges[paint + 1] = bar->edges[paint] + part;
        chart->used[paint] |= part > 0;
    }
    bar->mark = bars->mark ? bars->mark(bars->prediction, instance) / bars->unit.size : 0;
    chart->highest = fmax(chart->highest, fmax(bar->edges[bars->n_paints], bar->mark));
}

static void chart_init(struct chart *chart, const struct bars *bars, uint32_t maximum)
{
    uint32_t cp = bars->prediction->placement.cp, base = bars->prediction->report.critical_rank / cp * cp;
    *chart = (struct chart){
        .bars = bars, .all = cp, .shown = cp < maximum ? cp : maximum, .highest = bars->limit / bars->unit.size};
    chart->items = memory_zeroed(chart->shown, sizeof *chart->items);
    for (uint32_t i = 0; i < chart->shown; i++) {
        uint32_t rank = (uint32_t)((uint64_t)i * cp / chart->shown);
        bar_init(&chart->items[i], chart, rank, base + rank);
    }
    if (chart->highest <= 0)
        chart->highest = 1; /* nothing to show, but a range all the same */
}

static void write_parts(const struct chart *chart, int paint, FILE *stream)
{
    fprintf(stream, "$part%d << EOD\n", paint);
    for (uint32_t i = 0; i < chart->shown; i++) {
        const struct bar *bar = &chart->items[i];
        fprintf(stream, "%" PRIu32 " %.9g %.9g\n", bar->rank, bar->edges[paint], bar->edges[paint + 1]);
    }
    fputs("EOD\n", stream);
}

static void write_marks(const struct chart *chart, FILE *stream)
{
    fputs("$mark << EOD\n", stream);
    for (uint32_t i = 0; i < chart->shown; i++)
        fprintf(stream, "%" PRIu32 " %.9g\n", chart->items[i].rank, chart->items[i].mark);
    fputs("EOD\n", stream);
}

static void write_axes(const struct chart *chart, FILE *stream)
{
    double padding = chart->all < BARS_WIDE_MIN ? (BARS_WIDE_MIN - chart->all) / 2.0 : 0.2;
    fprintf(stream,
            "set xrange [%.9g:%.9g]\nset yrange [0:%.9g]\nset xlabel 'rank'\nset ylabel '%s (%s)'\nset border 1\n"
            "set tics scale 0\n",
            -0.5 - padding, chart->all - 0.5 + padding, chart->highest * 1.06, chart->bars->quantity,
            chart->bars->unit.name);
    plot_ticks(stream, 'y', chart->highest * 1.06, TICKS_MOST);
    if (chart->all <= 32)
        fprintf(stream, "set xtics 0,1,%" PRIu32 "\n", chart->all - 1);
}

static void write_file_plot(const struct chart *chart, const struct plot_target *target, FILE *stream)
{
    const struct bars *bars = chart->bars;
    const struct plot_area area = {1400, 760};
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, bars->title, bars->answer);
    fprintf(stream,
            "set lmargin at screen 0.075\nset rmargin at screen 0.98\nset tmargin at screen %.6g\n"
            "set bmargin at screen 0.1\nset errorbars 0\n",
            1 - (PLOT_HEAD - 10.0) / area.height);
    write_axes(chart, stream);
    if (bars->limit > 0)
        plot_limit(stream, bars->limit / bars->unit.size, bars->limit_name);
    for (int paint = 0; paint < bars->n_paints; paint++)
        if (chart->used[paint])
            write_parts(chart, paint, stream);
    if (bars->mark)
        write_marks(chart, stream);
    /* neighbours keep a gap while it is wider than a pixel */
    double half = chart->all <= 128 ? 0.38 : 0.5 * chart->all / chart->shown;
    fputs("plot NaN notitle", stream);
    for (int paint = 0; paint < bars->n_paints; paint++)
        if (chart->used[paint])
            fprintf(stream,
                    ", \\\n    $part%d using 1:2:($1-%.9g):($1+%.9g):2:3 with boxxyerror fillcolor '%s' title '%s'",
                    paint, half, half, bars->paints[paint].color, bars->paints[paint].name);
    if (bars->mark)
        fprintf(stream,
                ", \\\n    $mark using 1:2:($1-%.9g):($1+%.9g) with xerrorbars pointtype -1 linewidth 2.5 "
                "linecolor '" PLOT_INK "' title '%s'",
                half, half, bars->mark_name);
    fputc('\n', stream);
}

/* ---- in the terminal: a line a rank ---- */

#define TERMINAL_LEFT 10
#define TERMINAL_RIGHT 3
#define TERMINAL_TOP 2
#define TERMINAL_BOTTOM 4

static void write_terminal_points(const struct chart *chart, int n_columns, int paint, FILE *stream)
{
    fprintf(stream, "$part%d << EOD\n", paint);
    for (uint32_t i = 0; i < chart->shown; i++) {
        const struct bar *bar = &chart->items[i];
        for (int column = 0; column < n_columns; column++) {
            double value = (column + 0.5) / n_columns * chart->highest;
            if (value >= bar->edges[paint] && value < bar->edges[paint + 1])
                fprintf(stream, "%.9g %" PRIu32 "\n", column * chart->highest / (n_columns - 1), i);
        }
    }
    fputs("EOD\n", stream);
}

static void write_terminal_plot(const struct chart *chart, const struct plot_target *target, int width, FILE *stream)
{
    const struct bars *bars = chart->bars;
    int n_columns = width - TERMINAL_LEFT - TERMINAL_RIGHT, n_lines = (int)chart->shown < 2 ? 2 : (int)chart->shown;
    const struct plot_area area = {width, n_lines + TERMINAL_TOP + TERMINAL_BOTTOM};
    plot_begin(stream, target, area);
    plot_titles(stream, target, area, bars->title, bars->answer);
    fprintf(stream,
            "set margins %d, %d, %d, %d\nunset border\nunset key\nset tics nomirror out scale 0\n"
            "set xrange [0:%.9g]\nset yrange [%d:0]\nset xlabel '%s (%s)",
            TERMINAL_LEFT, TERMINAL_RIGHT, TERMINAL_BOTTOM, TERMINAL_TOP, chart->highest, n_lines - 1,
            bars->short_quantity, bars->unit.name);
    for (int paint = 0; paint < bars->n_paints; paint++)
        if (chart->used[paint])
            plot_terminal_legend_entry(stream, bars->paints[paint].character, bars->paints[paint].short_name);
    fputs("'\n", stream);
    plot_ticks(stream, 'x', chart->highest, TICKS_MOST);
    fputs("set ytics (", stream);
    for (uint32_t i = 0; i < chart->shown; i++)
        fprintf(stream, "%s'rank %" PRIu32 "' %" PRIu32, i ? ", " : "", chart->items[i].rank, i);
    fputs(")\n", stream);
    for (int paint = 0; paint < bars->n_paints; paint++)
        if (chart->used[paint])
            write_terminal_points(chart, n_columns, paint, stream);
    fputs("plot NaN notitle", stream);
    for (int paint = 0; paint < bars->n_paints; paint++)
        if (chart->used[paint])
            fprintf(stream, ", $part%d with points pointtype '%c' notitle", paint, bars->paints[paint].character);
    fputc('\n', stream);
}

void plot_bars(const struct bars *bars, const struct plot_target *target, int width, FILE *stream)
{
    bool terminal = plot_on_terminal(target);
    struct chart chart;
    chart_init(&chart, bars, terminal ? TERMINAL_BARS_MAX : BARS_MAX);
    if (terminal)
        write_terminal_plot(&chart, target, width, stream);
    else
        write_file_plot(&chart, target, stream);
    free(chart.items);
}
