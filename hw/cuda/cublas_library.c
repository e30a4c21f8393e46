/* cublas_library.c - finds cuBLAS, and turns row-major products into its column-major ones: a row-major matrix is the
 * transpose of the column-major one in the same memory, and C^T = B^T A^T.
 */
#include "hw/cuda/cublas_library.h"

#include <stdio.h>

#include "hw/dynamic_library.h"

static const struct dynamic_function functions[] = {
    {.name = "cublasCreate_v2", .member = offsetof(struct cublas_library, create)},
    {.name = "cublasDestroy_v2", .member = offsetof(struct cublas_library, destroy)},
    {.name = "cublasSetStream_v2", .member = offsetof(struct cublas_library, set_stream)},
    {.name = "cublasGemmEx", .member = offsetof(struct cublas_library, multiply)},
};

bool cublas_library_open(struct cublas_library *cublas, const char *path, char *reason, size_t size)
{
    static const char *const of_the_system[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL};
    const char *const given[] = {path, NULL};
    *cublas = (struct cublas_library){.library = NULL};
    cublas->library = dynamic_library_open(path ? given : of_the_system, reason, size);
    if (!cublas->library ||
        !dynamic_library_find(cublas->library, functions, sizeof functions / sizeof *functions, cublas, reason, size))
        return false;
    const int status = cublas->create(&cublas->handle);
    if (status == CUBLAS_DONE)
        return true;
    cublas->handle = NULL;
    snprintf(reason, size, "cuBLAS cannot use the GPU (status %d)", status);
    return false;
}

/* The library stays: it may have threads of its own. */
void cublas_library_close(struct cublas_library *cublas)
{
    if (cublas->handle)
        cublas->destroy(cublas->handle);
    cublas->handle = NULL;
}

static int type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUBLAS_BF16 : dtype == DTYPE_FP16 ? CUBLAS_FP16 : CUBLAS_FP32;
}

int cublas_multiply(const struct cublas_library *cublas, const struct cublas_product *p, void *stream)
{
    const float one = 1, zero = 0;
    const int rows = (int)p->rows, columns = (int)p->columns, depth = (int)p->depth, type = type_of(p->dtype);
    const int status = cublas->set_stream(cublas->handle, stream);
    if (status != CUBLAS_DONE)
        return status;
    return cublas->multiply(cublas->handle, p->b_transposed ? CUBLAS_TRANSPOSED : CUBLAS_AS_IT_IS,
                            p->a_transposed ? CUBLAS_TRANSPOSED : CUBLAS_AS_IT_IS, columns, rows, depth, &one, p->b,
                            type, p->b_transposed ? depth : columns, p->a, type, p->a_transposed ? rows : depth, &zero,
                            p->c, type, columns, CUBLAS_SUMS_IN_FP32, CUBLAS_ITS_CHOICE);
}
