/* cuda_element_cases.h - the steps on each number or lane alone, of the CUDA kernels, against their formulas in double
 * precision: dims that fill whole vectors and that do not, arrays with padding (misaligned vectors) and without, lanes
 * inside larger arrays, empty parts. */
#ifndef CPSIM_TESTS_GPU_CUDA_ELEMENT_CASES_H
#define CPSIM_TESTS_GPU_CUDA_ELEMENT_CASES_H

#include "cuda_scene.h"

/* Arrays of a test: the first `many` have `dim` numbers a lane. Lanes of items [1, 3) of 4, heads [1, 3) of 4 with
 * `inside`, else all. */
#define ELEMENT_ARRAYS 6
struct elements {
    struct tensor of[ELEMENT_ARRAYS];
    double *before[ELEMENT_ARRAYS]; /* numbers of the lanes: [row][item][head][dim] */
    size_t n, rows, first, count;   /* items and heads [first, first + count) */
    size_t dim;
};

static size_t element_index(const struct elements *e, size_t dim, size_t row, size_t item, size_t head, size_t d)
{
    return ((row * e->count + item) * e->count + head) * dim + d;
}

static void elements_add(struct elements *e, enum dtype dtype, size_t dim, bool inside, size_t padding, double empty)
{
    struct tensor t = tensor_make(dtype, e->rows, inside ? 4 : e->count, inside ? 4 : e->count, dim, padding);
    double *before = memory_zeroed(e->rows * e->count * e->count * dim, sizeof *before);
    for (size_t row = 0; row < e->rows; row++)
        for (size_t item = 0; item < e->count; item++)
            for (size_t head = 0; head < e->count; head++)
                for (size_t d = 0; d < dim; d++) {
                    const double value = empty != 0 && rand() / 7 % 4 == 0 ? empty : number_random();
                    before[element_index(e, dim, row, item, head, d)] = value;
                    tensor_set(&t, row, e->first + item, e->first + head, d, value);
                }
    tensor_send(&t);
    e->of[e->n] = t;
    e->before[e->n++] = before;
}

static struct cuda_array elements_array(const struct elements *e, size_t i)
{
    return tensor_array(&e->of[i], e->first, e->first);
}

/* Sets array i's numbers before the step. */
static void elements_set(struct elements *e, size_t i, size_t row, size_t item, size_t head, size_t d, double value)
{
    e->before[i][element_index(e, e->of[i].dim, row, item, head, d)] = value;
    tensor_set(&e->of[i], row, e->first + item, e->first + head, d, value);
}

/* A lane of which nothing was seen anywhere: its part's LSE, and all parts'. */
static void elements_empty(struct elements *e, size_t part, size_t whole)
{
    elements_set(e, part, 3, 0, 1, 0, (double)-INFINITY);
    elements_set(e, whole, 3, 0, 1, 0, (double)-INFINITY);
    tensor_send(&e->of[part]);
    tensor_send(&e->of[whole]);
}

/* The numbers of a lane before and after. */
struct element_lane {
    const double *before[ELEMENT_ARRAYS];
    double after[ELEMENT_ARRAYS][512];
};

/* Calls `check` on every lane; what is not of the lanes must be poison still. */
static void elements_check(struct elements *e, void (*check)(const struct element_lane *lane, size_t dim, int first),
                           int first)
{
    struct element_lane lane;
    for (size_t i = 0; i < e->n; i++)
        tensor_fetch(&e->of[i]);
    for (size_t row = 0; row < e->rows; row++)
        for (size_t item = 0; item < e->count; item++)
            for (size_t head = 0; head < e->count; head++) {
                for (size_t i = 0; i < e->n; i++) {
                    struct tensor *t = &e->of[i];
                    lane.before[i] = &e->before[i][element_index(e, t->dim, row, item, head, 0)];
                    for (size_t d = 0; d < t->dim; d++)
                        lane.after[i][d] = tensor_get(t, row, e->first + item, e->first + head, d);
                    memset(t->host + tensor_offset(t, row, e->first + item, e->first + head), 0xff,
                           t->dim * dtype_bytes(t->dtype));
                }
                check(&lane, e->dim, first);
            }
    for (size_t i = 0; i < e->n; i++) {
        for (size_t b = 0; b < e->of[i].bytes; b++)
            assert_int_equal(e->of[i].host[b], 0xff);
        tensor_free(&e->of[i]);
        free(e->before[i]);
    }
}

static double tolerance; /* relative, of the stored dtype */

