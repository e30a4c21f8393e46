/* order_cases.h - attention in several orders of threads, on an emulated GPU: what a barrier is missing for shows as a
 * result that depends on whose turn it was, or as NaN. */
#ifndef CPSIM_TESTS_GPU_ORDER_CASES_H
#define CPSIM_TESTS_GPU_ORDER_CASES_H

#include "cuda_cases.h"
#include "emulation.h"

/* `rows` queries against as many keys, in two buffers; at head dim 128 under the mask `mask_of_128` of struct masks,
 * else the first. */
static inline void check_orders(uint64_t rows, size_t mask_of_128)
{
    static const int outputs[] = {O, LSE, DQ, DK, DV};
    struct masks masks;
    masks_of(&masks, rows);
    for (size_t dim = 64; dim <= 256; dim *= 2) {
        struct scene first = {0};
        for (uint32_t order = 0; order < 3; order++) {
            emulation_order(order * 7919);
            srand(7);
            struct scene s = scene_make((struct scene){.mask = &masks.of[dim == 128 ? mask_of_128 : 0],
                                                       .items = 1,
                                                       .q_heads = dim == 256 ? 1 : 2,
                                                       .kv_heads = 1,
                                                       .dim = dim,
                                                       .dtype = DTYPE_BF16,
                                                       .dkv_dtype = DTYPE_BF16});
            const struct attention_rows keys[] = {run_of(0, 2, rows / 2), run_of(1, 2, rows / 2)};
            const struct attention_rows all = run_of(0, 1, rows);
            scene_compute(&s, &all, 1, keys, 2, 2);
            assert_right(&s);
            if (order == 0) {
                first = s;
                continue;
            }
            for (size_t i = 0; i < 5; i++)
                assert_memory_equal(s.sum[outputs[i]], first.sum[outputs[i]],
                                    scene_at(&s, outputs[i], s.rows, 0, 0) * sizeof(double));
            scene_free(&s);
        }
        scene_free(&first);
    }
    emulation_order(1);
}

#endif
