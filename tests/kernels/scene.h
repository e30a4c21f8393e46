/* scene.h - one attention problem, its answer in double precision, and its answer by the kernels from any partition of
 * its positions into query blocks and key buffers. */
#ifndef CPSIM_TESTS_KERNELS_SCENE_H
#define CPSIM_TESTS_KERNELS_SCENE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/reference.h"
#include "models/base/memory.h"

enum { Q, D_O, O, DQ, K, V, DK, DV, LSE, TENSORS };

struct scene {
    const struct mask *mask;
    size_t rows, batch, q_heads, kv_heads, dim;
    enum dtype dtype, dkv_dtype;
    double *truth[TENSORS]; /* whole sequence; inputs too, as the dtype holds them */
    void *inputs[TENSORS];  /* Q, D_O, K, V in dtype */
    float *result[TENSORS]; /* O, LSE, DQ, DK, DV of scene_compute, gathered from all blocks */
};

/* Rows of a tensor: numbers in each. */
static size_t scene_width(const struct scene *s, int tensor)
{
    if (tensor == LSE)
        return s->batch * s->q_heads;
    return s->batch * s->dim * (tensor == K || tensor == V || tensor == DK || tensor == DV ? s->kv_heads : s->q_heads);
}

static size_t scene_count(const struct scene *s, int tensor)
{
    return s->rows * scene_width(s, tensor);
}

static void *scene_stored(enum dtype dtype, const float *numbers, size_t count)
{
    void *stored = memory_zeroed(count, dtype_bytes(dtype));
    attention_accumulate(count, dtype, stored, DTYPE_FP32, numbers, 1);
    return stored;
}

/* Poison: NaN in every type. */
static void *scene_poisoned(size_t count, size_t size)
{
    return memset(memory_zeroed(count, size), 0xff, count * size);
}

/* Computes the truth of the inputs. */
static void scene_solve(struct scene *s)
{
    struct reference_shape shape = {s->rows, s->batch * s->q_heads,    s->batch * s->kv_heads,
                                    s->dim,  1 / sqrt((double)s->dim), s->mask};
    static const int inputs[] = {Q, D_O, K, V};
    for (size_t i = 0; i < 4; i++) {
        size_t count = scene_count(s, inputs[i]);
        float *numbers = memory_zeroed(count, sizeof *numbers);
        attention_accumulate(count, DTYPE_FP32, numbers, s->dtype, s->inputs[inputs[i]], 1);
        for (size_t n = 0; n < count; n++)
            s->truth[inputs[i]][n] = (double)numbers[n];
        free(numbers);
    }
    double **t = s->truth;
    reference_forward(&shape, t[Q], t[K], t[V], t[O], t[LSE]);
    reference_backward(&shape, t[Q], t[K], t[V], t[O], t[LSE], t[D_O], t[DQ], t[DK], t[DV]);
}

/* Inputs in [-2, 2). */
static struct scene scene_make(const struct mask *mask, size_t batch, size_t q_heads, size_t kv_heads, size_t dim,
                               enum dtype dtype)
{
    struct scene s = {.mask = mask,
                      .rows = mask->seq_len,
                      .batch = batch,
                      .q_heads = q_heads,
                      .kv_heads = kv_heads,
                      .dim = dim,
                      .dtype = dtype,
                      .dkv_dtype = dtype};
    for (int t = 0; t < TENSORS; t++) {
        size_t count = scene_count(&s, t);
        s.truth[t] = memory_zeroed(count, sizeof(double));
        s.result[t] = scene_poisoned(count, sizeof(float));
        float *numbers = memory_zeroed(count, sizeof *numbers);
        for (size_t i = 0; i < count; i++)
            numbers[i] = 4 * ((float)(rand() % 65536) / 65536) - 2;
        s.inputs[t] = scene_stored(dtype, numbers, count);
        free(numbers);
    }
    scene_solve(&s);
    return s;
}

static void scene_free(struct scene *s)
{
    for (int t = 0; t < TENSORS; t++) {
        free(s->truth[t]);
        free(s->inputs[t]);
        free(s->result[t]);
    }
}

static uint64_t scene_position(const struct attention_rows *rows, size_t row)
{
    uint32_t s = 0;
    for (; row >= rows->spans[s].count; s++)
        row -= rows->spans[s].count;
    return rows->spans[s].first + row * rows->spans[s].stride;
}

