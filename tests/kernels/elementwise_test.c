/* Merge, finish, delta and accumulate, of every instruction set: exact cases, the extremes that online softmax meets,
 * and bf16 rounding. */
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

#include "isas.h"

static void assert_close(double value, double expected, double tolerance)
{
    if (!(value == expected || fabs(value - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%.9g is not within %g of %.9g", value, tolerance, expected);
}

/* One row of one head: what two partial results give, merged in this order. */
static void merge_two(const float *o1, float lse1, const float *o2, float lse2, size_t dim, float *o, float *lse)
{
    float a[64], m = NAN, l = NAN;
    memset(a, 0xff, sizeof a); /* the first merge must not read the state */
    attention_merge(1, 1, dim, DTYPE_FP32, o1, &lse1, a, &m, &l, 1);
    attention_merge(1, 1, dim, DTYPE_FP32, o2, &lse2, a, &m, &l, 0);
    attention_finish(1, 1, dim, DTYPE_FP32, a, &m, &l, o, lse);
}

static void parts_a_hundred_apart_leave_the_winner_alone(void **state)
{
    USE_ISA(state);
    const float zero_part[3] = {1, 2, 3}, hundred_part[3] = {-4, 5, -6};
    float o[3], lse;
    merge_two(zero_part, 0, hundred_part, 100, 3, o, &lse);
    assert_memory_equal(o, hundred_part, sizeof o);
    assert_close((double)lse, 100, 0);
    merge_two(hundred_part, 100, zero_part, 0, 3, o, &lse);
    assert_memory_equal(o, hundred_part, sizeof o);
    assert_close((double)lse, 100, 0);
    merge_two(zero_part, -100, hundred_part, -1e5f, 3, o, &lse);
    assert_memory_equal(o, zero_part, sizeof o);
    assert_close((double)lse, -100, 0);
}

static void an_empty_part_is_neutral_and_two_stay_empty(void **state)
{
    USE_ISA(state);
    const float part[20] = {1, -2, 3, [17] = 4, [19] = -5}, zeros[20] = {0};
    float o[20], lse;
    merge_two(part, 0.5f, zeros, -INFINITY, 20, o, &lse);
    assert_memory_equal(o, part, sizeof o);
    assert_true(lse == 0.5f);
    merge_two(zeros, -INFINITY, part, 0.5f, 20, o, &lse);
    assert_memory_equal(o, part, sizeof o);
    assert_true(lse == 0.5f);
    merge_two(zeros, -INFINITY, zeros, -INFINITY, 20, o, &lse);
    assert_memory_equal(o, zeros, sizeof o);
    assert_true(lse == -INFINITY);
}

/* Parts of 1 and 7 equal keys weigh 1/8 and 7/8; logarithms to base 2 would give 0.057 and 0.943. */
static void parts_weigh_as_many_keys_as_they_have(void **state)
{
    USE_ISA(state);
    const float one[2] = {8, 0}, seven[2] = {0, 8};
    float o[2], lse;
    merge_two(one, 0, seven, logf(7), 2, o, &lse);
    assert_close((double)o[0], 1, 2e-7);
    assert_close((double)o[1], 7, 2e-7);
    assert_close((double)lse, log(8), 2e-7);
}

static void a_nan_in_any_part_reaches_the_result(void **state)
{
    USE_ISA(state);
    const float part[2] = {1, 2}, bad[2] = {1, NAN};
    float o[2], lse;
    merge_two(bad, 0, part, 0, 2, o, &lse);
    assert_true(isnan(o[1]));
    merge_two(part, 0, bad, 0, 2, o, &lse);
    assert_true(isnan(o[1]));
    merge_two(part, NAN, part, 0, 2, o, &lse);
    assert_true(isnan(o[0]) && isnan(lse));
    merge_two(part, 0, part, NAN, 2, o, &lse);
    assert_true(isnan(o[0]) && isnan(lse));
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t bf16_of(float x)
{
    uint16_t bits;
    attention_accumulate(1, DTYPE_BF16, &bits, DTYPE_FP32, &x, 1);
    return bits;
}

static void bf16_rounds_to_nearest_even(void **state)
{
    USE_ISA(state);
    const struct {
        uint32_t fp32;
        uint16_t bf16;
    } cases[] = {
        {0x3f800000, 0x3f80}, /* 1 */
        {0x3f808000, 0x3f80}, /* half way, the even one below */
        {0x3f818000, 0x3f82}, /* half way, the even one above */
        {0x3f808001, 0x3f81}, /* just more than half */
        {0x3f817fff, 0x3f81}, /* just less */
        {0xbf818000, 0xbf82}, {0x80000000, 0x8000}, {0x3fffffff, 0x4000}, {0x7f7fffff, 0x7f80}, /* up to infinity */
        {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x00018000, 0x0002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(bf16_of(float_of(cases[i].fp32)), cases[i].bf16);
    const uint32_t nans[] = {0x7fc00000, 0xffffffff, 0x7f800001, 0x7fffffff};
    for (size_t i = 0; i < 4; i++)
        assert_true(isnan(float_of((uint32_t)bf16_of(float_of(nans[i])) << 16)));
}

/* Counts around every vector width; whole numbers, exact in both types. */
static void accumulate_adds_every_element_and_no_other(void **state)
{
    USE_ISA(state);
    enum { MOST = 70 };
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    float numbers[MOST], sentinel[MOST], result[MOST];
    for (int i = 0; i < MOST; i++) {
        numbers[i] = (float)(i + 1);
        sentinel[i] = -9;
    }
    for (size_t count = 0; count < MOST; count++) {
        for (size_t pair = 0; pair < 4; pair++) {
            enum dtype to = dtypes[pair / 2], from = dtypes[pair % 2];
            float source[MOST], target[MOST];
            attention_accumulate(MOST, from, source, DTYPE_FP32, numbers, 1);
            attention_accumulate(MOST, to, target, DTYPE_FP32, sentinel, 1);
            attention_accumulate(count, to, target, from, source, 1);
            attention_accumulate(count, to, target, from, source, 0);
            attention_accumulate(MOST, DTYPE_FP32, result, to, target, 1);
            for (size_t i = 0; i < MOST; i++)
                assert_true(result[i] == (i < count ? 2 * numbers[i] : -9));
        }
    }
}

/* Three rows of two heads; whole numbers, so every sum is exact. */
static void delta_is_the_dot_product_of_each_row(void **state)
{
    USE_ISA(state);
    enum { ROWS = 3, HEADS = 2, DIM_MOST = 40, MOST = ROWS * HEADS * DIM_MOST };
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    float o[MOST], d_o[MOST], o_stored[MOST], d_o_stored[MOST], delta[ROWS * HEADS + 1];
    for (int i = 0; i < MOST; i++) {
        o[i] = (float)(i % 7 - 3);
        d_o[i] = (float)(i % 5 - 1);
    }
    for (size_t dim = 1; dim <= DIM_MOST; dim++) {
        for (size_t type = 0; type < 2; type++) {
            attention_accumulate(MOST, dtypes[type], o_stored, DTYPE_FP32, o, 1);
            attention_accumulate(MOST, dtypes[type], d_o_stored, DTYPE_FP32, d_o, 1);
            delta[ROWS * HEADS] = -9;
            attention_delta(ROWS, HEADS, dim, dtypes[type], o_stored, d_o_stored, delta);
            for (size_t row = 0; row < ROWS * HEADS; row++) {
                float expected = 0;
                for (size_t d = 0; d < dim; d++)
                    expected += o[row * dim + d] * d_o[row * dim + d];
                assert_true(delta[row] == expected);
            }
            assert_true(delta[ROWS * HEADS] == -9);
        }
    }
}

/* Rows of several heads keep apart, in both types and any dim: row r holds r, then is merged with 3 r. */
static void rows_are_merged_each_with_its_own_weight(void **state)
{
    USE_ISA(state);
    enum { ROWS = 5, HEADS = 3, N = ROWS * HEADS, DIM_MOST = 40 };
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    for (size_t dim = 1; dim <= DIM_MOST; dim += 3) {
        for (size_t type = 0; type < 2; type++) {
            float part[N * DIM_MOST], stored[N * DIM_MOST], a[N * DIM_MOST], lse[N], m[N], l[N];
            for (int turn = 0; turn < 2; turn++) {
                for (size_t i = 0; i < N * dim; i++)
                    part[i] = (float)(i / dim * (turn ? 3 : 1));
                for (size_t row = 0; row < N; row++)
                    lse[row] = (float)row + (turn && row % 2 ? logf(3) : 0); /* weights 1:1 or 1:3 */
                attention_accumulate(N * dim, dtypes[type], stored, DTYPE_FP32, part, 1);
                attention_merge(ROWS, HEADS, dim, dtypes[type], stored, lse, a, m, l, turn == 0);
            }
            attention_finish(ROWS, HEADS, dim, dtypes[type], a, m, l, stored, lse);
            attention_accumulate(N * dim, DTYPE_FP32, part, dtypes[type], stored, 1);
            for (size_t row = 0; row < N; row++) {
                assert_close((double)lse[row], (double)row + (row % 2 ? log(4) : log(2)), 2e-7);
                for (size_t d = 0; d < dim; d++)
                    assert_close((double)part[row * dim + d], (double)row * (row % 2 ? 2.5 : 2), type ? 4e-3 : 4e-7);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_EACH_ISA(parts_a_hundred_apart_leave_the_winner_alone),
        TEST_EACH_ISA(an_empty_part_is_neutral_and_two_stay_empty),
        TEST_EACH_ISA(parts_weigh_as_many_keys_as_they_have),
        TEST_EACH_ISA(a_nan_in_any_part_reaches_the_result),
        TEST_EACH_ISA(bf16_rounds_to_nearest_even),
        TEST_EACH_ISA(accumulate_adds_every_element_and_no_other),
        TEST_EACH_ISA(delta_is_the_dot_product_of_each_row),
        TEST_EACH_ISA(rows_are_merged_each_with_its_own_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
