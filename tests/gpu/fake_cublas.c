/* fake_cublas.c - a cuBLAS for emulated GPUs: a library of its own, opened as the real one is. What it needs of the
 * emulation it finds in the program that opens it.
 *
 * A product is one piece of work in a stream. It is made the plain way, from column-major matrices of bf16 or fp32, and
 * memory that is not a GPU's is refused.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/emulation.h"

#define PUBLIC __attribute__((visibility("default")))

enum { DONE = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { FP32 = 0, FP16 = 2, BF16 = 14, SUMS_IN_FP32 = 68 };

PUBLIC int cublasCreate_v2(void **handle);
PUBLIC int cublasDestroy_v2(void *handle);
PUBLIC int cublasSetStream_v2(void *handle, void *stream);
PUBLIC int cublasGemmEx(void *handle, int a_order, int b_order, int m, int n, int k, const void *alpha, const void *a,
                        int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
                        int ldc, int compute_type, int algorithm);

#define NS_TO_BEGIN 1000

struct handle {
    void *stream;
};

struct product {
    bool a_transposed, b_transposed;
    int type;
    size_t m, n, k, lda, ldb, ldc;
    const char *a, *b;
    char *c;
};

int cublasCreate_v2(void **handle)
{
    if (getenv("CPSIM_FAKE_CUBLAS_FAILS"))
        return NOT_INITIALIZED;
    *handle = calloc(1, sizeof(struct handle));
    return DONE;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return DONE;
}

int cublasSetStream_v2(void *handle, void *stream)
{
    ((struct handle *)handle)->stream = stream;
    return DONE;
}

static size_t size_of(int type)
{
    return type == FP32 ? 4 : 2;
}

/* fp16 is taken for bf16: nobody looks at these results. */
static float read_number(int type, const char *at)
{
    uint32_t bits = 0;
    float number;
    memcpy((char *)&bits + (4 - size_of(type)), at, size_of(type));
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void write_number(int type, char *at, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    memcpy(at, (char *)&bits + (4 - size_of(type)), size_of(type));
}

/* While it is the stream's turn. */
static bool multiply(void *context, double begin_ns, double *end_ns)
{
    struct product *p = context;
    const size_t size = size_of(p->type);
    for (size_t i = 0; i < p->m; i++) {
        for (size_t j = 0; j < p->n; j++) {
            float sum = 0;
            for (size_t l = 0; l < p->k; l++)
                sum += read_number(p->type, p->a + size * (p->a_transposed ? i * p->lda + l : l * p->lda + i)) *
                       read_number(p->type, p->b + size * (p->b_transposed ? l * p->ldb + j : j * p->ldb + l));
            write_number(p->type, p->c + size * (j * p->ldc + i), sum);
        }
    }
    *end_ns = begin_ns + NS_TO_BEGIN + (double)(p->m * p->n * p->k);
    return true;
}

int cublasGemmEx(void *handle, int a_order, int b_order, int m, int n, int k, const void *alpha, const void *a,
                 int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type,
                 int ldc, int compute_type, int algorithm)
{
    float one, zero;
    memcpy(&one, alpha, sizeof one);
    memcpy(&zero, beta, sizeof zero);
    const bool known = a_type == FP32 || a_type == FP16 || a_type == BF16;
    if (!known || a_type != b_type || a_type != c_type || compute_type != SUMS_IN_FP32 || one != 1 || zero != 0 ||
        algorithm != -1)
        return NOT_SUPPORTED;
    const bool a_transposed = a_order == 1, b_transposed = b_order == 1;
    if (m <= 0 || n <= 0 || k <= 0 || lda < (a_transposed ? k : m) || ldb < (b_transposed ? n : k) || ldc < m)
        return INVALID_VALUE;
    const size_t size = size_of(a_type);
    if (emulation_place(a, size * (size_t)lda * (size_t)((a_transposed ? m : k) - 1) + 1) < 0 ||
        emulation_place(b, size * (size_t)ldb * (size_t)((b_transposed ? k : n) - 1) + 1) < 0 ||
        emulation_place(c, size * (size_t)ldc * (size_t)(n - 1) + 1) < 0)
        return INVALID_VALUE;
    struct product *p = malloc(sizeof *p);
    *p = (struct product){a_transposed, b_transposed, a_type,      (size_t)m, (size_t)n, (size_t)k,
                          (size_t)lda,  (size_t)ldb,  (size_t)ldc, a,         b,         c};
    /* A nanosecond for each multiplication. */
    const struct emulation_work work = {.step = multiply, .release = free, .context = p};
    return emulation_queue(&work, ((struct handle *)handle)->stream);
}
