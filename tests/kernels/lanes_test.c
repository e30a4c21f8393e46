/* Attention on some heads and items of larger tensors, in place: the same numbers as on all of them, and nothing else
 * is touched. Heads may begin in the middle of those that share a KV head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "isas.h"
#include "scene.h"

enum { ROWS = 90, BATCH = 3, Q_HEADS = 6, KV_HEADS = 2, GROUP = Q_HEADS / KV_HEADS, DIM = 20 };

/* Every tensor of the problem, whole; outputs poisoned. */
struct whole {
    struct scene scene;
    struct mask mask;
    void *o, *dq, *dk, *dv;
    float *lse, *delta;
};

static void *poisoned(const struct scene *s, int tensor)
{
    return scene_poisoned(scene_count(s, tensor), dtype_bytes(s->dtype));
}

static void whole_init(struct whole *w, enum dtype dtype)
{
    *w = (struct whole){.mask = {.kind = MASK_CAUSAL, .seq_len = ROWS}};
    w->scene = scene_make(&w->mask, BATCH, Q_HEADS, KV_HEADS, DIM, dtype);
    w->o = poisoned(&w->scene, O);
    w->dq = poisoned(&w->scene, DQ);
    w->dk = poisoned(&w->scene, DK);
    w->dv = poisoned(&w->scene, DV);
    w->lse = scene_poisoned(scene_count(&w->scene, LSE), sizeof(float));
    w->delta = scene_poisoned(scene_count(&w->scene, LSE), sizeof(float));
}

static void whole_fini(struct whole *w)
{
    void *const all[] = {w->o, w->dq, w->dk, w->dv, w->lse, w->delta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    scene_free(&w->scene);
}

static const struct attention_rows all_rows = {.spans = {{0, 1, ROWS}}, .n_spans = 1, .rows = ROWS};

static void *element(const struct whole *w, void *tensor, size_t index)
{
    return (char *)tensor + index * dtype_bytes(w->scene.dtype);
}

/* Both directions on heads [head, head + heads) of items [item, item + items), in the whole tensors; delta is there. */
static void attend_lanes(const struct whole *w, uint32_t item, uint32_t items, uint32_t head, uint32_t heads,
                         bool backward)
{
    const size_t lane = (size_t)item * Q_HEADS + head, kv_lane = (size_t)item * KV_HEADS + head / GROUP;
    const struct attention_strides queries = {BATCH * Q_HEADS * DIM, Q_HEADS * DIM};
    const struct attention_strides numbers = {BATCH * Q_HEADS, Q_HEADS};
    const struct attention_strides keys = {BATCH * KV_HEADS * DIM, KV_HEADS * DIM};
    const struct attention_keys buffer = {.positions = all_rows,
                                          .k = element(w, w->scene.inputs[K], kv_lane * DIM),
                                          .v = element(w, w->scene.inputs[V], kv_lane * DIM),
                                          .dk = element(w, w->dk, kv_lane * DIM),
                                          .dv = element(w, w->dv, kv_lane * DIM),
                                          .strides = keys,
                                          .gradient = keys};
    const struct attention_call call = {
        .mask = &w->mask,
        .batch = items,
        .q_heads = heads,
        .kv_heads = (head + heads - 1) / GROUP - head / GROUP + 1,
        .head_dim = DIM,
        .group = GROUP,
        .group_offset = head % GROUP,
        .scale = 1 / sqrtf(DIM),
        .dtype = w->scene.dtype,
        .dkv_dtype = w->scene.dtype,
        .queries = all_rows,
        .q = element(w, w->scene.inputs[Q], lane * DIM),
        .strides = {.q = queries, .o = queries, .lse = numbers, .d_o = queries, .delta = numbers, .dq = queries},
        .keys = &buffer,
        .n_keys = 1,
    };
    if (backward)
        attention_backward(&call, element(w, w->scene.inputs[D_O], lane * DIM), w->lse + lane, w->delta + lane,
                           element(w, w->dq, lane * DIM));
    else
        attention_forward(&call, element(w, w->o, lane * DIM), w->lse + lane);
}

static bool is_poison(const void *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)p)[i] != 0xff)
            return false;
    return true;
}

/* Lanes [first, end) of each item in [item, item_end) are as in `expected`, all others still poison. */
static void expect_lanes(const void *tensor, const void *expected, size_t lanes, size_t width, size_t item,
                         size_t item_end, size_t first, size_t end)
{
    for (size_t i = 0; i < (size_t)ROWS * BATCH * lanes; i++) {
        const char *here = (const char *)tensor + i * width, *there = (const char *)expected + i * width;
        size_t at_lane = i % lanes, at_item = i / lanes % BATCH;
        bool inside = at_item >= item && at_item < item_end && at_lane >= first && at_lane < end;
        if (inside ? memcmp(here, there, width) != 0 : !is_poison(here, width))
            fail_msg("row %zu, item %zu, lane %zu is %s", i / lanes / BATCH, at_item, at_lane,
                     inside ? "wrong" : "not its own");
    }
}

