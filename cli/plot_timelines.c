/* plot_timelines.c - one pair on one time axis: of every rank the predicted lanes above the measured ones.
 *
 * Each run has a lane of compute and below it one of transfers; the lane's background ends where that run's step does,
 * so a step that is too long or too short is seen at its end. A lane with more intervals than the panel has pixels has
 * them rounded to pixels, to the nearest, so that on average as much stays covered; in the terminal each character
 * shows what covers most of it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare_operations.h"
#include "cli/plot_compare.h"
#include "cli/plot_style.h"
#include "cli/text_table.h"
#include "models/base/memory.h"
#include "models/result/intervals.h"

static const struct plot_paint paints[OPERATION_CLASSES] = {
    [OPERATION_ATTENTION] = {"attention", PLOT_BLUE, '#', "attend"},
    [OPERATION_OTHER_COMPUTE] = {"merge and other kernels", PLOT_SKY, '+', "merge"},
    [OPERATION_KV] = {"transfer of K, V", PLOT_GREEN, '=', "K,V"},
    [OPERATION_GRADIENT] = {"transfer of dK, dV", PLOT_PURPLE, '~', "dK,dV"},
    [OPERATION_OTHER_TRAFFIC] = {"other transfer", PLOT_GREY, '-', "other"},
    [OPERATION_PRODUCT] = {"matrix product", PLOT_WINE, '@', "product"},
    [OPERATION_TENSOR] = {"transfer for TP", PLOT_ORANGE, 't', "TP"},
    [OPERATION_WEIGHTS] = {"transfer for DP", PLOT_YELLOW, 'd', "DP"},
};

enum side { SUBJECT, REFERENCE, SIDES };
enum lane { LANE_COMPUTE, LANE_TRANSFER, LANES };

/* Where the lanes lie in a rank's band of height 1, whose top is at 0. */
static const double tops[SIDES][LANES] = {{0.06, 0.29}, {0.53, 0.76}},
                    bottoms[SIDES][LANES] = {{0.27, 0.45}, {0.74, 0.92}};

#define RANKS_MAX 16
#define TERMINAL_RANKS_MAX 4
#define PIXELS 1440
#define INTERVALS_MAX 1200 /* of a class on a lane */

struct timelines {
    const struct comparison *comparison;
    const struct plot_target *target;
    FILE *stream;
    const struct compared_run *runs[SIDES];
    struct operations operations[SIDES];
    uint32_t *ranks; /* those shown */
    size_t n_ranks, n_ranks_all;
    struct intervals (*sets)[SIDES][OPERATION_CLASSES]; /* per rank; united */
    bool used[OPERATION_CLASSES];
    struct unit unit;
    double end; /* of the axis, in seconds */
};

static enum lane lane_of(int class)
{
    return operation_computes((enum operation_class) class) ? LANE_COMPUTE : LANE_TRANSFER;
}

/* ---- what is drawn ---- */

static int compare_ranks(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* All ranks that either run has, or evenly spaced ones of them, the first and the last among them. */
static void choose_ranks(struct timelines *timelines, size_t most)
{
    size_t n_all = timelines->operations[SUBJECT].count + timelines->operations[REFERENCE].count, count = 0;
    uint32_t *ranks = memory_zeroed(n_all, sizeof *ranks);
    for (int side = 0; side < SIDES; side++)
        for (size_t i = 0; i < timelines->operations[side].count; i++)
            if (i == 0 || timelines->operations[side].items[i].rank != timelines->operations[side].items[i - 1].rank)
                ranks[count++] = timelines->operations[side].items[i].rank;
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || ranks[i] != ranks[distinct - 1])
            ranks[distinct++] = ranks[i];
    timelines->n_ranks_all = distinct;
    timelines->n_ranks = distinct < most ? distinct : most;
    for (size_t i = 0; i < timelines->n_ranks && distinct > most; i++)
        ranks[i] = ranks[i * (distinct - 1) / (most - 1)];
    timelines->ranks = ranks;
}

