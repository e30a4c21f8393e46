/* Layers: the reference against finite differences and against what is known without it; the fp32 rows of norms and
 * activation functions against the reference. */
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

#include "kernels/layer.h"
#include "kernels/layer_reference.h"
#include "models/base/memory.h"

enum { POSITIONS = 5, ITEMS = 2, HIDDEN = 6, TOKENS = POSITIONS * ITEMS };

/* A layer of random numbers in [-1, 1]. */
struct scene {
    struct transformer model;
    struct mask mask;
    struct layer_shape shape;
    double *weights[REFERENCE_WEIGHTS], *x, *dy;
    struct layer_result result;
};

static double *random_numbers(size_t count)
{
    double *numbers = memory_zeroed(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = 2.0 * rand() / RAND_MAX - 1;
    return numbers;
}

static size_t weight_count(const struct scene *s, int weight)
{
    size_t rows, columns;
    reference_weight_shape(&s->model, (enum reference_weight)weight, &rows, &columns);
    return rows * columns;
}

static void solve(struct scene *s)
{
    layer_result_fini(&s->result);
    layer_reference(&s->shape, (const double *const *)s->weights, s->x, s->dy, &s->result);
}

static void make(struct scene *s, enum mlp_kind mlp, enum norm_kind norm)
{
    *s = (struct scene){
        .model = {.q_heads = 4, .kv_heads = 2, .head_dim = 3, .hidden = HIDDEN, .ffn = 7, .mlp = mlp, .norm = norm},
        .mask = {.kind = MASK_CAUSAL, .seq_len = POSITIONS}};
    s->shape = (struct layer_shape){&s->model, &s->mask, POSITIONS, ITEMS};
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        s->weights[w] = random_numbers(weight_count(s, w));
    s->x = random_numbers((size_t)TOKENS * HIDDEN);
    s->dy = random_numbers((size_t)TOKENS * HIDDEN);
    solve(s);
}

static void release(struct scene *s)
{
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        free(s->weights[w]);
    free(s->x);
    free(s->dy);
    layer_result_fini(&s->result);
}

/* <dy, y>, whose gradients the backward pass makes. */
static double loss(struct scene *s)
{
    struct layer_result result;
    double sum = 0;
    layer_reference(&s->shape, (const double *const *)s->weights, s->x, NULL, &result);
    for (size_t i = 0; i < (size_t)TOKENS * HIDDEN; i++)
        sum += s->dy[i] * result.y[i];
    layer_result_fini(&result);
    return sum;
}

/* NaN is never close. */
static void assert_close(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, expected);
}

static void expect_gradient(struct scene *s, double *numbers, const double *gradient, size_t count)
{
    const double step = 1e-5;
    for (size_t i = 0; i < count; i++) {
        double kept = numbers[i];
        numbers[i] = kept + step;
        double above = loss(s);
        numbers[i] = kept - step;
        double below = loss(s);
        numbers[i] = kept;
        assert_close(gradient[i], (above - below) / (2 * step), 1e-6);
    }
}

static void gradients_are_those_of_finite_differences(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct scene s;
        make(&s, kind & 1 ? MLP_PLAIN : MLP_GATED, kind & 2 ? NORM_LAYER : NORM_RMS);
        expect_gradient(&s, s.x, s.result.dx, (size_t)TOKENS * HIDDEN);
        for (int w = 0; w < REFERENCE_WEIGHTS; w++)
            expect_gradient(&s, s.weights[w], s.result.d_weights[w], weight_count(&s, w));
        release(&s);
    }
}

static void a_layer_of_zero_products_hands_its_input_on(void **state)
{
    (void)state;
    struct scene s;
    make(&s, MLP_GATED, NORM_RMS);
    memset(s.weights[REFERENCE_O], 0, weight_count(&s, REFERENCE_O) * sizeof(double));
    memset(s.weights[REFERENCE_DOWN], 0, weight_count(&s, REFERENCE_DOWN) * sizeof(double));
    solve(&s);
    for (size_t i = 0; i < (size_t)TOKENS * HIDDEN; i++) {
        assert_close(s.result.y[i], s.x[i], 0);
        assert_close(s.result.dx[i], s.dy[i], 0);
    }
    release(&s);
}

