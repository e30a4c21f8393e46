/* plot_validation.c - a point a measurement, a colour and a mark a set; whiskers are the interval of the prediction and
 * the uncertainty of the measurement. Rates stand at the times that they stand for.
 */
#include "cli/plot_validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_square.h"
#include "models/base/memory.h"

struct drawing {
    const struct validation *validation;
    const struct plot_target *target;
    FILE *stream;
    struct plot_square square;
};

/* Memory is no time. */
static bool is_shown(const struct validation_row *row, const struct validated_row *result)
{
    return result->done && !metric_is_memory(row->metric);
}

static void find_range(struct drawing *drawing)
{
    const struct validation *validation = drawing->validation;
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < validation->sets.count; i++) {
        for (size_t k = 0; k < validation->sets.sets[i].n_rows; k++) {
            const struct validated_row *result = &validation->rows[i][k];
            if (!is_shown(&validation->sets.sets[i].rows[k], result))
                continue;
            low = fmin(low, fmin(result->measured_seconds, result->prediction.seconds));
            high = fmax(high, fmax(result->measured_seconds, result->prediction.seconds));
        }
    }
    drawing->square = (struct plot_square){.inner = 0.1, .outer = 0.25, .names = {"-25%", "-10%"}};
    plot_square_range(&drawing->square, high > 0 ? low : 1, high > 0 ? high : 1);
}

/* Per row: measured, its low and high, predicted, its low and high. */
static void write_data(const struct drawing *drawing)
{
    const struct validation *validation = drawing->validation;
    double unit = drawing->square.unit.size;
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        fprintf(drawing->stream, "$data%zu << EOD\n", i);
        for (size_t k = 0; k < set->n_rows; k++) {
            const struct validated_row *result = &validation->rows[i][k];
            if (!is_shown(&set->rows[k], result))
                continue;
            double measured = result->measured_seconds / unit, predicted = result->prediction.seconds / unit;
            double spread = 1 + set->rows[k].uncertainty;
            fprintf(drawing->stream, "%.9g %.9g %.9g %.9g %.9g %.9g\n", measured, measured / spread, measured * spread,
                    predicted, result->has_interval ? result->prediction.low / unit : predicted,
                    result->has_interval ? result->prediction.high / unit : predicted);
        }
        fputs("EOD\n", drawing->stream);
    }
}

static void write_axes(const struct drawing *drawing)
{
    plot_square_axis(&drawing->square, drawing->stream, 'x', true);
    plot_square_axis(&drawing->square, drawing->stream, 'y', true);
}

/* What all rows but those of doubtful sets say together. The caller frees it. */
static char *answer_of(const struct validation *validation)
{
    const struct validation_summary *all = &validation->all;
    size_t sets = 0;
    for (size_t i = 0; i < validation->sets.count; i++)
        sets += !validation_set_is_doubtful(&validation->sets.sets[i]);
    char *order = all->pairs ? memory_format("; %zu of %zu pairs in the right order", all->pairs_right, all->pairs)
                             : memory_text("");
    char *text = memory_format("%zu measurements of %zu set%s: median error %.1f %%, 90th percentile %.1f %%%s",
                               all->n_rows, sets, sets == 1 ? "" : "s", 100 * all->median, 100 * all->p90, order);
    free(order);
    return text;
}

/* ---- a file ---- */

#define TITLE_SHOWN 52        /* characters of a line of the legend that fit beside the panel */
#define BANDS_NAMED_RATIO 300 /* of the ends of an axis: on a longer one the names would meet */

static void write_set_title(const struct drawing *drawing, size_t set)
{
    const struct validation_summary *summary = &drawing->validation->summaries[set];
    char *text =
        memory_format("%.1f %%  %s", 100 * summary->median, validation_title(&drawing->validation->sets.sets[set]));
    size_t length = strlen(text);
    if (length > TITLE_SHOWN)
        snprintf(text + TITLE_SHOWN - 3, 4, "...");
    plot_text(drawing->stream, text);
    free(text);
}