static void round_to_pixels(struct intervals *set, double end)
{
    struct intervals rounded = {NULL, 0, 0};
    for (size_t i = 0; i < set->count; i++)
        intervals_add(&rounded, round(set->items[i].begin / end * PIXELS) * end / PIXELS,
                      round(set->items[i].end / end * PIXELS) * end / PIXELS);
    intervals_unite(&rounded);
    intervals_fini(set);
    *set = rounded;
}

static void place_operations(struct timelines *timelines, int side)
{
    const struct operations *operations = &timelines->operations[side];
    size_t shown = 0;
    for (size_t i = 0; i < operations->count; i++) {
        const struct operation *operation = &operations->items[i];
        while (shown < timelines->n_ranks && timelines->ranks[shown] < operation->rank)
            shown++;
        if (shown == timelines->n_ranks || timelines->ranks[shown] != operation->rank)
            continue;
        intervals_add(&timelines->sets[shown][side][operation->class], operation->begin, operation->end);
        timelines->used[operation->class] = true;
    }
    for (size_t i = 0; i < timelines->n_ranks; i++) {
        for (int class = 0; class < OPERATION_CLASSES; class ++) {
            struct intervals *set = &timelines->sets[i][side][class];
            intervals_unite(set);
            if (set->count > INTERVALS_MAX)
                round_to_pixels(set, timelines->end);
        }
    }
}

/* The operations have been read once before (compare_check_timelines), so nothing can be wrong with them. */
static void timelines_init(struct timelines *timelines)
{
    const struct compared_pair *pair = &timelines->comparison->pairs[0];
    timelines->runs[SUBJECT] = pair->subject;
    timelines->runs[REFERENCE] = pair->reference;
    struct diagnostics none;
    diagnostics_init(&none);
    for (int side = 0; side < SIDES; side++) {
        operations_init(&timelines->operations[side], timelines->runs[side], &none);
        timelines->end = fmax(timelines->end, fmax(timelines->operations[side].end, timelines->runs[side]->seconds));
    }
    diagnostics_fini(&none);
    timelines->unit = unit_of_seconds(timelines->end);
    choose_ranks(timelines, plot_on_terminal(timelines->target) ? TERMINAL_RANKS_MAX : RANKS_MAX);
    timelines->sets = memory_zeroed(timelines->n_ranks, sizeof *timelines->sets);
    for (int side = 0; side < SIDES; side++)
        place_operations(timelines, side);
}

static void timelines_fini(struct timelines *timelines)
{
    for (size_t i = 0; i < timelines->n_ranks; i++)
        for (int side = 0; side < SIDES; side++)
            for (int class = 0; class < OPERATION_CLASSES; class ++)
                intervals_fini(&timelines->sets[i][side][class]);
    free(timelines->sets);
    free(timelines->ranks);
    for (int side = 0; side < SIDES; side++)
        operations_fini(&timelines->operations[side]);
}

static const char *side_name(const struct timelines *timelines, int side)
{
    return side == SUBJECT ? timelines->comparison->subject_name : timelines->comparison->reference_name;
}

static void write_titles(const struct timelines *timelines, struct plot_area area)
{
    const struct comparison *comparison = timelines->comparison;
    char *answer = timelines->n_ranks == timelines->n_ranks_all
                       ? memory_text(comparison->answer)
                       : memory_format("%s; %zu of %zu ranks shown", comparison->answer, timelines->n_ranks,
                                       timelines->n_ranks_all);
    plot_titles(timelines->stream, timelines->target, area, comparison->title, answer);
    free(answer);
}

/* "rank 0 predicted", "measured" at the places of their lanes; places are in bands of height `band`. */
static void write_rank_tics(const struct timelines *timelines, const double places[SIDES], double band)
{
    fputs("set ytics (", timelines->stream);
    for (size_t i = 0; i < timelines->n_ranks; i++)
        fprintf(timelines->stream, "%s'rank %" PRIu32 " %s' %.9g, '%s' %.9g", i ? ", " : "", timelines->ranks[i],
                side_name(timelines, SUBJECT), (double)i * band + places[SUBJECT], side_name(timelines, REFERENCE),
                (double)i * band + places[REFERENCE]);
    fputs(")\n", timelines->stream);
}

