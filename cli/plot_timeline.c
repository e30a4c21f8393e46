/* plot_timeline.c - when each rank computes, waits and exchanges, over one step.
 *
 * A rank has a lane of what it computes, in whatever stream, and below it one of its transfers, or two when gradients
 * travel beside K and V (of whole layers: K, V and activations, and gradients and weights). A lane holds, for each
 * paint, the intervals in which it applies; what no paint covers is the background. A lane with more intervals than a
 * screen has pixels is first reduced to columns, each painted with what fills most of it; the terminal, whose columns
 * are few, always is. So neither many ranks (which are sampled) nor many blocks make a plot slow or illegible.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_run.h"
#include "cli/plot_style.h"
#include "models/base/memory.h"
#include "models/result/intervals.h"
#include "models/result/rank_time.h"

enum paint {
    ATTENTION,
    OTHER_COMPUTE,
    EXPOSED,
    IDLE,
    KV,
    GRADIENT,
    OTHER_TRAFFIC,
    /* of whole layers */
    PRODUCT,
    ACTIVATIONS,
    WEIGHTS,
    PAINTS
};

static const struct plot_paint paints[PAINTS] = {
    [ATTENTION] = {"attention", PLOT_BLUE, '#', "attend"},
    [OTHER_COMPUTE] = {"merge and other kernels", PLOT_SKY, '+', "merge"},
    [EXPOSED] = {"exposed communication", PLOT_VERMILLION, '!', "exposed"},
    [IDLE] = {"idle", PLOT_PALE, '.', "idle"},
    [KV] = {"transfer of K, V", PLOT_GREEN, '=', "K,V"},
    [GRADIENT] = {"transfer of dK, dV", PLOT_PURPLE, '~', "dK,dV"},
    [OTHER_TRAFFIC] = {"other transfer", PLOT_GREY, '-', "other"},
    [PRODUCT] = {"matrix product", PLOT_WINE, '@', "product"},
    [ACTIVATIONS] = {"transfer for TP", PLOT_ORANGE, 't', "TP"},
    [WEIGHTS] = {"transfer for DP", PLOT_YELLOW, 'd', "DP"},
};

enum lane_kind { LANE_COMPUTE, LANE_EXCHANGE, LANE_GRADIENT, LANES };

struct lane {
    struct intervals sets[PAINTS]; /* united, and disjoint except by chance of equal begin */
};

#define RANKS_MAX 32         /* as many are all drawn */
#define RANKS_SAMPLED 16     /* of more, so many */
#define TERMINAL_RANKS_MAX 8 /* in the terminal */
#define LANE_COLUMNS 1464    /* pixels of the plot */
#define LANE_INTERVALS_MAX 1200

/* ---- lanes ---- */

static enum paint paint_of_message(const struct op *op)
{
    switch ((enum traffic)op->traffic) {
    case TRAFFIC_FORWARD_KV:
    case TRAFFIC_REPLAY_KV:
        return KV;
    case TRAFFIC_GRADIENT:
        return GRADIENT;
    case TRAFFIC_TENSOR:
        return ACTIVATIONS;
    case TRAFFIC_WEIGHTS:
    case TRAFFIC_WEIGHT_GRADIENT:
        return WEIGHTS;
    default:
        return OTHER_TRAFFIC;
    }
}

static void place_op(struct lane lanes[LANES], const struct op *op, struct moment moment)
{
    if (op_is_message(op)) {
        enum paint paint = paint_of_message(op);
        bool beside = paint == GRADIENT || paint == WEIGHTS;
        intervals_add(&lanes[beside ? LANE_GRADIENT : LANE_EXCHANGE].sets[paint], moment.begin, moment.end);
        return;
    }
    enum paint paint = op_is_attention(op) ? ATTENTION : op->kind == OP_PRODUCT ? PRODUCT : OTHER_COMPUTE;
    intervals_add(&lanes[LANE_COMPUTE].sets[paint], moment.move, moment.end);
}

