/* attention_hopper.h - attention on one block, on GPUs of compute capability 9.0 (Hopper), for C.
 *
 * The functions of attention_cuda.h under other names, by kernels that use what only these GPUs have: warpgroup matrix
 * products and the tensor memory accelerator. Calls, tensors and errors are the same, with three differences:
 * - a call may need device memory to work in; the caller gives it, so that nothing is allocated here. It must stay
 *   until the stream has passed the call, and need not be filled;
 * - the backward pass adds up dQ by atomic additions: dQ then depends, in its last bits, on the order in which thread
 *   blocks run (dK and dV do not). Callers who want the same bits every time take cuda_attention_backward;
 * - strides are below 2^39 elements, as tensor maps want.
 */
#ifndef CPSIM_KERNELS_CUDA_ATTENTION_HOPPER_H
#define CPSIM_KERNELS_CUDA_ATTENTION_HOPPER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/attention_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the device can run these kernels, its driver makes tensor maps, and the kernels were built. */
bool cuda_hopper_able(int device);

/* Bytes of device memory that the forward or the backward call needs; may be 0. It starts at a multiple of 256. */
uint64_t cuda_hopper_workspace(const struct cuda_call *call, bool backward);

/* As cuda_attention_load; on a device that is able. */
int cuda_hopper_load(void);

int cuda_hopper_forward(const struct cuda_call *call, void *o, float *lse, void *workspace, void *stream);
int cuda_hopper_backward(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta, void *dq,
                         void *workspace, void *stream);

#ifdef __cplusplus
}
#endif
#endif
