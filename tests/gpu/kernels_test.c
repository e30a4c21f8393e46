/* The CUDA kernels' sources, run on the host under an emulation that checks every access (emulation.cpp), in
 * several orders of threads. */
#include "cuda_cases.h"
#include "cuda_element_cases.h"
#include "order_cases.h"

#include <stdio.h>

static inline void any_order_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    check_orders(132, 0);
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
    print_worst();
    return failed;
}
