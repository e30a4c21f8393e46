/* The reference against cases whose answer is known without it: exact symmetric inputs, finite differences, extremes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdlib.h>

#include "kernels/reference.h"
#include "models/base/memory.h"

/* All tensors of one case, filled with numbers in [-1, 1]; freed together. */
struct tensors {
    struct reference_shape shape;
    double *q, *k, *v, *o, *lse, *d_o, *dq, *dk, *dv;
    size_t q_count, kv_count;
};

static double *random_numbers(size_t count)
{
    double *numbers = memory_zeroed(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = 2.0 * rand() / RAND_MAX - 1;
    return numbers;
}

static struct tensors make(size_t rows, size_t q_heads, size_t kv_heads, size_t head_dim, const struct mask *mask)
{
    struct tensors t = {.shape = {rows, q_heads, kv_heads, head_dim, 1 / sqrt((double)head_dim), mask},
                        .q_count = rows * q_heads * head_dim,
                        .kv_count = rows * kv_heads * head_dim};
    t.q = random_numbers(t.q_count);
    t.k = random_numbers(t.kv_count);
    t.v = random_numbers(t.kv_count);
    t.d_o = random_numbers(t.q_count);
    t.o = random_numbers(t.q_count);
    t.lse = random_numbers(rows * q_heads);
    t.dq = random_numbers(t.q_count);
    t.dk = random_numbers(t.kv_count);
    t.dv = random_numbers(t.kv_count);
    return t;
}

static void release(struct tensors *t)
{
    double *all[] = {t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void forward(struct tensors *t)
{
    reference_forward(&t->shape, t->q, t->k, t->v, t->o, t->lse);
}

static void backward(struct tensors *t)
{
    reference_backward(&t->shape, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv);
}

/* NaN is never close. */
static void assert_close(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, expected);
}

/* Q = 0, V_j = j: every visible key weighs the same. */
static struct tensors symmetric(size_t rows, const struct mask *mask)
{
    struct tensors t = make(rows, 1, 1, 1, mask);
    for (size_t i = 0; i < rows; i++) {
        t.q[i] = 0;
        t.v[i] = (double)i;
    }
    return t;
}

static void zero_queries_under_a_causal_mask_average_what_came_before(void **state)
{
    (void)state;
    enum { ROWS = 16 };
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = ROWS};
    struct tensors t = symmetric(ROWS, &mask);
    forward(&t);
    backward(&t);
    for (size_t i = 0; i < ROWS; i++) {
        assert_close(t.o[i], (double)i / 2, 1e-14);
        assert_close(t.lse[i], log((double)i + 1), 1e-14);
        double expected = 0;
        for (size_t row = i; row < ROWS; row++)
            expected += t.d_o[row] / (double)(row + 1);
        assert_close(t.dv[i], expected, 1e-14);
        assert_close(t.dk[i], 0, 0); /* dK = dS^T Q, and Q = 0 */
    }
    release(&t);
}

static void zero_queries_under_the_full_mask_average_everything(void **state)
{
    (void)state;
    enum { ROWS = 15 };
    struct mask mask = {.kind = MASK_FULL, .seq_len = ROWS};
    struct tensors t = symmetric(ROWS, &mask);
    forward(&t);
    backward(&t);
    double expected = 0;
    for (size_t row = 0; row < ROWS; row++)
        expected += t.d_o[row] / ROWS;
    for (size_t i = 0; i < ROWS; i++) {
        assert_close(t.o[i], (ROWS - 1) / 2.0, 1e-14);
        assert_close(t.lse[i], log(ROWS), 1e-14);
        assert_close(t.dv[i], expected, 1e-14);
    }
    release(&t);
}

static void zero_queries_under_a_window_and_documents_average_what_they_see(void **state)
{
    (void)state;
    uint64_t starts[] = {0, 4, 12};
    struct mask window = {.kind = MASK_WINDOW, .seq_len = 12, .window = 3};
    struct mask documents = {.kind = MASK_DOCUMENTS, .seq_len = 12, .document_starts = starts, .n_documents = 2};
    struct tensors w = symmetric(12, &window), d = symmetric(12, &documents);
    forward(&w);
    forward(&d);
    for (size_t i = 0; i < 12; i++) {
        size_t first = i < 2 ? 0 : i - 2;
        assert_close(w.o[i], (double)(first + i) / 2, 1e-14);
        assert_close(w.lse[i], log((double)(i - first + 1)), 1e-14);
        first = i < 4 ? 0 : 4;
        assert_close(d.o[i], (double)(first + i) / 2, 1e-14);
        assert_close(d.lse[i], log((double)(i - first + 1)), 1e-14);
    }
    release(&w);
    release(&d);
}

static double loss(struct tensors *t)
{
    forward(t);
    double sum = 0;
    for (size_t i = 0; i < t->q_count; i++)
        sum += t->d_o[i] * t->o[i];
    return sum;
}

/* `gradient` of `input` against central differences of the loss sum <dO, O>. */
static void check_gradient(struct tensors *t, double *input, const double *gradient, size_t count)
{
    const double step = 1e-5;
    for (size_t i = 0; i < count; i++) {
        double value = input[i];
        input[i] = value + step;
        double up = loss(t);
        input[i] = value - step;
        double down = loss(t);
        input[i] = value;
        assert_close(gradient[i], (up - down) / (2 * step), 1e-8);
    }
}

static void gradients_equal_finite_differences_for_every_head_ratio(void **state)
{
    (void)state;
    srand(1);
    const size_t heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {5, 5}};
    uint64_t starts[] = {0, 2, 3, 7};
    struct mask masks[] = {
        {.kind = MASK_FULL, .seq_len = 7},
        {.kind = MASK_CAUSAL, .seq_len = 7},
        {.kind = MASK_WINDOW, .seq_len = 7, .window = 3},
        {.kind = MASK_DOCUMENTS, .seq_len = 7, .document_starts = starts, .n_documents = 3},
    };
    for (size_t h = 0; h < 4; h++) {
        for (size_t m = 0; m < 4; m++) {
            struct tensors t = make(7, heads[h][0], heads[h][1], 3, &masks[m]);
            forward(&t);
            backward(&t);
            check_gradient(&t, t.q, t.dq, t.q_count);
            check_gradient(&t, t.k, t.dk, t.kv_count);
            check_gradient(&t, t.v, t.dv, t.kv_count);
            release(&t);
        }
    }
}

