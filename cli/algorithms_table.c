/* algorithms_table.c - all algorithms beside each other: what decides between them in one row each. */
#include <stdlib.h>
#include <string.h>

#include "cli/algorithms.h"
#include "cli/sweep_json.h"
#include "cli/text_table.h"
#include "cli/writers.h"
#include "models/base/memory.h"

struct columns {
    struct sweep_classes classes;
    struct unit seconds, memory, bytes;
};

static struct columns choose_columns(const json_t *points)
{
    struct columns columns = {0};
    double slowest = 0, largest = 0, most = 0;
    size_t i;
    json_t *point;
    json_array_foreach(points, i, point)
    {
        const json_t *step = sweep_step(point);
        slowest = sweep_number(step, "seconds") > slowest ? sweep_number(step, "seconds") : slowest;
        largest = sweep_memory_bytes(point) > largest ? sweep_memory_bytes(point) : largest;
        sweep_add_classes(&columns.classes, sweep_run_of(point));
    }
    json_array_foreach(points, i, point)
    {
        for (size_t c = 0; c < columns.classes.count; c++) {
            double bytes = sweep_class_bytes_per_rank(sweep_run_of(point), columns.classes.names[c]);
            most = bytes > most ? bytes : most;
        }
    }
    columns.seconds = fine_unit_of_seconds(slowest);
    columns.memory = unit_of_memory(largest);
    columns.bytes = unit_of_bytes(most);
    return columns;
}

static void add_headers(struct text_table *table, const json_t *keys, const struct columns *columns)
{
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key)
    {
        text_table_column(table, true, "%s", i ? json_string_value(key) : "algorithm");
    }
    text_table_column(table, true, "%s", "");
    text_table_column(table, false, "step\n%s", columns->seconds.name);
    text_table_column(table, false, "forward\n%s", columns->seconds.name);
    text_table_column(table, false, "backward\n%s", columns->seconds.name);
    text_table_column(table, false, "exposed\n%s", columns->seconds.name);
    text_table_column(table, false, "exposed\n%%");
    for (size_t c = 0; c < columns->classes.count; c++)
        text_table_column(table, false, "%s\n%s", columns->classes.names[c], columns->bytes.name);
    text_table_column(table, false, "imbalance");
    text_table_column(table, false, "memory\n%s", columns->memory.name);
    text_table_column(table, true, "fits");
}

static void add_point(struct text_table *table, const json_t *sweep, size_t index, bool best,
                      const struct columns *columns)
{
    const json_t *point = json_array_get(json_object_get(sweep, "points"), index), *step = sweep_step(point);
    sweep_table_add_settings(table, sweep, point);
    double seconds = sweep_number(step, "seconds"), exposed = sweep_number(step, "exposed_seconds");
    text_table_cell(table, "%s", best ? "*" : "");
    text_table_number(table, seconds, columns->seconds);
    text_table_number(table, sweep_number(step, "forward_seconds"), columns->seconds);
    text_table_number(table, sweep_number(step, "backward_seconds"), columns->seconds);
    text_table_number(table, exposed, columns->seconds);
    text_table_cell(table, "%.1f", seconds > 0 ? 100 * exposed / seconds : 0);
    for (size_t c = 0; c < columns->classes.count; c++)
        text_table_number(table, sweep_class_bytes_per_rank(sweep_run_of(point), columns->classes.names[c]),
                          columns->bytes);
    text_table_cell(table, "%.3f", sweep_number(step, "imbalance"));
    text_table_number(table, sweep_memory_bytes(point), columns->memory);
    text_table_cell(table, "%s", json_is_true(json_object_get(step, "fits")) ? "yes" : "NO");
}

/* "ring, schedule.sharding=striped" */
static char *name_of(const json_t *sweep, const json_t *point)
{
    char *name = memory_text("");
    size_t i;
    json_t *key;
    json_array_foreach(json_object_get(sweep, "keys"), i, key)
    {
        const char *text = json_string_value(key);
        const json_t *value = json_object_get(json_object_get(point, "set"), text);
        char *longer = memory_format("%s%s%s%s%s", name, i ? ", " : "", i ? text : "", i ? "=" : "",
                                     json_is_string(value) ? json_string_value(value) : "");
        free(name);
        name = longer;
    }
    return name;
}

static void print_refusals(const json_t *sweep, FILE *stream)
{
    size_t i, k;
    json_t *point, *line;
    bool any = false;
    json_array_foreach(json_object_get(sweep, "points"), i, point)
    {
        json_array_foreach(json_object_get(point, "error"), k, line)
        {
            if (!any)
                fputs("\ndo not apply:\n", stream);
            any = true;
            char *name = k == 0 ? name_of(sweep, point) : memory_text("");
            fprintf(stream, "  %-16s %s\n", name, json_string_value(line));
            free(name);
        }
    }
}

bool algorithms_table_write(const json_t *sweep, FILE *stream)
{
    const json_t *points = json_object_get(sweep, "points");
    struct columns columns = choose_columns(points);
    size_t *order = algorithms_order(sweep);
    bool *best = sweep_find_best(sweep);
    struct text_table table;
    text_table_init(&table);
    add_headers(&table, json_object_get(sweep, "keys"), &columns);
    for (size_t i = 0; i < json_array_size(points); i++)
        if (sweep_step(json_array_get(points, order[i])))
            add_point(&table, sweep, order[i], best[order[i]], &columns);
    text_table_print(&table, stream);
    text_table_fini(&table);
    free(order);
    free(best);
    fputs("* the fastest that fits; best first\n", stream);
    if (columns.classes.count)
        fputs("bytes over the links of each class, per rank\n", stream);
    print_refusals(sweep, stream);
    if (!sweep_is_complete(sweep))
        fputs("incomplete: stopped before all points were predicted; the fastest is that of those above\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
