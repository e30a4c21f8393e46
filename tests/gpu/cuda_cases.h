/* cuda_cases.h - the tests of the CUDA kernels, for an emulated GPU (kernels_test.c) and for a real one
 * (device_test.c).
 *
 * Bounds, of the error's norm over the tensor's norm. Inputs are exact in both dtypes. O and the gradients are rounded
 * once (bf16: 2^-9 at most, 1.1e-3 of the norm), and so are the weights, and dS, that go into products: 3e-3 in all,
 * and of dQ, dK, dV summed over calls in bf16 a little more. 1e-2 is allowed, 2e-3 of fp16, which has 3 bits more; and
 * 1e-3 of an LSE, whose scores and sums are fp32. A wrong mask row or a lost tile costs far more.
 */
#ifndef CPSIM_TESTS_GPU_CUDA_CASES_H
#define CPSIM_TESTS_GPU_CUDA_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>

#include "cuda_scene.h"

static double worst[2][TENSORS]; /* by dtype: bf16, fp16 */

static void print_worst(void)
{
    for (int t = 0; t < TENSORS; t++)
        if (worst[0][t] > 0)
            printf("largest error of %s: bf16 %.2g, fp16 %.2g\n", tensor_names[t], worst[0][t], worst[1][t]);
}

static struct attention_rows run_of(uint64_t first, uint64_t stride, uint64_t count)
{
    return (struct attention_rows){.spans = {{first, stride, count}}, .n_spans = 1, .rows = count};
}

static void assert_right(const struct scene *s)
{
    static const int outputs[] = {O, LSE, DQ, DK, DV};
    for (size_t i = 0; i < 5; i++) {
        const double error = scene_error(s, outputs[i]);
        const double bound = outputs[i] == LSE ? 1e-3 : s->dtype == DTYPE_BF16 ? 1e-2 : 2e-3;
        double *seen = &worst[s->dtype == DTYPE_FP16][outputs[i]];
        *seen = error > *seen ? error : *seen;
        if (!(error <= bound))
            fail_msg("%s is off by %g (rows %zu, items %zu, heads %zu/%zu, dim %zu, mask %d, %s)",
                     tensor_names[outputs[i]], error, s->rows, s->items, s->q_heads, s->kv_heads, s->dim,
                     (int)s->mask->kind, dtype_name(s->dtype));
    }
}

#define N_MASKS 4
struct masks {
    struct mask of[N_MASKS];
    uint64_t starts[5];
};

static void masks_of(struct masks *m, uint64_t rows)
{
    m->starts[0] = 0;
    m->starts[1] = rows / 7;
    m->starts[2] = rows / 7 + 1; /* a document of one position */
    m->starts[3] = rows * 5 / 8;
    m->starts[4] = rows;
    m->of[0] = (struct mask){.kind = MASK_CAUSAL, .seq_len = rows};
    m->of[1] = (struct mask){.kind = MASK_FULL, .seq_len = rows};
    m->of[2] = (struct mask){.kind = MASK_WINDOW, .seq_len = rows, .window = rows / 5 + 1};
    m->of[3] = (struct mask){.kind = MASK_DOCUMENTS, .seq_len = rows, .document_starts = m->starts, .n_documents = 4};
}

static inline void check_whole(struct scene wanted)
{
    struct scene s = scene_make(wanted);
    const struct attention_rows all = run_of(0, 1, s.rows);
    scene_compute(&s, &all, 1, &all, 1, 1);
    assert_right(&s);
    scene_free(&s);
}

static inline void whole_blocks_agree_for_every_mask_dtype_and_dimension(void **state)
{
    (void)state;
    srand(1);
    static const size_t dims[] = {64, 128, 256};
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16};
    struct masks masks;
    masks_of(&masks, 150);
    for (size_t d = 0; d < 3; d++)
        for (size_t t = 0; t < 2; t++)
            for (size_t m = 0; m < N_MASKS; m++)
                if (dims[d] < 256 || (m + t) % 2 == 0)
                    check_whole((struct scene){.mask = &masks.of[m],
                                               .items = 1,
                                               .q_heads = 1,
                                               .kv_heads = 1,
                                               .dim = dims[d],
                                               .dtype = dtypes[t],
                                               .dkv_dtype = m % 2 ? DTYPE_FP32 : dtypes[t]});
}

