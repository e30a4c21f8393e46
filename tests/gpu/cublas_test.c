/* cuBLAS by its interface: our constants are its header's, where that is installed; row-major products of every order
 * come out of a column-major library (a stand-in, on an emulated GPU) as the reference has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/cuda/cublas_library.h"
#include "kernels/cuda/runtime.h"
#include "kernels/product.h"
#include "models/base/memory.h"

#if __has_include(<cublas_api.h>)
#include <cublas_api.h>
#define SAME(ours, theirs) static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(CUBLAS_DONE, CUBLAS_STATUS_SUCCESS);
SAME(CUBLAS_AS_IT_IS, CUBLAS_OP_N);
SAME(CUBLAS_TRANSPOSED, CUBLAS_OP_T);
SAME(CUBLAS_SUMS_IN_FP32, CUBLAS_COMPUTE_32F);
SAME(CUBLAS_ITS_CHOICE, CUBLAS_GEMM_DEFAULT);
SAME(CUBLAS_FP32, CUDA_R_32F);
SAME(CUBLAS_FP16, CUDA_R_16F);
SAME(CUBLAS_BF16, CUDA_R_16BF);
#endif

static void *on_gpu(const float *numbers, size_t count)
{
    void *memory;
    assert_int_equal(cuda_allocate(&memory, count * sizeof *numbers), 0);
    assert_int_equal(cuda_write(memory, numbers, count * sizeof *numbers), 0);
    return memory;
}

static void row_major_products_of_every_order_are_right(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 7, DEPTH = 3 };
    float a[ROWS * DEPTH], b[DEPTH * COLUMNS], c[ROWS * COLUMNS];
    double a_double[ROWS * DEPTH], b_double[DEPTH * COLUMNS], expected[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * DEPTH; i++)
        a_double[i] = a[i] = (float)(i * i % 11 - 5);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        b_double[i] = b[i] = (float)(i * 7 % 13 - 6);
    struct cublas_library cublas;
    char reason[256];
    if (!cublas_library_open(&cublas, FAKE_CUBLAS, reason, sizeof reason))
        fail_msg("%s", reason);
    void *stream;
    assert_int_equal(cuda_stream_create(&stream, false), 0);
    for (int order = 0; order < 4; order++) {
        struct cublas_product product = {.rows = ROWS,
                                         .columns = COLUMNS,
                                         .depth = DEPTH,
                                         .a_transposed = order & 1,
                                         .b_transposed = order & 2,
                                         .dtype = DTYPE_FP32,
                                         .a = on_gpu(a, ROWS * DEPTH),
                                         .b = on_gpu(b, DEPTH * COLUMNS),
                                         .c = on_gpu(c, ROWS * COLUMNS)};
        assert_int_equal(cublas_multiply(&cublas, &product, stream), CUBLAS_DONE);
        assert_int_equal(cuda_stream_wait(stream), 0);
        assert_int_equal(cuda_read(c, product.c, sizeof c), 0);
        product_reference(ROWS, COLUMNS, DEPTH, a_double, order & 1, b_double, order & 2, expected);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            assert_true((double)c[i] == expected[i]); /* whole numbers */
        cuda_release((void *)(uintptr_t)product.a);
        cuda_release((void *)(uintptr_t)product.b);
        cuda_release(product.c);
    }
    cuda_stream_destroy(stream);
    cublas_library_close(&cublas);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    struct cublas_library cublas;
    char reason[256];
    assert_false(cublas_library_open(&cublas, "/nowhere/libcublas.so", reason, sizeof reason));
    assert_non_null(strstr(reason, "/nowhere/libcublas.so"));
    cublas_library_close(&cublas);
    assert_false(cublas_library_open(&cublas, FAKE_NCCL, reason, sizeof reason)); /* a library, but not that one */
    assert_non_null(strstr(reason, "has no cublasCreate_v2"));
    cublas_library_close(&cublas);
    setenv("CPSIM_FAKE_CUBLAS_FAILS", "1", 1);
    assert_false(cublas_library_open(&cublas, FAKE_CUBLAS, reason, sizeof reason));
    unsetenv("CPSIM_FAKE_CUBLAS_FAILS");
    assert_string_equal(reason, "cuBLAS cannot use the GPU (status 1)");
    cublas_library_close(&cublas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_major_products_of_every_order_are_right),
        cmocka_unit_test(what_is_missing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
