/* Matrix products of every instruction set against double precision: sizes around every block's edge, both orders of
 * both operands, strides, bf16, sums into C; and that nothing beside C is written. */
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
#include "kernels/product.h"
#include "models/base/memory.h"

/* A matrix as it is stored, its numbers as they are in its dtype, and how many elements a row takes. */
struct matrix {
    size_t rows, dim, stride;
    enum dtype dtype;
    void *stored;
    double *numbers; /* dense */
};

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Numbers in [-1, 1); what lies between rows is NaN. */
static struct matrix matrix_make(size_t rows, size_t dim, size_t gap, enum dtype dtype, uint32_t *seed)
{
    struct matrix m = {rows, dim, dim + gap, dtype, NULL, memory_zeroed(rows * dim, sizeof(double))};
    float *numbers = memory_zeroed(rows * m.stride, sizeof *numbers);
    for (size_t i = 0; i < rows * m.stride; i++)
        numbers[i] = i % m.stride < dim ? (float)next(seed) / (1 << 23) - 1 : NAN;
    m.stored = memory_zeroed(rows * m.stride, dtype_bytes(dtype));
    attention_accumulate(rows * m.stride, dtype, m.stored, DTYPE_FP32, numbers, 1);
    attention_accumulate(rows * m.stride, DTYPE_FP32, numbers, dtype, m.stored, 1);
    for (size_t i = 0; i < rows * dim; i++)
        m.numbers[i] = (double)numbers[i / dim * m.stride + i % dim];
    free(numbers);
    return m;
}

static void matrix_free(struct matrix *m)
{
    free(m->stored);
    free(m->numbers);
}

static struct product_operand operand_of(const struct matrix *m, bool transposed)
{
    return (struct product_operand){
        .dtype = m->dtype, .at = m->stored, .stride = m->stride == m->dim ? 0 : m->stride, .transposed = transposed};
}

struct shape {
    size_t rows, columns, depth;
};

struct way {
    bool a_transposed, b_transposed, add;
    size_t gap;
    enum dtype a, b, c;
};

/* |error| of a sum of `depth` fp32 products is at most (depth + 2) roundings of the sum of their magnitudes, each at
 * most 1; then C's own rounding. */
static void expect_close(const struct shape *shape, const struct way *way, const float *got, const double *expected)
{
    double sum = ((double)shape->depth + 3) * 0x1p-24 * ((double)shape->depth + 1);
    for (size_t i = 0; i < shape->rows * shape->columns; i++) {
        double bound = sum + (way->c == DTYPE_BF16 ? fabs(expected[i]) * 0x1p-8 : 0);
        if (!(fabs((double)got[i] - expected[i]) <= bound))
            fail_msg("%zu x %zu x %zu%s%s%s gap %zu %s %s %s: (%zu, %zu) is %.9g, expected %.9g within %.3g",
                     shape->rows, shape->columns, shape->depth, way->a_transposed ? " A^T" : "",
                     way->b_transposed ? " B^T" : "", way->add ? " add" : "", way->gap, dtype_name(way->a),
                     dtype_name(way->b), dtype_name(way->c), i / shape->columns, i % shape->columns, (double)got[i],
                     expected[i], bound);
    }
}

static void check(const struct shape *shape, const struct way *way)
{
    uint32_t seed = (uint32_t)(shape->rows * 31 + shape->columns * 7 + shape->depth);
    size_t rows = shape->rows, columns = shape->columns, depth = shape->depth;
    struct matrix a =
        matrix_make(way->a_transposed ? depth : rows, way->a_transposed ? rows : depth, way->gap, way->a, &seed);
    struct matrix b =
        matrix_make(way->b_transposed ? columns : depth, way->b_transposed ? depth : columns, way->gap, way->b, &seed);
    struct matrix c = matrix_make(rows, columns, way->gap, way->c, &seed);
    size_t c_bytes = dtype_bytes(way->c), count = rows * c.stride;
    if (!way->add) /* what C held must not matter */
        memset(c.stored, 0xff, count * c_bytes);
    double *expected = memory_zeroed(rows * columns, sizeof *expected);
    product_reference(rows, columns, depth, a.numbers, way->a_transposed, b.numbers, way->b_transposed, expected);
    for (size_t i = 0; i < rows * columns && way->add; i++)
        expected[i] += c.numbers[i];
    const struct product_call call = {.rows = rows,
                                      .columns = columns,
                                      .depth = depth,
                                      .a = operand_of(&a, way->a_transposed),
                                      .b = operand_of(&b, way->b_transposed),
                                      .c_dtype = way->c,
                                      .c = c.stored,
                                      .c_stride = way->gap ? c.stride : 0,
                                      .add = way->add};
    product_multiply(&call);
    float *all = memory_zeroed(count, sizeof *all), *got = memory_zeroed(rows * columns, sizeof *got);
    attention_accumulate(count, DTYPE_FP32, all, way->c, c.stored, 1);
    for (size_t i = 0; i < count; i++) {
        if (i % c.stride < columns)
            got[i / c.stride * columns + i % c.stride] = all[i];
        else if (!isnan(all[i]))
            fail_msg("row %zu of C was written beyond its end", i / c.stride);
    }
    expect_close(shape, way, got, expected);
    free(all);
    free(got);
    free(expected);
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
}

static const enum dtype two_dtypes[] = {DTYPE_FP32, DTYPE_BF16};

