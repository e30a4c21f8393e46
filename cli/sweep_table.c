/* sweep_table.c - a sweep (cpsim.sweep/1) as one table: a row a point, swept keys first.
 *
 * The best point of each question is marked. Where cp is swept, speed-up and efficiency compare with the smallest cp of
 * the otherwise same setting: the same whole sequence on fewer ranks, never a shorter one.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/sweep_json.h"
#include "cli/text_table.h"
#include "cli/writers.h"
#include "models/base/memory.h"

/* The degree of context parallelism of a point that ran. */
static double cp_of(const json_t *point)
{
    const json_t *value = json_object_get(json_object_get(point, "run"), "experiment");
    value = json_object_get(json_object_get(value, "parallel"), "cp");
    if (!value)
        value = json_object_get(json_object_get(point, "set"), sweep_cp_key);
    return json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
}

static bool is_not_cp(const char *key)
{
    return strcmp(key, sweep_cp_key) != 0;
}

/* For each point the one with the smallest cp that ran, of those that differ from it in cp only; itself if none ran. */
static size_t *find_baselines(const json_t *sweep)
{
    const json_t *points = json_object_get(sweep, "points");
    size_t count = json_array_size(points), *first = sweep_first_alike(sweep, is_not_cp);
    size_t *least = memory_zeroed(count, sizeof *least); /* of the points alike with this first one; 1 above */
    for (size_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(points, i);
        size_t *rival = &least[first[i]];
        if (sweep_step(point) && (*rival == 0 || cp_of(point) < cp_of(json_array_get(points, *rival - 1))))
            *rival = i + 1;
    }
    for (size_t i = 0; i < count; i++)
        first[i] = least[first[i]] ? least[first[i]] - 1 : i;
    free(least);
    return first;
}

struct columns {
    bool speedup, layers;
    struct unit seconds, memory;
};

static struct columns choose_columns(const json_t *sweep)
{
    struct columns columns = {0};
    double slowest = 0, largest = 0;
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(sweep, "keys"), i, item)
    {
        columns.speedup = columns.speedup || !is_not_cp(json_string_value(item));
    }
    json_array_foreach(json_object_get(sweep, "points"), i, item)
    {
        const json_t *step = sweep_step(item);
        slowest = sweep_number(step, "seconds") > slowest ? sweep_number(step, "seconds") : slowest;
        columns.layers |= json_object_get(step, "tokens_per_second_per_gpu") != NULL;
        largest = sweep_memory_bytes(item) > largest ? sweep_memory_bytes(item) : largest;
    }
    columns.seconds = fine_unit_of_seconds(slowest);
    columns.memory = unit_of_memory(largest);
    return columns;
}

static void add_headers(struct text_table *table, const json_t *keys, const struct columns *columns)
{
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key)
    {
        text_table_column(table, true, "%s", json_string_value(key));
    }
    text_table_column(table, true, "%s", "");
    text_table_column(table, false, "step\n%s", columns->seconds.name);
    text_table_column(table, false, "forward\n%s", columns->seconds.name);
    text_table_column(table, false, "backward\n%s", columns->seconds.name);
    text_table_column(table, false, "TFLOP/s\nper GPU");
    if (columns->layers) {
        text_table_column(table, false, "tokens/s\nper GPU");
        text_table_column(table, false, "MFU\n%%");
    }
    text_table_column(table, false, "exposed\n%%");
    text_table_column(table, false, "overlap\n%%");
    text_table_column(table, false, "imbalance");
    if (columns->speedup) {
        text_table_column(table, false, "speed-up");
        text_table_column(table, false, "efficiency\n%%");
    }
    text_table_column(table, false, "memory\n%s", columns->memory.name);
    text_table_column(table, true, "fits");
}

