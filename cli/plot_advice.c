/* plot_advice.c - every candidate that was timed: its step over the memory of its fullest GPU.
 *
 * Down and left is better. The frontier joins those that nobody beats in both; each of them has a number and stands in
 * the list beside the panel. The device's memory is a dashed line. What takes more than a few times as long as the best
 * is cut off, and counted.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/advice.h"
#include "cli/advice_names.h"
#include "cli/plot_square.h"
#include "cli/plot_style.h"
#include "cli/quantity.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

#define SHOWN_TIMES 2.0 /* as long as the best */
#define LISTED_MAX 9
#define LISTED_CHARACTERS 72 /* of a line: what the list is wide */
#define CLASSES_MAX 16

struct pareto_point {
    size_t candidate, class;
    double bytes, seconds;
};

struct pareto {
    const struct advice *advice;
    const struct plot_target *target;
    FILE *stream;
    struct pareto_point *points; /* by memory, then time */
    size_t n_points, n_beyond;
    size_t *frontier, n_frontier; /* indices of points */
    size_t knob;                  /* that tells classes apart */
    const char *classes[CLASSES_MAX];
    size_t n_classes;
    struct unit seconds, bytes;
    double low, high, most_bytes, limit_bytes; /* the limit is 0 if the device states none */
};

static const struct advice_answer *ran(const struct advice *advice, size_t candidate)
{
    const struct advice_entry *entry = &advice->entries[candidate];
    bool tried = entry->answer[ADVICE_TRIAL].status != ADVICE_NOT_SEEN;
    const struct advice_answer *answer = &entry->answer[tried ? ADVICE_TRIAL : ADVICE_SCREENING];
    return answer->status == ADVICE_RAN ? answer : NULL;
}

static int compare_points(const void *a, const void *b)
{
    const struct pareto_point *first = a, *second = b;
    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? -1 : 1;
    if (first->seconds != second->seconds)
        return first->seconds < second->seconds ? -1 : 1;
    return first->candidate < second->candidate ? -1 : 1;
}

static bool varies(const struct advice *advice, size_t knob)
{
    const char *first = NULL;
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const char *value = ran(advice, i) ? advice_value(&advice->space, i, knob) : NULL;
        if (value && first && value != first)
            return true;
        first = first ? first : value;
    }
    return false;
}

static size_t class_of(struct pareto *pareto, size_t candidate)
{
    const char *value = advice_value(&pareto->advice->space, candidate, pareto->knob);
    const char *cp = advice_value(&pareto->advice->space, candidate, KNOB_CP);
    if (pareto->knob == KNOB_ALGORITHM && cp && strcmp(cp, "1") == 0)
        value = "cp 1";
    for (size_t c = 0; c < pareto->n_classes; c++)
        if (strcmp(pareto->classes[c], value ? value : "") == 0)
            return c;
    if (pareto->n_classes == CLASSES_MAX)
        return CLASSES_MAX - 1;
    pareto->classes[pareto->n_classes] = value ? value : "";
    return pareto->n_classes++;
}

static void take_points(struct pareto *pareto)
{
    const struct advice *advice = pareto->advice;
    pareto->points = memory_zeroed(advice->space.n_candidates, sizeof *pareto->points);
    double best = (double)INFINITY;
    for (size_t i = 0; i < advice->space.n_candidates; i++)
        best = ran(advice, i) ? fmin(best, ran(advice, i)->times.seconds) : best;
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const struct advice_answer *answer = ran(advice, i);
        if (!answer)
            continue;
        if (answer->times.seconds > SHOWN_TIMES * best) {
            pareto->n_beyond++;
            continue;
        }
        pareto->points[pareto->n_points++] = (struct pareto_point){
            i, class_of(pareto, i), answer->peak_bytes + answer->reserve_bytes, answer->times.seconds};
        pareto->limit_bytes = answer->device_bytes;
    }
    qsort(pareto->points, pareto->n_points, sizeof *pareto->points, compare_points);
}

