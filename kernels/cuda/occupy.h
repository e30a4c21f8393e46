/* occupy.h - holds some of a GPU's SMs, as a communication library's kernels do, so that it shows what that costs
 * others.
 */
#ifndef CPSIM_KERNELS_CUDA_OCCUPY_H
#define CPSIM_KERNELS_CUDA_OCCUPY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In device memory; zeros before. */
struct cuda_hold {
    uint32_t release; /* whoever sets it ends the hold */
    uint32_t expired; /* becomes 1 if some block waited in vain, for several seconds */
    uint32_t arrived[256];
};

/* Queues `processors` (at most 256, and fewer than the GPU has) thread blocks. Each takes all the shared memory of an
 * SM, so that nothing that needs any runs there, sets its `arrived` to 1, and stays until the release. */
int cuda_occupy(uint32_t processors, struct cuda_hold *hold, void *stream);

#ifdef __cplusplus
}
#endif
#endif
