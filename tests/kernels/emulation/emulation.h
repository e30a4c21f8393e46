/* emulation.h - what a test may ask of the emulated GPU beyond kernels/cuda/memory.h. */
#ifndef CPSIM_TESTS_EMULATION_H
#define CPSIM_TESTS_EMULATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which warps and lanes take turns: any number is another one. */
void emulation_order(uint32_t order);

#ifdef __cplusplus
}
#endif
#endif
