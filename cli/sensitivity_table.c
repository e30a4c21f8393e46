/* sensitivity_table.c - elasticities for people: a bar each, on the left of the axis where more of it is faster. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sensitivity.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/base/memory.h"
#include "models/input/units.h"

#define BAR_MAX 24

static void write_head(const struct sensitivity *sensitivity, FILE *stream)
{
    const struct prediction *prediction = &sensitivity->prediction;
    char experiment[512];
    summary_experiment(&prediction->experiment, experiment, sizeof experiment);
    fprintf(stream, "question  %s\n", experiment);
    fprintf(stream, "cluster   %s, %s; %s engine\n", prediction->topology_name, prediction->device.name,
            prediction->engine->name);
    fprintf(stream, "step      %s; each constant raised and lowered by %.0f %%\n\n",
            text_of_seconds(sensitivity->seconds).text, 100 * SENSITIVITY_STEP);
}

static void write_bar(char bar[BAR_MAX + 1], double slope, double steepest)
{
    int length = steepest > 0 ? (int)(BAR_MAX * fabs(slope) / steepest + 0.5) : 0;
    memset(bar, '#', (size_t)length);
    bar[length] = '\0';
}

static void add_row(struct text_table *table, const struct sensitivity_row *row, double steepest)
{
    char value[48], bar[BAR_MAX + 1];
    units_print(value, sizeof value, row->constant->dimension, row->constant->value);
    write_bar(bar, row->elasticity.both, steepest);
    text_table_cell(table, "%s", row->constant->name);
    text_table_cell(table, "%s", value);
    text_table_cell(table, fabs(row->elasticity.both) < 0.0005 ? "%+.0e" : "%+.3f", row->elasticity.both);
    text_table_cell(table, "%s", bar);
    if (row->kink)
        text_table_cell(table, "kink: %+.3f if lowered, %+.3f if raised", row->elasticity.lowered,
                        row->elasticity.raised);
    text_table_end_row(table);
}

static void write_rows(const struct sensitivity *sensitivity, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "constant");
    text_table_column(&table, false, "value");
    text_table_column(&table, false, "elasticity");
    text_table_column(&table, true, "%s", "");
    text_table_column(&table, true, "%s", "");
    double steepest = sensitivity->n_effects ? fabs(sensitivity->rows[0].elasticity.both) : 0;
    for (size_t i = 0; i < sensitivity->n_effects; i++)
        add_row(&table, &sensitivity->rows[i], steepest);
    text_table_print(&table, stream);
    text_table_fini(&table);
}

#define WIDTH 100

static void write_idle_levels(const struct sensitivity *sensitivity, FILE *stream)
{
    const struct topology *topology = &sensitivity->prediction.topology;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        if (!sensitivity->crosses[k])
            fprintf(stream, "no message crosses level %s: none of its keys has an effect in this run\n",
                    topology->levels[k].name);
}

static void write_idle_overrides(const struct sensitivity *sensitivity, FILE *stream)
{
    for (uint32_t number = 0; number < sensitivity->n_overrides; number++)
        if (sensitivity->idle_overrides[number])
            fprintf(stream, "no rank and no message uses what [%s] is about: it has no effect in this run\n",
                    overrides_name(&sensitivity->prediction.topology, number));
}

/* The names of the constants without effect, or of those that are left, behind `head`. */
static void write_names(const struct sensitivity *sensitivity, const char *head, bool left, FILE *stream)
{
    size_t column = 0;
    for (size_t i = sensitivity->n_effects; i < sensitivity->n_rows; i++) {
        const struct constant *constant = sensitivity->rows[i].constant;
        bool told =
            sensitivity_level_is_idle(sensitivity, constant) || sensitivity_override_is_idle(sensitivity, constant);
        if (sensitivity->rows[i].left != left || (!left && told))
            continue;
        if (column == 0)
            column = (size_t)fprintf(stream, "%s", head);
        else
            column += (size_t)fprintf(stream, ",");
        if (column + 2 + strlen(constant->name) > WIDTH)
            column = (size_t)fprintf(stream, "\n ") - 1;
        column += (size_t)fprintf(stream, " %s", constant->name);
    }
    if (column)
        fputc('\n', stream);
}

static size_t count_kinks(const struct sensitivity *sensitivity)
{
    size_t kinks = 0;
    for (size_t i = 0; i < sensitivity->n_effects; i++)
        kinks += sensitivity->rows[i].kink;
    return kinks;
}

bool sensitivity_table_write(const struct sensitivity *sensitivity, FILE *stream)
{
    write_head(sensitivity, stream);
    write_rows(sensitivity, stream);
    if (sensitivity->n_effects < sensitivity->n_rows)
        fputc('\n', stream);
    write_idle_levels(sensitivity, stream);
    write_idle_overrides(sensitivity, stream);
    write_names(sensitivity, "no effect in this run:", false, stream);
    write_names(sensitivity, "not reached:", true, stream);
    fputs("\nelasticity: percent by which the step grows for one percent more of the constant\n", stream);
    if (count_kinks(sensitivity))
        fputs("kink: between two bottlenecks, where more and less of it do not do the same\n", stream);
    if (sensitivity->n_left) {
        fprintf(stream, "incomplete: %zu of %zu constants were not reached, so there is no sum\n", sensitivity->n_left,
                sensitivity->n_rows);
        return fflush(stream) == 0 && !ferror(stream);
    }
    fprintf(stream,
            "sum over rates less sum over times %+.4f; all of them faster at once %+.4f: -1 whatever the machine%s\n"
            "shares have no unit of time and no part in it; counts (processors, channels, ...) are not varied\n",
            sensitivity->sum, sensitivity->all.both, count_kinks(sensitivity) ? ", the sum but for its kinks" : "");
    return fflush(stream) == 0 && !ferror(stream);
}
