/* JSON written member by member: the bytes of jansson's tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_set.h"
#include "cli/json_writer.h"
#include "cli/writers.h"

static FILE *open_text(char **text, size_t *size)
{
    *text = NULL;
    FILE *stream = open_memstream(text, size);
    assert_non_null(stream);
    return stream;
}

static char *printed(const json_t *json)
{
    char *text;
    size_t size;
    FILE *stream = open_text(&text, &size);
    assert_true(json_print(json, stream));
    fclose(stream);
    return text;
}

static void expect_same(char *written, json_t *json)
{
    char *expected = printed(json);
    assert_string_equal(written, expected);
    free(expected);
    free(written);
    json_decref(json);
}

static const char *const texts[] = {"",
                                    "plain",
                                    "a \"quote\"",
                                    "back\\slash",
                                    "tab\tand\nline",
                                    "\x01",
                                    "\x7f",
                                    "gr\xc3\xbc\xc3\x9f"
                                    "e",
                                    "not UTF-8: \xff",
                                    "a/b"};

static void text_is_escaped_as_jansson_does(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *stream = open_text(&text, &size);
    struct json_writer writer;
    json_writer_init(&writer, stream, 0);
    json_writer_object(&writer, NULL);
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        json_writer_text(&writer, key, texts[i]);
        json_set_text(json, key, texts[i]);
    }
    json_writer_end_object(&writer);
    fputc('\n', stream);
    fclose(stream);
    expect_same(text, json);
}

/* Doubles of every size, random bits among them; whole ones too, and what is none. */
static void numbers_are_printed_as_jansson_does(void **state)
{
    (void)state;
    static const double some[] = {
        0,   -0.0, 1,     -1,      0.1,    1e16,     1e17,   123456789012345680.0,   1e22,     1e-5,      1e-4,
        1e5, 1.5,  1e100, 1.5e-10, 1e-100, 2.5e-308, 5e-324, 1.7976931348623157e308, INFINITY, -INFINITY, NAN};
    char *text;
    size_t size;
    FILE *stream = open_text(&text, &size);
    struct json_writer writer;
    json_writer_init(&writer, stream, 0);
    json_writer_object(&writer, NULL);
    json_t *json = json_object();
    uint64_t bits = 88172645463325252u;
    for (size_t i = 0; i < 5000; i++) {
        double value;
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        memcpy(&value, &bits, sizeof value);
        if (i < sizeof some / sizeof *some)
            value = some[i];
        else if (i % 3 == 0)
            value = (double)(bits >> (i % 64));
        char key[16];
        snprintf(key, sizeof key, "real%zu", i);
        json_writer_real(&writer, key, value);
        json_set_real(json, key, value);
        snprintf(key, sizeof key, "count%zu", i);
        json_writer_count(&writer, key, bits >> (1 + i % 63));
        json_set_count(json, key, bits >> (1 + i % 63));
    }
    json_writer_end_object(&writer);
    fputc('\n', stream);
    fclose(stream);
    expect_same(text, json);
}

/* A document with a tree in it, and the same part deeper inside another. */
static void write_nested(struct json_writer *writer)
{
    json_writer_object(writer, writer->open ? "inner" : NULL);
    json_writer_array(writer, "none");
    json_writer_end_array(writer);
    json_writer_object(writer, "empty");
    json_writer_end_object(writer);
    json_writer_array(writer, "some");
    for (int i = 0; i < 2; i++) {
        json_writer_object(writer, NULL);
        json_writer_tree(writer, "flag", json_boolean(i));
        json_writer_end_object(writer);
    }
    json_writer_tree(writer, NULL, json_pack("{s:[i,{s:s},[]]}", "tree", 1, "a", "\n"));
    json_writer_tree(writer, NULL, json_null());
    json_writer_end_array(writer);
    json_writer_tree(writer, "last", json_pack("[]"));
    json_writer_end_object(writer);
}

static json_t *nested(void)
{
    return json_pack("{s:[],s:{},s:[{s:b},{s:b},{s:[i,{s:s},[]]},n],s:[]}", "none", "empty", "some", "flag", 0, "flag",
                     1, "tree", 1, "a", "\n", "last");
}

static void nesting_is_laid_out_as_jansson_does(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *stream = open_text(&text, &size);
    struct json_writer writer;
    json_writer_init(&writer, stream, 0);
    write_nested(&writer);
    fputc('\n', stream);
    fclose(stream);
    expect_same(text, nested());
    stream = open_text(&text, &size);
    json_writer_init(&writer, stream, 0);
    json_writer_object(&writer, NULL);
    write_nested(&writer);
    json_writer_end_object(&writer);
    fputc('\n', stream);
    fclose(stream);
    expect_same(text, json_pack("{s:o}", "inner", nested()));
}

/* What somebody else has begun: a value two levels in. */
static void a_part_is_indented_as_far_as_it_is_inside(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *stream = open_text(&text, &size);
    fputs("{\n  \"points\": [\n    ", stream);
    struct json_writer writer;
    json_writer_init(&writer, stream, 2);
    json_writer_object(&writer, NULL);
    write_nested(&writer);
    json_writer_end_object(&writer);
    fputs("\n  ]\n}\n", stream);
    fclose(stream);
    expect_same(text, json_pack("{s:[{s:o}]}", "points", "inner", nested()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped_as_jansson_does),
        cmocka_unit_test(numbers_are_printed_as_jansson_does),
        cmocka_unit_test(nesting_is_laid_out_as_jansson_does),
        cmocka_unit_test(a_part_is_indented_as_far_as_it_is_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