static void find_frontier(struct pareto *pareto)
{
    pareto->frontier = memory_zeroed(pareto->n_points, sizeof *pareto->frontier);
    double best = (double)INFINITY;
    pareto->low = (double)INFINITY;
    for (size_t i = 0; i < pareto->n_points; i++) {
        const struct pareto_point *point = &pareto->points[i];
        pareto->low = fmin(pareto->low, point->seconds);
        pareto->high = fmax(pareto->high, point->seconds);
        pareto->most_bytes = fmax(pareto->most_bytes, point->bytes);
        if (point->seconds < best * (1 - 1e-6)) {
            best = point->seconds;
            pareto->frontier[pareto->n_frontier++] = i;
        }
    }
}

static void pareto_init(struct pareto *pareto)
{
    pareto->knob = varies(pareto->advice, KNOB_RECOMPUTE) ? KNOB_RECOMPUTE : KNOB_ALGORITHM;
    take_points(pareto);
    find_frontier(pareto);
    bool limited = pareto->limit_bytes > 0 && pareto->most_bytes > 0.25 * pareto->limit_bytes;
    if (limited)
        pareto->most_bytes = fmax(pareto->most_bytes, pareto->limit_bytes);
    pareto->seconds = unit_of_seconds(pareto->high);
    pareto->bytes = unit_of_memory(pareto->most_bytes);
    double margin = 0.06 * fmax(pareto->high - pareto->low, 0.02 * pareto->high);
    pareto->low = fmax(0, pareto->low - 1.5 * margin);
    pareto->high += margin;
}

static void write_ranges(const struct pareto *pareto)
{
    fprintf(pareto->stream, "set xrange [0:%.9g]\nset yrange [%.9g:%.9g]\n",
            1.06 * pareto->most_bytes / pareto->bytes.size, pareto->low / pareto->seconds.size,
            pareto->high / pareto->seconds.size);
}

static void write_data(const struct pareto *pareto)
{
    FILE *stream = pareto->stream;
    for (size_t c = 0; c < pareto->n_classes; c++) {
        fprintf(stream, "$class%zu << EOD\n", c);
        for (size_t i = 0; i < pareto->n_points; i++)
            if (pareto->points[i].class == c)
                fprintf(stream, "%.9g %.9g\n", pareto->points[i].bytes / pareto->bytes.size,
                        pareto->points[i].seconds / pareto->seconds.size);
        fputs("EOD\n", stream);
    }
    fputs("$frontier << EOD\n", stream);
    for (size_t i = 0; i < pareto->n_frontier; i++) {
        const struct pareto_point *point = &pareto->points[pareto->frontier[i]];
        fprintf(stream, "%.9g %.9g\n", point->bytes / pareto->bytes.size, point->seconds / pareto->seconds.size);
    }
    const struct pareto_point *last = &pareto->points[pareto->frontier[pareto->n_frontier - 1]];
    fprintf(stream, "%.9g %.9g\nEOD\n", 1.06 * pareto->most_bytes / pareto->bytes.size,
            last->seconds / pareto->seconds.size);
}

/* ---- a file ---- */

enum { WIDTH = 1600, HEIGHT = 900, LEFT = 100, RIGHT = 600, BOTTOM = 80 };

static double screen_x(double pixels)
{
    return pixels / WIDTH;
}

static double screen_y(double pixels)
{
    return 1 - pixels / HEIGHT;
}

/* Which of the frontier is listed: evenly, its ends among them. */
static size_t listed(const struct pareto *pareto, size_t place, size_t n)
{
    return n < 2 ? pareto->n_frontier - 1 : place * (pareto->n_frontier - 1) / (n - 1);
}

/* One of the list's lines, `y` pixels below the top. */
static void write_line(FILE *stream, size_t label, const char *text, int size, const char *color, double y)
{
    fprintf(stream, "set label %zu ", label);
    plot_text(stream, text);
    fprintf(stream, " at screen %.6g,%.6g left font ',%d' textcolor '%s'\n", screen_x(WIDTH - RIGHT + 40), screen_y(y),
            size, color);
}

