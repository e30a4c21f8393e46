/* Key tables: every type of value, its errors, and what each message says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/input/key_table.h"
#include "tests/models/expect_lines.h"

enum colour { RED, GREEN, BLUE };

struct target {
    char name[8];
    uint32_t count;
    uint64_t size;
    double rate, latency, share;
    enum colour colour;
    bool flag, two;
    int custom;
    double optional;
    char guard;
};

static bool parse_odd(void *place, const char *text, const char **expected)
{
    int value = atoi(text);
    if (value % 2 == 0) {
        if (value == 4)
            *expected = "anything but 4";
        return false;
    }
    *(int *)place = value;
    return true;
}

static void print_odd(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%d", *(const int *)place);
}

static const char *const colours[] = {"red", "green", "blue", NULL};
static const char *const one_two[] = {"1", "2", NULL};

#define AT(member) offsetof(struct target, member)

static const struct key_spec keys[] = {
    {.name = "name", .type = KEY_TEXT, .offset = AT(name), .size = 8, .fallback = "none", .help = "a name"},
    {.name = "count", .type = KEY_COUNT32, .offset = AT(count), .minimum = 1, .maximum = 100, .form = "a count"},
    {.name = "size", .type = KEY_COUNT64, .offset = AT(size), .fallback = "7"},
    {.name = "rate",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = AT(rate),
     .minimum = 1e3,
     .maximum = 1e15,
     .fallback = "1 GB/s"},
    {.name = "latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = AT(latency),
     .maximum = INFINITY,
     .fallback = "1 us"},
    {.name = "share", .type = KEY_QUANTITY, .offset = AT(share), .minimum = 0, .maximum = 1, .fallback = "0.5"},
    {.name = "colour", .type = KEY_CHOICE, .offset = AT(colour), .choices = colours, .fallback = "green"},
    {.name = "flag", .type = KEY_YES_NO, .offset = AT(flag), .fallback = "yes"},
    {.name = "two", .type = KEY_YES_NO, .offset = AT(two), .choices = one_two, .fallback = "1"},
    {.name = "custom",
     .type = KEY_CUSTOM,
     .offset = AT(custom),
     .form = "an odd number",
     .fallback = "1",
     .parse = parse_odd,
     .print = print_odd},
    {.name = "optional", .type = KEY_QUANTITY, .offset = AT(optional), .fallback = ""},
};
static const struct section_spec thing = {
    .name = "thing", .required = true, .keys = keys, .n_keys = sizeof keys / sizeof *keys};
static const struct section_spec level = {.name = "level", .named = true, .required = true, .keys = keys, .n_keys = 1};
static const struct section_spec extra = {.name = "extra", .keys = keys, .n_keys = 1};
static const struct section_spec *const sections[] = {&thing, &level, &extra, NULL};
static const struct file_spec file = {.name = "test", .sections = sections};

static struct diagnostics diag;

static bool read_thing(const char *text, const char *override, struct target *target)
{
    *target = (struct target){.optional = -1, .guard = 'g'};
    struct ini_document *document = ini_document_read_text("f.ini", text, &diag);
    if (override)
        assert_true(ini_document_override(document, override, &diag));
    bool ok = key_table_read(&thing, document, ini_document_section(document, "thing"), target, &diag);
    ini_document_destroy(document);
    assert_int_equal(target->guard, 'g');
    return ok;
}

static bool equal(double a, double b)
{
    return a >= b && a <= b;
}

static void every_type_is_stored(void **state)
{
    (void)state;
    struct target target;
    assert_true(
        read_thing("[thing]\nname = abcdefg\ncount = 100\nsize = 5Gi\nrate = 25 Gb/s\nlatency = 0 s\nshare = 1\n"
                   "colour = blue\nflag = no\ntwo = 2\ncustom = 9\noptional = 3\n",
                   NULL, &target));
    expect_no_lines(&diag);
    assert_string_equal(target.name, "abcdefg");
    assert_int_equal(target.count, 100);
    assert_int_equal(target.size, UINT64_C(5368709120));
    assert_true(equal(target.rate, 3.125e9) && equal(target.latency, 0) && equal(target.share, 1));
    assert_int_equal(target.colour, BLUE);
    assert_false(target.flag);
    assert_true(target.two);
    assert_int_equal(target.custom, 9);
    assert_true(equal(target.optional, 3));
}

static void absent_keys_take_their_defaults(void **state)
{
    (void)state;
    struct target target;
    assert_true(read_thing("[thing]\ncount = 3\n", NULL, &target));
    expect_no_lines(&diag);
    assert_string_equal(target.name, "none");
    assert_int_equal(target.size, 7);
    assert_true(equal(target.rate, 1e9) && equal(target.latency, 1e-6) && equal(target.share, 0.5));
    assert_int_equal(target.colour, GREEN);
    assert_true(target.flag);
    assert_false(target.two);
    assert_int_equal(target.custom, 1);
    assert_true(equal(target.optional, -1)); /* left alone */
    assert_false(read_thing("[other]\na = 1\n", NULL, &target));
    EXPECT_LINES(&diag, "f.ini: [thing] has no key 'count', expected a count");
    assert_int_equal(target.size, 7);
}

