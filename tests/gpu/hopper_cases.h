/* hopper_cases.h - what cuda_cases.h does not ask of the Hopper kernels: many key buffers, and blocks so long that
 * every place of shared memory is used again and again. */
#ifndef CPSIM_TESTS_GPU_HOPPER_CASES_H
#define CPSIM_TESTS_GPU_HOPPER_CASES_H

#include "hopper_family.h"

#include "cuda_cases.h"

/* More buffers than the kernel has maps of among its parameters, and than one batch of others holds; one is empty. */
static inline void many_key_buffers_agree(void **state)
{
    (void)state;
    srand(11);
    enum { BUFFERS = 23, ROWS = 100 };
    for (size_t turn = 0; turn < 2; turn++) {
        struct mask mask = {.kind = turn ? MASK_FULL : MASK_CAUSAL, .seq_len = ROWS};
        struct scene s = scene_make((struct scene){.mask = &mask,
                                                   .items = 1,
                                                   .q_heads = 2,
                                                   .kv_heads = 1,
                                                   .dim = turn ? 128 : 64,
                                                   .dtype = turn ? DTYPE_FP16 : DTYPE_BF16,
                                                   .dkv_dtype = DTYPE_FP32});
        const struct attention_rows all = run_of(0, 1, ROWS);
        struct attention_rows keys[BUFFERS];
        keys[0] = run_of(0, 1, 0);
        for (size_t b = 1; b < BUFFERS; b++) {
            const size_t before = b - 1, count = BUFFERS - 1;
            keys[b] = run_of(before, count, (ROWS - before + count - 1) / count);
        }
        scene_compute(&s, &all, 1, keys, BUFFERS, BUFFERS);
        assert_right(&s);
        scene_compute(&s, &all, 1, keys, BUFFERS, 9); /* one other, at the most */
        assert_right(&s);
        scene_free(&s);
    }
}

static inline void check_long(size_t rows, size_t dim, size_t m, enum dtype dtype)
{
    struct masks masks;
    masks_of(&masks, rows);
    struct scene s = scene_make((struct scene){.mask = &masks.of[m],
                                               .items = 1,
                                               .q_heads = 2,
                                               .kv_heads = 1,
                                               .dim = dim,
                                               .dtype = dtype,
                                               .dkv_dtype = DTYPE_FP32});
    const size_t cut = rows * 6 / 13;
    const struct attention_rows all = run_of(0, 1, rows), halves[] = {run_of(0, 1, cut), run_of(cut, 1, rows - cut)};
    scene_compute(&s, &all, 1, halves, 2, 2);
    assert_right(&s);
    scene_free(&s);
}

#endif
