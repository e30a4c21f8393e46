/* The element types: sizes, names, and which type results and sums have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/base/dtype.h"

static void every_name_parses_to_its_own_type(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype;
        assert_true(dtype_parse(dtype_name((enum dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
    enum dtype dtype;
    assert_false(dtype_parse("BF16", &dtype));
    assert_false(dtype_parse("", &dtype));
}

static void sums_are_never_narrower_than_fp32(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_true(dtype_bytes(dtype_accumulator((enum dtype)i)) >= 4);
    assert_int_equal(dtype_accumulator(DTYPE_FP64), DTYPE_FP64);
    assert_int_equal(dtype_output(DTYPE_FP8), DTYPE_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_parses_to_its_own_type),
        cmocka_unit_test(sums_are_never_narrower_than_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