static inline void heads_that_share_keys_and_items_agree(void **state)
{
    (void)state;
    srand(2);
    static const size_t heads[][2] = {{4, 2}, {6, 2}, {3, 1}, {2, 2}};
    struct masks masks;
    masks_of(&masks, 70);
    for (size_t h = 0; h < 4; h++)
        check_whole((struct scene){.mask = &masks.of[h % N_MASKS],
                                   .items = 1 + h % 2,
                                   .q_heads = heads[h][0],
                                   .kv_heads = heads[h][1],
                                   .dim = h == 1 ? 128 : 64,
                                   .dtype = h % 2 ? DTYPE_BF16 : DTYPE_FP16,
                                   .dkv_dtype = DTYPE_FP32});
}

/* Every length around the tiles' edges, also of one row; queries and keys of different length. */
static inline void odd_lengths_agree(void **state)
{
    (void)state;
    srand(3);
    static const size_t lengths[] = {1, 2, 15, 17, 33, 90, 63, 64, 65, 127, 129, 191};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t rows = lengths[i], cut = rows / 3;
        struct mask mask = {.kind = i % 2 ? MASK_CAUSAL : MASK_FULL, .seq_len = rows};
        struct scene s = scene_make((struct scene){.mask = &mask,
                                                   .items = 1,
                                                   .q_heads = 1,
                                                   .kv_heads = 1,
                                                   .dim = i % 3 == 2 ? 128 : 64,
                                                   .dtype = i % 2 ? DTYPE_BF16 : DTYPE_FP16,
                                                   .dkv_dtype = DTYPE_FP32,
                                                   .smallest = rows < 16 ? 1 : 0});
        const struct attention_rows all = run_of(0, 1, rows), parts[] = {run_of(0, 1, cut), run_of(cut, 1, rows - cut)};
        scene_compute(&s, &all, 1, &all, 1, 1);
        assert_right(&s);
        if (cut > 0) {
            scene_compute(&s, parts, 2, i % 2 ? &all : parts, i % 2 ? 1 : 2, 2);
            assert_right(&s);
        }
        scene_free(&s);
    }
}

/* Shards of `ranks` ranks: zigzag (two chunks) or striped. */
static inline void shards_of(struct attention_rows *shards, size_t ranks, size_t rows, bool zigzag)
{
    const size_t chunk = rows / (2 * ranks);
    for (size_t r = 0; r < ranks; r++)
        shards[r] =
            zigzag ? (struct attention_rows){.spans = {{r * chunk, 1, chunk}, {(2 * ranks - 1 - r) * chunk, 1, chunk}},
                                             .n_spans = 2,
                                             .rows = 2 * chunk}
                   : run_of(r, ranks, (rows - r + ranks - 1) / ranks);
}

/* Blocks that see nothing of a buffer, all of it, and every kind of part; buffers one by one and several at once. */
static inline void shards_of_any_sharding_agree(void **state)
{
    (void)state;
    srand(4);
    enum { RANKS = 3 };
    for (size_t turn = 0; turn < 8; turn++) {
        const bool zigzag = turn % 2 == 0;
        const size_t rows = turn < 6 ? 132 : 6 * 70;
        struct masks masks;
        masks_of(&masks, rows);
        struct scene s = scene_make((struct scene){.mask = &masks.of[turn < 6 ? turn / 2 : 0],
                                                   .items = 1,
                                                   .q_heads = 2,
                                                   .kv_heads = 1,
                                                   .dim = turn == 5   ? 256
                                                          : turn == 4 ? 128
                                                                      : 64,
                                                   .dtype = turn % 3 ? DTYPE_BF16 : DTYPE_FP16,
                                                   .dkv_dtype = DTYPE_FP32});
        struct attention_rows shards[RANKS];
        shards_of(shards, RANKS, rows, zigzag);
        for (size_t per_call = 1; per_call <= RANKS; per_call += turn < 6 ? 1 : RANKS) {
            scene_compute(&s, shards, RANKS, shards, RANKS, per_call);
            assert_right(&s);
        }
        scene_free(&s);
    }
}