/* Reads [thing] with `count = 1` and `line`, which must give exactly the message. */
static void refused(const char *line, const char *message)
{
    struct target target;
    char text[300], expected[300];
    snprintf(text, sizeof text, "[thing]\n%s\ncount = 1\n", line);
    snprintf(expected, sizeof expected, "f.ini:2: %s", message);
    assert_false(read_thing(text, NULL, &target));
    EXPECT_LINES(&diag, expected);
}

static void bad_values_say_what_was_expected(void **state)
{
    (void)state;
    refused("name = abcdefgh", "'name' is 'abcdefgh', expected at most 7 characters");
    refused("size = 8x", "'size' is '8x', expected a whole number such as 131072 or 128Ki");
    refused("size = 0x80", "'size' is '0x80', expected a whole number such as 131072 or 128Ki");
    refused("size = 99999999999999999999",
            "'size' is '99999999999999999999', expected a whole number such as 131072 or 128Ki");
    refused("rate = 400Gx", "'rate' is '400Gx', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)");
    refused("rate = 25e9", "'rate' is '25e9', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)");
    refused("rate = 0 GB/s", "'rate' is '0 GB/s', expected 1 kB/s to 1 PB/s");
    refused("rate = -1 GB/s", "'rate' is '-1 GB/s', expected 1 kB/s to 1 PB/s");
    refused("rate = 1e-300 GB/s", "'rate' is '1e-300 GB/s', expected 1 kB/s to 1 PB/s");
    refused("rate = nan", "'rate' is 'nan', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)");
    refused("rate = inf GB/s",
            "'rate' is 'inf GB/s', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)");
    refused("latency = 5", "'latency' is '5', expected a time such as 2 us (s, ms, us, ns)");
    refused("latency = -1 us", "'latency' is '-1 us', expected at least 0 s");
    refused("share = 1.5", "'share' is '1.5', expected 0 to 1");
    refused("colour = gren", "'colour' is 'gren', did you mean 'green'?");
    refused("colour = GREEN", "'colour' is 'GREEN', did you mean 'green'?");
    refused("colour = yellowish", "'colour' is 'yellowish', expected red, green or blue");
    refused("flag = true", "'flag' is 'true', expected no or yes");
    refused("flag = Yes", "'flag' is 'Yes', did you mean 'yes'?");
    refused("two = 3", "'two' is '3', expected 1 or 2");
    refused("custom = 2", "'custom' is '2', expected an odd number");
    refused("custom = 4", "'custom' is '4', expected anything but 4");
    refused("conut = 3", "unknown key 'conut' in [thing], did you mean 'count'?");
    refused("zzzzzz = 3", "unknown key 'zzzzzz' in [thing], expected name, count, size, rate, latency, share, colour, "
                          "flag, two, custom or optional");
}

static void all_errors_come_in_one_go_in_the_order_of_the_file(void **state)
{
    (void)state;
    struct target target;
    assert_false(read_thing("[thing]\nflag = 1\nsize = -1\nnmae = x\n", "thing.colour=bleu", &target));
    EXPECT_LINES(&diag, "f.ini:2: 'flag' is '1', expected no or yes",
                 "f.ini:3: 'size' is '-1', expected a whole number such as 131072 or 128Ki",
                 "f.ini:4: unknown key 'nmae' in [thing], did you mean 'name'?",
                 "--set thing.colour=bleu: 'colour' is 'bleu', did you mean 'blue'?",
                 "f.ini:1: [thing] has no key 'count', expected a count");
    assert_false(read_thing("[thing]\ncount = 101\n", NULL, &target));
    EXPECT_LINES(&diag, "f.ini:2: 'count' is '101', expected 1 to 100");
}

static void count32_never_wraps(void **state)
{
    (void)state;
    static const struct key_spec wide = {.name = "wide", .type = KEY_COUNT32, .offset = AT(count)};
    const struct section_spec section = {.name = "thing", .keys = &wide, .n_keys = 1};
    struct ini_document *document = ini_document_read_text("f.ini", "[thing]\nwide = 4294967296\n", &diag);
    struct target target = {0};
    assert_false(key_table_read(&section, document, &document->sections[0], &target, &diag));
    EXPECT_LINES(&diag, "f.ini:2: 'wide' is '4294967296', expected at most 4294967295");
    ini_document_destroy(document);
}