/* What has no room in a line is left out. */
static char *shortened(const char *text)
{
    size_t end = LISTED_CHARACTERS - 4;
    if (strlen(text) <= LISTED_CHARACTERS)
        return memory_text(text);
    while (end > LISTED_CHARACTERS / 2 && text[end] != ',')
        end--;
    return memory_format("%.*s, ...", (int)end, text);
}

/* Three lines each: degrees and attention; the rest of the name; time and memory. */
static void write_listed(const struct pareto *pareto)
{
    FILE *stream = pareto->stream;
    size_t n = pareto->n_frontier < LISTED_MAX ? pareto->n_frontier : LISTED_MAX;
    write_line(stream, 10, "Nobody is faster with less memory", 14, PLOT_INK, PLOT_HEAD + 4);
    for (size_t place = 0; place < n; place++) {
        const struct pareto_point *point = &pareto->points[pareto->frontier[listed(pareto, n - 1 - place, n)]];
        char *name = advice_name(&pareto->advice->space, point->candidate);
        char *rest = strstr(name, ", order ");
        rest = rest ? rest : strstr(name, ", ZeRO");
        rest = rest ? rest : strstr(name, ", recompute");
        char *head = rest ? memory_format("%.*s", (int)(rest - name), name) : memory_text(name);
        char *first = memory_format("%zu  %s", place + 1, head);
        char *second = memory_format("     %s", rest ? rest + 2 : "");
        char *third =
            memory_format("     %s, %s", text_of_seconds(point->seconds).text, text_of_memory(point->bytes).text);
        char *lines[] = {shortened(first), shortened(second), third};
        double y = PLOT_HEAD + 40 + 69 * (double)place;
        size_t label = 20 + 4 * place, at = 0;
        for (size_t i = 0; i < 3; i++)
            if (i != 1 || rest)
                write_line(stream, label + i, lines[i], i ? 11 : 12, i ? PLOT_FAINT : PLOT_INK, y + 20 * (double)at++);
        fprintf(stream,
                "set label %zu '%zu' at first %.9g,%.9g right offset -0.7,-0.7 font ',14' textcolor '" PLOT_INK
                "' front\n",
                label + 3, place + 1, point->bytes / pareto->bytes.size, point->seconds / pareto->seconds.size);
        free(lines[0]);
        free(lines[1]);
        free(third);
        free(second);
        free(first);
        free(head);
        free(name);
    }
}

static void write_titles(const struct pareto *pareto)
{
    const struct advice *advice = pareto->advice;
    char *name = advice_name(&advice->space, advice->best[0]);
    const struct advice_times *times = advice_times_of(advice, advice->best[0]);
    const char *what = advice->space.base.step.scope == SCOPE_MODEL   ? "A training step"
                       : advice->space.base.step.scope == SCOPE_LAYER ? "A layer"
                                                                      : "Attention";
    char *title = memory_format("%s of %s on %s GPUs of %s: time against memory", what, advice->space.base.model.name,
                                text_of_count(advice->space.gpus).text, advice->question.topology_path);
    char *beyond = pareto->n_beyond ? memory_format("; %zu beyond %.3g times as long", pareto->n_beyond, SHOWN_TIMES)
                                    : memory_text("");
    char *answer =
        memory_format("%s: %s, %s tokens/s a GPU; %s of %s timed%s", name, text_of_seconds(times->seconds).text,
                      text_of_number(advice_tokens_per_s(advice, times)).text,
                      text_of_count(pareto->n_points + pareto->n_beyond).text,
                      text_of_count(advice->space.n_candidates).text, beyond);
    plot_titles(pareto->stream, pareto->target, (struct plot_area){WIDTH, HEIGHT}, title, answer);
    free(answer);
    free(beyond);
    free(title);
    free(name);
}

static void write_limit(const struct pareto *pareto)
{
    if (pareto->limit_bytes <= 0 || pareto->limit_bytes > 1.06 * pareto->most_bytes)
        return;
    double x = pareto->limit_bytes / pareto->bytes.size;
    fprintf(
        pareto->stream,
        "set arrow 1 from first %.9g,graph 0 to first %.9g,graph 1 nohead dashtype 2 linewidth 1.5 linecolor '" PLOT_INK
        "' back\nset label 5 'the device: %s' at first %.9g,graph 0.985 right offset -0.6,0 font ',11' textcolor "
        "'" PLOT_FAINT "'\n",
        x, x, text_of_memory(pareto->limit_bytes).text, x);
}