/* Slices of heads that begin and end within a KV head's query heads, of some items, in padded tensors. */
static inline void lanes_inside_larger_tensors_agree(void **state)
{
    (void)state;
    srand(5);
    static const size_t slices[][4] = {{0, 1, 0, 2}, {1, 2, 1, 4}, {0, 3, 2, 3}, {2, 1, 5, 1}};
    struct masks masks;
    masks_of(&masks, 45);
    for (size_t i = 0; i < 4; i++) {
        struct scene s = scene_make((struct scene){.mask = &masks.of[i % N_MASKS],
                                                   .items = 3,
                                                   .q_heads = 6,
                                                   .kv_heads = 2,
                                                   .dim = i == 3   ? 256
                                                          : i == 2 ? 128
                                                                   : 64,
                                                   .dtype = i % 2 ? DTYPE_BF16 : DTYPE_FP16,
                                                   .dkv_dtype = i < 2   ? DTYPE_FP32
                                                                : i % 2 ? DTYPE_BF16
                                                                        : DTYPE_FP16,
                                                   .padding = i % 2 ? 8 : 24,
                                                   .item = slices[i][0],
                                                   .some_items = slices[i][1],
                                                   .head = slices[i][2],
                                                   .some_heads = slices[i][3]});
        const struct attention_rows all = run_of(0, 1, s.rows);
        scene_compute(&s, &all, 1, &all, 1, 1);
        assert_right(&s);
        scene_free(&s);
    }
}

/* ---- rows and keys that see nothing ---- */