static void sections_are_checked(void **state)
{
    (void)state;
    struct ini_document *document = ini_document_read_text("f.ini", "[thing]\na = 1\n[level node]\na = 1\n", &diag);
    assert_true(key_table_check_sections(&file, document, &diag));
    ini_document_destroy(document);
    expect_no_lines(&diag);

    document =
        ini_document_read_text("f.ini", "[thnig]\na = 1\n[level]\na = 1\n[extra bit]\na = 1\n[qqqqqq]\na = 1\n", &diag);
    assert_true(ini_document_override(document, "exrta.a=1", &diag));
    assert_false(key_table_check_sections(&file, document, &diag));
    EXPECT_LINES(&diag, "f.ini:1: unknown section [thnig], did you mean 'thing'?",
                 "f.ini:3: section [level], expected [level NAME]", "f.ini:5: section [extra bit], expected [extra]",
                 "f.ini:7: unknown section [qqqqqq], expected thing, level or extra",
                 "--set exrta.a=1: unknown section [exrta], did you mean 'extra'?",
                 "f.ini: no section [thing], expected one", "f.ini: no section [level NAME], expected one");
    ini_document_destroy(document);
}

static void a_refused_line_is_not_also_missed(void **state)
{
    (void)state;
    struct target target = {0};
    struct ini_document *document = ini_document_read_text("f.ini", "[thing]\ncount 8\nflag = maybe\n", &diag);
    assert_false(key_table_check_sections(&file, document, &diag));
    assert_false(key_table_read(&thing, document, &document->sections[0], &target, &diag));
    EXPECT_LINES(&diag, "f.ini:2: 'count 8' is neither a section nor a key, expected [section] or key = value",
                 "f.ini:3: 'flag' is 'maybe', expected no or yes");
    ini_document_destroy(document);
}

static void printed_values_read_back(void **state)
{
    (void)state;
    struct target first, second;
    assert_true(read_thing("[thing]\nname = abc\ncount = 100\nsize = 5Gi\nrate = 25 Gb/s\nlatency = 1.7 us\n"
                           "share = 0.3\ncolour = red\nflag = no\ntwo = 2\ncustom = 9\noptional = 3\n",
                           NULL, &first));
    char text[1000] = "[thing]\n", value[60];
    for (size_t i = 0; i < thing.n_keys; i++) {
        key_table_print_value(&keys[i], &first, value, sizeof value);
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s = %s\n", keys[i].name, value);
    }
    assert_true(read_thing(text, NULL, &second));
    expect_no_lines(&diag);
    assert_string_equal(first.name, second.name);
    assert_true(first.count == second.count && first.size == second.size && equal(first.rate, second.rate) &&
                equal(first.latency, second.latency) && equal(first.share, second.share) &&
                first.colour == second.colour && first.flag == second.flag && first.two == second.two &&
                first.custom == second.custom && equal(first.optional, second.optional));
}

static void nearest_word_is_within_a_slip_of_the_fingers(void **state)
{
    (void)state;
    static const char *const words[] = {"q_heads", "kv_heads", "head_dim", "cp", "tp", NULL};
    assert_string_equal(key_table_nearest("qheads", words), "q_heads");
    assert_string_equal(key_table_nearest("kv_haeds", words), "kv_heads");
    assert_string_equal(key_table_nearest("HEAD_DIM", words), "head_dim");
    assert_string_equal(key_table_nearest("ccp", words), "cp");
    assert_null(key_table_nearest("layers", words));
    assert_null(key_table_nearest("x", words));
    assert_null(key_table_nearest("", words));
    char long_word[500];
    memset(long_word, 'q', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(key_table_nearest(long_word, words));
}

static void overrides_find_their_file(void **state)
{
    (void)state;
    assert_true(key_table_owns_override(&file, "thing.count=1"));
    assert_true(key_table_owns_override(&file, "level node.size=1"));
    assert_false(key_table_owns_override(&file, "level.size=1"));
    assert_false(key_table_owns_override(&file, "things.count=1"));
    assert_false(key_table_owns_override(&file, "thing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_stored),
        cmocka_unit_test(absent_keys_take_their_defaults),
        cmocka_unit_test(bad_values_say_what_was_expected),
        cmocka_unit_test(all_errors_come_in_one_go_in_the_order_of_the_file),
        cmocka_unit_test(count32_never_wraps),
        cmocka_unit_test(sections_are_checked),
        cmocka_unit_test(a_refused_line_is_not_also_missed),
        cmocka_unit_test(printed_values_read_back),
        cmocka_unit_test(nearest_word_is_within_a_slip_of_the_fingers),
        cmocka_unit_test(overrides_find_their_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
