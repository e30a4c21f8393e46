/* cuda_scene.h - one attention problem, its answer in double precision, and its answer by the CUDA kernels, from any
 * partition of its positions into query blocks and key buffers, of lanes inside larger tensors. */
#ifndef CPSIM_TESTS_GPU_CUDA_SCENE_H
#define CPSIM_TESTS_GPU_CUDA_SCENE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/runtime.h"
#include "kernels/reference.h"
#include "kernels/runs.h"
#include "models/base/memory.h"

/* The family of kernels that is tested: who includes this may have named another. */
#ifndef CUDA_FAMILY
static inline int family_forward(const struct cuda_call *call, void *o, float *lse, void *stream)
{
    return cuda_attention_forward(call, o, lse, stream);
}

static inline int family_backward(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta,
                                  void *dq, void *stream)
{
    return cuda_attention_backward(call, d_o, lse, delta, dq, stream);
}
#endif

/* ---- numbers as they are stored ---- */

static inline void number_write(enum dtype dtype, void *at, double value)
{
    float single = (float)value;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &single, sizeof bits);
    if (dtype == DTYPE_FP32) {
        memcpy(at, &single, sizeof single);
        return;
    }
    if (dtype == DTYPE_BF16) {
        half = (uint16_t)(bits >> 16);
    } else { /* of a number that fp16 has */
        half = (uint16_t)(bits >> 16 & 0x8000);
        if (value != 0)
            half = (uint16_t)(half | (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023)));
    }
    memcpy(at, &half, sizeof half);
}