/* ---- a file ---- */

static void write_boxes(const struct timelines *timelines, int class)
{
    enum lane lane = lane_of(class);
    fprintf(timelines->stream, "$paint%d << EOD\n", class);
    for (size_t i = 0; i < timelines->n_ranks; i++) {
        for (int side = 0; side < SIDES; side++) {
            const struct intervals *set = &timelines->sets[i][side][class];
            for (size_t k = 0; k < set->count; k++)
                fprintf(timelines->stream, "%.7g %.7g %.9g %.9g\n", set->items[k].begin / timelines->unit.size,
                        set->items[k].end / timelines->unit.size, (double)i + tops[side][lane],
                        (double)i + bottoms[side][lane]);
        }
    }
    fputs("EOD\n", timelines->stream);
}

/* The extent of each run's step, and where its backward pass begins. */
static void write_steps(const struct timelines *timelines)
{
    double unit = timelines->unit.size;
    fputs("$step << EOD\n", timelines->stream);
    for (size_t i = 0; i < timelines->n_ranks; i++)
        for (int side = 0; side < SIDES; side++)
            fprintf(timelines->stream, "0 %.9g %.9g %.9g\n", timelines->runs[side]->seconds / unit,
                    (double)i + tops[side][LANE_COMPUTE], (double)i + bottoms[side][LANE_COMPUTE]);
    fputs("EOD\n$backward << EOD\n", timelines->stream);
    for (size_t i = 0; i < timelines->n_ranks; i++) {
        for (int side = 0; side < SIDES; side++) {
            double forward = compared_run_number(timelines->runs[side], "forward_seconds");
            if (forward > 0 && forward < timelines->runs[side]->seconds)
                fprintf(timelines->stream, "%.9g %.9g %.9g\n", forward / unit,
                        (double)i + tops[side][LANE_COMPUTE] - 0.03,
                        bottoms[side][LANE_TRANSFER] - tops[side][LANE_COMPUTE] + 0.06);
        }
    }
    fputs("EOD\n", timelines->stream);
}

static bool has_backward(const struct timelines *timelines)
{
    bool any = false;
    for (int side = 0; side < SIDES; side++)
        any = any || compared_run_number(timelines->runs[side], "backward_seconds") > 0;
    return any;
}

static void write_file_plot(const struct timelines *timelines)
{
    static const double places[SIDES] = {0.25, 0.72};
    FILE *stream = timelines->stream;
    int height = PLOT_HEAD + 80 + (int)timelines->n_ranks * 96;
    const struct plot_area area = {1600, height};
    plot_begin(stream, timelines->target, area);
    write_titles(timelines, area);
    fprintf(stream,
            "set lmargin at screen 0.125\nset rmargin at screen 0.98\nset tmargin at screen %.6g\n"
            "set bmargin at screen %.6g\nunset grid\nset grid x front linecolor '#bbbbbb' linewidth 0.5 dashtype 3\n"
            "set border 1\nset xrange [0:%.9g]\nset yrange [%zu:0]\nset xlabel 'time in the step (%s)'\n",
            1 - (double)PLOT_HEAD / area.height, 70.0 / area.height, 1.01 * timelines->end / timelines->unit.size,
            timelines->n_ranks, timelines->unit.name);
    write_rank_tics(timelines, places, 1);
    plot_ticks(stream, 'x', timelines->end / timelines->unit.size, 10);
    fputs("set ytics scale 0\n", stream);
    write_steps(timelines);
    for (int class = 0; class < OPERATION_CLASSES; class ++)
        if (timelines->used[class])
            write_boxes(timelines, class);
    fputs("plot $step using 1:3:1:2:3:4 with boxxyerror fillcolor '" PLOT_PALE "' title 'waiting'", stream);
    for (int class = 0; class < OPERATION_CLASSES; class ++)
        if (timelines->used[class])
            fprintf(stream, ", \\\n    $paint%d using 1:3:1:2:3:4 with boxxyerror fillcolor '%s' title '%s'", class,
                    paints[class].color, paints[class].name);
    if (has_backward(timelines))
        fputs(", \\\n    $backward using 1:2:(0):3 with vectors nohead linecolor '" PLOT_INK
              "' linewidth 1.5 title 'backward begins'",
              stream);
    fputc('\n', stream);
}