static void lanes_init(struct lane lanes[LANES], const struct prediction *prediction, uint32_t place)
{
    uint32_t instance = prediction_instance(prediction, place);
    memset(lanes, 0, LANES * sizeof *lanes);
    const struct ensemble *ensemble = prediction_ensemble(prediction);
    const struct shape *shape = ensemble_shape(ensemble, instance);
    const struct timeline *timeline = &prediction->timeline;
    const struct moment *moments = timeline->moments[instance];
    for (uint32_t i = 0; i < shape->program->n_ops; i++)
        place_op(lanes, &shape->program->ops[i], moments[i]);
    struct rank_time time;
    struct rank_ops ops;
    double phase_end[PHASE_COUNT];
    timeline_phases(timeline, ensemble->instances[instance].replica, phase_end);
    rank_ops_init(&ops, &shape->order);
    rank_time_init(&time, &ops, timeline_instance(timeline, instance), phase_end);
    rank_ops_fini(&ops);
    for (size_t i = 0; i < time.exposed.count; i++)
        intervals_add(&lanes[LANE_COMPUTE].sets[EXPOSED], time.exposed.items[i].begin, time.exposed.items[i].end);
    rank_time_fini(&time);
    for (int lane = 0; lane < LANES; lane++)
        for (int paint = 0; paint < PAINTS; paint++)
            intervals_unite(&lanes[lane].sets[paint]);
    struct intervals *compute = lanes[LANE_COMPUTE].sets;
    intervals_subtract(&compute[OTHER_COMPUTE], &compute[ATTENTION]); /* sums in another stream, behind a kernel */
    intervals_subtract(&compute[OTHER_COMPUTE], &compute[PRODUCT]);
}

static void lanes_fini(struct lane lanes[LANES])
{
    for (int lane = 0; lane < LANES; lane++)
        for (int paint = 0; paint < PAINTS; paint++)
            intervals_fini(&lanes[lane].sets[paint]);
}

/* Adds to each column how much of it the set covers. */
static void cover_columns(const struct intervals *set, double column_seconds, int n_columns, double *covered)
{
    for (size_t i = 0; i < set->count; i++) {
        int first = (int)(set->items[i].begin / column_seconds), last = (int)(set->items[i].end / column_seconds);
        for (int column = first; column <= last && column < n_columns; column++) {
            double begin = column * column_seconds, end = begin + column_seconds;
            begin = set->items[i].begin > begin ? set->items[i].begin : begin;
            end = set->items[i].end < end ? set->items[i].end : end;
            covered[column] += end > begin ? end - begin : 0;
        }
    }
}

/* The paint of each of `n_columns` columns of the lane: what covers most of it, IDLE where less than the share `least`
 * of it is covered. */
static void lane_columns(const struct lane *lane, double seconds, int n_columns, double least, unsigned char *columns)
{
    double column_seconds = seconds / n_columns;
    double *best = memory_zeroed((size_t)n_columns, sizeof *best);
    double *covered = memory_zeroed((size_t)n_columns, sizeof *covered);
    double *total = memory_zeroed((size_t)n_columns, sizeof *total);
    memset(columns, IDLE, (size_t)n_columns);
    for (int paint = 0; paint < PAINTS; paint++) {
        memset(covered, 0, (size_t)n_columns * sizeof *covered);
        cover_columns(&lane->sets[paint], column_seconds, n_columns, covered);
        for (int column = 0; column < n_columns; column++) {
            total[column] += covered[column];
            if (covered[column] > best[column]) {
                best[column] = covered[column];
                columns[column] = (unsigned char)paint;
            }
        }
    }
    for (int column = 0; column < n_columns; column++)
        if (total[column] < least * column_seconds)
            columns[column] = IDLE;
    free(best);
    free(covered);
    free(total);
}

static size_t lane_size(const struct lane *lane)
{
    size_t size = 0;
    for (int paint = 0; paint < PAINTS; paint++)
        size += lane->sets[paint].count;
    return size;
}

/* Replaces the intervals of an overfull lane by runs of equal columns. */
static void lane_reduce(struct lane *lane, double seconds)
{
    if (lane_size(lane) <= LANE_INTERVALS_MAX)
        return;
    unsigned char columns[LANE_COLUMNS];
    lane_columns(lane, seconds, LANE_COLUMNS, 0.5, columns);
    for (int paint = 0; paint < PAINTS; paint++)
        intervals_clear(&lane->sets[paint]);
    for (int begin = 0, end; begin < LANE_COLUMNS; begin = end) {
        for (end = begin + 1; end < LANE_COLUMNS && columns[end] == columns[begin]; end++)
            ;
        if (columns[begin] != IDLE)
            intervals_add(&lane->sets[columns[begin]], begin * seconds / LANE_COLUMNS, end * seconds / LANE_COLUMNS);
    }
}

