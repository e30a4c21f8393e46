/* plot_phases.c - forward, backward and exposed seconds of each pair, predicted beside measured: a panel each.
 *
 * Where steps of very different length meet, seconds would press the short ones flat: heights are then shares of the
 * pair's reference step. Of more pairs than have room those with the largest errors are drawn.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_compare.h"
#include "cli/plot_style.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

#define PAIRS_MAX 24
#define PAIRS_WIDE_MIN 6 /* fewer are drawn as narrow as if there were so many */
#define NAME_MAX_LENGTH 44
#define TERMINAL_PAIRS_MAX 6
#define SPAN_MAX 8 /* longest to shortest step that seconds can show */

static const enum compare_quantity panels[] = {COMPARE_FORWARD, COMPARE_BACKWARD, COMPARE_EXPOSED};
#define PANELS (sizeof panels / sizeof *panels)

struct phases {
    const struct comparison *comparison;
    const struct plot_target *target;
    FILE *stream;
    size_t *pairs; /* those shown, in their order */
    size_t n_pairs;
    bool shares;      /* of the reference step, instead of seconds */
    struct unit unit; /* of seconds */
};

static int compare_indices(const void *left, const void *right)
{
    const size_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static void phases_init(struct phases *phases)
{
    const struct comparison *comparison = phases->comparison;
    size_t most = plot_on_terminal(phases->target) ? TERMINAL_PAIRS_MAX : PAIRS_MAX;
    phases->n_pairs = comparison->n_pairs < most ? comparison->n_pairs : most;
    phases->pairs = memory_zeroed(phases->n_pairs, sizeof *phases->pairs);
    double shortest = INFINITY, longest = 0, highest = 0;
    for (size_t i = 0; i < phases->n_pairs; i++) {
        const struct compared_pair *pair = &comparison->pairs[comparison->by_error[i]];
        phases->pairs[i] = comparison->by_error[i];
        shortest = fmin(shortest, pair->reference->seconds);
        longest = fmax(longest, pair->reference->seconds);
        for (size_t k = 0; k < PANELS; k++)
            highest = fmax(highest, fmax(pair->values[panels[k]].subject, pair->values[panels[k]].reference));
    }
    qsort(phases->pairs, phases->n_pairs, sizeof *phases->pairs, compare_indices);
    phases->shares = longest > SPAN_MAX * shortest;
    phases->unit = unit_of_seconds(highest);
}

/* The height of a bar; 0 for what is not there. */
static double height(const struct phases *phases, const struct compared_pair *pair, double seconds)
{
    if (isnan(seconds))
        return 0;
    return phases->shares ? 100 * seconds / pair->reference->seconds : seconds / phases->unit.size;
}

/* Of the highest bar of a panel; 0: the panel is empty and not drawn. */
static double highest_bar(const struct phases *phases, enum compare_quantity quantity)
{
    double highest = 0;
    for (size_t i = 0; i < phases->n_pairs; i++) {
        const struct compared_pair *pair = &phases->comparison->pairs[phases->pairs[i]];
        highest = fmax(highest, height(phases, pair, pair->values[quantity].subject));
        highest = fmax(highest, height(phases, pair, pair->values[quantity].reference));
    }
    return highest;
}

/* A line a pair: its place, both heights, the error as text. */
static void write_data(const struct phases *phases)
{
    for (size_t k = 0; k < PANELS; k++) {
        fprintf(phases->stream, "$panel%zu << EOD\n", k);
        for (size_t i = 0; i < phases->n_pairs; i++) {
            const struct compared_pair *pair = &phases->comparison->pairs[phases->pairs[i]];
            const struct compared_value *value = &pair->values[panels[k]];
            fprintf(phases->stream, "%zu %.9g %.9g ", i, height(phases, pair, value->subject),
                    height(phases, pair, value->reference));
            if (isnan(value->error))
                fputs("-\n", phases->stream);
            else
                fprintf(phases->stream, fabs(value->error) < 10 ? "%+.1f%%\n" : "%+.0f%%\n", 100 * value->error);
        }
        fputs("EOD\n", phases->stream);
    }
}

/* "4: cp 8, ring"; in the terminal the number alone, which the table explains. */
static char *name_of(const struct phases *phases, size_t pair)
{
    if (plot_on_terminal(phases->target))
        return memory_format("pair %zu", pair + 1);
    char *label = plot_pair_label(phases->comparison, pair);
    char *name = phases->comparison->n_columns ? memory_format("%zu: %s", pair + 1, label) : memory_text(label);
    free(label);
    if (strlen(name) > NAME_MAX_LENGTH)
        snprintf(name + NAME_MAX_LENGTH - 3, 4, "...");
    return name;
}

static void write_pair_names(const struct phases *phases, bool upright)
{
    fputs("set xtics (", phases->stream);
    for (size_t i = 0; i < phases->n_pairs; i++) {
        char *name = name_of(phases, phases->pairs[i]);
        fputs(i ? ", " : "", phases->stream);
        plot_text(phases->stream, name);
        fprintf(phases->stream, " %zu", i);
        free(name);
    }
    fprintf(phases->stream, ") nomirror scale 0%s\n", upright ? " rotate by 90 right font ',11'" : "");
}

static void panel_title(const struct phases *phases, enum compare_quantity quantity, char *text, size_t size)
{
    static const char *const names[] = {"Forward", "Backward", "Exposed communication"};
    const char *name = quantity == COMPARE_FORWARD ? names[0] : quantity == COMPARE_BACKWARD ? names[1] : names[2];
    if (phases->shares)
        snprintf(text, size, "%s (%% of the %s step)", name, phases->comparison->reference_name);
    else
        snprintf(text, size, "%s (%s)", name, phases->unit.name);
}

static char *answer_of(const struct phases *phases)
{
    const struct comparison *comparison = phases->comparison;
    if (phases->n_pairs == comparison->n_pairs)
        return memory_text(comparison->answer);
    return memory_format("%s; the %zu largest errors shown", comparison->answer, phases->n_pairs);
}

/* ---- a file ---- */

#define PANEL_HEIGHT 210
#define PANEL_GAP 60

static size_t longest_name(const struct phases *phases)
{
    size_t longest = 0;
    for (size_t i = 0; i < phases->n_pairs; i++) {
        char *name = name_of(phases, phases->pairs[i]);
        longest = strlen(name) > longest ? strlen(name) : longest;
        free(name);
    }
    return longest;
}

static void write_panel(const struct phases *phases, size_t panel, double highest)
{
    FILE *stream = phases->stream;
    plot_ticks(stream, 'y', 1.15 * highest, 6);
    fprintf(stream,
            "set yrange [0:%.9g]\nplot $panel%zu using ($1-0.2):2:(0.36) with boxes fillcolor '" PLOT_BLUE
            "' notitle, \\\n    $panel%zu using ($1+0.2):3:(0.36) with boxes fillcolor '" PLOT_ORANGE
            "' notitle, \\\n    $panel%zu using 1:($2>$3?$2:$3):4 with labels font ',%d' offset 0,0.6 textcolor "
            "'" PLOT_FAINT "' notitle\n",
            1.15 * highest, panel, panel, panel, phases->n_pairs > 12 ? 9 : 11);
}

static void write_legend(const struct phases *phases)
{
    fprintf(phases->stream,
            "set xrange [0:1]\nset yrange [0:1]\nunset border\nunset tics\nplot NaN notitle, \\\n"
            "    keyentry with boxes fillcolor '" PLOT_BLUE "' title '%s', \\\n"
            "    keyentry with boxes fillcolor '" PLOT_ORANGE "' title '%s'\n"
            "unset label 1\nunset label 2\nunset key\nset border 1\nset tics\n" PLOT_TICS,
            phases->comparison->subject_name, phases->comparison->reference_name);
}

static void write_file_plot(const struct phases *phases)
{
    FILE *stream = phases->stream;
    double highest[PANELS];
    int shown = 0, drawn = 0;
    for (size_t k = 0; k < PANELS; k++)
        shown += (highest[k] = highest_bar(phases, panels[k])) > 0;
    bool upright = phases->n_pairs * (longest_name(phases) + 2) > 130;
    size_t label_height = upright ? 20 + longest_name(phases) * 7 : 30;
    const struct plot_area area = {1500,
                                   PLOT_HEAD + PANEL_GAP + shown * (PANEL_HEIGHT + PANEL_GAP) + (int)label_height};
    char *answer = answer_of(phases);
    plot_begin(stream, phases->target, area);
    write_data(phases);
    fputs("set multiplot\n", stream);
    plot_titles(stream, phases->target, area, phases->comparison->title, answer);
    write_legend(phases);
    double padding = phases->n_pairs < PAIRS_WIDE_MIN ? (PAIRS_WIDE_MIN - (double)phases->n_pairs) / 2 : 0.2;
    fprintf(stream, "set lmargin at screen 0.06\nset rmargin at screen 0.97\nset xrange [%.9g:%.9g]\n", -0.5 - padding,
            (double)phases->n_pairs - 0.5 + padding);
    for (size_t k = 0; k < PANELS; k++) {
        if (highest[k] <= 0)
            continue;
        char title[80];
        panel_title(phases, panels[k], title, sizeof title);
        double top = PLOT_HEAD + 40 + drawn * (PANEL_HEIGHT + PANEL_GAP);
        fprintf(stream,
                "set tmargin at screen %.6g\nset bmargin at screen %.6g\nset label 3 '%s' at graph 0, graph 1 offset "
                "0,1 left font ',14' textcolor '" PLOT_INK "'\n",
                1 - top / area.height, 1 - (top + PANEL_HEIGHT) / area.height, title);
        if (++drawn == shown)
            write_pair_names(phases, upright);
        else
            fputs("unset xtics\n", stream);
        write_panel(phases, k, highest[k]);
    }
    fputs("unset multiplot\n", stream);
    free(answer);
}

/* ---- the terminal: a panel below the other ---- */

static void write_terminal_plot(const struct phases *phases, int width)
{
    FILE *stream = phases->stream;
    const struct plot_area area = {width, 16};
    plot_begin(stream, phases->target, area);
    write_data(phases);
    fprintf(stream, "unset key\nset tics nomirror out scale 0\nset border 3\nset xrange [-0.6:%.9g]\n",
            (double)phases->n_pairs - 0.4);
    write_pair_names(phases, false);
    fputs("set xlabel '", stream);
    plot_terminal_legend_entry(stream, '*', phases->comparison->subject_name);
    plot_terminal_legend_entry(stream, '#', phases->comparison->reference_name);
    fputs("'\n", stream);
    for (size_t k = 0; k < PANELS; k++) {
        double highest = highest_bar(phases, panels[k]);
        if (highest <= 0)
            continue;
        char title[80];
        panel_title(phases, panels[k], title, sizeof title);
        plot_titles(stream, phases->target, area, title, "");
        plot_ticks(stream, 'y', 1.15 * highest, 6);
        fprintf(stream,
                "set yrange [0:%.9g]\nplot $panel%zu using ($1-0.2):2:(0.36) with boxes linetype 1 notitle, "
                "$panel%zu using ($1+0.2):3:(0.36) with boxes linetype 2 notitle\n",
                1.15 * highest, k, k);
    }
}

void plot_phases(const struct comparison *comparison, const struct plot_target *target, int width, FILE *stream)
{
    struct phases phases = {.comparison = comparison, .target = target, .stream = stream};
    phases_init(&phases);
    if (plot_on_terminal(target))
        write_terminal_plot(&phases, width);
    else
        write_file_plot(&phases);
    free(phases.pairs);
}