static void neighbouring_query_heads_share_a_kv_head(void **state)
{
    (void)state;
    const size_t heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {5, 5}};
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = 4};
    for (size_t h = 0; h < 4; h++) {
        size_t q_heads = heads[h][0], kv_heads = heads[h][1];
        struct tensors t = make(4, q_heads, kv_heads, 2, &mask);
        for (size_t i = 0; i < t.kv_count; i++)
            t.v[i] = (double)(i / 2 % kv_heads); /* V tells its head */
        forward(&t);
        for (size_t i = 0; i < t.q_count; i++)
            assert_close(t.o[i], (double)(i / 2 % q_heads * kv_heads / q_heads), 1e-14);
        release(&t);
    }
}

/* Scores 100 and 0, either way round: exp(100) is far beyond fp32 and the shift must still leave the winner alone. */
static void scores_a_hundred_apart_neither_overflow_nor_lose_the_winner(void **state)
{
    (void)state;
    struct mask mask = {.kind = MASK_FULL, .seq_len = 2};
    for (size_t winner = 0; winner < 2; winner++) {
        struct tensors t = make(2, 1, 1, 1, &mask);
        for (size_t i = 0; i < 2; i++) {
            t.q[i] = 10;
            t.k[i] = i == winner ? 10 : 0;
        }
        forward(&t);
        for (size_t i = 0; i < 2; i++) {
            assert_close(t.lse[i], 100, 1e-15);
            assert_close(t.o[i], t.v[winner], 1e-15);
        }
        t.q[0] = 1e5; /* beyond double's exp as well */
        forward(&t);
        assert_close(t.lse[0], 1e6, 1e-15);
        release(&t);
    }
}

static void a_nan_is_not_hidden(void **state)
{
    (void)state;
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = 3};
    struct tensors t = make(3, 1, 1, 1, &mask);
    t.k[1] = NAN;
    forward(&t);
    assert_true(!isnan(t.o[0]));
    assert_true(isnan(t.o[1]) && isnan(t.lse[1]) && isnan(t.o[2]));
    release(&t);
}

static void single_rows_equal_the_whole(void **state)
{
    (void)state;
    enum { ROWS = 11, Q_HEADS = 6, KV_HEADS = 2, DIM = 3, Q_ROW = Q_HEADS * DIM, KV_ROW = KV_HEADS * DIM };
    srand(2);
    uint64_t starts[] = {0, 2, 7, ROWS};
    struct mask masks[] = {
        {.kind = MASK_FULL, .seq_len = ROWS},
        {.kind = MASK_CAUSAL, .seq_len = ROWS},
        {.kind = MASK_WINDOW, .seq_len = ROWS, .window = 4},
        {.kind = MASK_DOCUMENTS, .seq_len = ROWS, .document_starts = starts, .n_documents = 3},
    };
    for (size_t m = 0; m < 4; m++) {
        struct tensors t = make(ROWS, Q_HEADS, KV_HEADS, DIM, &masks[m]);
        forward(&t);
        backward(&t);
        double delta[ROWS * Q_HEADS], o[Q_ROW], lse[Q_HEADS], dq[Q_ROW], dk[KV_ROW], dv[KV_ROW];
        for (size_t i = 0; i < ROWS * Q_HEADS; i++) {
            delta[i] = 0;
            for (size_t d = 0; d < DIM; d++)
                delta[i] += t.o[i * DIM + d] * t.d_o[i * DIM + d];
        }
        for (size_t row = 0; row < ROWS; row++) {
            const size_t q = row * Q_ROW, kv = row * KV_ROW, number = row * Q_HEADS;
            reference_forward_row(&t.shape, row, &t.q[q], t.k, t.v, o, lse);
            reference_query_gradient(&t.shape, row, &t.q[q], t.k, t.v, &t.d_o[q], &t.lse[number], &delta[number], dq);
            reference_key_gradients(&t.shape, row, &t.k[kv], &t.v[kv], t.q, t.d_o, t.lse, delta, dk, dv);
            for (size_t i = 0; i < Q_ROW; i++) {
                assert_close(o[i], t.o[q + i], 1e-14);
                assert_close(lse[i / DIM], t.lse[number + i / DIM], 1e-14);
                assert_close(dq[i], t.dq[q + i], 1e-14);
            }
            for (size_t i = 0; i < KV_ROW; i++) {
                assert_close(dk[i], t.dk[kv + i], 1e-14);
                assert_close(dv[i], t.dv[kv + i], 1e-14);
            }
        }
        release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_queries_under_a_causal_mask_average_what_came_before),
        cmocka_unit_test(zero_queries_under_the_full_mask_average_everything),
        cmocka_unit_test(zero_queries_under_a_window_and_documents_average_what_they_see),
        cmocka_unit_test(gradients_equal_finite_differences_for_every_head_ratio),
        cmocka_unit_test(neighbouring_query_heads_share_a_kv_head),
        cmocka_unit_test(scores_a_hundred_apart_neither_overflow_nor_lose_the_winner),
        cmocka_unit_test(a_nan_is_not_hidden),
        cmocka_unit_test(single_rows_equal_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
