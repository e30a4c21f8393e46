/* layer.c - the formulas of layer.h, in the order in which they stand there; sums over a row in double precision. */
#include "kernels/layer.h"

#include <math.h>

size_t layer_norm_weights(enum norm_kind kind, size_t n)
{
    return kind == NORM_LAYER ? 2 * n : n;
}

/* ---- norms ---- */

/* m and r. */
struct moments {
    float mean, inverse;
};

static struct moments moments_of(enum norm_kind kind, size_t n, const float *x)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n && kind == NORM_LAYER; i++)
        mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (struct moments){(float)mean, (float)(1 / sqrt(squares / (double)n + LAYER_NORM_EPSILON))};
}

void layer_norm_row(enum norm_kind kind, size_t n, const float *x, const float *weights, float *y)
{
    const struct moments moments = moments_of(kind, n, x);
    for (size_t i = 0; i < n; i++) {
        y[i] = (x[i] - moments.mean) * moments.inverse * weights[i];
        if (kind == NORM_LAYER)
            y[i] += weights[n + i];
    }
}

void layer_norm_row_backward(enum norm_kind kind, size_t n, const float *dy, const float *x, const float *weights,
                             float *dx, double *d_weights)
{
    const struct moments moments = moments_of(kind, n, x);
    double mean = 0, along = 0;
    for (size_t i = 0; i < n; i++) {
        float c = (x[i] - moments.mean) * moments.inverse;
        double g = (double)dy[i] * (double)weights[i];
        mean += g;
        along += g * (double)c;
        d_weights[i] += (double)dy[i] * (double)c;
        if (kind == NORM_LAYER)
            d_weights[n + i] += (double)dy[i];
    }
    mean = kind == NORM_LAYER ? mean / (double)n : 0;
    along /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double c = (double)((x[i] - moments.mean) * moments.inverse), g = (double)dy[i] * (double)weights[i];
        dx[i] = moments.inverse * (float)(g - mean - c * along);
    }
}

/* ---- activation functions ---- */

static float logistic(float z)
{
    return 1 / (1 + expf(-z));
}

/* Phi(z). */
static float normal_below(float z)
{
    return 0.5F * erfcf(-z * (float)M_SQRT1_2);
}

static float normal_density(float z)
{
    return (float)(M_2_SQRTPI * M_SQRT1_2 / 2) * expf(-0.5F * z * z);
}

void layer_activate_row(enum mlp_kind kind, size_t n, const float *up, float *down)
{
    for (size_t i = 0; i < n; i++)
        down[i] = kind == MLP_GATED ? up[i] * logistic(up[i]) * up[n + i] : up[i] * normal_below(up[i]);
}

void layer_activate_row_backward(enum mlp_kind kind, size_t n, const float *d_down, const float *up, float *d_up)
{
    for (size_t i = 0; i < n; i++) {
        const float z = up[i], s = logistic(z);
        if (kind == MLP_GATED) {
            const float times = up[n + i]; /* before d_up may be `up` */
            d_up[n + i] = d_down[i] * z * s;
            d_up[i] = d_down[i] * times * s * (1 + z * (1 - s));
        } else {
            d_up[i] = d_down[i] * (normal_below(z) + z * normal_density(z));
        }
    }
}