static inline double number_read(enum dtype dtype, const void *at)
{
    float single;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (dtype == DTYPE_FP32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    if (dtype == DTYPE_BF16) {
        uint32_t bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    }
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
    return half >> 15 ? -size : size;
}

/* In [-2, 2), and exact in every dtype. */
static inline double number_random(void)
{
    return (rand() / 7 % 128 - 64) / 32.;
}

/* ---- tensors in device memory ---- */

/* [row][item][head][dim], with `padding` elements behind each row and each item. All memory is poison (NaN) at first,
 * and what is not the tensor's must stay so. */
struct tensor {
    enum dtype dtype;
    size_t rows, items, heads, dim, padding;
    struct cuda_strides strides;
    size_t bytes;
    void *device;
    unsigned char *host;
};

static inline void tensor_poison(struct tensor *t)
{
    memset(t->host, 0xff, t->bytes);
    assert_int_equal(cuda_write(t->device, t->host, t->bytes), 0);
}

static inline struct tensor tensor_make(enum dtype dtype, size_t rows, size_t items, size_t heads, size_t dim,
                                        size_t padding)
{
    const size_t item = heads * dim + padding, row = items * item + padding;
    struct tensor t = {.dtype = dtype,
                       .rows = rows,
                       .items = items,
                       .heads = heads,
                       .dim = dim,
                       .padding = padding,
                       .strides = {row, item},
                       .bytes = (rows * row + 1) * dtype_bytes(dtype)};
    t.host = memory_zeroed(t.bytes, 1);
    assert_int_equal(cuda_allocate(&t.device, t.bytes), 0);
    tensor_poison(&t);
    return t;
}

static inline void tensor_free(struct tensor *t)
{
    assert_int_equal(cuda_release(t->device), 0);
    free(t->host);
}

static inline size_t tensor_offset(const struct tensor *t, size_t row, size_t item, size_t head)
{
    return (row * t->strides.row + item * t->strides.item + head * t->dim) * dtype_bytes(t->dtype);
}

/* The lanes from (item, head) on. */
static inline struct cuda_array tensor_array(const struct tensor *t, size_t item, size_t head)
{
    return (struct cuda_array){(char *)t->device + tensor_offset(t, 0, item, head), t->strides, t->dtype};
}

static inline void *tensor_first(const struct tensor *t, size_t item, size_t head)
{
    return tensor_array(t, item, head).first;
}

static inline void tensor_fetch(struct tensor *t)
{
    assert_int_equal(cuda_read(t->host, t->device, t->bytes), 0);
}

static inline double tensor_get(const struct tensor *t, size_t row, size_t item, size_t head, size_t d)
{
    return number_read(t->dtype, t->host + tensor_offset(t, row, item, head) + d * dtype_bytes(t->dtype));
}

static inline void tensor_set(struct tensor *t, size_t row, size_t item, size_t head, size_t d, double value)
{
    number_write(t->dtype, t->host + tensor_offset(t, row, item, head) + d * dtype_bytes(t->dtype), value);
}

static inline void tensor_send(struct tensor *t)
{
    assert_int_equal(cuda_write(t->device, t->host, t->bytes), 0);
}

/* ---- the scene ---- */

enum { Q, D_O, O, DQ, K, V, DK, DV, LSE, TENSORS };
static const char *const tensor_names[TENSORS] = {"Q", "dO", "O", "dQ", "K", "V", "dK", "dV", "LSE"};

struct scene {
    const struct mask *mask;
    size_t rows, items, q_heads, kv_heads, dim;
    enum dtype dtype, dkv_dtype;
    size_t padding; /* elements, a multiple of 8 */
    /* Gradients of a few rows cancel out, but their errors, that of a rounded O times K, do not: size of a number below
     * which an error is not relative to it. */
    double smallest;
    /* Calls are on items [item, item + some_items) and heads [head, head + some_heads) alone, 0: all of them. */
    size_t item, some_items, head, some_heads;
    double *truth[TENSORS]; /* [row][item][head][dim] */
    double *sum[TENSORS];   /* what the kernels gave, NaN where they were not asked */
};

static inline bool scene_of_keys(int tensor)
{
    return tensor == K || tensor == V || tensor == DK || tensor == DV;
}

static inline size_t scene_heads(const struct scene *s, int tensor)
{
    return scene_of_keys(tensor) ? s->kv_heads : s->q_heads;
}

static inline size_t scene_dim(const struct scene *s, int tensor)
{
    return tensor == LSE ? 1 : s->dim;
}

static inline size_t scene_at(const struct scene *s, int tensor, size_t row, size_t item, size_t head)
{
    return ((row * s->items + item) * scene_heads(s, tensor) + head) * scene_dim(s, tensor);
}

static inline struct scene scene_make(struct scene s)
{
    s.rows = s.mask->seq_len;
    s.some_items = s.some_items ? s.some_items : s.items;
    s.some_heads = s.some_heads ? s.some_heads : s.q_heads;
    for (int t = 0; t < TENSORS; t++) {
        const size_t count = scene_at(&s, t, s.rows, 0, 0);
        s.truth[t] = memory_zeroed(count, sizeof(double));
        s.sum[t] = memory_zeroed(count, sizeof(double));
        for (size_t i = 0; i < count; i++) {
            s.truth[t][i] = number_random();
            s.sum[t][i] = (double)NAN;
        }
    }
    struct reference_shape shape = {s.rows, s.items * s.q_heads,     s.items * s.kv_heads,
                                    s.dim,  1 / sqrt((double)s.dim), s.mask};
    double **t = s.truth;
    reference_forward(&shape, t[Q], t[K], t[V], t[O], t[LSE]);
    reference_backward(&shape, t[Q], t[K], t[V], t[O], t[LSE], t[D_O], t[DQ], t[DK], t[DV]);
    /* Gradients of K and V are sums over the query heads of the calls. */
    if (s.some_heads < s.q_heads || s.some_items < s.items) {
        double *d_o = memory_zeroed(scene_at(&s, D_O, s.rows, 0, 0), sizeof *d_o);
        for (size_t row = 0; row < s.rows; row++)
            for (size_t item = s.item; item < s.item + s.some_items; item++)
                memcpy(&d_o[scene_at(&s, D_O, row, item, s.head)], &t[D_O][scene_at(&s, D_O, row, item, s.head)],
                       s.some_heads * s.dim * sizeof *d_o);
        reference_backward(&shape, t[Q], t[K], t[V], t[O], t[LSE], d_o, t[DQ], t[DK], t[DV]);
        free(d_o);
    }
    return s;
}

static inline void scene_free(struct scene *s)
{
    for (int t = 0; t < TENSORS; t++) {
        free(s->truth[t]);
        free(s->sum[t]);
    }
}

static inline uint64_t scene_position(const struct attention_rows *rows, size_t row)
{
    uint32_t s = 0;
    for (; row >= rows->spans[s].count; s++)
        row -= rows->spans[s].count;
    return rows->spans[s].first + row * rows->spans[s].stride;
}

static inline size_t scene_group(const struct scene *s)
{
    return s->q_heads / s->kv_heads;
}

/* Heads that calls are on, of a tensor: [first, end). */
static inline void scene_lanes(const struct scene *s, int tensor, size_t *first, size_t *end)
{
    const bool keys = scene_of_keys(tensor);
    *first = keys ? s->head / scene_group(s) : s->head;
    *end = keys ? (s->head + s->some_heads - 1) / scene_group(s) + 1 : s->head + s->some_heads;
}

static inline struct tensor scene_tensor(const struct scene *s, int tensor, enum dtype dtype, size_t rows)
{
    return tensor_make(dtype, rows, s->items, scene_heads(s, tensor), scene_dim(s, tensor), s->padding);
}

/* The calls' lanes of a block of a whole tensor; others stay poison. */
static inline struct tensor scene_input(const struct scene *s, int tensor, const struct attention_rows *rows)
{
    struct tensor t = scene_tensor(s, tensor, s->dtype, rows->rows);
    size_t first, end;
    scene_lanes(s, tensor, &first, &end);
    for (size_t row = 0; row < rows->rows; row++)
        for (size_t item = s->item; item < s->item + s->some_items; item++)
            for (size_t head = first; head < end; head++)
                for (size_t d = 0; d < t.dim; d++)
                    tensor_set(&t, row, item, head, d,
                               s->truth[tensor][scene_at(s, tensor, scene_position(rows, row), item, head) + d]);
    tensor_send(&t);
    return t;
}

/* Adds a block that the kernels wrote to the results; everything but the calls' lanes must be poison still. */
static inline void scene_collect(struct scene *s, int tensor, const struct attention_rows *rows, struct tensor *t)
{
    size_t first, end;
    scene_lanes(s, tensor, &first, &end);
    tensor_fetch(t);
    for (size_t row = 0; row < rows->rows; row++)
        for (size_t item = s->item; item < s->item + s->some_items; item++)
            for (size_t head = first; head < end; head++)
                for (size_t d = 0; d < t->dim; d++) {
                    double *sum = &s->sum[tensor][scene_at(s, tensor, scene_position(rows, row), item, head) + d];
                    *sum = (isnan(*sum) ? 0 : *sum) + tensor_get(t, row, item, head, d);
                    unsigned char *own = t->host + tensor_offset(t, row, item, head) + d * dtype_bytes(t->dtype);
                    memset(own, 0xff, dtype_bytes(t->dtype));
                }
    for (size_t i = 0; i < t->bytes; i++)
        if (t->host[i] != 0xff)
            fail_msg("%s: byte %zu of %zu, which is none of the call's, was written", tensor_names[tensor], i,
                     t->bytes);
}

/* Norm of the difference between results and truth over the norm of the truth, of the calls' lanes; of LSE, the largest
 * difference. NaN if any is. */
static inline double scene_error(const struct scene *s, int tensor)
{
    double difference = 0, norm = 0, largest = 0;
    size_t first, end;
    scene_lanes(s, tensor, &first, &end);
    for (size_t row = 0; row < s->rows; row++)
        for (size_t item = s->item; item < s->item + s->some_items; item++)
            for (size_t n = scene_at(s, tensor, row, item, first); n < scene_at(s, tensor, row, item, end); n++) {
                const double off = s->sum[tensor][n] - s->truth[tensor][n];
                difference += off * off;
                norm += fmax(s->truth[tensor][n] * s->truth[tensor][n], s->smallest * s->smallest);
                largest = fabs(off) > largest || isnan(off) ? fabs(off) : largest;
            }
    return tensor == LSE ? largest : norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

/* ---- running it ---- */

/* Key buffers as calls take them. */
struct scene_buffers {
    size_t n;
    struct tensor *k, *v, *dk, *dv;
    struct cuda_keys *keys;
};

static inline struct cuda_extent scene_extent(const struct scene *s, int tensor, size_t rows)
{
    size_t first, end;
    scene_lanes(s, tensor, &first, &end);
    return (struct cuda_extent){rows, (uint32_t)s->some_items, (uint32_t)(end - first), (uint32_t)scene_dim(s, tensor)};
}

static inline struct cuda_array scene_array(const struct scene *s, int tensor, const struct tensor *t)
{
    size_t first, end;
    scene_lanes(s, tensor, &first, &end);
    return tensor_array(t, s->item, first);
}

/* from, to in device memory, one after the other. */
static inline void *scene_runs(const struct scene *s, const struct attention_rows *queries,
                               const struct attention_rows *keys)
{
    const size_t rows = queries->rows;
    int32_t *runs = memory_zeroed(2 * rows, sizeof *runs);
    attention_runs(s->mask, queries, keys, runs, runs + rows);
    void *device;
    assert_int_equal(cuda_allocate(&device, 2 * rows * sizeof *runs), 0);
    assert_int_equal(cuda_write(device, runs, 2 * rows * sizeof *runs), 0);
    free(runs);
    return device;
}

/* Forward and backward of one query block: each call sees `per_call` buffers. */
static inline void scene_block(struct scene *s, const struct attention_rows *queries,
                               const struct attention_rows *positions, struct scene_buffers *buffers, size_t per_call)
{
    const size_t rows = queries->rows;
    struct tensor q = scene_input(s, Q, queries), d_o = scene_input(s, D_O, queries);
    struct tensor part = scene_tensor(s, O, s->dtype, rows), part_lse = scene_tensor(s, LSE, DTYPE_FP32, rows);
    struct tensor a = scene_tensor(s, O, DTYPE_FP32, rows), m = scene_tensor(s, LSE, DTYPE_FP32, rows),
                  l = scene_tensor(s, LSE, DTYPE_FP32, rows), delta = scene_tensor(s, LSE, DTYPE_FP32, rows);
    struct tensor o = scene_tensor(s, O, s->dtype, rows), lse = scene_tensor(s, LSE, DTYPE_FP32, rows);
    struct tensor dq = scene_tensor(s, DQ, s->dtype, rows), dq_sum = scene_tensor(s, DQ, DTYPE_FP32, rows);
    void **runs = memory_zeroed(buffers->n, sizeof *runs), *device_keys;
    const struct cuda_extent extent = scene_extent(s, O, rows);
    size_t first_kv, end_kv;
    scene_lanes(s, K, &first_kv, &end_kv);
    for (size_t b = 0; b < buffers->n; b++) {
        runs[b] = scene_runs(s, queries, &positions[b]);
        buffers->keys[b].from = runs[b];
        buffers->keys[b].to = (int32_t *)runs[b] + rows;
    }
    assert_int_equal(cuda_allocate(&device_keys, buffers->n * sizeof *buffers->keys), 0);
    assert_int_equal(cuda_write(device_keys, buffers->keys, buffers->n * sizeof *buffers->keys), 0);
    struct cuda_call call = {
        .items = (uint32_t)s->some_items,
        .q_heads = (uint32_t)s->some_heads,
        .kv_heads = (uint32_t)(end_kv - first_kv),
        .head_dim = (uint32_t)s->dim,
        .group = (uint32_t)scene_group(s),
        .group_offset = (uint32_t)(s->head % scene_group(s)),
        .scale = 1 / sqrtf((float)s->dim),
        .dtype = s->dtype,
        .dkv_dtype = s->dkv_dtype,
        .rows = (uint32_t)rows,
        .q = scene_array(s, Q, &q).first,
        .strides = {q.strides, part.strides, part_lse.strides, d_o.strides, delta.strides, dq.strides},
    };
    for (size_t b = 0; b < buffers->n; b += per_call) {
        call.keys = buffers->keys + b;
        call.device_keys = (const struct cuda_keys *)device_keys + b;
        call.n_keys = (uint32_t)(buffers->n - b < per_call ? buffers->n - b : per_call);
        tensor_poison(&part);
        tensor_poison(&part_lse);
        assert_int_equal(
            family_forward(&call, scene_array(s, O, &part).first, scene_array(s, LSE, &part_lse).first, NULL), 0);
        assert_int_equal(cuda_merge(extent, scene_array(s, O, &part), scene_array(s, LSE, &part_lse),
                                    scene_array(s, O, &a), scene_array(s, LSE, &m), scene_array(s, LSE, &l), b == 0,
                                    NULL),
                         0);
    }
    assert_int_equal(cuda_finish(extent, scene_array(s, O, &a), scene_array(s, LSE, &m), scene_array(s, LSE, &l),
                                 scene_array(s, O, &o), scene_array(s, LSE, &lse), NULL),
                     0);
    assert_int_equal(
        cuda_delta(extent, scene_array(s, O, &o), scene_array(s, D_O, &d_o), scene_array(s, LSE, &delta), NULL), 0);
    call.strides.lse = lse.strides;
    for (size_t b = 0; b < buffers->n; b += per_call) {
        call.keys = buffers->keys + b;
        call.device_keys = (const struct cuda_keys *)device_keys + b;
        call.n_keys = (uint32_t)(buffers->n - b < per_call ? buffers->n - b : per_call);
        tensor_poison(&dq);
        for (size_t i = b; i < b + call.n_keys; i++) {
            tensor_poison(&buffers->dk[i]);
            tensor_poison(&buffers->dv[i]);
        }
        assert_int_equal(family_backward(&call, scene_array(s, D_O, &d_o).first, scene_array(s, LSE, &lse).first,
                                         scene_array(s, LSE, &delta).first, scene_array(s, DQ, &dq).first, NULL),
                         0);
        assert_int_equal(cuda_accumulate(extent, scene_array(s, DQ, &dq_sum), scene_array(s, DQ, &dq), b == 0, NULL),
                         0);
        for (size_t i = b; i < b + call.n_keys; i++) {
            scene_collect(s, DK, &positions[i], &buffers->dk[i]);
            scene_collect(s, DV, &positions[i], &buffers->dv[i]);
        }
    }
    scene_collect(s, O, queries, &o);
    scene_collect(s, LSE, queries, &lse);
    scene_collect(s, DQ, queries, &dq_sum);
    for (size_t b = 0; b < buffers->n; b++)
        assert_int_equal(cuda_release(runs[b]), 0);
    free(runs);
    assert_int_equal(cuda_release(device_keys), 0);
    struct tensor *all[] = {&q, &d_o, &part, &part_lse, &a, &m, &l, &delta, &o, &lse, &dq, &dq_sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static inline void scene_compute(struct scene *s, const struct attention_rows *queries, size_t n_queries,
                                 const struct attention_rows *positions, size_t n_buffers, size_t per_call)
{
    struct tensor *tensors = memory_zeroed(4 * n_buffers, sizeof *tensors);
    struct scene_buffers buffers = {n_buffers,
                                    tensors,
                                    tensors + n_buffers,
                                    tensors + 2 * n_buffers,
                                    tensors + 3 * n_buffers,
                                    memory_zeroed(n_buffers, sizeof *buffers.keys)};
    for (size_t b = 0; b < n_buffers; b++) {
        buffers.k[b] = scene_input(s, K, &positions[b]);
        buffers.v[b] = scene_input(s, V, &positions[b]);
        buffers.dk[b] = scene_tensor(s, DK, s->dkv_dtype, positions[b].rows);
        buffers.dv[b] = scene_tensor(s, DV, s->dkv_dtype, positions[b].rows);
        buffers.keys[b] = (struct cuda_keys){.k = scene_array(s, K, &buffers.k[b]).first,
                                             .v = scene_array(s, V, &buffers.v[b]).first,
                                             .dk = scene_array(s, DK, &buffers.dk[b]).first,
                                             .dv = scene_array(s, DV, &buffers.dv[b]).first,
                                             .strides = buffers.k[b].strides,
                                             .gradient = buffers.dk[b].strides,
                                             .rows = (uint32_t)positions[b].rows};
    }
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < scene_at(s, t, s->rows, 0, 0); i++)
            s->sum[t][i] = (double)NAN;
    for (size_t b = 0; b < n_queries; b++)
        scene_block(s, &queries[b], positions, &buffers, per_call);
    for (size_t i = 0; i < 4 * n_buffers; i++)
        tensor_free(&tensors[i]);
    free(tensors);
    free(buffers.keys);
}

#endif
