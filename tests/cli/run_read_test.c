/* Runs read back: what is not compared is passed over, everything else is as it stands in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "cli/run_read.h"

static json_t *read_text(const char *text, json_error_t *error)
{
    FILE *stream = fmemopen((char *)text, strlen(text), "r");
    json_t *json = run_read(stream, error);
    fclose(stream);
    return json;
}

static void expect_read(const char *text, const char *expected)
{
    json_error_t error;
    json_t *json = read_text(text, &error), *other = json_loads(expected, 0, NULL);
    assert_non_null(other);
    if (!json || !json_equal(json, other))
        fail_msg("'%s' is not '%s': %s", text, expected, json ? "otherwise" : error.text);
    json_decref(json);
    json_decref(other);
}

static void ranks_of_runs_are_empty(void **state)
{
    (void)state;
    expect_read("{\"ranks\": [{\"rank\": 0, \"x\": [1, [2]]}, {\"a]\": \"]\\\"]\"}], \"step\": {\"seconds\": 1}}",
                "{\"ranks\": [], \"step\": {\"seconds\": 1}}");
    expect_read("{\"a\":\"x\",\"ranks\":[],\"b\":[1,2]}", "{\"a\":\"x\",\"ranks\":[],\"b\":[1,2]}");
    expect_read("{\"points\": [{\"set\": {}, \"run\": {\"ranks\" : \n[1, 2], \"step\": 3}}, {\"error\": [\"ranks\"]}]}",
                "{\"points\": [{\"set\": {}, \"run\": {\"ranks\": [], \"step\": 3}}, {\"error\": [\"ranks\"]}]}");
}

static void what_is_only_called_so_is_not(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"timing\": {\"ranks\": [1, 2]}}",
        "{\"ranks\": 3, \"a\": [1]}",
        "{\"ranks\": {\"a\": [1]}}",
        "{\"rank\": [1], \"ranksx\": [2], \"xranks\": [3], \"ranks\\\"\": [4], \"rank\\u0073\": 5}",
        "{\"a\": \"ranks\", \"b\": [1, \"ranks\", [2]]}",
        "[\"ranks\", [1]]",
        "{\"text\": \"\\\"ranks\\\": [1]\", \"b\": [\"ranks: [\"]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_read(texts[i], texts[i]);
}

/* Longer than any buffer on the way. */
static void length_does_not_matter(void **state)
{
    (void)state;
    static char text[700000], expected[700000];
    for (size_t padding = 65500; padding < 65560; padding++) {
        strcpy(text, "{\"a\": \"");
        memset(text + strlen(text), 'x', padding);
        strcpy(text + strlen("{\"a\": \"") + padding, "\", \"ranks\": [");
        strcpy(expected, text);
        strcat(expected, "], \"b\": 1}");
        size_t length = strlen(text);
        for (size_t i = 0; i < 5000; i++, length += 12)
            memcpy(text + length, "{\"r\": \"[{\"},", 12);
        strcpy(text + length, "{}], \"b\": 1}");
        expect_read(text, expected);
    }
}

static void errors_are_where_they_stand(void **state)
{
    (void)state;
    json_error_t error;
    assert_null(read_text("{\"ranks\": [\n{},\n{}\n],\n\"b\": nothing}", &error));
    assert_int_equal(error.line, 5);
    assert_null(read_text("{\"ranks\": [\n{},\n", &error));
    assert_null(read_text("{\"ranks\": [1, \"", &error));
    assert_null(read_text("{\"ranks\": [], \"ranks\": []}", &error));
    assert_non_null(strstr(error.text, "duplicate"));
    assert_null(read_text("]]]{\"ranks\": [1]}", &error));
    assert_null(read_text("\"ranks\": [1]", &error));
    assert_null(read_text("\\", &error));
    assert_null(read_text(" ", &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_runs_are_empty),
        cmocka_unit_test(what_is_only_called_so_is_not),
        cmocka_unit_test(length_does_not_matter),
        cmocka_unit_test(errors_are_where_they_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
