/* The CUDA kernels on a GPU: the cases that the emulation runs, and sizes that it could not. Skipped where there is no
 * GPU. */
#include "cuda_cases.h"
#include "cuda_element_cases.h"

#include <stdio.h>

/* Several thread blocks a head, several tiles a buffer, of every head dim; two calls give the same bits. */
static void long_blocks_agree_and_repeat(void **state)
{
    (void)state;
    srand(10);
    for (size_t dim = 64; dim <= 256; dim *= 2) {
        struct masks masks;
        masks_of(&masks, 1531);
        for (size_t m = 0; m < N_MASKS; m++) {
            struct scene s = scene_make((struct scene){.mask = &masks.of[m],
                                                       .items = 1,
                                                       .q_heads = 2,
                                                       .kv_heads = 1,
                                                       .dim = dim,
                                                       .dtype = m % 2 ? DTYPE_FP16 : DTYPE_BF16,
                                                       .dkv_dtype = DTYPE_FP32});
            const struct attention_rows all = run_of(0, 1, s.rows), halves[] = {run_of(0, 1, 700), run_of(700, 1, 831)};
            static const int outputs[] = {O, LSE, DQ, DK, DV};
            double *before[5];
            for (size_t turn = 0; turn < 2; turn++) {
                scene_compute(&s, &all, 1, halves, 2, 2);
                assert_right(&s);
                for (size_t i = 0; i < 5; i++) {
                    const size_t bytes = scene_at(&s, outputs[i], s.rows, 0, 0) * sizeof(double);
                    if (turn == 0)
                        before[i] = memcpy(memory_zeroed(bytes, 1), s.sum[outputs[i]], bytes);
                    else
                        assert_memory_equal(before[i], s.sum[outputs[i]], bytes);
                }
            }
            for (size_t i = 0; i < 5; i++)
                free(before[i]);
            scene_free(&s);
        }
    }
}

static void kernels_are_loaded(void **state)
{
    (void)state;
    assert_int_equal(cuda_attention_load(), 0);
    assert_int_equal(cuda_elements_load(), 0);
}

/* Further than CUDA's own copies of rows go. */
static void rows_far_apart_are_copied(void **state)
{
    (void)state;
    const size_t pitch = ((size_t)1 << 31) + 512;
    void *far, *near;
    char numbers[32], back[32] = "";
    if (cuda_allocate(&far, pitch + 16))
        skip();
    for (size_t i = 0; i < sizeof numbers; i++)
        numbers[i] = (char)i;
    assert_int_equal(cuda_allocate(&near, sizeof numbers), 0);
    assert_int_equal(cuda_write(near, numbers, sizeof numbers), 0);
    assert_int_equal(cuda_copy_rows(far, pitch, near, 16, 16, 2, NULL), 0);
    assert_int_equal(cuda_fill(near, 0, sizeof numbers, NULL), 0);
    assert_int_equal(cuda_copy_rows(near, 16, far, pitch, 16, 2, NULL), 0);
    assert_int_equal(cuda_wait(), 0);
    assert_int_equal(cuda_read(back, near, sizeof back), 0);
    assert_memory_equal(back, numbers, sizeof back);
    assert_int_equal(cuda_release(far), 0);
    assert_int_equal(cuda_release(near), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_CASES,
        CUDA_ELEMENT_CASES,
        cmocka_unit_test(long_blocks_agree_and_repeat),
        cmocka_unit_test(kernels_are_loaded),
        cmocka_unit_test(rows_far_apart_are_copied),
    };
    if (cuda_devices(NULL, 0) == 0) {
        printf("no GPU here\n");
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_worst();
    return failed;
}
