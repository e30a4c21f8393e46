/* product.h - matrix products on a CPU: C = A B, A^T B, A B^T, or added to what C holds.
 *
 *   C [rows x columns] (+)= A [rows x depth] B [depth x columns]
 *
 * Matrices are row-major, rows `stride` elements apart (0: they follow each other). An operand that is `transposed` is
 * stored as its transpose: A as [depth][rows], B as [columns][depth]. Elements are fp32, or bf16 stored with fp32
 * arithmetic, each matrix for itself; sums are fp32, over the depth in blocks. Operands and C do not overlap.
 *
 * With X [tokens x in] and W [out x in], a linear layer's products are: forward Y = X W^T (b.transposed); backward
 * dX = dY W, and dW = dY^T X (a.transposed).
 *
 * One implementation per instruction set, chosen at run time as for attention (attention_use). Single-threaded: a rank
 * is a core. A call allocates working arrays of at most 1 MB.
 */
#ifndef CPSIM_KERNELS_PRODUCT_H
#define CPSIM_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "models/base/dtype.h"

struct product_operand {
    enum dtype dtype; /* fp32 or bf16 */
    const void *at;
    size_t stride; /* elements from one stored row to the next; 0: a row's length */
    bool transposed;
};

struct product_call {
    size_t rows, columns, depth;
    struct product_operand a, b;
    enum dtype c_dtype; /* fp32 or bf16 */
    void *c;
    size_t c_stride; /* elements from one row to the next; 0: columns */
    bool add;        /* to what C holds; else C is written, whatever it held */
    /* Between blocks of a few milliseconds, so that messages can be progressed; NULL: none. */
    void (*between_blocks)(void *context);
    void *between_blocks_context;
};

/* A depth of 0 makes zeros, or with `add` leaves C as it is. */
void product_multiply(const struct product_call *call);

/* What product_multiply works on at a time: rows and columns of C that are no multiple of these cost as if they were.
 */
void product_tile(size_t *rows, size_t *columns);

/* The same in double precision and the plainest way: what product_multiply is held against. All matrices are dense. */
void product_reference(size_t rows, size_t columns, size_t depth, const double *a, bool a_transposed, const double *b,
                       bool b_transposed, double *c);

#endif