/* Beside the panel, for titles are long: the sets and their median errors. */
static void write_legend(FILE *stream)
{
    fprintf(stream,
            "set key at screen %.6g,%.6g left top Left reverse vertical maxcols 1 samplen 1 spacing 1.3 font ',11'\n"
            "set label 20 'Median error' at screen %.6g,%.6g left textcolor '" PLOT_INK "'\n",
            plot_square_x(PLOT_SQUARE_LEFT + PLOT_SQUARE_SIDE + 60), plot_square_y(PLOT_HEAD + 28),
            plot_square_x(PLOT_SQUARE_LEFT + PLOT_SQUARE_SIDE + 66), plot_square_y(PLOT_HEAD + 10));
}

static void write_file_plot(const struct drawing *drawing)
{
    FILE *stream = drawing->stream;
    const struct validation *validation = drawing->validation;
    char *answer = answer_of(validation);
    plot_begin(stream, drawing->target, plot_square_area);
    plot_titles(stream, drawing->target, plot_square_area, "Predicted over published time", answer);
    free(answer);
    plot_square_panel(stream);
    write_legend(stream);
    write_axes(drawing);
    fputs("set xlabel 'measured'\nset ylabel 'predicted' offset 1,0\n", stream);
    if (drawing->square.high / drawing->square.low < BANDS_NAMED_RATIO)
        plot_square_band_names(&drawing->square, stream);
    plot_square_band_data(&drawing->square, stream);
    write_data(drawing);
    fputs("plot $band using 1:2:5 with filledcurves fillcolor '#eeeeee' title 'within 25%', \\\n"
          "    $band using 1:3:4 with filledcurves fillcolor '#d9d9d9' title 'within 10%', \\\n"
          "    $band using 1:1 with lines linecolor '" PLOT_FAINT "' linewidth 1.5 title 'equal'",
          stream);
    double size = validation->all.n_rows > 100 ? 0.8 : 1.2;
    for (size_t i = 0; i < validation->sets.count; i++) {
        if (validation->summaries[i].n_rows == 0)
            continue;
        const char *color = plot_square_color(i);
        fprintf(stream,
                ", \\\n    $data%zu using 1:4:2:3:5:6 with xyerrorbars pointtype -1 linecolor '%s' linewidth 0.8 "
                "notitle, \\\n    $data%zu using 1:4 with points pointtype %d pointsize %.9g linecolor '%s' title ",
                i, color, i, plot_square_point(i), size, color);
        write_set_title(drawing, i);
    }
    fputc('\n', stream);
    plot_end(stream);
}

/* ---- the terminal ---- */

/* Whether the legend fits on one line, behind the name of the axis. */
static bool names_fit(const struct validation *validation, int width)
{
    size_t length = strlen("measured");
    for (size_t i = 0; i < validation->sets.count; i++)
        length += strlen("  A ") + strlen(validation->sets.sets[i].name);
    return length < (size_t)width * 4 / 5;
}

static void write_terminal_plot(const struct drawing *drawing, int width)
{
    FILE *stream = drawing->stream;
    const struct validation *validation = drawing->validation;
    const struct plot_area area = {width, width * 2 / 5 > 34 ? 34 : width * 2 / 5};
    plot_begin(stream, drawing->target, area);
    plot_titles(stream, drawing->target, area, "Predicted over published time", "");
    fputs("unset key\nset tics nomirror out scale 0.5\nset border 3\n", stream);
    write_axes(drawing);
    fputs("set xlabel 'measured", stream);
    if (names_fit(validation, width))
        for (size_t i = 0; i < validation->sets.count; i++)
            plot_terminal_legend_entry(stream, (char)('A' + i % 26), validation->sets.sets[i].name);
    else
        fputs("  A, B, ...: the sets in their order", stream);
    fputs("'\nset ylabel 'predicted'\n", stream);
    write_data(drawing);
    fputs("set samples 200\nplot x with points pointtype '.' notitle", stream);
    for (size_t i = 0; i < validation->sets.count; i++)
        if (validation->summaries[i].n_rows)
            fprintf(stream, ", $data%zu using 1:4 with points pointtype '%c' notitle", i, (char)('A' + i % 26));
    fputc('\n', stream);
    plot_end(stream);
}

bool plot_script_validation(const struct validation *validation, const struct plot_target *target, int width,
                            FILE *stream)
{
    struct drawing drawing = {.validation = validation, .target = target, .stream = stream};
    find_range(&drawing);
    if (plot_on_terminal(target))
        write_terminal_plot(&drawing, width);
    else
        write_file_plot(&drawing);
    return !ferror(stream);
}
