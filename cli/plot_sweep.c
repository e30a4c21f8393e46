/* plot_sweep.c - what plots need of a sweep's JSON: keys become axis and series, points numbers, settings words. */
#include "cli/plot_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantity.h"
#include "cli/summary.h"
#include "cli/sweep_json.h"
#include "models/base/memory.h"
#include "models/input/units.h"

static const char *value_of(const json_t *point, const char *key)
{
    const char *value = json_string_value(json_object_get(json_object_get(point, "set"), key));
    return value ? value : "";
}

/* A number in one of the ways in which keys are written; `way` (-1: none yet) must be the same for all values. */
static bool parse_number(const char *text, int *way, double *value)
{
    uint64_t count;
    if (*way <= 0 && units_parse_count(text, &count)) {
        *way = 0;
        *value = (double)count;
        return true;
    }
    for (int dimension = DIMENSION_NUMBER; dimension <= DIMENSION_FLOPS; dimension++) {
        if ((*way < 0 || *way == dimension + 1) && units_parse(text, (enum dimension)dimension, value)) {
            *way = dimension + 1;
            return true;
        }
    }
    return false;
}

/* ---- the axis ---- */

static void add_x(struct sweep_data *data, const char *name)
{
    for (size_t i = 0; i < data->n_x; i++)
        if (strcmp(data->x_names[i], name) == 0)
            return;
    data->x_names = memory_resized(data->x_names, data->n_x + 1, sizeof *data->x_names);
    data->x_names[data->n_x++] = memory_text(name);
}

static void place_x(struct sweep_data *data)
{
    data->x_values = memory_zeroed(data->n_x, sizeof *data->x_values);
    int way = -1;
    data->numeric = data->n_x > 0;
    for (size_t i = 0; i < data->n_x; i++)
        data->numeric = data->numeric && parse_number(data->x_names[i], &way, &data->x_values[i]);
    data->x_min = INFINITY;
    data->x_max = -INFINITY;
    for (size_t i = 0; i < data->n_x; i++) {
        if (!data->numeric)
            data->x_values[i] = (double)i;
        data->x_min = fmin(data->x_min, data->x_values[i]);
        data->x_max = fmax(data->x_max, data->x_values[i]);
    }
    data->logarithmic = data->numeric && data->x_min > 0 && data->x_max >= 4 * data->x_min;
    data->x_is_cp = data->numeric && strcmp(data->x_name, sweep_cp_key) == 0;
}

static double x_of(const struct sweep_data *data, const char *name)
{
    for (size_t i = 0; i < data->n_x; i++)
        if (strcmp(data->x_names[i], name) == 0)
            return data->x_values[i];
    return 0;
}

/* ---- series ---- */

static char *joined(char *left, const char *separator, const char *right)
{
    char *text = *left ? memory_format("%s%s%s", left, separator, right) : memory_text(right);
    free(left);
    return text;
}

/* "cp 4", "overlap no", "cluster bandwidth 400 Gb/s" (of [level cluster]); words that speak for themselves stand alone:
 * "ring". */
static char *setting(const json_t *point, const char *key)
{
    const char *value = value_of(point, key), *dot = strrchr(key, '.');
    bool speaks = strchr("abcdefghijklmnopqrstuvwxyz", value[0]) && strcmp(value, "yes") != 0 &&
                  strcmp(value, "no") != 0 && strcmp(value, "none") != 0;
    if (*value && speaks)
        return memory_text(value);
    const char *blank = strchr(key, ' ');
    if (!dot || !blank || blank > dot)
        return memory_format("%s %s", dot ? dot + 1 : key, value);
    return memory_format("%.*s %s %s", (int)(dot - blank - 1), blank + 1, dot + 1, value);
}

static char *settings(const json_t *keys, const json_t *point, size_t first_key)
{
    char *text = memory_text("");
    for (size_t i = first_key; i < json_array_size(keys); i++) {
        char *one = setting(point, json_string_value(json_array_get(keys, i)));
        text = joined(text, ", ", one);
        free(one);
    }
    return text;
}

static size_t find_series(struct sweep_data *data, char *name)
{
    for (size_t i = 0; i < data->n_series; i++) {
        if (strcmp(data->series_names[i], name) == 0) {
            free(name);
            return i;
        }
    }
    data->series_names = memory_resized(data->series_names, data->n_series + 1, sizeof *data->series_names);
    data->series_names[data->n_series] = name;
    return data->n_series++;
}

/* ---- points ---- */

static void add_point(struct sweep_data *data, const json_t *keys, const json_t *point)
{
    const json_t *step = sweep_step(point);
    data->points = memory_resized(data->points, data->n_points + 1, sizeof *data->points);
    struct sweep_point *added = &data->points[data->n_points++];
    *added = (struct sweep_point){
        .series = find_series(data, settings(keys, point, 1)),
        .x = x_of(data, value_of(point, data->x_name)),
        .seconds = sweep_number(step, "seconds"),
        .exposed_seconds = sweep_number(step, "exposed_seconds"),
        .tflops = sweep_number(step, "tflops_per_rank"),
        .peak_bytes = sweep_memory_bytes(point),
    };
    data->max_seconds = fmax(data->max_seconds, added->seconds);
    data->max_peak_bytes = fmax(data->max_peak_bytes, added->peak_bytes);
    data->device_bytes = fmax(data->device_bytes, sweep_number(step, "device_bytes"));
}

