/* layer_reference.c - a layer written down step by step. Everything is kept: nobody runs large layers by this. */
#include "kernels/layer_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/layer.h"
#include "kernels/reference.h"
#include "kernels/rows.h"
#include "models/base/memory.h"

struct layer {
    const struct layer_shape *shape;
    const double *const *weights;
    const double *x, *dy;
    size_t tokens, hidden, q, kv, ffn, up; /* columns */
    double *n1, *q_rows, *k, *v, *o, *lse, *h1, *n2, *u, *d, *y;
    struct layer_result *result;
};

static double *numbers(size_t count)
{
    return memory_zeroed(count ? count : 1, sizeof(double));
}

void reference_weight_shape(const struct transformer *model, enum reference_weight weight, size_t *rows,
                            size_t *columns)
{
    const size_t hidden = model->hidden, ffn = model->ffn, q = (size_t)model->q_heads * model->head_dim;
    const size_t shapes[REFERENCE_WEIGHTS][2] = {
        [REFERENCE_NORM_1] = {model->norm == NORM_LAYER ? 2 : 1, hidden},
        [REFERENCE_QKV] = {hidden, q + 2 * (size_t)model->kv_heads * model->head_dim},
        [REFERENCE_O] = {q, hidden},
        [REFERENCE_NORM_2] = {model->norm == NORM_LAYER ? 2 : 1, hidden},
        [REFERENCE_UP] = {hidden, model->mlp == MLP_GATED ? 2 * ffn : ffn},
        [REFERENCE_DOWN] = {ffn, hidden},
    };
    *rows = shapes[weight][0];
    *columns = shapes[weight][1];
}

/* ---- products: X [rows][inputs], W [inputs][outputs], Y [rows][outputs] ---- */

/* Y of columns [first, first + outputs) of a W that has `columns`. */
static void multiply(size_t rows, size_t inputs, size_t outputs, size_t columns, size_t first, const double *x,
                     const double *w, double *y)
{
    memset(y, 0, rows * outputs * sizeof *y);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < inputs; k++)
            row_add_scaled(&y[i * outputs], x[i * inputs + k], &w[k * columns + first], outputs);
}

/* dX += dY W^T. */
static void add_input_gradient(size_t rows, size_t inputs, size_t outputs, size_t columns, size_t first,
                               const double *dy, const double *w, double *dx)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < inputs; k++)
            dx[i * inputs + k] += row_dot(&dy[i * outputs], &w[k * columns + first], outputs);
}

/* dW += X^T dY. */
static void add_weight_gradient(size_t rows, size_t inputs, size_t outputs, size_t columns, size_t first,
                                const double *x, const double *dy, double *dw)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < inputs; k++)
            row_add_scaled(&dw[k * columns + first], x[i * inputs + k], &dy[i * outputs], outputs);
}

/* ---- norms ---- */

/* m and r of a row (kernels/layer.h). */
static void moments_of(const struct layer *layer, const double *x, double *mean, double *inverse)
{
    const size_t n = layer->hidden;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = layer->shape->model->norm == NORM_LAYER ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *inverse = 1 / sqrt(squares / (double)n + LAYER_NORM_EPSILON);
}

/* Multiplies the result's gains by the largest of any token, at least 1. */
static void norm(const struct layer *layer, const double *x, const double *weights, double *y)
{
    const size_t n = layer->hidden;
    const bool shifts = layer->shape->model->norm == NORM_LAYER;
    double gain = 1, most = 0, sum = 0;
    for (size_t t = 0; t < layer->tokens; t++) {
        double mean, inverse;
        moments_of(layer, &x[t * n], &mean, &inverse);
        gain = fmax(gain, inverse * sqrt(row_dot(&x[t * n], &x[t * n], n) / (double)n));
        most = fmax(most, inverse);
        sum += inverse;
        for (size_t i = 0; i < n; i++)
            y[t * n + i] = (x[t * n + i] - mean) * inverse * weights[i] + (shifts ? weights[n + i] : 0);
    }
    layer->result->forward_gain *= gain;
    layer->result->backward_gain *= gain * most / (sum / (double)layer->tokens);
}

/* Adds to dx and to dw. */
static void norm_backward(const struct layer *layer, const double *dy, const double *x, const double *weights,
                          double *dx, double *dw)
{
    const size_t n = layer->hidden;
    const bool shifts = layer->shape->model->norm == NORM_LAYER;
    for (size_t t = 0; t < layer->tokens; t++, dy += n, x += n, dx += n) {
        double mean, inverse, of_g = 0, of_gc = 0;
        moments_of(layer, x, &mean, &inverse);
        for (size_t i = 0; i < n; i++) {
            double c = (x[i] - mean) * inverse;
            of_g += shifts ? dy[i] * weights[i] / (double)n : 0;
            of_gc += dy[i] * weights[i] * c / (double)n;
            dw[i] += dy[i] * c;
            if (shifts)
                dw[n + i] += dy[i];
        }
        for (size_t i = 0; i < n; i++)
            dx[i] += inverse * (dy[i] * weights[i] - of_g - (x[i] - mean) * inverse * of_gc);
    }
}

