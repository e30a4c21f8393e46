/* validation_label.c - what tells a row from the others of its set: the columns that differ, and words where those do
 * not tell it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantity.h"
#include "cli/validation_set.h"
#include "models/base/memory.h"
#include "models/input/units.h"

/* Appends a word, separated by a comma from what stands before it. */
static void append(FILE *stream, bool *any, const char *word)
{
    fprintf(stream, "%s%s", *any ? ", " : "", word);
    *any = true;
}

/* The last part of a key: "cp" of "parallel.cp". */
static const char *short_key(const char *key)
{
    return strrchr(key, '.') + 1;
}

static bool column_varies(const struct validation_set *set, size_t column)
{
    for (size_t i = 1; i < set->n_rows; i++)
        if (strcmp(set->rows[i].cells[column], set->rows[0].cells[column]) != 0)
            return true;
    return false;
}

/* A number alone says nothing; a word does. */
static void append_cell(FILE *stream, bool *any, const char *key, const char *cell)
{
    if (*cell == '\0')
        return;
    bool word = strcmp(cell, "yes") != 0 && strcmp(cell, "no") != 0 && strspn(cell, "0123456789") == 0;
    char *text = word ? memory_text(cell) : memory_format("%s %s", short_key(key), cell);
    append(stream, any, text);
    free(text);
}

/* "64 MiB" where a binary unit divides the bytes, else "16.4 MB". */
static struct short_text text_of_size(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    struct short_text text;
    size_t unit = 0;
    for (uint64_t rest = bytes; unit + 1 < sizeof units / sizeof *units && rest % 1024 == 0; rest /= 1024)
        unit++;
    uint64_t count = bytes >> (10 * unit);
    if (count < 10000)
        snprintf(text.text, sizeof text.text, "%" PRIu64 " %s", count, units[unit]);
    else
        units_print(text.text, sizeof text.text, DIMENSION_BYTES, (double)bytes);
    return text;
}

/* Whether another row has the same columns: then only its note tells it apart. */
static bool has_twin(const struct validation_set *set, const struct validation_row *row)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct validation_row *other = &set->rows[i];
        bool same = other != row && other->metric == row->metric && other->pattern == row->pattern &&
                    other->ranks == row->ranks && other->bytes == row->bytes;
        for (size_t k = 0; k < set->n_columns && same; k++)
            same = strcmp(other->cells[k], row->cells[k]) == 0;
        if (same)
            return true;
    }
    return false;
}

/* Of what a metric is, in words; "": of the step's time. */
static const char *about(enum metric metric)
{
    if (metric_is_memory(metric))
        return "memory";
    if (metric == METRIC_FORWARD_SECONDS || metric == METRIC_FORWARD_TFLOPS_PER_RANK)
        return "forward alone";
    if (metric == METRIC_BACKWARD_SECONDS || metric == METRIC_BACKWARD_TFLOPS_PER_RANK)
        return "backward alone";
    return "";
}

static bool has_other_metric(const struct validation_set *set, const struct validation_row *row)
{
    for (size_t i = 0; i < set->n_rows; i++)
        if (set->rows[i].metric != row->metric)
            return true;
    return false;
}

char *validation_row_label(const struct validation_set *set, const struct validation_row *row)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("");
    bool any = false;
    if (validation_set_is_links(set)) {
        append(stream, &any, benchmark_pattern_name(row->pattern));
        char *ranks = memory_format("%u ranks", row->ranks);
        append(stream, &any, ranks);
        append(stream, &any, text_of_size(row->bytes).text);
        free(ranks);
    }
    for (size_t i = 0; i < set->n_columns; i++)
        if (column_varies(set, i))
            append_cell(stream, &any, set->columns[i], row->cells[i]);
    const char *what = about(row->metric);
    if (*what && has_other_metric(set, row))
        append(stream, &any, what);
    if (has_twin(set, row) && *row->note)
        append(stream, &any, row->note);
    if (!any) {
        char *line = memory_format("line %d", row->line);
        append(stream, &any, *row->note ? row->note : line);
        free(line);
    }
    fclose(stream);
    return text;
}