/* Queries at positions 0 to 79, keys from 40 on under the causal mask: half of the queries see nothing. */
static inline void rows_that_see_nothing_give_zero(void **state)
{
    (void)state;
    srand(6);
    enum { ROWS = 80, FIRST = 40, KEYS = 60 };
    static const size_t dims[] = {64, 128, 256};
    for (size_t d = 0; d < 3; d++) {
        struct mask mask = {.kind = MASK_CAUSAL, .seq_len = FIRST + KEYS};
        struct scene s = {.mask = &mask,
                          .rows = mask.seq_len,
                          .items = 1,
                          .q_heads = 1,
                          .kv_heads = 1,
                          .dim = dims[d],
                          .dtype = DTYPE_BF16,
                          .dkv_dtype = DTYPE_BF16,
                          .some_items = 1,
                          .some_heads = 1};
        s = scene_make(s);
        const struct attention_rows queries = run_of(0, 1, ROWS), keys = run_of(FIRST, 1, KEYS);
        struct tensor q = scene_input(&s, Q, &queries), d_o = scene_input(&s, D_O, &queries);
        struct tensor k = scene_input(&s, K, &keys), v = scene_input(&s, V, &keys);
        struct tensor o = scene_tensor(&s, O, DTYPE_BF16, ROWS), lse = scene_tensor(&s, LSE, DTYPE_FP32, ROWS),
                      delta = scene_tensor(&s, LSE, DTYPE_FP32, ROWS), dq = scene_tensor(&s, DQ, DTYPE_BF16, ROWS),
                      dk = scene_tensor(&s, DK, DTYPE_BF16, KEYS), dv = scene_tensor(&s, DV, DTYPE_BF16, KEYS);
        void *runs = scene_runs(&s, &queries, &keys), *device_keys;
        struct cuda_keys buffer = {
            k.device, v.device, dk.device, dv.device, k.strides, dk.strides, runs, (int32_t *)runs + ROWS, KEYS};
        assert_int_equal(cuda_allocate(&device_keys, sizeof buffer), 0);
        assert_int_equal(cuda_write(device_keys, &buffer, sizeof buffer), 0);
        struct cuda_call call = {
            .items = 1,
            .q_heads = 1,
            .kv_heads = 1,
            .head_dim = (uint32_t)s.dim,
            .group = 1,
            .scale = 1 / sqrtf((float)s.dim),
            .dtype = DTYPE_BF16,
            .dkv_dtype = DTYPE_BF16,
            .rows = ROWS,
            .q = q.device,
            .strides = {q.strides, o.strides, lse.strides, d_o.strides, delta.strides, dq.strides},
            .keys = &buffer,
            .device_keys = device_keys,
            .n_keys = 1,
        };
        const struct cuda_extent extent = {ROWS, 1, 1, (uint32_t)s.dim};
        assert_int_equal(family_forward(&call, o.device, lse.device, NULL), 0);
        assert_int_equal(
            cuda_delta(extent, tensor_array(&o, 0, 0), tensor_array(&d_o, 0, 0), tensor_array(&delta, 0, 0), NULL), 0);
        assert_int_equal(family_backward(&call, d_o.device, lse.device, delta.device, dq.device, NULL), 0);
        tensor_fetch(&o);
        tensor_fetch(&lse);
        tensor_fetch(&dq);
        tensor_fetch(&dk);
        tensor_fetch(&dv);
        for (size_t row = 0; row < ROWS; row++) {
            const bool empty = row < FIRST;
            assert_true(empty ? tensor_get(&lse, row, 0, 0, 0) == (double)-INFINITY
                              : isfinite(tensor_get(&lse, row, 0, 0, 0)));
            for (size_t i = 0; i < s.dim; i++) {
                assert_true(isfinite(tensor_get(&o, row, 0, 0, i)) && isfinite(tensor_get(&dq, row, 0, 0, i)));
                assert_true(!empty || (tensor_get(&o, row, 0, 0, i) == 0 && tensor_get(&dq, row, 0, 0, i) == 0));
            }
        }
        for (size_t row = 0; row < KEYS; row++) /* keys from position 80 on are seen by nobody */
            for (size_t i = 0; i < s.dim; i++) {
                const double dk_of = tensor_get(&dk, row, 0, 0, i), dv_of = tensor_get(&dv, row, 0, 0, i);
                assert_true(isfinite(dk_of) && isfinite(dv_of));
                assert_true(row < ROWS - FIRST || (dk_of == 0 && dv_of == 0));
            }
        /* No buffer at all. */
        tensor_poison(&o);
        tensor_poison(&lse);
        call.n_keys = 0;
        assert_int_equal(family_forward(&call, o.device, lse.device, NULL), 0);
        tensor_fetch(&o);
        tensor_fetch(&lse);
        for (size_t row = 0; row < ROWS; row++)
            assert_true(tensor_get(&o, row, 0, 0, s.dim - 1) == 0 &&
                        tensor_get(&lse, row, 0, 0, 0) == (double)-INFINITY);
        assert_int_equal(cuda_release(runs), 0);
        assert_int_equal(cuda_release(device_keys), 0);
        struct tensor *all[] = {&q, &d_o, &k, &v, &o, &lse, &delta, &dq, &dk, &dv};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            tensor_free(all[i]);
        scene_free(&s);
    }
}