static void write_file_plot(const struct pareto *pareto)
{
    FILE *stream = pareto->stream;
    plot_begin(stream, pareto->target, (struct plot_area){WIDTH, HEIGHT});
    write_titles(pareto);
    fprintf(stream,
            "set lmargin at screen %.6g\nset rmargin at screen %.6g\nset tmargin at screen %.6g\nset bmargin at screen "
            "%.6g\nset border 3 linecolor '" PLOT_FAINT "'\n" PLOT_TICS "set grid linecolor '#eeeeee' linetype 1\n",
            screen_x(LEFT), screen_x(WIDTH - RIGHT), screen_y(PLOT_HEAD), screen_y(HEIGHT - BOTTOM));
    fprintf(stream, "set xlabel 'memory of the fullest GPU (%s)'\nset ylabel 'step (%s)'\n", pareto->bytes.name,
            pareto->seconds.name);
    write_ranges(pareto);
    write_limit(pareto);
    write_listed(pareto);
    write_data(pareto);
    const char *prefix = pareto->knob == KNOB_RECOMPUTE ? "recompute " : "";
    fputs("plot $frontier using 1:2 with steps linecolor '" PLOT_INK "' linewidth 1.6 title 'frontier'", stream);
    for (size_t c = 0; c < pareto->n_classes; c++) {
        char *name = memory_format("%s%s", prefix, pareto->classes[c]);
        fprintf(stream, ", \\\n    $class%zu using 1:2 with points pointtype %d pointsize 1.1 linecolor '%s' title ", c,
                plot_square_point(c), plot_square_color(c));
        plot_text(stream, name);
        free(name);
    }
    fputs(", \\\n    $frontier every ::0::", stream);
    fprintf(stream,
            "%zu using 1:2 with points pointtype 6 pointsize 2.2 linewidth 1.6 linecolor '" PLOT_INK "' notitle\n",
            pareto->n_frontier - 1);
}

/* ---- the terminal ---- */

static void write_terminal_plot(const struct pareto *pareto, int width)
{
    FILE *stream = pareto->stream;
    const struct plot_area area = {width, width * 2 / 5 > 34 ? 34 : width * 2 / 5};
    plot_begin(stream, pareto->target, area);
    char *title = memory_format("Step over memory: %zu layouts", pareto->n_points);
    plot_titles(stream, pareto->target, area, title, "");
    free(title);
    fputs("unset key\nset tics nomirror out scale 0.5\nset border 3\n", stream);
    fprintf(stream, "set xlabel 'memory (%s)", pareto->bytes.name);
    for (size_t c = 0; c < pareto->n_classes; c++)
        plot_terminal_legend_entry(stream, (char)('A' + c % 26), pareto->classes[c]);
    fprintf(stream, "'\nset ylabel 'step (%s)'\n", pareto->seconds.name);
    write_ranges(pareto);
    write_data(pareto);
    fputs("plot ", stream);
    for (size_t c = 0; c < pareto->n_classes; c++)
        fprintf(stream, "%s$class%zu using 1:2 with points pointtype '%c' notitle", c ? ", " : "", c,
                (char)('A' + c % 26));
    fputc('\n', stream);
}

bool plot_script_advice(const struct advice *advice, const struct plot_target *target, int width, FILE *stream)
{
    struct pareto pareto = {.advice = advice, .target = target, .stream = stream};
    pareto_init(&pareto);
    if (pareto.n_points == 0)
        fputs("# nothing fits, nothing is drawn\n", stream);
    else if (plot_on_terminal(target))
        write_terminal_plot(&pareto, width);
    else
        write_file_plot(&pareto);
    if (pareto.n_points)
        plot_end(stream);
    free(pareto.points);
    free(pareto.frontier);
    return !ferror(stream);
}