void sweep_table_add_settings(struct text_table *table, const json_t *sweep, const json_t *point)
{
    size_t i;
    json_t *key;
    json_array_foreach(json_object_get(sweep, "keys"), i, key)
    {
        const json_t *value = json_object_get(json_object_get(point, "set"), json_string_value(key));
        if (json_is_string(value))
            text_table_cell(table, "%s", json_string_value(value));
        else
            text_table_cell(table, "%.17g", json_number_value(value));
    }
}

/* What a row needs to know of the whole. */
struct standing {
    bool best;
    const json_t *baseline;
};

static void add_point(struct text_table *table, const json_t *sweep, size_t index, const struct standing *standing,
                      const struct columns *columns)
{
    const json_t *point = json_array_get(json_object_get(sweep, "points"), index), *step = sweep_step(point);
    sweep_table_add_settings(table, sweep, point);
    text_table_cell(table, "%s", standing->best ? "*" : "");
    if (!step) {
        text_table_cell(table, "no run");
        text_table_end_row(table);
        return;
    }
    double seconds = sweep_number(step, "seconds");
    text_table_number(table, seconds, columns->seconds);
    text_table_number(table, sweep_number(step, "forward_seconds"), columns->seconds);
    text_table_number(table, sweep_number(step, "backward_seconds"), columns->seconds);
    text_table_cell(table, "%s", text_of_number(sweep_number(step, "tflops_per_rank")).text);
    bool layers = json_object_get(step, "tokens_per_second_per_gpu") != NULL;
    if (columns->layers && !layers) {
        text_table_cell(table, "-");
        text_table_cell(table, "-");
    } else if (columns->layers) {
        text_table_cell(table, "%s", text_of_number(sweep_number(step, "tokens_per_second_per_gpu")).text);
        text_table_cell(table, "%.1f", 100 * sweep_number(step, "mfu"));
    }
    text_table_cell(table, "%.1f", seconds > 0 ? 100 * sweep_number(step, "exposed_seconds") / seconds : 0);
    text_table_cell(table, "%.1f", 100 * sweep_number(step, "overlap_efficiency"));
    text_table_cell(table, "%.3f", sweep_number(step, "imbalance"));
    if (columns->speedup) {
        const json_t *base = standing->baseline;
        double speedup = seconds > 0 ? sweep_number(sweep_step(base), "seconds") / seconds : 1;
        text_table_cell(table, "%s", text_of_number(speedup).text);
        text_table_cell(table, "%.1f", 100 * speedup * cp_of(base) / cp_of(point));
    }
    text_table_number(table, sweep_memory_bytes(point), columns->memory);
    text_table_cell(table, "%s", json_is_true(json_object_get(step, "fits")) ? "yes" : "NO");
}

static bool any_without_run(const json_t *sweep)
{
    size_t i;
    json_t *point;
    json_array_foreach(json_object_get(sweep, "points"), i, point)
    {
        if (!sweep_step(point))
            return true;
    }
    return false;
}

bool sweep_table_write(const json_t *sweep, FILE *stream)
{
    const json_t *points = json_object_get(sweep, "points");
    struct columns columns = choose_columns(sweep);
    struct text_table table;
    text_table_init(&table);
    add_headers(&table, json_object_get(sweep, "keys"), &columns);
    bool *best = sweep_find_best(sweep);
    size_t *baselines = find_baselines(sweep);
    for (size_t i = 0; i < json_array_size(points); i++) {
        const struct standing standing = {best[i], json_array_get(points, baselines[i])};
        add_point(&table, sweep, i, &standing, &columns);
    }
    free(best);
    free(baselines);
    text_table_print(&table, stream);
    text_table_fini(&table);
    fputs("* the fastest that fits\n", stream);
    if (columns.speedup)
        fputs("speed-up and efficiency: against the smallest cp of the same setting\n", stream);
    if (any_without_run(sweep))
        fputs("no run: the messages say why\n", stream);
    if (!sweep_is_complete(sweep))
        fputs("incomplete: stopped before all points were predicted; the fastest is that of those above\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
