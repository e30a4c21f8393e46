/* Numbers with units: what is a number, which units there are, and that no locale changes them. */
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

#include "models/input/units.h"
#include "tests/models/comma_locale.h"

static void expect(const char *text, enum dimension dimension, double right)
{
    double value = -12345;
    if (!units_parse(text, dimension, &value))
        fail_msg("'%s' was refused", text);
    if (!(value >= right && value <= right))
        fail_msg("'%s' was read as %.17g, expected %.17g", text, value, right);
}

static void expect_refused(const char *text, enum dimension dimension)
{
    double value = -12345;
    if (units_parse(text, dimension, &value))
        fail_msg("'%s' was read as %.17g, expected a refusal", text, value);
}

static void bits_and_bytes_differ_by_eight(void **state)
{
    (void)state;
    expect("25Gb/s", DIMENSION_RATE, 25e9 / 8);
    expect("25Gbps", DIMENSION_RATE, 25e9 / 8);
    expect("25GB/s", DIMENSION_RATE, 25e9);
    expect("25 GBps", DIMENSION_RATE, 25e9);
    expect("25GiB/s", DIMENSION_RATE, 25.0 * 1024 * 1024 * 1024);
    expect("400 Gb/s", DIMENSION_RATE, 50e9);
    expect("1 B/s", DIMENSION_RATE, 1);
    expect("8 b/s", DIMENSION_RATE, 1);
}

static void a_bare_number_is_no_rate_size_or_time(void **state)
{
    (void)state;
    expect_refused("25e9", DIMENSION_RATE);
    expect_refused("25", DIMENSION_RATE);
    expect_refused("5e-6", DIMENSION_SECONDS);
    expect_refused("5", DIMENSION_SECONDS);
    expect_refused("0", DIMENSION_SECONDS);
    expect_refused("80", DIMENSION_BYTES);
    expect_refused("989e12", DIMENSION_FLOPS);
}

static void units_of_each_dimension(void **state)
{
    (void)state;
    expect("5us", DIMENSION_SECONDS, 5e-6);
    expect("2 us", DIMENSION_SECONDS, 2e-6);
    expect("1.5 ms", DIMENSION_SECONDS, 1.5e-3);
    expect("700 ns", DIMENSION_SECONDS, 7e-7);
    expect("0 s", DIMENSION_SECONDS, 0);
    expect("-1 us", DIMENSION_SECONDS, -1e-6); /* a number all right: whether it makes sense is a key's range */
    expect("80 GiB", DIMENSION_BYTES, 85899345920.0);
    expect("512 kB", DIMENSION_BYTES, 512e3);
    expect("4 KiB", DIMENSION_BYTES, 4096);
    expect("1 PB", DIMENSION_BYTES, 1e15);
    expect("989 TFLOP/s", DIMENSION_FLOPS, 989e12);
    expect("989 TFLOPS", DIMENSION_FLOPS, 989e12);
    expect("0.85", DIMENSION_NUMBER, 0.85);
    expect("1e-3", DIMENSION_NUMBER, 1e-3);
    expect("1E+3", DIMENSION_NUMBER, 1e3);
}

static void only_whole_numbers_with_known_units_are_read(void **state)
{
    (void)state;
    static const char *const no_rates[] = {
        "",         " ",         "GB/s",     "nan GB/s", "inf GB/s", "0x10 GB/s", "25 gb/s",   "25 GB",     "25 KB/s",
        "25 kiB/s", "25 GB/s x", "25 GB /s", "25 XB/s",  "+25 GB/s", " 25 GB/s",  "25. GB/s",  ".5 GB/s",   "25e GB/s",
        "25GB/s ",  "1,5 GB/s",  "1.5.2B/s", "--1 B/s",  "1e999B/s", "1e308GB/s", "1e-400B/s", "400Gx",     "100;GB/s",
        "25 G",     "25 Gb/S",   "25 mB/s",  "25 EB/s",  "25 iB/s",  "450GB/ s",  "25 GGB/s",  "25 FLOP/s", "25 s",
    };
    for (size_t i = 0; i < sizeof no_rates / sizeof *no_rates; i++)
        expect_refused(no_rates[i], DIMENSION_RATE);
    expect_refused("80 Gib", DIMENSION_BYTES); /* bits are for rates */
    expect_refused("2 m", DIMENSION_SECONDS);
    expect_refused("2 kus", DIMENSION_SECONDS);
    expect_refused("1 ", DIMENSION_NUMBER);
    expect_refused("nan", DIMENSION_NUMBER);
    expect_refused("inf", DIMENSION_NUMBER);
    expect_refused("1 k", DIMENSION_NUMBER);
}