/* ---- the whole plot ---- */

struct drawing {
    const struct prediction *prediction;
    const struct plot_target *target;
    FILE *stream;
    struct unit unit;
    uint32_t *ranks; /* those shown: [group * cp + rank] */
    uint32_t n_ranks;
    struct lane (*lanes)[LANES];
    bool used[PAINTS];
    bool gradient_lane; /* gradients have a lane of their own */
};

/* Where a lane lies within its rank's band of height 1, whose top is at 0 (the axis points down). */
static void lane_place(const struct drawing *drawing, int lane, double *top, double *bottom)
{
    static const double tops[LANES] = {0.10, 0.54, 0.73}, bottoms[LANES] = {0.51, 0.71, 0.90};
    *top = tops[lane];
    *bottom = lane == LANE_EXCHANGE && !drawing->gradient_lane ? bottoms[LANE_GRADIENT] : bottoms[lane];
}

/* All ranks of the critical rank's group, or evenly spaced ones with the critical rank among them. */
static void choose_ranks(struct drawing *drawing, uint32_t all_up_to, uint32_t sampled)
{
    const struct prediction *prediction = drawing->prediction;
    uint32_t cp = prediction->placement.cp, critical = prediction->report.critical_rank;
    uint32_t base = critical / cp * cp;
    drawing->n_ranks = cp <= all_up_to ? cp : sampled;
    drawing->ranks = memory_zeroed(drawing->n_ranks, sizeof *drawing->ranks);
    uint32_t nearest = 0;
    for (uint32_t i = 0; i < drawing->n_ranks; i++) {
        drawing->ranks[i] = base + (uint32_t)((uint64_t)i * cp / drawing->n_ranks);
        if (drawing->ranks[i] <= critical)
            nearest = i;
    }
    drawing->ranks[nearest] = critical;
}

static void drawing_init(struct drawing *drawing)
{
    const struct prediction *prediction = drawing->prediction;
    bool terminal = plot_on_terminal(drawing->target);
    drawing->unit = unit_of_seconds(prediction_drawn_seconds(prediction));
    choose_ranks(drawing, terminal ? TERMINAL_RANKS_MAX : RANKS_MAX, terminal ? TERMINAL_RANKS_MAX : RANKS_SAMPLED);
    drawing->lanes = memory_zeroed(drawing->n_ranks, sizeof *drawing->lanes);
    for (uint32_t i = 0; i < drawing->n_ranks; i++) {
        lanes_init(drawing->lanes[i], prediction, drawing->ranks[i]);
        for (int lane = 0; lane < LANES; lane++) {
            for (int paint = 0; paint < PAINTS; paint++)
                drawing->used[paint] |= drawing->lanes[i][lane].sets[paint].count > 0;
            drawing->gradient_lane |= lane == LANE_GRADIENT && lane_size(&drawing->lanes[i][lane]) > 0;
            if (!terminal)
                lane_reduce(&drawing->lanes[i][lane], prediction_drawn_seconds(prediction));
        }
        drawing->used[IDLE] |= prediction->report.ranks[drawing->ranks[i]].idle_seconds > 0;
    }
}

static void drawing_fini(struct drawing *drawing)
{
    for (uint32_t i = 0; i < drawing->n_ranks; i++)
        lanes_fini(drawing->lanes[i]);
    free(drawing->lanes);
    free(drawing->ranks);
}

static void write_titles(const struct drawing *drawing, struct plot_area area)
{
    const struct prediction *prediction = drawing->prediction;
    char title[400], answer[400];
    plot_run_title(prediction, "", title, sizeof title);
    plot_run_answer(prediction, answer, sizeof answer);
    if (drawing->n_ranks < prediction->placement.cp) {
        size_t used = strlen(answer);
        snprintf(answer + used, sizeof answer - used, "; %" PRIu32 " of %" PRIu32 " ranks shown", drawing->n_ranks,
                 prediction->placement.cp);
    }
    if (prediction->pass_seconds > 0) {
        size_t used = strlen(answer);
        snprintf(answer + used, sizeof answer - used, "; the last micro-batch shown");
    }
    plot_titles(drawing->stream, drawing->target, area, title, answer);
}