static void assert_near(double value, double expected)
{
    if (value == expected)
        return;
    if (!(fabs(value - expected) <= tolerance * (fabs(expected) + 1)))
        fail_msg("%.9g instead of %.9g", value, expected);
}

static void check_merge(const struct element_lane *lane, size_t dim, int first)
{
    const double part = lane->before[2][0], m = first ? (double)-INFINITY : lane->before[3][0],
                 l = first ? 0 : lane->before[4][0], top = fmax(part, m);
    const double keep = m == (double)-INFINITY ? 0 : exp(m - top),
                 take = part == (double)-INFINITY ? 0 : exp(part - top);
    assert_near(lane->after[3][0], top);
    assert_near(lane->after[4][0], l * keep + take);
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], (keep != 0 ? keep * lane->before[1][d] : 0) + take * lane->before[0][d]);
}

static void check_finish(const struct element_lane *lane, size_t dim, int first)
{
    (void)first;
    const double l = lane->before[3][0];
    assert_near(lane->after[4][0], l == 0 ? (double)-INFINITY : lane->before[2][0] + log(l));
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], l == 0 ? 0 : lane->before[0][d] / l);
}

static void check_delta(const struct element_lane *lane, size_t dim, int first)
{
    (void)first;
    double sum = 0;
    for (size_t d = 0; d < dim; d++)
        sum += lane->before[0][d] * lane->before[1][d];
    assert_near(lane->after[2][0], sum);
}

static double element_weight(double a, double b)
{
    return a == (double)-INFINITY ? 0 : exp(a - b);
}

static void check_correct(const struct element_lane *lane, size_t dim, int first)
{
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], (first ? 0 : lane->before[1][d]) +
                                           lane->before[0][d] * element_weight(lane->before[2][0], lane->before[3][0]));
}

static void check_weigh(const struct element_lane *lane, size_t dim, int first)
{
    (void)first;
    const double weight = element_weight(lane->before[2][0], lane->before[3][0]);
    assert_near(lane->after[4][0], weight);
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], lane->before[0][d] * weight);
}

static void check_normalize(const struct element_lane *lane, size_t dim, int first)
{
    (void)first;
    const double sum = lane->before[2][0];
    assert_near(lane->after[4][0], sum == 0 ? (double)-INFINITY : lane->before[3][0] + log(sum));
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], sum == 0 ? 0 : lane->before[0][d] / sum);
}

static void check_accumulate(const struct element_lane *lane, size_t dim, int first)
{
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[0][d], (first ? 0 : lane->before[0][d]) + lane->before[1][d]);
}

static void check_sum_lse(const struct element_lane *lane, size_t dim, int first)
{
    for (size_t d = 0; d < dim; d++) {
        const double part = lane->before[0][d], lse = lane->before[1][d], top = fmax(part, lse);
        assert_near(lane->after[1][d], first                      ? part
                                       : top == (double)-INFINITY ? top
                                                                  : top + log(exp(part - top) + exp(lse - top)));
    }
}

static void check_raise(const struct element_lane *lane, size_t dim, int first)
{
    (void)first;
    for (size_t d = 0; d < dim; d++)
        assert_near(lane->after[1][d], fmax(lane->before[0][d], lane->before[1][d]));
}

