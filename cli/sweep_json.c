/* sweep_json.c - nothing here fails: what is missing is NULL, 0 or no. */
#include "cli/sweep_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"

const char sweep_cp_key[] = "parallel.cp";

const json_t *sweep_run_of(const json_t *point)
{
    return json_object_get(point, "run");
}

const json_t *sweep_step(const json_t *point)
{
    return json_object_get(sweep_run_of(point), "step");
}

bool sweep_is_complete(const json_t *sweep)
{
    return !json_is_false(json_object_get(sweep, "complete"));
}

double sweep_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

double sweep_memory_bytes(const json_t *point)
{
    return sweep_number(sweep_step(point), "peak_bytes") +
           sweep_number(json_object_get(sweep_run_of(point), "memory"), "reserve");
}

bool sweep_is_question(const char *key)
{
    return strncmp(key, "model.", 6) == 0 || strncmp(key, "workload.", 9) == 0;
}

/* The values of the keys that matter, as one text; the caller frees it. */
static char *values_of(const json_t *keys, const json_t *point, bool (*matters)(const char *key))
{
    char *text = NULL;
    size_t size = 0, i;
    json_t *key;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("");
    json_array_foreach(keys, i, key)
    {
        const json_t *value = json_object_get(json_object_get(point, "set"), json_string_value(key));
        if (value && matters(json_string_value(key)))
            json_dumpf(value, stream, JSON_ENCODE_ANY);
        fputc('\n', stream);
    }
    fclose(stream);
    return text;
}

/* A set of points that are alike. */
struct alike {
    char *values; /* the key */
    size_t first;
    UT_hash_handle hh;
};

size_t *sweep_first_alike(const json_t *sweep, bool (*matters)(const char *key))
{
    const json_t *keys = json_object_get(sweep, "keys"), *points = json_object_get(sweep, "points");
    size_t *first = memory_zeroed(json_array_size(points), sizeof *first), i;
    struct alike *sets = NULL, *next;
    json_t *point;
    json_array_foreach(points, i, point)
    {
        char *values = values_of(keys, point, matters);
        struct alike *set;
        HASH_FIND_STR(sets, values, set);
        if (!set) {
            set = memory_zeroed(1, sizeof *set);
            *set = (struct alike){.values = values, .first = i};
            HASH_ADD_KEYPTR(hh, sets, values, strlen(values), set);
        } else {
            free(values);
        }
        first[i] = set->first;
    }
    for (struct alike *set = sets; set; set = next) {
        next = set->hh.next;
        HASH_DEL(sets, set);
        free(set->values);
        free(set);
    }
    return first;
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

/* Of a whole run or a summary. */
static double n_ranks(const json_t *run)
{
    const json_t *ranks = json_object_get(run, "ranks");
    return ranks ? (double)json_array_size(ranks) : sweep_number(run, "n_ranks");
}

double sweep_class_bytes_per_rank(const json_t *run, const char *class)
{
    size_t i;
    json_t *link;
    json_array_foreach(json_object_get(run, "links"), i, link)
    {
        if (strcmp(json_string_value(json_object_get(link, "class")), class) == 0)
            return sweep_number(link, "bytes") / n_ranks(run);
    }
    return 0;
}

bool *sweep_find_best(const json_t *sweep)
{
    const json_t *points = json_object_get(sweep, "points");
    size_t count = json_array_size(points), *first = sweep_first_alike(sweep, sweep_is_question), i;
    size_t *best = memory_zeroed(count, sizeof *best); /* of the question whose first point is this one; 1 above */
    bool *is_best = memory_zeroed(count, sizeof *is_best);
    json_t *point;
    json_array_foreach(points, i, point)
    {
        const json_t *step = sweep_step(point);
        size_t *rival = &best[first[i]];
        if (!json_is_true(json_object_get(step, "fits")))
            continue;
        const json_t *theirs = *rival ? sweep_step(json_array_get(points, *rival - 1)) : NULL;
        if (!theirs || sweep_number(step, "seconds") < sweep_number(theirs, "seconds"))
            *rival = i + 1;
    }
    for (i = 0; i < count; i++)
        if (best[i])
            is_best[best[i] - 1] = true;
    free(best);
    free(first);
    return is_best;
}