static void write_rank_tics(const struct drawing *drawing, double offset, double height)
{
    fputs("set ytics (", drawing->stream);
    for (uint32_t i = 0; i < drawing->n_ranks; i++)
        fprintf(drawing->stream, "%s'rank %" PRIu32 "' %.9g", i ? ", " : "",
                drawing->prediction->report.ranks[drawing->ranks[i]].rank, offset + height * i);
    fputs(")\n", drawing->stream);
}

static void write_time_ticks(const struct drawing *drawing)
{
    plot_ticks(drawing->stream, 'x', prediction_drawn_seconds(drawing->prediction) / drawing->unit.size, 10);
}

/* The data of one paint: a box per interval. */
static void write_boxes(const struct drawing *drawing, int paint)
{
    double unit = drawing->unit.size;
    fprintf(drawing->stream, "$paint%d << EOD\n", paint);
    for (uint32_t i = 0; i < drawing->n_ranks; i++) {
        for (int lane = 0; lane < LANES; lane++) {
            double top, bottom;
            lane_place(drawing, lane, &top, &bottom);
            const struct intervals *set = &drawing->lanes[i][lane].sets[paint];
            for (size_t k = 0; k < set->count; k++)
                fprintf(drawing->stream, "%.7g %.7g %.9g %.9g\n", set->items[k].begin / unit, set->items[k].end / unit,
                        i + top, i + bottom);
        }
    }
    fputs("EOD\n", drawing->stream);
}

/* Idle is the background of the compute lane. */
static void write_backgrounds(const struct drawing *drawing)
{
    double top, bottom;
    lane_place(drawing, LANE_COMPUTE, &top, &bottom);
    fprintf(drawing->stream, "$paint%d << EOD\n", IDLE);
    for (uint32_t i = 0; i < drawing->n_ranks; i++)
        fprintf(drawing->stream, "0 %.9g %.9g %.9g\n",
                prediction_drawn_seconds(drawing->prediction) / drawing->unit.size, i + top, i + bottom);
    fputs("EOD\n", drawing->stream);
}

static void write_phases(const struct drawing *drawing)
{
    const struct timeline *timeline = &drawing->prediction->timeline;
    double end = timeline->phase_end[PHASE_BACKWARD] / drawing->unit.size,
           boundary = timeline->phase_end[PHASE_FORWARD] / drawing->unit.size;
    if (boundary >= end)
        return;
    fprintf(drawing->stream,
            "set arrow 1 from first %.9g, graph 0 to first %.9g, graph 1 nohead front linecolor '" PLOT_INK
            "' linewidth 1.2 dashtype 2\n"
            "set label 3 'forward' at first %.9g, graph 1 offset 0,0.7 right textcolor '" PLOT_FAINT "'\n"
            "set label 4 'backward' at first %.9g, graph 1 offset 0,0.7 left textcolor '" PLOT_FAINT "'\n",
            boundary, boundary, boundary - 0.006 * end, boundary + 0.006 * end);
}

static void write_file_plot(const struct drawing *drawing)
{
    FILE *stream = drawing->stream;
    int head = PLOT_HEAD + 14; /* room for the names of the phases */
    if (drawing->used[PRODUCT])
        head += 22; /* and for a legend of more lines */
    int height = head + 80 + (int)drawing->n_ranks * (drawing->n_ranks > 16 ? 36 : 48);
    struct plot_area area = {1600, height < 440 ? 440 : height};
    plot_begin(stream, drawing->target, area);
    write_titles(drawing, area);
    fprintf(stream,
            "set lmargin at screen 0.065\nset rmargin at screen 0.98\n"
            "set tmargin at screen %.6g\nset bmargin at screen %.6g\n",
            1 - (double)head / area.height, 70.0 / area.height);
    fprintf(stream,
            "unset grid\nset grid x front linecolor '#bbbbbb' linewidth 0.5 dashtype 3\nset border 1\n"
            "set xrange [0:%.9g]\nset yrange [%" PRIu32 ":0]\nset xlabel 'time in the step (%s)'\n",
            prediction_drawn_seconds(drawing->prediction) / drawing->unit.size, drawing->n_ranks, drawing->unit.name);
    write_rank_tics(drawing, 0.5, 1);
    write_time_ticks(drawing);
    fputs("set ytics scale 0\n", stream);
    write_phases(drawing);
    write_backgrounds(drawing);
    for (int paint = 0; paint < PAINTS; paint++)
        if (drawing->used[paint] && paint != IDLE)
            write_boxes(drawing, paint);
    /* backgrounds first, whatever the order in the legend */
    fprintf(stream, "plot $paint%d using 1:3:1:2:3:4 with boxxyerror fillcolor '%s' notitle", IDLE, paints[IDLE].color);
    for (int paint = 0; paint < PAINTS; paint++) {
        if (!drawing->used[paint])
            continue;
        if (paint == IDLE)
            fprintf(stream, ", \\\n    keyentry with boxes fillcolor '%s' title '%s'", paints[paint].color,
                    paints[paint].name);
        else
            fprintf(stream, ", \\\n    $paint%d using 1:3:1:2:3:4 with boxxyerror fillcolor '%s' title '%s'", paint,
                    paints[paint].color, paints[paint].name);
    }
    fputc('\n', stream);
}

