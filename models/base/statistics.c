/* statistics.c - see statistics.h. */
#include "models/base/statistics.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void sort_ascending(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
}

double quantile(const double *sorted, size_t count, double share)
{
    double position = share * (double)(count - 1);
    size_t below = (size_t)position;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
}
