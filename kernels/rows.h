/* rows.h - sums over one row of doubles, as the references write them. */
#ifndef CPSIM_KERNELS_ROWS_H
#define CPSIM_KERNELS_ROWS_H

#include <stddef.h>

static inline double row_dot(const double *a, const double *b, size_t dim)
{
    double sum = 0;
    for (size_t d = 0; d < dim; d++)
        sum += a[d] * b[d];
    return sum;
}

/* y += factor * x */
static inline void row_add_scaled(double *y, double factor, const double *x, size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        y[d] += factor * x[d];
}

#endif