static int compare_points(const void *left, const void *right)
{
    const struct sweep_point *a = left, *b = right;
    if (a->series != b->series)
        return a->series < b->series ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* Points are sorted: the first of a series has its smallest cp. */
static void compare_with_smallest_cp(struct sweep_data *data)
{
    const struct sweep_point *base = NULL;
    data->ideal_rank_seconds = INFINITY;
    for (size_t i = 0; i < data->n_points; i++) {
        struct sweep_point *point = &data->points[i];
        if (!base || base->series != point->series) {
            base = point;
            data->ideal_rank_seconds = fmin(data->ideal_rank_seconds, base->x * base->seconds);
        }
        double own = point->x * point->seconds;
        point->efficiency = own > 0 ? base->x * base->seconds / own : 1;
    }
}

/* ---- words ---- */

/* An effective value of the experiment as a title has it. The caller frees it. */
static char *effective_value(const json_t *run, const char *section, const char *key)
{
    const json_t *value = json_object_get(json_object_get(json_object_get(run, "experiment"), section), key);
    if (!json_is_integer(value))
        return memory_text(json_is_string(value) ? json_string_value(value) : "");
    return memory_text(text_of_count((uint64_t)json_integer_value(value)).text);
}

static bool is_swept(const json_t *keys, const char *section, const char *key)
{
    char *name = memory_format("%s.%s", section, key);
    bool swept = false;
    for (size_t i = 0; i < json_array_size(keys); i++)
        swept = swept || strcmp(json_string_value(json_array_get(keys, i)), name) == 0;
    free(name);
    return swept;
}

/* What all points have in common: the settings that are not swept, and the cluster. */
static char *make_title(const json_t *keys, const json_t *run)
{
    static const struct {
        const char *section, *key, *before, *after;
    } parts[] = {
        {"model", "name", "", ""},
        {"model", "dtype", "", ""},
        {"workload", "seq_len", "", " tokens"},
        {"workload", "new_tokens", "", " of them new"},
        {"workload", "mask", "", ""},
        {"workload", "pass", "", ""},
        {"parallel", "cp", "cp ", ""},
        {"schedule", "algorithm", "", ""},
        {"schedule", "sharding", "", ""},
    };
    char *title = memory_text("");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *key = strcmp(parts[i].key, "name") == 0 ? "preset" : parts[i].key; /* which gives the name */
        char *value = effective_value(run, parts[i].section, parts[i].key);
        bool nothing = *value == '\0' || (strcmp(key, "new_tokens") == 0 && strcmp(value, "0") == 0);
        if (!nothing && !is_swept(keys, parts[i].section, key)) {
            char *part = memory_format("%s%s%s", parts[i].before, value, parts[i].after);
            title = joined(title, ", ", part);
            free(part);
        }
        free(value);
    }
    char topology[128];
    const char *path = json_string_value(json_object_get(json_object_get(run, "topology"), "path"));
    summary_name(path ? path : "", topology, sizeof topology);
    return joined(title, ", on ", topology);
}

/* The fastest point, unless the points answer different questions. */
static char *make_answer(const json_t *sweep, size_t n_ran)
{
    const json_t *keys = json_object_get(sweep, "keys"), *points = json_object_get(sweep, "points");
    size_t n_points = json_array_size(points);
    char *counts = n_ran == n_points ? memory_format("%zu point%s", n_points, n_points == 1 ? "" : "s")
                                     : memory_format("%zu of %zu points ran", n_ran, n_points);
    bool one_question = true;
    for (size_t i = 0; i < json_array_size(keys); i++)
        one_question = one_question && !sweep_is_question(json_string_value(json_array_get(keys, i)));
    const json_t *best = NULL;
    bool *is_best = sweep_find_best(sweep);
    for (size_t i = 0; i < n_points && !best; i++)
        best = is_best[i] ? json_array_get(points, i) : NULL;
    free(is_best);
    if (!one_question || !best)
        return counts;
    double best_seconds = sweep_number(sweep_step(best), "seconds");
    char *which = settings(keys, best, 0);
    char *answer =
        memory_format("Fastest that fits: %s, %s a step (%s)", which, text_of_seconds(best_seconds).text, counts);
    free(which);
    free(counts);
    return answer;
}

void sweep_data_init(struct sweep_data *data, const json_t *sweep)
{
    *data = (struct sweep_data){.title = NULL};
    const json_t *keys = json_object_get(sweep, "keys"), *points = json_object_get(sweep, "points");
    const json_t *any_run = NULL;
    data->x_name = json_string_value(json_array_get(keys, 0));
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        if (!sweep_run_of(point))
            continue;
        any_run = sweep_run_of(point);
        add_x(data, value_of(point, data->x_name));
    }
    place_x(data);
    for (size_t i = 0; i < json_array_size(points); i++)
        if (sweep_run_of(json_array_get(points, i)))
            add_point(data, keys, json_array_get(points, i));
    if (data->n_points > 0)
        qsort(data->points, data->n_points, sizeof *data->points, compare_points);
    if (data->x_is_cp)
        compare_with_smallest_cp(data);
    data->title = make_title(keys, any_run);
    data->answer = make_answer(sweep, data->n_points);
}

void sweep_data_fini(struct sweep_data *data)
{
    for (size_t i = 0; i < data->n_x; i++)
        free(data->x_names[i]);
    for (size_t i = 0; i < data->n_series; i++)
        free(data->series_names[i]);
    free(data->x_names);
    free(data->x_values);
    free(data->series_names);
    free(data->points);
    free(data->title);
    free(data->answer);
}
