/* The CUDA kernels' sources, run on the host under an emulation that checks every access (emulation/emulation.cpp), in
 * several orders of threads. */
#include "cuda_cases.h"
#include "cuda_element_cases.h"
#include "emulation/emulation.h"

#include <stdio.h>

/* A missing barrier shows as a result that depends on whose turn it was. */
static inline void any_order_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    struct masks masks;
    masks_of(&masks, 132);
    for (size_t dim = 64; dim <= 256; dim *= 2) {
        struct scene first = {0};
        for (uint32_t order = 0; order < 3; order++) {
            emulation_order(order * 7919);
            srand(7);
            struct scene s = scene_make((struct scene){.mask = &masks.of[0],
                                                       .items = 1,
                                                       .q_heads = dim == 256 ? 1 : 2,
                                                       .kv_heads = 1,
                                                       .dim = dim,
                                                       .dtype = DTYPE_BF16,
                                                       .dkv_dtype = DTYPE_BF16});
            const struct attention_rows keys[] = {run_of(0, 2, 66), run_of(1, 2, 66)}, all = run_of(0, 1, 132);
            scene_compute(&s, &all, 1, keys, 2, 2);
            assert_right(&s);
            if (order == 0) {
                first = s;
                continue;
            }
            static const int outputs[] = {O, LSE, DQ, DK, DV};
            for (size_t i = 0; i < 5; i++)
                assert_memory_equal(s.sum[outputs[i]], first.sum[outputs[i]],
                                    scene_at(&s, outputs[i], s.rows, 0, 0) * sizeof(double));
            scene_free(&s);
        }
        scene_free(&first);
    }
    emulation_order(1);
}

int main(void)
{
    /* The address sanitizer makes every change of threads many times slower, and the emulation checks accesses itself.
     */
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__
        CUDA_CASES,
        cmocka_unit_test(any_order_of_threads_gives_the_same_bits),
#else
        cmocka_unit_test(heads_that_share_keys_and_items_agree),
        cmocka_unit_test(rows_that_see_nothing_give_zero),
        cmocka_unit_test(calls_that_break_the_rules_are_refused),
#endif
        CUDA_ELEMENT_CASES,
    };
    emulation_order(1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int t = 0; t < TENSORS; t++)
        if (worst[0][t] > 0)
            printf("largest error of %s: bf16 %.2g, fp16 %.2g\n", tensor_names[t], worst[0][t], worst[1][t]);
    return failed;
}
