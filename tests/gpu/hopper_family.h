/* hopper_family.h - lets cuda_cases.h test the Hopper kernels. To be included before it. */
#ifndef CPSIM_TESTS_GPU_HOPPER_FAMILY_H
#define CPSIM_TESTS_GPU_HOPPER_FAMILY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/runtime.h"

#define CUDA_FAMILY

/* As much memory as the call asks for, full of NaN; NULL for none. */
static inline void *family_workspace(const struct cuda_call *call, bool backward, size_t *bytes)
{
    void *memory = NULL;
    *bytes = cuda_hopper_workspace(call, backward);
    if (*bytes == 0)
        return NULL;
    assert_int_equal(cuda_allocate(&memory, *bytes), 0);
    unsigned char *poison = malloc(*bytes);
    memset(poison, 0xff, *bytes);
    assert_int_equal(cuda_write(memory, poison, *bytes), 0);
    free(poison);
    return memory;
}

static inline void family_release(void *memory)
{
    assert_int_equal(cuda_wait(), 0);
    if (memory)
        assert_int_equal(cuda_release(memory), 0);
}

static inline int family_forward(const struct cuda_call *call, void *o, float *lse, void *stream)
{
    size_t bytes;
    void *workspace = family_workspace(call, false, &bytes);
    const int error = cuda_hopper_forward(call, o, lse, workspace, stream);
    family_release(workspace);
    return error;
}

static inline int family_backward(const struct cuda_call *call, const void *d_o, const float *lse, const float *delta,
                                  void *dq, void *stream)
{
    size_t bytes;
    void *workspace = family_workspace(call, true, &bytes);
    const int error = cuda_hopper_backward(call, d_o, lse, delta, dq, workspace, stream);
    family_release(workspace);
    return error;
}

#endif