static void counts_are_digits_with_a_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t right;
    } good[] = {
        {"0", 0},           {"131072", 131072},  {"128Ki", 131072},
        {"128 Ki", 131072}, {"1Mi", 1048576},    {"1M", 1000000},
        {"128k", 128000},   {"2Gi", 2147483648}, {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t value = 1;
        if (!units_parse_count(good[i].text, &value) || value != good[i].right)
            fail_msg("'%s' was not read as it should be", good[i].text);
    }
    static const char *const bad[] = {
        "",
        " 8 ",
        "8 8",
        "+8",
        "-8",
        "8.0",
        "8x",
        "0x80",
        "1e6",
        "25GB",
        "1K",
        "8 ",
        "128KiB",
        "nan",
        "1,000",
        "99999999999999999999",
        "18446744073709551616",
        "18446744073709551615k",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t value;
        if (units_parse_count(bad[i], &value))
            fail_msg("'%s' was read, expected a refusal", bad[i]);
    }
}

static void people_get_three_digits_and_a_prefix(void **state)
{
    (void)state;
    static const struct {
        enum dimension dimension;
        double value;
        const char *right;
    } cases[] = {
        {DIMENSION_BYTES, 67108864, "67.1 MB"},   {DIMENSION_BYTES, 0, "0 B"},
        {DIMENSION_BYTES, 999, "999 B"},          {DIMENSION_BYTES, 999499, "999 kB"},
        {DIMENSION_BYTES, 999600, "1 MB"},        {DIMENSION_BYTES, 1234e15, "1234 PB"},
        {DIMENSION_SECONDS, 0.00123, "1.23 ms"},  {DIMENSION_SECONDS, 2e-6, "2 us"},
        {DIMENSION_SECONDS, 5e-10, "0.5 ns"},     {DIMENSION_SECONDS, 1234.5, "1234 s"},
        {DIMENSION_SECONDS, -0.5, "-500 ms"},     {DIMENSION_RATE, 450e9, "450 GB/s"},
        {DIMENSION_FLOPS, 989e12, "989 TFLOP/s"}, {DIMENSION_NUMBER, 0.8512, "0.851"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[40];
        units_print(text, sizeof text, cases[i].dimension, cases[i].value);
        assert_string_equal(text, cases[i].right);
    }
    char text[40];
    units_print(text, sizeof text, DIMENSION_SECONDS, NAN);
    units_print(text, sizeof text, DIMENSION_BYTES, INFINITY);
    assert_string_equal(text, "inf B");
}

static void exact_text_reads_back_as_the_same_double(void **state)
{
    (void)state;
    char text[60];
    units_print_exact(text, sizeof text, DIMENSION_RATE, 450e9);
    assert_string_equal(text, "450000000000 B/s");
    units_print_exact(text, sizeof text, DIMENSION_NUMBER, 0.85);
    assert_string_equal(text, "0.85");
    srand(1);
    for (int i = 0; i < 3000; i++) {
        double value = ldexp((double)rand() / RAND_MAX + rand(), rand() % 200 - 100);
        enum dimension dimension = (enum dimension)(i % 5);
        units_print_exact(text, sizeof text, dimension, value);
        expect(text, dimension, value);
    }
}

static void locale_with_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    if (!comma_locale_enter())
        skip();
    char text[40], plain[40];
    snprintf(plain, sizeof plain, "%.1f", 0.5);
    assert_string_equal(plain, "0,5"); /* the locale is in force */
    expect("0.5", DIMENSION_NUMBER, 0.5);
    expect("1.5 us", DIMENSION_SECONDS, 1.5e-6);
    expect_refused("0,5", DIMENSION_NUMBER);
    units_print(text, sizeof text, DIMENSION_SECONDS, 1.5e-6);
    assert_string_equal(text, "1.5 us");
    units_print_exact(text, sizeof text, DIMENSION_NUMBER, 0.5);
    assert_string_equal(text, "0.5");
    snprintf(plain, sizeof plain, "%.1f", 0.5);
    assert_string_equal(plain, "0,5"); /* and was left in force */
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_and_bytes_differ_by_eight),
        cmocka_unit_test(a_bare_number_is_no_rate_size_or_time),
        cmocka_unit_test(units_of_each_dimension),
        cmocka_unit_test(only_whole_numbers_with_known_units_are_read),
        cmocka_unit_test(counts_are_digits_with_a_prefix),
        cmocka_unit_test(people_get_three_digits_and_a_prefix),
        cmocka_unit_test(exact_text_reads_back_as_the_same_double),
        cmocka_unit_test(locale_with_decimal_comma_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
