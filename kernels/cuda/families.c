/* families.c - the list of kernel families. */
#include "kernels/cuda/families.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/attention_hopper.h"

static bool runs_everywhere(int device, char *reason, size_t size)
{
    (void)device;
    snprintf(reason, size, "%s", "");
    return true;
}

static uint64_t no_workspace(const struct cuda_call *call, bool backward)
{
    (void)call;
    (void)backward;
    return 0;
}

static const struct kernel_family mma = {
    .name = "mma",
    .summary = "warps multiply from registers (mma.sync); compute capability 8.0 and later",
    .deterministic = true,
    .able = runs_everywhere,
    .workspace = no_workspace,
    .load = cuda_attention_load,
    .forward = cuda_attention_forward,
    .backward = cuda_attention_backward,
};

static bool is_hopper(int device, char *reason, size_t size)
{
    const bool able = cuda_hopper_able(device);
    snprintf(
        reason, size, "%s",
        able ? ""
             : "it takes compute capability 9.0, a driver that makes tensor maps, and a build by CUDA 12.5 or later");
    return able;
}

static int forward_hopper(const struct cuda_call *call, void *o, float *lse, void *stream)
{
    return cuda_hopper_forward(call, o, lse, call->workspace, stream);
}

static int backward_hopper(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta,
                           void *dq, void *stream)
{
    return cuda_hopper_backward(call, d_o, lse, delta, dq, call->workspace, stream);
}

static const struct kernel_family wgmma = {
    .name = "wgmma",
    .summary = "warpgroups multiply from shared memory, filled by the copy engine (wgmma, TMA); compute capability 9.0",
    .able = is_hopper,
    .load = cuda_hopper_load,
    .workspace = cuda_hopper_workspace,
    .forward = forward_hopper,
    .backward = backward_hopper,
};

const struct kernel_family *const kernel_families[] = {&mma, &wgmma, NULL};

const struct kernel_family *kernel_family_find(const char *name)
{
    for (size_t i = 0; kernel_families[i]; i++)
        if (strcmp(kernel_families[i]->name, name) == 0)
            return kernel_families[i];
    return NULL;
}