/* Copies rows of a whole tensor into a block, or a block's back. */
static void scene_copy(const struct scene *s, int tensor, const struct attention_rows *rows, size_t size, void *whole,
                       void *block, bool back)
{
    size_t bytes = scene_width(s, tensor) * size;
    for (size_t row = 0; row < rows->rows; row++) {
        char *there = (char *)whole + scene_position(rows, row) * bytes, *here = (char *)block + row * bytes;
        memcpy(back ? there : here, back ? here : there, bytes);
    }
}

static void *scene_input(const struct scene *s, int tensor, const struct attention_rows *rows)
{
    void *block = memory_zeroed(rows->rows * scene_width(s, tensor), dtype_bytes(s->dtype));
    scene_copy(s, tensor, rows, dtype_bytes(s->dtype), s->inputs[tensor], block, false);
    return block;
}

static float *scene_fp32(enum dtype dtype, const void *block, size_t count)
{
    float *numbers = scene_poisoned(count, sizeof *numbers);
    attention_accumulate(count, DTYPE_FP32, numbers, dtype, block, 1);
    return numbers;
}

/* Key buffers with their gradient sums over all query blocks. */
struct scene_keys {
    struct attention_keys *buffers;
    float **dk, **dv;
};

/* Forward of one query block: each call sees `per_call` buffers, its result merged. Writes O (dtype) and LSE. */
static void scene_forward(const struct scene *s, struct attention_call *call, const struct attention_keys *buffers,
                          size_t n_buffers, size_t per_call, void *o, float *lse)
{
    const size_t rows = call->queries.rows, heads = s->batch * s->q_heads, count = rows * heads * s->dim;
    float *a = scene_poisoned(count, sizeof *a), *m = scene_poisoned(rows * heads, sizeof *m),
          *l = scene_poisoned(rows * heads, sizeof *l);
    for (size_t b = 0; b < n_buffers; b += per_call) {
        call->keys = buffers + b;
        call->n_keys = n_buffers - b < per_call ? n_buffers - b : per_call;
        memset(o, 0xff, count * dtype_bytes(s->dtype));
        memset(lse, 0xff, rows * heads * sizeof *lse);
        attention_forward(call, o, lse);
        attention_merge(rows, heads, s->dim, s->dtype, o, lse, a, m, l, b == 0);
    }
    attention_finish(rows, heads, s->dim, s->dtype, a, m, l, o, lse);
    free(a);
    free(m);
    free(l);
}

/* Backward of one query block; adds to the keys' sums (`first`: writes), returns dQ in fp32. */
static float *scene_backward(const struct scene *s, struct attention_call *call, struct scene_keys *keys,
                             size_t n_buffers, size_t per_call, const void *o, const float *lse, const void *d_o,
                             bool first)
{
    const size_t rows = call->queries.rows, heads = s->batch * s->q_heads, count = rows * heads * s->dim;
    float *delta = scene_poisoned(rows * heads, sizeof *delta), *sum = scene_poisoned(count, sizeof *sum);
    void *dq = scene_poisoned(count, dtype_bytes(s->dtype));
    attention_delta(rows, heads, s->dim, s->dtype, o, d_o, delta);
    for (size_t b = 0; b < n_buffers; b += per_call) {
        call->keys = keys->buffers + b;
        call->n_keys = n_buffers - b < per_call ? n_buffers - b : per_call;
        for (size_t i = b; i < b + call->n_keys; i++) {
            size_t bytes = keys->buffers[i].positions.rows * scene_width(s, DK) * dtype_bytes(s->dkv_dtype);
            memset(keys->buffers[i].dk, 0xff, bytes);
            memset(keys->buffers[i].dv, 0xff, bytes);
        }
        memset(dq, 0xff, count * dtype_bytes(s->dtype));
        attention_backward(call, d_o, lse, delta, dq);
        attention_accumulate(count, DTYPE_FP32, sum, s->dtype, dq, b == 0);
        for (size_t i = b; i < b + call->n_keys; i++) {
            size_t n = keys->buffers[i].positions.rows * scene_width(s, DK);
            attention_accumulate(n, DTYPE_FP32, keys->dk[i], s->dkv_dtype, keys->buffers[i].dk, first);
            attention_accumulate(n, DTYPE_FP32, keys->dv[i], s->dkv_dtype, keys->buffers[i].dv, first);
        }
    }
    free(delta);
    free(dq);
    return sum;
}

