/* Partial results over keys that several ranks hold, joined without a state: corrected by the LSE of all, or weighed
 * against the largest, summed and divided. Every instruction set. */
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
#include "models/base/memory.h"

#define ROWS 4
#define HEADS 3
#define N (ROWS * HEADS)
#define DIM_MOST 40
#define PARTS 4

struct part {
    float o[N * DIM_MOST], lse[N];
};

/* Parts of very different weight; some rows are empty in some parts, row 0 in all. Empty parts hold O = 0. */
static void make_parts(struct part parts[PARTS], size_t dim)
{
    for (size_t p = 0; p < PARTS; p++) {
        for (size_t row = 0; row < N; row++) {
            bool empty = row == 0 || (row + p) % 3 == 0;
            parts[p].lse[row] = empty ? -INFINITY : (float)((int)(row * 7 + p * 11) % 9 - 4) * 1.5F;
            for (size_t d = 0; d < dim; d++)
                parts[p].o[row * dim + d] = empty ? 0 : (float)((int)(row * 5 + p * 3 + d) % 17 - 8);
        }
    }
}

static void expect_close(double value, double expected, double tolerance)
{
    if (!(value == expected || fabs(value - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%.9g is not within %g of %.9g", value, tolerance, expected);
}

/* Against the definition, in double precision. */
static void expect_joined(const struct part parts[PARTS], size_t dim, const float *o, const float *lse,
                          double tolerance)
{
    for (size_t row = 0; row < N; row++) {
        double sum = 0;
        for (size_t p = 0; p < PARTS; p++)
            sum += exp((double)parts[p].lse[row]);
        expect_close((double)lse[row], log(sum), 1e-6);
        for (size_t d = 0; d < dim; d++) {
            double expected = 0;
            for (size_t p = 0; p < PARTS && sum > 0; p++)
                expected += exp((double)parts[p].lse[row]) / sum * (double)parts[p].o[row * dim + d];
            expect_close((double)o[row * dim + d], expected, tolerance);
        }
    }
}

static void store(enum dtype dtype, const float *numbers, size_t count, float *stored)
{
    attention_accumulate(count, dtype, stored, DTYPE_FP32, numbers, 1);
}

static void correct_parts(struct part parts[PARTS], size_t dim, enum dtype from, enum dtype to, float *o, float *lse)
{
    static float stored[N * DIM_MOST], result[N * DIM_MOST];
    memset(lse, 0xff, N * sizeof *lse); /* the first must not read them */
    memset(result, 0xff, sizeof result);
    for (int p = 0; p < PARTS; p++)
        attention_sum_lse(N, parts[p].lse, lse, p == 0);
    for (int p = 0; p < PARTS; p++) {
        store(from, parts[p].o, N * dim, stored);
        attention_correct(ROWS, HEADS, dim, from, stored, parts[p].lse, lse, to, result, p == 0);
    }
    attention_accumulate(N * dim, DTYPE_FP32, o, to, result, 1);
}

static void weigh_parts(struct part parts[PARTS], size_t dim, enum dtype from, enum dtype to, float *o, float *lse)
{
    static float stored[N * DIM_MOST], numerator[N * DIM_MOST], sum[N * DIM_MOST], result[N * DIM_MOST];
    float top[N], denominator[N], denominators[N];
    memcpy(top, parts[0].lse, sizeof top);
    for (int p = 1; p < PARTS; p++)
        attention_raise(N, parts[p].lse, top);
    for (int p = 0; p < PARTS; p++) {
        store(from, parts[p].o, N * dim, stored);
        attention_weigh(ROWS, HEADS, dim, from, stored, parts[p].lse, top, to, numerator, denominator);
        attention_accumulate(N * dim, DTYPE_FP32, sum, to, numerator, p == 0);
        attention_accumulate(N, DTYPE_FP32, denominators, DTYPE_FP32, denominator, p == 0);
    }
    attention_normalize(ROWS, HEADS, dim, DTYPE_FP32, sum, denominators, top, to, result, lse);
    attention_accumulate(N * dim, DTYPE_FP32, o, to, result, 1);
}

static void both_ways_of_joining_parts_give_their_softmax(void **state)
{
    USE_ISA(state);
    static struct part parts[PARTS];
    static float o[N * DIM_MOST];
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    float lse[N];
    for (size_t dim = 1; dim <= DIM_MOST; dim += dim < 20 ? 1 : 5) {
        make_parts(parts, dim);
        for (size_t pair = 0; pair < 4; pair++) {
            enum dtype from = dtypes[pair / 2], to = dtypes[pair % 2];
            double tolerance = to == DTYPE_BF16 ? 3e-2 : 2e-6; /* the parts are whole numbers: exact in both */
            correct_parts(parts, dim, from, to, o, lse);
            expect_joined(parts, dim, o, lse, tolerance);
            weigh_parts(parts, dim, from, to, o, lse);
            expect_joined(parts, dim, o, lse, tolerance);
        }
    }
}

static void parts_far_apart_leave_the_larger_alone(void **state)
{
    USE_ISA(state);
    const float small[1] = {-1e5F}, large[1] = {100}, one[2] = {1, 2}, other[2] = {-3, 4};
    float lse = 0, o[2], top = 0, denominator = 0;
    attention_sum_lse(1, small, &lse, 1);
    attention_sum_lse(1, large, &lse, 0);
    assert_true(lse == 100);
    attention_sum_lse(1, small, &lse, 0);
    assert_true(lse == 100);
    attention_correct(1, 1, 2, DTYPE_FP32, one, small, &lse, DTYPE_FP32, o, 1);
    attention_correct(1, 1, 2, DTYPE_FP32, other, large, &lse, DTYPE_FP32, o, 0);
    assert_memory_equal(o, other, sizeof o);
    top = *small;
    attention_raise(1, large, &top);
    attention_raise(1, small, &top);
    assert_true(top == 100);
    attention_weigh(1, 1, 2, DTYPE_FP32, one, small, &top, DTYPE_FP32, o, &denominator);
    assert_true(o[0] == 0 && o[1] == 0 && denominator == 0);
}

/* Whatever stands in an empty part, it takes no part; all empty give O = 0 and LSE = -inf, never NaN. */
static void empty_parts_take_no_part(void **state)
{
    USE_ISA(state);
    const float nothing[1] = {-INFINITY}, some[1] = {0.5F}, zeros[20] = {0}, part[20] = {1, [19] = -7};
    float lse = NAN, o[20], numerator[20], denominator = NAN, top = -INFINITY;
    attention_sum_lse(1, nothing, &lse, 1);
    attention_sum_lse(1, nothing, &lse, 0);
    assert_true(lse == -INFINITY);
    memset(o, 0xff, sizeof o);
    attention_correct(1, 1, 20, DTYPE_FP32, zeros, nothing, &lse, DTYPE_FP32, o, 1);
    attention_correct(1, 1, 20, DTYPE_FP32, zeros, nothing, &lse, DTYPE_FP32, o, 0);
    assert_memory_equal(o, zeros, sizeof o);
    attention_raise(1, nothing, &top);
    attention_weigh(1, 1, 20, DTYPE_FP32, zeros, nothing, &top, DTYPE_FP32, numerator, &denominator);
    assert_true(denominator == 0);
    memset(o, 0xff, sizeof o);
    attention_normalize(1, 1, 20, DTYPE_FP32, numerator, &denominator, &top, DTYPE_FP32, o, &lse);
    assert_memory_equal(o, zeros, sizeof o);
    assert_true(lse == -INFINITY);
    attention_sum_lse(1, some, &lse, 0);
    attention_sum_lse(1, nothing, &lse, 0);
    assert_true(lse == 0.5F);
    attention_correct(1, 1, 20, DTYPE_FP32, part, some, &lse, DTYPE_FP32, o, 1);
    assert_memory_equal(o, part, sizeof o);
}

static void a_nan_in_any_part_shows(void **state)
{
    USE_ISA(state);
    const float bad[1] = {NAN}, good[1] = {1}, part[1] = {2};
    float lse = 1, top = 1, o[1], denominator;
    attention_sum_lse(1, bad, &lse, 0);
    assert_true(isnan(lse));
    attention_sum_lse(1, good, &lse, 0);
    assert_true(isnan(lse));
    attention_correct(1, 1, 1, DTYPE_FP32, part, good, &lse, DTYPE_FP32, o, 1);
    assert_true(isnan(o[0]));
    attention_raise(1, bad, &top);
    attention_raise(1, good, &top);
    assert_true(isnan(top));
    attention_weigh(1, 1, 1, DTYPE_FP32, part, good, &top, DTYPE_FP32, o, &denominator);
    assert_true(isnan(o[0]) && isnan(denominator));
    attention_normalize(1, 1, 1, DTYPE_FP32, part, &denominator, good, DTYPE_FP32, o, &lse);
    assert_true(isnan(o[0]) && isnan(lse));
    attention_correct(1, 1, 1, DTYPE_FP32, bad, good, good, DTYPE_FP32, o, 1);
    assert_true(isnan(o[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_EACH_ISA(both_ways_of_joining_parts_give_their_softmax),
        TEST_EACH_ISA(parts_far_apart_leave_the_larger_alone),
        TEST_EACH_ISA(empty_parts_take_no_part),
        TEST_EACH_ISA(a_nan_in_any_part_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