static void steps_agree_with_their_formulas(void **state)
{
    (void)state;
    srand(8);
    static const size_t dims[] = {64, 128, 256, 1, 5, 40, 300};
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    static const double minus_infinity = (double)-INFINITY;
    for (size_t turn = 0; turn < 21; turn++) {
        const size_t dim = dims[turn % 7], padding = turn % 3 == 1 ? 8 : turn % 3 == 2 ? 3 : 0;
        const bool inside = turn / 7 % 2;
        const enum dtype dtype = dtypes[turn % 3], other = dtypes[(turn + turn / 3) % 3];
        const int first = turn % 2 == 0;
        tolerance = dtype == DTYPE_FP32 && other == DTYPE_FP32 ? 1e-6 : 5e-3;
#define ELEMENTS_NEW(...)                                                                                              \
    struct elements e = {.rows = 5, .first = inside ? 1 : 0, .count = 2, .dim = dim};                                  \
    const cuda_step_array wanted[] = {__VA_ARGS__};                                                                    \
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)                                                        \
    elements_add(&e, wanted[i].dtype, wanted[i].many ? dim : 1, inside, padding, wanted[i].empty)
        typedef struct {
            enum dtype dtype;
            bool many;
            double empty;
        } cuda_step_array;
        const struct cuda_extent extent = {5, 2, 2, (uint32_t)dim};
        {
            ELEMENTS_NEW({dtype, true, 0}, {DTYPE_FP32, true, 0}, {DTYPE_FP32, false, minus_infinity},
                         {DTYPE_FP32, false, 0}, {DTYPE_FP32, false, 0});
            /* One state is empty: what its O is does not matter. */
            elements_set(&e, 3, 2, 1, 1, 0, minus_infinity);
            elements_set(&e, 4, 2, 1, 1, 0, 0);
            for (size_t d = 0; d < dim; d++)
                elements_set(&e, 1, 2, 1, 1, d, 0);
            tensor_send(&e.of[1]);
            tensor_send(&e.of[3]);
            tensor_send(&e.of[4]);
            tolerance = 1e-6;
            assert_int_equal(cuda_merge(extent, elements_array(&e, 0), elements_array(&e, 2), elements_array(&e, 1),
                                        elements_array(&e, 3), elements_array(&e, 4), first, NULL),
                             0);
            elements_check(&e, check_merge, first);
        }
        tolerance = dtype == DTYPE_FP32 && other == DTYPE_FP32 ? 1e-6 : 5e-3;
        {
            ELEMENTS_NEW({DTYPE_FP32, true, 0}, {dtype, true, 0}, {DTYPE_FP32, false, 0}, {DTYPE_FP32, false, 0},
                         {DTYPE_FP32, false, 0});
            for (size_t row = 0; row < 5; row++)
                for (size_t lane = 0; lane < 4; lane++)
                    elements_set(&e, 3, row, lane / 2, lane % 2, 0, lane == row ? 0 : 1.5 + (double)lane);
            tensor_send(&e.of[3]);
            assert_int_equal(cuda_finish(extent, elements_array(&e, 0), elements_array(&e, 2), elements_array(&e, 3),
                                         elements_array(&e, 1), elements_array(&e, 4), NULL),
                             0);
            elements_check(&e, check_finish, first);
        }
        {
            ELEMENTS_NEW({dtype, true, 0}, {dtype, true, 0}, {DTYPE_FP32, false, 0});
            assert_int_equal(
                cuda_delta(extent, elements_array(&e, 0), elements_array(&e, 1), elements_array(&e, 2), NULL), 0);
            elements_check(&e, check_delta, first);
        }
        {
            ELEMENTS_NEW({dtype, true, 0}, {other, true, 0}, {DTYPE_FP32, false, minus_infinity},
                         {DTYPE_FP32, false, 0});
            elements_empty(&e, 2, 3);
            assert_int_equal(cuda_correct(extent, elements_array(&e, 0), elements_array(&e, 2), elements_array(&e, 3),
                                          elements_array(&e, 1), first, NULL),
                             0);
            elements_check(&e, check_correct, first);
        }
        {
            ELEMENTS_NEW({dtype, true, 0}, {other, true, 0}, {DTYPE_FP32, false, minus_infinity},
                         {DTYPE_FP32, false, 0}, {DTYPE_FP32, false, 0});
            elements_empty(&e, 2, 3);
            assert_int_equal(cuda_weigh(extent, elements_array(&e, 0), elements_array(&e, 2), elements_array(&e, 3),
                                        elements_array(&e, 1), elements_array(&e, 4), NULL),
                             0);
            elements_check(&e, check_weigh, first);
        }
        {
            ELEMENTS_NEW({dtype, true, 0}, {other, true, 0}, {DTYPE_FP32, false, 0}, {DTYPE_FP32, false, 0},
                         {DTYPE_FP32, false, 0});
            for (size_t row = 0; row < 5; row++)
                for (size_t lane = 0; lane < 4; lane++)
                    elements_set(&e, 2, row, lane / 2, lane % 2, 0, lane == row ? 0 : 0.5 + (double)lane);
            tensor_send(&e.of[2]);
            assert_int_equal(cuda_normalize(extent, elements_array(&e, 0), elements_array(&e, 2), elements_array(&e, 3),
                                            elements_array(&e, 1), elements_array(&e, 4), NULL),
                             0);
            elements_check(&e, check_normalize, first);
        }
        {
            ELEMENTS_NEW({other, true, 0}, {dtype, true, 0});
            assert_int_equal(cuda_accumulate(extent, elements_array(&e, 0), elements_array(&e, 1), first, NULL), 0);
            elements_check(&e, check_accumulate, first);
        }
        tolerance = 1e-6;
        {
            ELEMENTS_NEW({DTYPE_FP32, true, minus_infinity}, {DTYPE_FP32, true, minus_infinity});
            assert_int_equal(cuda_sum_lse(extent, elements_array(&e, 0), elements_array(&e, 1), first, NULL), 0);
            elements_check(&e, check_sum_lse, first);
        }
        {
            ELEMENTS_NEW({DTYPE_FP32, true, minus_infinity}, {DTYPE_FP32, true, minus_infinity});
            assert_int_equal(cuda_raise(extent, elements_array(&e, 0), elements_array(&e, 1), NULL), 0);
            elements_check(&e, check_raise, first);
        }
#undef ELEMENTS_NEW
    }
}

