/* Aligned columns, and numbers in fitting units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/text_table.h"

static void columns_line_up_and_lines_end_without_blanks(void **state)
{
    (void)state;
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "name");
    text_table_column(&table, false, "time\nms");
    text_table_column(&table, true, "%s", "");
    text_table_cell(&table, "a");
    text_table_number(&table, 0.25, unit_of_seconds(0.5));
    text_table_cell(&table, "critical");
    text_table_cell(&table, "long name");
    text_table_count(&table, 1234567);
    text_table_end_row(&table);
    text_table_cell(&table, "failed");
    text_table_end_row(&table);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    text_table_print(&table, stream);
    fclose(stream);
    assert_string_equal(text, "name            time\n"
                              "                  ms\n"
                              "---------  ---------  --------\n"
                              "a              250.0  critical\n"
                              "long name  1,234,567\n"
                              "failed\n");
    free(text);
    text_table_fini(&table);
}

static void numbers_have_four_digits(void **state)
{
    (void)state;
    const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0.000"},      {1, "1.000"},     {9.9994, "9.999"}, {9.9996, "10.00"}, {12.345, "12.35"}, {99.996, "100.0"},
        {123.45, "123.5"}, {999.96, "1000"}, {1234.5, "1234"},  {0.0123, "0.012"}, {1e-5, "1.0e-05"}, {-3.25, "-3.250"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(text_of_number(cases[i].value).text, cases[i].text);
}

static void counts_have_separators(void **state)
{
    (void)state;
    assert_string_equal(text_of_count(0).text, "0");
    assert_string_equal(text_of_count(999).text, "999");
    assert_string_equal(text_of_count(1000).text, "1,000");
    assert_string_equal(text_of_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

static void units_fit_the_largest_value(void **state)
{
    (void)state;
    assert_string_equal(text_of_seconds(1.5).text, "1.500 s");
    assert_string_equal(text_of_seconds(0.0123).text, "12.30 ms");
    assert_string_equal(text_of_seconds(2e-6).text, "2.000 us");
    assert_string_equal(text_of_seconds(0).text, "0.000 ms");
    assert_string_equal(text_of_memory(85899345920.0).text, "80.00 GiB");
    assert_string_equal(text_of_memory(100).text, "100.0 B");
    assert_string_equal(unit_of_bytes(2e9).name, "GB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_and_lines_end_without_blanks),
        cmocka_unit_test(numbers_have_four_digits),
        cmocka_unit_test(counts_have_separators),
        cmocka_unit_test(units_fit_the_largest_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
