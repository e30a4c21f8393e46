// backward.cuh - what backward_queries.cu, where the backward pass begins, needs of backward_keys.cu.
#ifndef CPSIM_KERNELS_CUDA_BACKWARD_CUH
#define CPSIM_KERNELS_CUDA_BACKWARD_CUH

#include "kernels/cuda/problem.cuh"

// Queues dK and dV of one buffer.
int launch_backward_keys(const cuda_call *call, const problem &p, const cuda_keys &keys, void *stream);

int load_backward_keys();

#endif
