/* product.c - checks a product's call and hands it to the instruction set in use; the reference beside it. */
#include "kernels/product.h"

#include <assert.h>

#include "kernels/isa.h"

static bool is_supported(enum dtype dtype)
{
    return dtype == DTYPE_FP32 || dtype == DTYPE_BF16;
}

void product_multiply(const struct product_call *call)
{
    struct product_call dense = *call;
    assert(is_supported(call->a.dtype) && is_supported(call->b.dtype) && is_supported(call->c_dtype));
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