/* Fills s->result from the kernels: query blocks one after the other, each against all key buffers, `per_call` buffers
 * a call. Outputs are NaN before each call. */
static inline void scene_compute(struct scene *s, const struct attention_rows *queries, size_t n_queries,
                                 const struct attention_rows *buffers, size_t n_buffers, size_t per_call)
{
    struct scene_keys keys = {memory_zeroed(n_buffers, sizeof *keys.buffers), memory_zeroed(n_buffers, sizeof(float *)),
                              memory_zeroed(n_buffers, sizeof(float *))};
    for (size_t b = 0; b < n_buffers; b++) {
        size_t count = buffers[b].rows * scene_width(s, K);
        keys.buffers[b] = (struct attention_keys){.positions = buffers[b],
                                                  .k = scene_input(s, K, &buffers[b]),
                                                  .v = scene_input(s, V, &buffers[b]),
                                                  .dk = memory_zeroed(count, dtype_bytes(s->dkv_dtype)),
                                                  .dv = memory_zeroed(count, dtype_bytes(s->dkv_dtype))};
        keys.dk[b] = scene_poisoned(count, sizeof(float));
        keys.dv[b] = scene_poisoned(count, sizeof(float));
    }
    for (int t = 0; t < TENSORS; t++)
        memset(s->result[t], 0xff, scene_count(s, t) * sizeof(float));
    for (size_t b = 0; b < n_queries; b++) {
        const struct attention_rows *rows = &queries[b];
        void *q = scene_input(s, Q, rows), *d_o = scene_input(s, D_O, rows);
        size_t count = rows->rows * scene_width(s, O), numbers = rows->rows * scene_width(s, LSE);
        void *o = scene_poisoned(count, dtype_bytes(s->dtype));
        float *lse = scene_poisoned(numbers, sizeof *lse);
        struct attention_call call = {.mask = s->mask,
                                      .batch = (uint32_t)s->batch,
                                      .q_heads = (uint32_t)s->q_heads,
                                      .kv_heads = (uint32_t)s->kv_heads,
                                      .head_dim = (uint32_t)s->dim,
                                      .scale = 1 / sqrtf((float)s->dim),
                                      .dtype = s->dtype,
                                      .dkv_dtype = s->dkv_dtype,
                                      .queries = *rows,
                                      .q = q};
        scene_forward(s, &call, keys.buffers, n_buffers, per_call, o, lse);
        float *dq = scene_backward(s, &call, &keys, n_buffers, per_call, o, lse, d_o, b == 0);
        float *o_fp32 = scene_fp32(s->dtype, o, count);
        scene_copy(s, O, rows, sizeof(float), s->result[O], o_fp32, true);
        scene_copy(s, LSE, rows, sizeof(float), s->result[LSE], lse, true);
        scene_copy(s, DQ, rows, sizeof(float), s->result[DQ], dq, true);
        free(q);
        free(d_o);
        free(o);
        free(o_fp32);
        free(lse);
        free(dq);
    }
    for (size_t b = 0; b < n_buffers; b++) {
        scene_copy(s, DK, &buffers[b], sizeof(float), s->result[DK], keys.dk[b], true);
        scene_copy(s, DV, &buffers[b], sizeof(float), s->result[DV], keys.dv[b], true);
        free((void *)(uintptr_t)keys.buffers[b].k);
        free((void *)(uintptr_t)keys.buffers[b].v);
        free(keys.buffers[b].dk);
        free(keys.buffers[b].dv);
        free(keys.dk[b]);
        free(keys.dv[b]);
    }
    free(keys.buffers);
    free(keys.dk);
    free(keys.dv);
}

/* Norm of the difference between result and truth over the norm of the truth; NaN if any is. */
static inline double scene_error(const struct scene *s, int tensor)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < scene_count(s, tensor); i++) {
        double expected = s->truth[tensor][i], off = (double)s->result[tensor][i] - expected;
        difference += off * off;
        norm += expected * expected;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

#endif
