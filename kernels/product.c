/* product.c - checks a product's call and hands it to the instruction set in use; the reference beside it. */
#include "kernels/product.h"

#include <assert.h>

#include "kernels/isa.h"

void product_multiply(const struct product_call *call)
{
    struct product_call dense = *call;
    assert(call->a.dtype == DTYPE_FP32 || call->a.dtype == DTYPE_BF16);
    assert(call->b.dtype == DTYPE_FP32 || call->b.dtype == DTYPE_BF16);
    assert(call->c_dtype == DTYPE_FP32 || call->c_dtype == DTYPE_BF16);
    if (!dense.a.stride)
        dense.a.stride = call->a.transposed ? call->rows : call->depth;
    if (!dense.b.stride)
        dense.b.stride = call->b.transposed ? call->depth : call->columns;
    if (!dense.c_stride)
        dense.c_stride = call->columns;
    isa_in_use()->multiply(&dense);
}

void product_tile(size_t *rows, size_t *columns)
{
    *rows = isa_in_use()->tile_rows;
    *columns = isa_in_use()->tile_columns;
}

void product_reference(size_t rows, size_t columns, size_t depth, const double *a, bool a_transposed, const double *b,
                       bool b_transposed, double *c)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < depth; k++)
                sum +=
                    a[a_transposed ? k * rows + i : i * depth + k] * b[b_transposed ? j * depth + k : k * columns + j];
            c[i * columns + j] = sum;
        }
    }
}
