/* Numbers of 16 bits against what their bits say, in double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/numbers.h"

/* What a number that is not negative is worth: `digits` bits behind the point, exponents biased by `bias`. */
static double worth(uint32_t bits, int digits, int bias)
{
    const int exponent = (int)(bits >> digits);
    const double fraction = (double)(bits & ((1u << digits) - 1));
    return exponent == 0 ? ldexp(fraction, 1 - bias - digits)
                         : ldexp(fraction + ldexp(1, digits), exponent - bias - digits);
}

/* Every number is read right and comes back; what lies between two goes to the nearer, and in the middle to the even.
 */
static void check_type(enum dtype dtype, int digits, int bias, uint32_t infinite)
{
    for (uint32_t bits = 0; bits < infinite; bits++) {
        const uint16_t up = (uint16_t)bits, down = (uint16_t)(bits | 0x8000);
        const double here = worth(bits, digits, bias), above = worth(bits + 1, digits, bias);
        const double middle = (here + above) / 2, quarter = (above - here) / 4;
        uint16_t got[5];
        assert_true((double)number_read(dtype, &up, 0) == here && (double)number_read(dtype, &down, 0) == -here);
        number_write(dtype, got, 0, (float)here);
        number_write(dtype, got, 1, (float)-here);
        number_write(dtype, got, 2, (float)(middle - quarter));
        number_write(dtype, got, 3, (float)middle);
        number_write(dtype, got, 4, (float)(middle + quarter));
        assert_int_equal(got[0], up);
        assert_int_equal(got[1], down);
        assert_int_equal(got[2], bits);
        assert_int_equal(got[3], bits + (bits & 1));
        assert_int_equal(got[4], bits + 1);
    }
}

static void numbers_are_what_their_bits_say(void **state)
{
    (void)state;
    check_type(DTYPE_FP16, 10, 15, 0x7c00);
    check_type(DTYPE_BF16, 7, 127, 0x7f80);
}

static void what_is_no_number_stays_so(void **state)
{
    (void)state;
    for (int dtype = DTYPE_BF16; dtype <= DTYPE_FP16; dtype++) {
        assert_true(isnan(number_rounded((enum dtype)dtype, NAN)));
        assert_true(isinf(number_rounded((enum dtype)dtype, INFINITY)));
        assert_true(number_rounded((enum dtype)dtype, -INFINITY) < 0);
        assert_true(isinf(number_rounded((enum dtype)dtype, -INFINITY)));
    }
    assert_int_equal(fp16_from_float(65519), 0x7bff);
    assert_int_equal(fp16_from_float(65520), 0x7c00);
    assert_int_equal(fp16_from_float(-1e30f), 0xfc00);
    assert_int_equal(fp16_from_float(0x1p-25f), 0);
    assert_int_equal(fp16_from_float(0x1.02p-25f), 1);
    const float third = 1 / 3.0f;
    assert_true(number_rounded(DTYPE_FP32, third) == third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_what_their_bits_say),
        cmocka_unit_test(what_is_no_number_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
