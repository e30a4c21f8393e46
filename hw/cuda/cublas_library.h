/* cublas_library.h - cuBLAS, opened when it is asked for, and the one function of it that is wanted: the matrix
 * products of a layer are the library's wherever models are trained, so it is the library's time that a prediction
 * needs.
 *
 * Nothing is linked, as with NCCL: cpsim starts where there is no cuBLAS.
 */
#ifndef CPSIM_HW_CUDA_CUBLAS_LIBRARY_H
#define CPSIM_HW_CUDA_CUBLAS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/dtype.h"

/* cublas_api.h and library_types.h of CUDA 11 and later. */
enum { CUBLAS_DONE = 0, CUBLAS_AS_IT_IS = 0, CUBLAS_TRANSPOSED = 1, CUBLAS_SUMS_IN_FP32 = 68, CUBLAS_ITS_CHOICE = -1 };
enum { CUBLAS_FP32 = 0, CUBLAS_FP16 = 2, CUBLAS_BF16 = 14 };

/* Functions return a cublasStatus_t; matrices are column-major. */
struct cublas_library {
    void *library, *handle; /* of the GPU that was chosen when it was opened */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*multiply)(void *handle, int a_order, int b_order, int m, int n, int k, const void *alpha, const void *a,
                    int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
                    int ldc, int compute_type, int algorithm);
};

/* `path` NULL: the system's. False with the reason (for people, no full stop). Either way the caller calls
 * cublas_library_close. */
bool cublas_library_open(struct cublas_library *cublas, const char *path, char *reason, size_t size);
void cublas_library_close(struct cublas_library *cublas);

/* C [rows x columns] = A [rows x depth] B [depth x columns], all dense, row-major, of `dtype` (fp32, bf16, fp16); sums
 * are fp32. An operand that is transposed is stored as its transpose (kernels/product.h). */
struct cublas_product {
    uint32_t rows, columns, depth;
    bool a_transposed, b_transposed;
    enum dtype dtype;
    const void *a, *b;
    void *c;
};

/* Queues it in `stream`; a cublasStatus_t. */
int cublas_multiply(const struct cublas_library *cublas, const struct cublas_product *product, void *stream);

#endif