/* ---- activation functions ---- */

static double normal_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static void activate(const struct layer *layer, const double *u, double *d)
{
    const size_t n = layer->ffn;
    for (size_t t = 0; t < layer->tokens; t++, u += layer->up, d += n)
        for (size_t i = 0; i < n; i++)
            d[i] = layer->up == n ? u[i] * normal_below(u[i]) : u[i] / (1 + exp(-u[i])) * u[n + i];
}

static void activate_backward(const struct layer *layer, const double *dd, const double *u, double *du)
{
    const size_t n = layer->ffn;
    for (size_t t = 0; t < layer->tokens; t++, u += layer->up, du += layer->up, dd += n) {
        for (size_t i = 0; i < n; i++) {
            double z = u[i], s = 1 / (1 + exp(-z));
            if (layer->up == n) {
                du[i] = dd[i] * (normal_below(z) + z * exp(-z * z / 2) / sqrt(2 * acos(-1)));
                continue;
            }
            du[i] = dd[i] * u[n + i] * (s + z * s * (1 - s));
            du[n + i] = dd[i] * z * s;
        }
    }
}

/* ---- the layer ---- */

/* A batch is so many more heads. */
static struct reference_shape attention_of(const struct layer *layer)
{
    const struct transformer *model = layer->shape->model;
    const size_t items = layer->shape->items, dim = model->head_dim;
    return (struct reference_shape){layer->shape->positions, items * model->q_heads, items * model->kv_heads, dim,
                                    1 / sqrt((double)dim),   layer->shape->mask};
}