/* ---- the terminal: a character a column, a line a lane ---- */

#define TERMINAL_LEFT 18
#define TERMINAL_RIGHT 3
#define TERMINAL_TOP 2
#define TERMINAL_BOTTOM 4
#define TERMINAL_BAND (SIDES * LANES + 1) /* lines of a rank, with an empty one: the last is the axis' */

/* The class that covers most of [begin, end) of a lane; -1: hardly any does. */
static int class_in(const struct timelines *timelines, size_t rank, int side, int lane, double begin, double end)
{
    struct interval column = {begin, end};
    const struct intervals window = {&column, 1, 1};
    double best = (lane == LANE_COMPUTE ? 0.5 : 0.02) * (end - begin);
    int found = -1;
    for (int class = 0; class < OPERATION_CLASSES; class ++) {
        if ((int)lane_of(class) != lane)
            continue;
        double covered = intervals_common_seconds(&timelines->sets[rank][side][class], &window);
        if (covered > best) {
            best = covered;
            found = class;
        }
    }
    return found;
}

static void write_terminal_points(const struct timelines *timelines, int n_columns)
{
    double column = timelines->end / n_columns;
    for (int class = 0; class < OPERATION_CLASSES; class ++) {
        if (!timelines->used[class])
            continue;
        fprintf(timelines->stream, "$paint%d << EOD\n", class);
        for (size_t i = 0; i < timelines->n_ranks; i++)
            for (int side = 0; side < SIDES; side++)
                for (int k = 0; k < n_columns; k++)
                    if (class_in(timelines, i, side, (int)lane_of(class), k * column, (k + 1) * column) == class)
                        fprintf(timelines->stream, "%d %d\n", k,
                                (int)i * TERMINAL_BAND + side * LANES + (int)lane_of(class));
        fputs("EOD\n", timelines->stream);
    }
}

static void write_terminal_plot(const struct timelines *timelines, int width)
{
    static const double places[SIDES] = {0, LANES};
    FILE *stream = timelines->stream;
    int n_columns = width - TERMINAL_LEFT - TERMINAL_RIGHT, n_lines = (int)timelines->n_ranks * TERMINAL_BAND;
    const struct plot_area area = {width, n_lines + TERMINAL_TOP + TERMINAL_BOTTOM};
    plot_begin(stream, timelines->target, area);
    plot_titles(stream, timelines->target, area, timelines->comparison->answer, "");
    fprintf(stream,
            "set margins %d, %d, %d, %d\nunset border\nunset key\nset xrange [0:%d]\nset yrange [%d:0]\n"
            "set xtics ('0' 0, '%s' %d)\nset xlabel 'time",
            TERMINAL_LEFT, TERMINAL_RIGHT, TERMINAL_BOTTOM, TERMINAL_TOP, n_columns - 1, n_lines - 1,
            text_in_unit(timelines->end, timelines->unit).text, n_columns - 1);
    for (int class = 0; class < OPERATION_CLASSES; class ++)
        if (timelines->used[class])
            plot_terminal_legend_entry(stream, paints[class].character, paints[class].short_name);
    fputs("'\n", stream);
    write_rank_tics(timelines, places, TERMINAL_BAND);
    fputs("set tics nomirror out scale 0\n", stream);
    write_terminal_points(timelines, n_columns);
    fputs("plot NaN notitle", stream);
    for (int class = 0; class < OPERATION_CLASSES; class ++)
        if (timelines->used[class])
            fprintf(stream, ", $paint%d with points pointtype '%c' notitle", class, paints[class].character);
    fputc('\n', stream);
}

void plot_timelines(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream)
{
    struct timelines timelines = {.comparison = comparison, .target = target, .stream = stream};
    timelines_init(&timelines);
    if (plot_on_terminal(target))
        write_terminal_plot(&timelines, width);
    else
        write_file_plot(&timelines);
    timelines_fini(&timelines);
}
