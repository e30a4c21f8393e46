/* isas.h - each test of kernels runs once per instruction set, and is skipped, visibly, for one that this CPU lacks. */
#ifndef CPSIM_TESTS_KERNELS_ISAS_H
#define CPSIM_TESTS_KERNELS_ISAS_H

#include "kernels/attention.h"

/* First line of every such test. */
#define USE_ISA(state)                                                                                                 \
    do {                                                                                                               \
        if (!attention_use(*(state)))                                                                                  \
            skip();                                                                                                    \
        assert_string_equal(attention_isa(), *(state));                                                                \
    } while (0)

/* Entries of a group of tests. */
#define TEST_ISA(test, isa)                                                                                            \
    {                                                                                                                  \
#test " [" isa "]", test, NULL, NULL, (char[])                                                                 \
        {                                                                                                              \
            isa                                                                                                        \
        }                                                                                                              \
    }
#define TEST_EACH_ISA(test) TEST_ISA(test, "baseline"), TEST_ISA(test, "avx2"), TEST_ISA(test, "avx512")

#endif