/* Rows of two parts, each every second row of the joined tensor, there and back; bits are kept. */
static void rows_are_interleaved_by_strides(void **state)
{
    (void)state;
    srand(9);
    struct tensor joined = tensor_make(DTYPE_BF16, 10, 2, 3, 64, 0), back = tensor_make(DTYPE_BF16, 10, 2, 3, 64, 0),
                  part = tensor_make(DTYPE_BF16, 5, 2, 3, 64, 8);
    for (size_t i = 0; i + 2 < joined.bytes; i += 2)
        number_write(DTYPE_BF16, joined.host + i, number_random());
    tensor_send(&joined);
    const struct cuda_extent extent = {5, 2, 3, 64};
    for (size_t which = 0; which < 2; which++) {
        struct cuda_array from = tensor_array(&joined, 0, 0), to = tensor_array(&back, 0, 0);
        from.first = (char *)from.first + which * joined.strides.row * 2;
        to.first = (char *)to.first + which * joined.strides.row * 2;
        from.strides.row *= 2;
        to.strides.row *= 2;
        assert_int_equal(cuda_accumulate(extent, tensor_array(&part, 0, 0), from, 1, NULL), 0);
        assert_int_equal(cuda_accumulate(extent, to, tensor_array(&part, 0, 0), 1, NULL), 0);
    }
    tensor_fetch(&back);
    assert_memory_equal(back.host, joined.host, joined.bytes);
    tensor_free(&joined);
    tensor_free(&back);
    tensor_free(&part);
}

/* One item, rows that begin at no multiple of 16 bytes. */
static void rows_at_odd_places_are_copied(void **state)
{
    (void)state;
    srand(11);
    struct tensor from = tensor_make(DTYPE_BF16, 6, 1, 2, 64, 3), to = tensor_make(DTYPE_FP32, 6, 1, 2, 64, 0);
    for (size_t row = 0; row < 6; row++)
        for (size_t i = 0; i < 128; i++)
            tensor_set(&from, row, 0, i / 64, i % 64, number_random());
    tensor_send(&from);
    assert_int_equal(
        cuda_accumulate((struct cuda_extent){6, 1, 2, 64}, tensor_array(&to, 0, 0), tensor_array(&from, 0, 0), 1, NULL),
        0);
    tensor_fetch(&to);
    for (size_t row = 0; row < 6; row++)
        for (size_t i = 0; i < 128; i++)
            assert_true(tensor_get(&to, row, 0, i / 64, i % 64) == tensor_get(&from, row, 0, i / 64, i % 64));
    tensor_free(&from);
    tensor_free(&to);
}

/* What is not a number is never hidden, except in an empty part. */
static void not_a_number_stays(void **state)
{
    (void)state;
    struct tensor a = tensor_make(DTYPE_FP32, 1, 1, 8, 1, 0), b = tensor_make(DTYPE_FP32, 1, 1, 8, 1, 0);
    for (size_t i = 0; i < 8; i++) {
        tensor_set(&a, 0, 0, i, 0, i < 4 ? (double)NAN : 1);
        tensor_set(&b, 0, 0, i, 0, i < 4 ? 1 : (double)NAN);
    }
    tensor_send(&a);
    tensor_send(&b);
    assert_int_equal(cuda_raise((struct cuda_extent){1, 1, 8, 1}, tensor_array(&a, 0, 0), tensor_array(&b, 0, 0), NULL),
                     0);
    tensor_fetch(&b);
    for (size_t i = 0; i < 8; i++)
        assert_true(isnan(tensor_get(&b, 0, 0, i, 0)));
    tensor_free(&a);
    tensor_free(&b);
}

#define CUDA_ELEMENT_CASES                                                                                             \
    cmocka_unit_test(steps_agree_with_their_formulas), cmocka_unit_test(rows_are_interleaved_by_strides),              \
        cmocka_unit_test(rows_at_odd_places_are_copied), cmocka_unit_test(not_a_number_stays)

#endif