static void try_slice(const struct whole *all, enum dtype dtype, uint32_t item, uint32_t items, uint32_t head,
                      uint32_t heads)
{
    struct whole part;
    whole_init(&part, dtype);
    for (int t = 0; t < TENSORS; t++) /* the same inputs */
        memcpy(part.scene.inputs[t], all->scene.inputs[t], scene_count(&all->scene, t) * dtype_bytes(dtype));
    const size_t width = DIM * dtype_bytes(dtype);
    attend_lanes(&part, item, items, head, heads, false);
    expect_lanes(part.o, all->o, Q_HEADS, width, item, item + items, head, head + heads);
    expect_lanes(part.lse, all->lse, Q_HEADS, sizeof(float), item, item + items, head, head + heads);
    memcpy(part.delta, all->delta, scene_count(&all->scene, LSE) * sizeof(float));
    attend_lanes(&part, item, items, head, heads, true);
    expect_lanes(part.dq, all->dq, Q_HEADS, width, item, item + items, head, head + heads);
    /* Gradients of keys are those of all queries only where all heads of the group are there. */
    if (head % GROUP == 0 && heads % GROUP == 0) {
        size_t first = head / GROUP, end = (head + heads) / GROUP;
        expect_lanes(part.dk, all->dk, KV_HEADS, width, item, item + items, first, end);
        expect_lanes(part.dv, all->dv, KV_HEADS, width, item, item + items, first, end);
    }
    whole_fini(&part);
}

static void compute_all(struct whole *w, enum dtype dtype)
{
    whole_init(w, dtype);
    attend_lanes(w, 0, BATCH, 0, Q_HEADS, false);
    attention_delta(ROWS, BATCH * Q_HEADS, DIM, dtype, w->o, w->scene.inputs[D_O], w->delta);
    attend_lanes(w, 0, BATCH, 0, Q_HEADS, true);
}

static void any_slice_of_lanes_gives_what_all_lanes_give(void **state)
{
    USE_ISA(state);
    const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    for (size_t d = 0; d < 2; d++) {
        struct whole all;
        compute_all(&all, dtypes[d]);
        try_slice(&all, dtypes[d], 0, BATCH, 0, Q_HEADS);
        try_slice(&all, dtypes[d], 0, BATCH, 3, 3); /* the heads of one KV head */
        try_slice(&all, dtypes[d], 1, 2, 0, Q_HEADS);
        try_slice(&all, dtypes[d], 2, 1, 4, 1);
        try_slice(&all, dtypes[d], 0, 2, 2, 3); /* from the middle of a group into the middle of the next */
        try_slice(&all, dtypes[d], 1, 1, 1, 5);
        whole_fini(&all);
    }
}

/* Without strides a tensor is as wide as the call, and the heads are shared evenly. */
static void strides_and_groups_have_defaults(void **state)
{
    USE_ISA(state);
    struct whole all;
    compute_all(&all, DTYPE_FP32);
    void *o = poisoned(&all.scene, O);
    float *lse = scene_poisoned(scene_count(&all.scene, LSE), sizeof *lse);
    const struct attention_keys buffer = {.positions = all_rows, .k = all.scene.inputs[K], .v = all.scene.inputs[V]};
    const struct attention_call call = {.mask = &all.mask,
                                        .batch = BATCH,
                                        .q_heads = Q_HEADS,
                                        .kv_heads = KV_HEADS,
                                        .head_dim = DIM,
                                        .scale = 1 / sqrtf(DIM),
                                        .dtype = DTYPE_FP32,
                                        .queries = all_rows,
                                        .q = all.scene.inputs[Q],
                                        .keys = &buffer,
                                        .n_keys = 1};
    attention_forward(&call, o, lse);
    assert_memory_equal(o, all.o, scene_count(&all.scene, O) * sizeof(float));
    assert_memory_equal(lse, all.lse, scene_count(&all.scene, LSE) * sizeof(float));
    free(o);
    free(lse);
    whole_fini(&all);
}

/* Two slices that share a KV head give two parts of its gradient. */
static void slices_of_a_group_share_its_gradient(void **state)
{
    USE_ISA(state);
    struct whole all, first, second;
    compute_all(&all, DTYPE_FP32);
    struct whole *const parts[] = {&first, &second};
    for (uint32_t p = 0; p < 2; p++) {
        whole_init(parts[p], DTYPE_FP32);
        for (int t = 0; t < TENSORS; t++)
            memcpy(parts[p]->scene.inputs[t], all.scene.inputs[t], scene_count(&all.scene, t) * sizeof(float));
        memcpy(parts[p]->lse, all.lse, scene_count(&all.scene, LSE) * sizeof(float));
        memcpy(parts[p]->delta, all.delta, scene_count(&all.scene, LSE) * sizeof(float));
        attend_lanes(parts[p], 0, BATCH, p ? 2 : 0, p ? 4 : 2, true);
    }
    const float *whole = all.dk, *left = first.dk, *right = second.dk;
    for (size_t i = 0; i < scene_count(&all.scene, DK); i++) {
        float sum = i / DIM % KV_HEADS == 0 ? left[i] + right[i] : right[i];
        assert_true(fabsf(sum - whole[i]) <= 1e-4F * fmaxf(1, fabsf(whole[i])));
    }
    whole_fini(&all);
    whole_fini(&first);
    whole_fini(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_EACH_ISA(any_slice_of_lanes_gives_what_all_lanes_give),
        TEST_EACH_ISA(strides_and_groups_have_defaults),
        TEST_EACH_ISA(slices_of_a_group_share_its_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
