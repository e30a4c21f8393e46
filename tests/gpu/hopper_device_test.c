/* The Hopper kernels on a GPU of compute capability 9.0: the cases that the emulation runs, and longer ones. Skipped
 * where there is none. */
#include "hopper_cases.h"

#include <stdio.h>

static void long_blocks_agree(void **state)
{
    (void)state;
    srand(10);
    for (size_t dim = 64; dim <= 256; dim *= 2)
        for (size_t m = 0; m < N_MASKS; m++)
            check_long(1531, dim, m, m % 2 ? DTYPE_FP16 : DTYPE_BF16);
}

/* Thread blocks run in another order each time: what is one block's has the same bits, dQ is right. */
static void calls_repeat_but_for_dq(void **state)
{
    (void)state;
    static const int outputs[] = {O, LSE, DK, DV};
    for (size_t dim = 64; dim <= 256; dim *= 2) {
        struct mask mask = {.kind = MASK_CAUSAL, .seq_len = 1100};
        double *before[4] = {NULL};
        srand(13);
        struct scene s = scene_make((struct scene){.mask = &mask,
                                                   .items = 2,
                                                   .q_heads = 4,
                                                   .kv_heads = 2,
                                                   .dim = dim,
                                                   .dtype = DTYPE_BF16,
                                                   .dkv_dtype = DTYPE_FP32});
        const struct attention_rows all = run_of(0, 1, s.rows);
        for (size_t turn = 0; turn < 3; turn++) {
            scene_compute(&s, &all, 1, &all, 1, 1);
            assert_right(&s);
            for (size_t i = 0; i < 4; i++) {
                const size_t bytes = scene_at(&s, outputs[i], s.rows, 0, 0) * sizeof(double);
                if (turn == 0)
                    before[i] = memcpy(memory_zeroed(bytes, 1), s.sum[outputs[i]], bytes);
                else
                    assert_memory_equal(before[i], s.sum[outputs[i]], bytes);
            }
        }
        for (size_t i = 0; i < 4; i++)
            free(before[i]);
        scene_free(&s);
    }
}

static void kernels_are_loaded(void **state)
{
    (void)state;
    assert_int_equal(cuda_hopper_load(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_CASES,
        cmocka_unit_test(many_key_buffers_agree),
        cmocka_unit_test(long_blocks_agree),
        cmocka_unit_test(calls_repeat_but_for_dq),
        cmocka_unit_test(kernels_are_loaded),
    };
    if (cuda_devices(NULL, 0) == 0 || !cuda_hopper_able(0)) {
        printf("no Hopper GPU here\n");
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_worst();
    return failed;
}
