/* absent.c - attention_hopper.h, where the compiler is too old for its kernels. */
#include "kernels/cuda/attention_hopper.h"

bool cuda_hopper_able(int device)
{
    (void)device;
    return false;
}

uint64_t cuda_hopper_workspace(const struct cuda_call *call, bool backward)
{
    (void)call;
    (void)backward;
    return 0;
}

int cuda_hopper_load(void)
{
    return CUDA_INVALID;
}

int cuda_hopper_forward(const struct cuda_call *call, void *o, float *lse, void *workspace, void *stream)
{
    (void)call;
    (void)o;
    (void)lse;
    (void)workspace;
    (void)stream;
    return CUDA_INVALID;
}

int cuda_hopper_backward(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta, void *dq,
                         void *workspace, void *stream)
{
    (void)call;
    (void)d_o;
    (void)lse;
    (void)delta;
    (void)dq;
    (void)workspace;
    (void)stream;
    return CUDA_INVALID;
}
