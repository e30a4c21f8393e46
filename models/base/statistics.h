/* statistics.h - order statistics of a handful of numbers. */
#ifndef CPSIM_MODELS_BASE_STATISTICS_H
#define CPSIM_MODELS_BASE_STATISTICS_H

#include <stddef.h>

void sort_ascending(double *values, size_t count);

/* The quantile `share` (0 to 1) of `count` numbers, at least one: linear between neighbours (Hyndman and Fan 1996,
 * definition 7), so that it lies at position share * (count - 1), counted from 0. */
double quantile(const double *sorted, size_t count, double share);

#endif