static void products_of_every_order_and_dtype_agree_with_the_reference(void **state)
{
    USE_ISA(state);
    static const struct shape shapes[] = {{1, 1, 1}, {5, 7, 3}, {12, 32, 16}, {13, 33, 17}, {290, 50, 200}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (unsigned bits = 0; bits < 128; bits++) {
            const struct way way = {.a_transposed = bits & 1,
                                    .b_transposed = bits & 2,
                                    .add = bits & 4,
                                    .gap = bits & 8 ? 5 : 0,
                                    .a = two_dtypes[bits >> 4 & 1],
                                    .b = two_dtypes[bits >> 5 & 1],
                                    .c = two_dtypes[bits >> 6 & 1]};
            check(&shapes[s], &way);
        }
    }
}

/* Every extent at and beside the edges of vectors, panels, register tiles and blocks. */
static void products_of_any_extent_agree_with_the_reference(void **state)
{
    USE_ISA(state);
    static const size_t extents[] = {1,  2,  3,  4,   6,   8,   11,  15,  16,  31, 64,
                                     65, 95, 96, 191, 192, 193, 287, 288, 289, 400};
    const size_t n = sizeof extents / sizeof *extents;
    for (size_t i = 0; i < n * 3; i++) {
        struct shape shape = {7, 9, 10};
        (i / n == 0 ? &shape.rows : i / n == 1 ? &shape.columns : &shape.depth)[0] = extents[i % n];
        for (unsigned bits = 0; bits < 4; bits++)
            check(&shape, &(struct way){.a_transposed = bits & 1,
                                        .b_transposed = bits & 2,
                                        .gap = 3,
                                        .a = DTYPE_FP32,
                                        .b = DTYPE_BF16,
                                        .c = DTYPE_FP32});
    }
    for (unsigned bits = 0; bits < 4; bits++) /* several blocks each way */
        check(&(struct shape){577, 600, 401}, &(struct way){.a_transposed = bits & 1,
                                                            .b_transposed = bits & 2,
                                                            .add = bits == 3,
                                                            .a = DTYPE_FP32,
                                                            .b = DTYPE_FP32,
                                                            .c = DTYPE_FP32});
}

static void whole_numbers_come_out_exact(void **state)
{
    USE_ISA(state);
    enum { ROWS = 50, COLUMNS = 70, DEPTH = 300 };
    float *a = memory_zeroed((size_t)ROWS * DEPTH, sizeof *a), *b = memory_zeroed((size_t)DEPTH * COLUMNS, sizeof *b);
    float *c = memory_zeroed((size_t)ROWS * COLUMNS, sizeof *c);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < DEPTH; k++)
            a[i * DEPTH + k] = (float)(i == k % ROWS); /* row i sums b's rows i, i + 50, ... */
    for (int k = 0; k < DEPTH; k++)
        for (int j = 0; j < COLUMNS; j++)
            b[k * COLUMNS + j] = (float)(k * 100 + j);
    product_multiply(&(struct product_call){.rows = ROWS,
                                            .columns = COLUMNS,
                                            .depth = DEPTH,
                                            .a = {.at = a, .dtype = DTYPE_FP32},
                                            .b = {.at = b, .dtype = DTYPE_FP32},
                                            .c_dtype = DTYPE_FP32,
                                            .c = c});
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            assert_true(c[i * COLUMNS + j] == (float)(6 * (i * 100 + j) + 100 * 50 * 15));
    free(a);
    free(b);
    free(c);
}

static void no_depth_makes_zeros_or_nothing(void **state)
{
    USE_ISA(state);
    float c[6] = {1, 2, 3, 4, 5, 6};
    struct product_call call = {.rows = 2,
                                .columns = 3,
                                .a = {.dtype = DTYPE_FP32},
                                .b = {.dtype = DTYPE_FP32},
                                .c_dtype = DTYPE_FP32,
                                .c = c,
                                .add = true};
    product_multiply(&call);
    for (int i = 0; i < 6; i++)
        assert_true(c[i] == (float)(i + 1));
    call.add = false;
    product_multiply(&call);
    for (int i = 0; i < 6; i++)
        assert_true(c[i] == 0);
    call.rows = 0;
    call.depth = 4;
    product_multiply(&call); /* nothing to read or write */
}

static void count_calls(void *context)
{
    ++*(int *)context;
}

static void messages_are_progressed_in_between(void **state)
{
    USE_ISA(state);
    int calls = 0;
    float *numbers = memory_zeroed(600 * 600, sizeof *numbers), *c = memory_zeroed(600 * 600, sizeof *c);
    product_multiply(&(struct product_call){.rows = 600,
                                            .columns = 600,
                                            .depth = 600,
                                            .a = {.at = numbers, .dtype = DTYPE_FP32},
                                            .b = {.at = numbers, .dtype = DTYPE_FP32},
                                            .c_dtype = DTYPE_FP32,
                                            .c = c,
                                            .between_blocks = count_calls,
                                            .between_blocks_context = &calls});
    assert_true(calls >= 9);
    free(numbers);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_EACH_ISA(products_of_every_order_and_dtype_agree_with_the_reference),
        TEST_EACH_ISA(products_of_any_extent_agree_with_the_reference),
        TEST_EACH_ISA(whole_numbers_come_out_exact),
        TEST_EACH_ISA(no_depth_makes_zeros_or_nothing),
        TEST_EACH_ISA(messages_are_progressed_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