/* Q = 0 and V_j = j under the causal mask: O_i = i / 2 and LSE_i = ln(i + 1), exactly known. */
static inline void equal_scores_give_means(void **state)
{
    (void)state;
    enum { ROWS = 100 };
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = ROWS};
    struct scene s = scene_make((struct scene){.mask = &mask,
                                               .items = 1,
                                               .q_heads = 1,
                                               .kv_heads = 1,
                                               .dim = 64,
                                               .dtype = DTYPE_BF16,
                                               .dkv_dtype = DTYPE_FP32});
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < 64; d++) {
            s.truth[Q][64 * row + d] = 0;
            s.truth[V][64 * row + d] = (double)row;
        }
    const struct attention_rows all = run_of(0, 1, ROWS);
    scene_compute(&s, &all, 1, &all, 1, 1);
    for (size_t row = 0; row < ROWS; row++) {
        assert_true(fabs(s.sum[LSE][row] - log((double)row + 1)) < 1e-5);
        for (size_t d = 0; d < 64; d++)
            assert_true(fabs(s.sum[O][64 * row + d] - (double)row / 2) <= (double)row / 2 / 256);
    }
    scene_free(&s);
}

/* ---- what calls must be ---- */

static inline void calls_that_break_the_rules_are_refused(void **state)
{
    (void)state;
    struct tensor t = tensor_make(DTYPE_BF16, 16, 1, 4, 64, 0), numbers = tensor_make(DTYPE_FP32, 16, 1, 4, 1, 0);
    const struct cuda_keys buffer = {t.device, t.device, t.device, t.device, t.strides, t.strides, NULL, NULL, 0};
    const struct cuda_strides n = numbers.strides, r = t.strides;
    const struct cuda_call good = {.items = 1,
                                   .q_heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 64,
                                   .group = 2,
                                   .scale = 1,
                                   .dtype = DTYPE_BF16,
                                   .dkv_dtype = DTYPE_FP32,
                                   .rows = 0,
                                   .q = t.device,
                                   .strides = {r, r, n, r, n, r},
                                   .keys = &buffer,
                                   .device_keys = t.device,
                                   .n_keys = 1};
    enum { CASES = 9 };
    struct cuda_call bad[CASES];
    for (size_t i = 0; i < CASES; i++)
        bad[i] = good;
    bad[0].head_dim = 96;
    bad[1].dtype = DTYPE_FP32;
    bad[2].q = (char *)t.device + 2;
    bad[3].strides.q.row = 12;
    bad[4].kv_heads = 1;
    bad[5].group = 0;
    bad[6].scale = 0;
    bad[7].device_keys = NULL;
    bad[8].group_offset = 2;
    assert_int_equal(family_forward(&good, t.device, numbers.device, NULL), 0);
    assert_int_equal(family_backward(&good, t.device, numbers.device, numbers.device, t.device, NULL), 0);
    for (size_t i = 0; i < CASES; i++) {
        assert_int_equal(family_forward(&bad[i], t.device, numbers.device, NULL), CUDA_INVALID);
        assert_int_equal(family_backward(&bad[i], t.device, numbers.device, numbers.device, t.device, NULL),
                         CUDA_INVALID);
    }
    struct cuda_call other = good;
    other.dkv_dtype = DTYPE_FP16;
    assert_int_equal(family_backward(&other, t.device, numbers.device, numbers.device, t.device, NULL), CUDA_INVALID);
    struct cuda_array wrong = tensor_array(&t, 0, 0);
    assert_int_equal(cuda_delta((struct cuda_extent){0}, wrong, wrong, wrong, NULL), CUDA_INVALID);
    wrong.dtype = DTYPE_FP64;
    assert_int_equal(cuda_accumulate((struct cuda_extent){0}, wrong, wrong, 1, NULL), CUDA_INVALID);
    tensor_free(&t);
    tensor_free(&numbers);
}

#define CUDA_CASES                                                                                                     \
    cmocka_unit_test(whole_blocks_agree_for_every_mask_dtype_and_dimension),                                           \
        cmocka_unit_test(heads_that_share_keys_and_items_agree), cmocka_unit_test(odd_lengths_agree),                  \
        cmocka_unit_test(shards_of_any_sharding_agree), cmocka_unit_test(lanes_inside_larger_tensors_agree),           \
        cmocka_unit_test(rows_that_see_nothing_give_zero), cmocka_unit_test(equal_scores_give_means),                  \
        cmocka_unit_test(calls_that_break_the_rules_are_refused)

#endif
