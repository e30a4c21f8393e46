/* families.h - the families of attention kernels, each for some GPUs: what they compute is the same (attention_cuda.h),
 * how and how fast is not.
 */
#ifndef CPSIM_KERNELS_CUDA_FAMILIES_H
#define CPSIM_KERNELS_CUDA_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/attention_cuda.h"

struct kernel_family {
    const char *name, *summary;
    bool deterministic; /* its backward pass gives the same bits every time */
    /* Whether it runs on that GPU; if not, `reason` says why. */
    bool (*able)(int device, char *reason, size_t size);
    /* Brings the kernels onto the current device, which can run them. Before anything runs there that could wait for
     * what is launched later. Returns a CUDA error number. */
    int (*load)(void);
    /* Device memory that a call, forward or backward, needs beside its tensors (cuda_call.workspace), in bytes. It need
     * not be filled and starts at a multiple of 256. 0: none. */
    uint64_t (*workspace)(const struct cuda_call *call, bool backward);
    int (*forward)(const struct cuda_call *call, void *o, float *lse, void *stream);
    int (*backward)(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta, void *dq,
                    void *stream);
};

/* NULL-terminated; the first runs on every GPU, is deterministic, and is the default. */
extern const struct kernel_family *const kernel_families[];
const struct kernel_family *kernel_family_find(const char *name);

#endif
