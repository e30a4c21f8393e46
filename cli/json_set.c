/* json_set.c - members of JSON objects that any value can become. */
#include "cli/json_set.h"

#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

void json_set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

void json_set_count(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

void json_set_flag(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

void json_set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, json_text(text ? text : ""));
}

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char *readable = memory_text(text);
    for (char *c = readable; *c; c++)
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    string = json_string(readable);
    free(readable);
    return string;
}

json_t *json_mechanisms(mechanism_set set)
{
    json_t *names = json_array();
    for (int m = 0; m < MECHANISM_COUNT; m++)
        if (!mechanism_counts(set, (enum mechanism)m))
            json_array_append_new(names, json_text(mechanism_name((enum mechanism)m)));
    return names;
}
