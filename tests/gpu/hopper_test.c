/* The Hopper kernels' sources, run on the host under an emulation of warpgroup products, tensor copies and barriers
 * (emulated_hopper.cpp, emulated_wgmma.cpp), in several orders of threads and arrivals. */
#include "hopper_cases.h"

#include "order_cases.h"

#include <stdio.h>

static inline void long_blocks_agree(void **state)
{
    (void)state;
    srand(12);
    check_long(700, 64, 0, DTYPE_BF16);
    check_long(600, 128, 2, DTYPE_FP16);
    check_long(390, 256, 1, DTYPE_BF16);
}

/* dQ is a sum of thread blocks, which this emulation runs one after the other. */
static inline void any_order_of_threads_and_arrivals_gives_the_same_bits(void **state)
{
    (void)state;
    check_orders(300, 2);
}

/* A workspace that is missing, and tensors that no map can be of. */
static void calls_without_what_they_need_are_refused(void **state)
{
    (void)state;
    struct tensor t = tensor_make(DTYPE_BF16, 16, 1, 1, 64, 0), numbers = tensor_make(DTYPE_FP32, 16, 1, 1, 1, 0);
    struct cuda_keys buffers[9];
    for (size_t b = 0; b < 9; b++)
        buffers[b] = (struct cuda_keys){t.device,  t.device,       t.device,       t.device, t.strides,
                                        t.strides, numbers.device, numbers.device, 0};
    struct cuda_call call = {.items = 1,
                             .q_heads = 1,
                             .kv_heads = 1,
                             .head_dim = 64,
                             .group = 1,
                             .scale = 1,
                             .dtype = DTYPE_BF16,
                             .dkv_dtype = DTYPE_BF16,
                             .rows = 16,
                             .q = t.device,
                             .strides = {t.strides, t.strides, numbers.strides, t.strides, numbers.strides, t.strides},
                             .keys = buffers,
                             .device_keys = t.device,
                             .n_keys = 9};
    assert_true(cuda_hopper_workspace(&call, false) > 0);
    assert_int_equal(cuda_hopper_forward(&call, t.device, numbers.device, NULL, NULL), CUDA_INVALID);
    assert_true(cuda_hopper_workspace(&call, true) > 0);
    assert_int_equal(cuda_hopper_backward(&call, t.device, numbers.device, numbers.device, t.device, NULL, NULL),
                     CUDA_INVALID);
    call.n_keys = 0;
    assert_int_equal(cuda_hopper_workspace(&call, false), 0);
    call.strides.q.row = (uint64_t)1 << 39;
    assert_int_equal(cuda_hopper_forward(&call, t.device, numbers.device, NULL, NULL), CUDA_INVALID);
    tensor_free(&t);
    tensor_free(&numbers);
}

static void only_hopper_is_able(void **state)
{
    (void)state;
    struct cuda_device device;
    assert_int_equal(cuda_describe(0, &device), 0);
    assert_int_equal(cuda_hopper_able(0), device.major == 9 && device.minor == 0);
    assert_false(cuda_hopper_able(1000));
}

int main(void)
{
    /* The address sanitizer makes every change of threads many times slower, and the emulation checks accesses itself.
     */
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__
        CUDA_CASES,
        cmocka_unit_test(many_key_buffers_agree),
        cmocka_unit_test(long_blocks_agree),
        cmocka_unit_test(any_order_of_threads_and_arrivals_gives_the_same_bits),
#else
        cmocka_unit_test(rows_that_see_nothing_give_zero),
        cmocka_unit_test(calls_that_break_the_rules_are_refused),
#endif
        cmocka_unit_test(calls_without_what_they_need_are_refused),
        cmocka_unit_test(only_hopper_is_able),
    };
    setenv("CPSIM_EMULATED_CAPABILITY", "9.0", 1);
    emulation_order(1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_worst();
    return failed;
}
