/* validated.h - for tests: sets of made-up measurements, and what --validate says of them. Include after cmocka.h. */
#ifndef CPSIM_TESTS_CLI_VALIDATED_H
#define CPSIM_TESTS_CLI_VALIDATED_H

#include <math.h>

#include <jansson.h>

#include "tests/cli/expect.h"

/* Writes FOLDER/NAME below the test's folder. */
static inline void write_file(const char *folder, const char *name, const char *text)
{
    char *path = memory_format("%s/%s", test_folder(), folder), *make = memory_format("mkdir -p '%s'", path);
    assert_int_equal(system(make), 0);
    char *file = memory_format("%s/%s", path, name);
    FILE *stream = fopen(file, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
    free(file);
    free(make);
    free(path);
}

/* Writes a set NAME.ini with its rows in NAME.csv; frees `ini`. */
static inline void write_published(const char *folder, const char *name, char *ini, const char *rows)
{
    char *ini_name = memory_format("%s.ini", name), *csv_name = memory_format("%s.csv", name);
    write_file(folder, ini_name, ini);
    write_file(folder, csv_name, rows);
    free(ini);
    free(ini_name);
    free(csv_name);
}

static inline const json_t *set_of(const json_t *validation, size_t index)
{
    return json_array_get(json_object_get(validation, "sets"), index);
}

static inline const json_t *row_of(const json_t *validation, size_t set, size_t index)
{
    return json_array_get(json_object_get(set_of(validation, set), "rows"), index);
}

static inline void assert_number(const json_t *object, const char *key, double expected, double tolerance)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) || !(fabs(json_number_value(value) - expected) <= tolerance))
        fail_msg("'%s' is %.17g, expected %.17g", key, json_number_value(value), expected);
}

#endif