/* ---- in the terminal: a character a column, a line a lane ---- */

#define TERMINAL_LEFT 10 /* characters beside the lanes */
#define TERMINAL_RIGHT 3
#define TERMINAL_TOP 2 /* lines */
#define TERMINAL_BOTTOM 4

/* Lines of a rank: one a lane, and an empty one. */
static int terminal_band(const struct drawing *drawing)
{
    return drawing->gradient_lane ? LANES + 1 : LANES;
}

static void write_terminal_points(const struct drawing *drawing, int n_columns)
{
    double seconds = prediction_drawn_seconds(drawing->prediction),
           column_width = seconds / drawing->unit.size / (n_columns - 1);
    unsigned char *columns = memory_zeroed((size_t)n_columns, sizeof *columns);
    int band = terminal_band(drawing);
    for (int paint = 0; paint < PAINTS; paint++) {
        if (!drawing->used[paint])
            continue;
        fprintf(drawing->stream, "$paint%d << EOD\n", paint);
        for (uint32_t i = 0; i < drawing->n_ranks; i++) {
            for (int lane = LANE_COMPUTE; lane < band - 1; lane++) {
                lane_columns(&drawing->lanes[i][lane], seconds, n_columns, lane == LANE_COMPUTE ? 0.5 : 0.02, columns);
                for (int column = 0; column < n_columns; column++)
                    if (columns[column] == paint && (paint != IDLE || lane == LANE_COMPUTE))
                        fprintf(drawing->stream, "%.9g %d\n", column * column_width, (int)i * band + lane);
            }
        }
        fputs("EOD\n", drawing->stream);
    }
    free(columns);
}

static void write_terminal_plot(const struct drawing *drawing, int width)
{
    FILE *stream = drawing->stream;
    int n_columns = width - TERMINAL_LEFT - TERMINAL_RIGHT,
        n_lines = (int)drawing->n_ranks * terminal_band(drawing) - 1;
    const struct plot_area area = {width, n_lines + 1 + TERMINAL_TOP + TERMINAL_BOTTOM}; /* one line for the ticks */
    plot_begin(stream, drawing->target, area);
    write_titles(drawing, area);
    fprintf(stream,
            "set margins %d, %d, %d, %d\nunset border\nunset key\nset xrange [0:%.9g]\nset yrange [%d:0]\n"
            "set xlabel 'time (%s)",
            TERMINAL_LEFT, TERMINAL_RIGHT, TERMINAL_BOTTOM, TERMINAL_TOP,
            prediction_drawn_seconds(drawing->prediction) / drawing->unit.size, n_lines, drawing->unit.name);
    for (int paint = 0; paint < PAINTS; paint++)
        if (drawing->used[paint])
            plot_terminal_legend_entry(stream, paints[paint].character, paints[paint].short_name);
    fputs("'\n", stream);
    write_rank_tics(drawing, 0, terminal_band(drawing));
    write_time_ticks(drawing);
    fputs("set tics nomirror out scale 0\n", stream);
    write_terminal_points(drawing, n_columns);
    fputs("plot NaN notitle", stream);
    for (int paint = 0; paint < PAINTS; paint++)
        if (drawing->used[paint])
            fprintf(stream, ", $paint%d with points pointtype '%c' notitle", paint, paints[paint].character);
    fputc('\n', stream);
}

void plot_timeline(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream)
{
    struct drawing drawing = {.prediction = prediction, .target = target, .stream = stream};
    drawing_init(&drawing);
    if (plot_on_terminal(target))
        write_terminal_plot(&drawing, width);
    else
        write_file_plot(&drawing);
    drawing_fini(&drawing);
}