static void add_rows(double *y, const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static void forward(struct layer *layer)
{
    const size_t T = layer->tokens, h = layer->hidden, q = layer->q, kv = layer->kv, all = q + 2 * kv;
    const struct reference_shape attention = attention_of(layer);
    const double *const *w = layer->weights;
    norm(layer, layer->x, w[REFERENCE_NORM_1], layer->n1);
    multiply(T, h, q, all, 0, layer->n1, w[REFERENCE_QKV], layer->q_rows);
    multiply(T, h, kv, all, q, layer->n1, w[REFERENCE_QKV], layer->k);
    multiply(T, h, kv, all, q + kv, layer->n1, w[REFERENCE_QKV], layer->v);
    reference_forward(&attention, layer->q_rows, layer->k, layer->v, layer->o, layer->lse);
    multiply(T, q, h, h, 0, layer->o, w[REFERENCE_O], layer->h1);
    add_rows(layer->h1, layer->x, T * h);
    norm(layer, layer->h1, w[REFERENCE_NORM_2], layer->n2);
    multiply(T, h, layer->up, layer->up, 0, layer->n2, w[REFERENCE_UP], layer->u);
    activate(layer, layer->u, layer->d);
    multiply(T, layer->ffn, h, h, 0, layer->d, w[REFERENCE_DOWN], layer->y);
    add_rows(layer->y, layer->h1, T * h);
}

/* From dy to dh1. */
static void backward_mlp(const struct layer *layer, double *dh1)
{
    const size_t T = layer->tokens, h = layer->hidden, ffn = layer->ffn, up = layer->up;
    double *dd = numbers(T * ffn), *du = numbers(T * up), *dn2 = numbers(T * h);
    double *const *dw = layer->result->d_weights;
    add_input_gradient(T, ffn, h, h, 0, layer->dy, layer->weights[REFERENCE_DOWN], dd);
    add_weight_gradient(T, ffn, h, h, 0, layer->d, layer->dy, dw[REFERENCE_DOWN]);
    activate_backward(layer, dd, layer->u, du);
    add_input_gradient(T, h, up, up, 0, du, layer->weights[REFERENCE_UP], dn2);
    add_weight_gradient(T, h, up, up, 0, layer->n2, du, dw[REFERENCE_UP]);
    memcpy(dh1, layer->dy, T * h * sizeof *dh1);
    norm_backward(layer, dn2, layer->h1, layer->weights[REFERENCE_NORM_2], dh1, dw[REFERENCE_NORM_2]);
    free(dd);
    free(du);
    free(dn2);
}

static double root_mean_square(const double *x, size_t count)
{
    return sqrt(row_dot(x, x, count) / (double)count);
}

/* Each token's dQ is off in units of scale |dO_ik O_ik| |K|, at random, and W's gradient by the root of their number
 * times its input. */
static void find_floors(const struct layer *layer, const struct reference_shape *attention, const double *d_o)
{
    const size_t count = layer->tokens * layer->q, T = layer->tokens;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += layer->o[i] * d_o[i] * layer->o[i] * d_o[i];
    const double terms = attention->scale * sqrt(sum / ((double)count / (double)attention->head_dim));
    const double input = sqrt((double)T) * root_mean_square(layer->n1, T * layer->hidden);
    layer->result->query_floor = terms * root_mean_square(layer->k, T * layer->kv) * input;
    layer->result->key_floor = terms * root_mean_square(layer->q_rows, T * layer->q) * input;
}

/* From dh1 to dx. */
static void backward_attention(const struct layer *layer, const double *dh1)
{
    const size_t T = layer->tokens, h = layer->hidden, q = layer->q, kv = layer->kv, all = q + 2 * kv;
    const struct reference_shape attention = attention_of(layer);
    double *d_o = numbers(T * q), *dq = numbers(T * q), *dk = numbers(T * kv), *dv = numbers(T * kv);
    double *dn1 = numbers(T * h), *const *dw = layer->result->d_weights;
    const double *w = layer->weights[REFERENCE_QKV];
    add_input_gradient(T, q, h, h, 0, dh1, layer->weights[REFERENCE_O], d_o);
    add_weight_gradient(T, q, h, h, 0, layer->o, dh1, dw[REFERENCE_O]);
    find_floors(layer, &attention, d_o);
    reference_backward(&attention, layer->q_rows, layer->k, layer->v, layer->o, layer->lse, d_o, dq, dk, dv);
    add_input_gradient(T, h, q, all, 0, dq, w, dn1);
    add_input_gradient(T, h, kv, all, q, dk, w, dn1);
    add_input_gradient(T, h, kv, all, q + kv, dv, w, dn1);
    add_weight_gradient(T, h, q, all, 0, layer->n1, dq, dw[REFERENCE_QKV]);
    add_weight_gradient(T, h, kv, all, q, layer->n1, dk, dw[REFERENCE_QKV]);
    add_weight_gradient(T, h, kv, all, q + kv, layer->n1, dv, dw[REFERENCE_QKV]);
    memcpy(layer->result->dx, dh1, T * h * sizeof *dh1);
    norm_backward(layer, dn1, layer->x, layer->weights[REFERENCE_NORM_1], layer->result->dx, dw[REFERENCE_NORM_1]);
    double *all_of[] = {d_o, dq, dk, dv, dn1};
    for (size_t i = 0; i < sizeof all_of / sizeof *all_of; i++)
        free(all_of[i]);
}

static void backward(const struct layer *layer)
{
    const size_t count = layer->tokens * layer->hidden;
    double *dh1 = numbers(count);
    layer->result->dx = numbers(count);
    for (int w = 0; w < REFERENCE_WEIGHTS; w++) {
        size_t rows, columns;
        reference_weight_shape(layer->shape->model, (enum reference_weight)w, &rows, &columns);
        layer->result->d_weights[w] = numbers(rows * columns);
    }
    backward_mlp(layer, dh1);
    backward_attention(layer, dh1);
    free(dh1);
}

void layer_reference(const struct layer_shape *shape, const double *const weights[REFERENCE_WEIGHTS], const double *x,
                     const double *dy, struct layer_result *result)
{
    const struct transformer *model = shape->model;
    *result = (struct layer_result){.forward_gain = 1, .backward_gain = 1};
    struct layer layer = {
        .shape = shape,
        .weights = weights,
        .x = x,
        .dy = dy,
        .tokens = shape->positions * shape->items,
        .hidden = model->hidden,
        .q = (size_t)model->q_heads * model->head_dim,
        .kv = (size_t)model->kv_heads * model->head_dim,
        .ffn = model->ffn,
        .up = model->mlp == MLP_GATED ? 2 * (size_t)model->ffn : model->ffn,
        .result = result,
    };
    const size_t T = layer.tokens;
    double **const columns_of[] = {&layer.n1, &layer.h1, &layer.n2, &layer.y, &layer.q_rows, &layer.o,
                                   &layer.k,  &layer.v,  &layer.u,  &layer.d, &layer.lse};
    const size_t columns[] = {layer.hidden, layer.hidden, layer.hidden, layer.hidden, layer.q,       layer.q,
                              layer.kv,     layer.kv,     layer.up,     layer.ffn,    model->q_heads};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        *columns_of[i] = numbers(T * columns[i]);
    forward(&layer);
    if (dy)
        backward(&layer);
    result->y = layer.y;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns_of[i] != &layer.y)
            free(*columns_of[i]);
}

void layer_result_fini(struct layer_result *result)
{
    free(result->y);
    free(result->dx);
    for (int w = 0; w < REFERENCE_WEIGHTS; w++)
        free(result->d_weights[w]);
    *result = (struct layer_result){0};
}