/* Items of a batch do not see each other: each alone gives the same y, and the weights' gradients are the sum. */
static void a_batch_is_its_items(void **state)
{
    (void)state;
    struct scene s;
    make(&s, MLP_PLAIN, NORM_LAYER);
    double *sums[REFERENCE_WEIGHTS];
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        sums[w] = memory_zeroed(weight_count(&s, w), sizeof *sums[w]);
    for (size_t item = 0; item < ITEMS; item++) {
        double x[POSITIONS * HIDDEN], dy[POSITIONS * HIDDEN];
        for (size_t p = 0; p < POSITIONS; p++) {
            memcpy(&x[p * HIDDEN], &s.x[(p * ITEMS + item) * HIDDEN], HIDDEN * sizeof *x);
            memcpy(&dy[p * HIDDEN], &s.dy[(p * ITEMS + item) * HIDDEN], HIDDEN * sizeof *dy);
        }
        struct layer_shape shape = s.shape;
        shape.items = 1;
        struct layer_result alone;
        layer_reference(&shape, (const double *const *)s.weights, x, dy, &alone);
        for (size_t p = 0; p < POSITIONS; p++)
            for (size_t i = 0; i < HIDDEN; i++)
                assert_close(alone.y[p * HIDDEN + i], s.result.y[(p * ITEMS + item) * HIDDEN + i], 1e-14);
        for (int w = 0; w < REFERENCE_WEIGHTS; w++)
            for (size_t i = 0; i < weight_count(&s, w); i++)
                sums[w][i] += alone.d_weights[w][i];
        layer_result_fini(&alone);
    }
    for (int w = 0; w < REFERENCE_WEIGHTS; w++) {
        for (size_t i = 0; i < weight_count(&s, w); i++)
            assert_close(sums[w][i], s.result.d_weights[w][i], 1e-13);
        free(sums[w]);
    }
    release(&s);
}

/* ---- rows in fp32 ---- */

enum { N = 37 };

static void fill(float *numbers, size_t count, float size)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = size * (float)(2.0 * rand() / RAND_MAX - 1);
}

/* <dy, norm(x)> in double precision. */
static double norm_loss(enum norm_kind kind, const double *x, const double *weights, const float *dy)
{
    double mean = 0, squares = 0, sum = 0;
    for (size_t i = 0; i < N && kind == NORM_LAYER; i++)
        mean += x[i] / N;
    for (size_t i = 0; i < N; i++)
        squares += (x[i] - mean) * (x[i] - mean) / N;
    for (size_t i = 0; i < N; i++)
        sum += (double)dy[i] * ((x[i] - mean) / sqrt(squares + LAYER_NORM_EPSILON) * weights[i] +
                                (kind == NORM_LAYER ? weights[N + i] : 0));
    return sum;
}

static double difference(enum norm_kind kind, double *x, double *weights, const float *dy, double *changed)
{
    const double kept = *changed, step = 1e-5;
    *changed = kept + step;
    double above = norm_loss(kind, x, weights, dy);
    *changed = kept - step;
    double below = norm_loss(kind, x, weights, dy);
    *changed = kept;
    return (above - below) / (2 * step);
}

static void rows_of_norms_are_right(void **state)
{
    (void)state;
    for (enum norm_kind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
        float x[N], weights[2 * N], dy[N], y[N], dx[N];
        double x_wide[N], weights_wide[2 * N], d_weights[2 * N], sum = 0;
        fill(x, N, 3);
        fill(weights, 2 * N, 1);
        fill(dy, N, 1);
        for (size_t i = 0; i < 2 * N; i++) {
            weights_wide[i] = (double)weights[i];
            d_weights[i] = 1; /* added to */
        }
        for (size_t i = 0; i < N; i++)
            x_wide[i] = (double)x[i];
        layer_norm_row(kind, N, x, weights, y);
        layer_norm_row_backward(kind, N, dy, x, weights, dx, d_weights);
        for (size_t i = 0; i < N; i++)
            sum += (double)dy[i] * (double)y[i];
        assert_close(sum, norm_loss(kind, x_wide, weights_wide, dy), 1e-5);
        for (size_t i = 0; i < N; i++)
            assert_close((double)dx[i], difference(kind, x_wide, weights_wide, dy, &x_wide[i]), 1e-5);
        for (size_t i = 0; i < layer_norm_weights(kind, N); i++)
            assert_close(d_weights[i] - 1, difference(kind, x_wide, weights_wide, dy, &weights_wide[i]), 1e-5);
    }
}

static double activation(enum mlp_kind kind, double up, double times)
{
    return kind == MLP_GATED ? up / (1 + exp(-up)) * times : up * 0.5 * (1 + erf(up / sqrt(2)));
}

static void rows_of_activation_functions_are_right(void **state)
{
    (void)state;
    const double step = 1e-5;
    for (enum mlp_kind kind = MLP_GATED; kind <= MLP_PLAIN; kind++) {
        float up[2 * N], d_down[N], down[N], d_up[2 * N];
        fill(up, 2 * N, 4);
        up[0] = 40;
        up[1] = -90; /* e^90 is beyond fp32 */
        up[N + 1] = 1;
        fill(d_down, N, 1);
        layer_activate_row(kind, N, up, down);
        layer_activate_row_backward(kind, N, d_down, up, d_up);
        for (size_t i = 0; i < N; i++) {
            const double z = (double)up[i], times = (double)up[N + i], d = (double)d_down[i];
            assert_close((double)down[i], activation(kind, z, times), 1e-6);
            assert_close((double)d_up[i],
                         d * (activation(kind, z + step, times) - activation(kind, z - step, times)) / (2 * step),
                         1e-5);
            if (kind == MLP_GATED)
                assert_close((double)d_up[N + i], d * activation(kind, z, 1), 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(a_layer_of_zero_products_hands_its_input_on),
        cmocka_unit_test(a_batch_is_its_items),
        cmocka_unit_test(rows_of_norms_are_right),
        cmocka_unit_test(rows_of_activation_functions_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
