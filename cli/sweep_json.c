/* sweep_json.c - nothing here fails: what is missing is NULL, 0 or no. */
#include "cli/sweep_json.h"

#include <string.h>

const char sweep_cp_key[] = "parallel.cp";

const json_t *sweep_run_of(const json_t *point)
{
    return json_object_get(point, "run");
}

const json_t *sweep_step(const json_t *point)
{
    return json_object_get(sweep_run_of(point), "step");
}

double sweep_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

bool sweep_is_question(const char *key)
{
    return strncmp(key, "model.", 6) == 0 || strncmp(key, "workload.", 9) == 0;
}

bool sweep_points_agree(const json_t *keys, const json_t *a, const json_t *b, bool (*matters)(const char *key))
{
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key)
    {
        const char *name = json_string_value(key);
        const json_t *left = json_object_get(json_object_get(a, "set"), name);
        const json_t *right = json_object_get(json_object_get(b, "set"), name);
        if (matters(name) && left != right && !json_equal(left, right))
            return false;
    }
    return true;
}

void sweep_add_classes(struct sweep_classes *classes, const json_t *run)
{
    size_t i;
    json_t *link;
    json_array_foreach(json_object_get(run, "links"), i, link)
    {
        const char *name = json_string_value(json_object_get(link, "class"));
        size_t at = 0;
        while (at < classes->count && strcmp(classes->names[at], name) != 0)
            at++;
        if (at == classes->count && at < SWEEP_CLASSES_MAX)
            classes->names[classes->count++] = name;
    }
}

double sweep_class_bytes_per_rank(const json_t *run, const char *class)
{
    size_t i;
    json_t *link;
    json_array_foreach(json_object_get(run, "links"), i, link)
    {
        if (strcmp(json_string_value(json_object_get(link, "class")), class) == 0)
            return sweep_number(link, "bytes") / (double)json_array_size(json_object_get(run, "ranks"));
    }
    return 0;
}

bool sweep_is_best(const json_t *sweep, size_t index)
{
    const json_t *keys = json_object_get(sweep, "keys"), *points = json_object_get(sweep, "points");
    const json_t *point = json_array_get(points, index), *step = sweep_step(point);
    if (!json_is_true(json_object_get(step, "fits")))
        return false;
    double seconds = sweep_number(step, "seconds");
    size_t i;
    json_t *other;
    json_array_foreach(points, i, other)
    {
        const json_t *rival = sweep_step(other);
        if (i == index || !json_is_true(json_object_get(rival, "fits")) ||
            !sweep_points_agree(keys, point, other, sweep_is_question))
            continue;
        double theirs = sweep_number(rival, "seconds");
        if (theirs < seconds || (theirs <= seconds && i < index))
            return false;
    }
    return true;
}
