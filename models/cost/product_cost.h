/* product_cost.h - a matrix product's time from its shape: a roofline over a table of published or measured rates.
 *
 * C [R x N] = A [R x D] B [D x N], operands of a dtype, sums wider, the result as its output (bf16 of fp8 operands).
 *
 *   t = max(g(W), 2 R N D / peak, bytes / achieved memory bandwidth)
 *
 * bytes: each of A, B and C once, so reuse beyond the caches costs nothing. W, the quantized work, is what the device's
 * processors have time for until the last one ends, in FLOPs. The result is cut into tiles of r x n, T = ceil(R / r)
 * ceil(N / n) of them; P processors work on a tile each, for a time that goes with D + p: p, the prologue, is what a
 * tile costs beside its depth, filling the pipeline and writing its result, as so many more of depth. So
 *
 *   W = 2 r n P (floor(T / P) (D + p) + min(D + p, (T mod P) / P D + 2 p)),  the last term only if T mod P > 0:
 *
 * whole waves of tiles, and then what is left over: a wave of its own, or its depth split so that all processors share
 * it, with the prologue and a second one to join the parts (split-K, stream-K: Osama et al., arXiv:2301.03598, whose
 * schedule of whole waves and one even remainder this is). Tiles and waves: NVIDIA, "Matrix Multiplication Background
 * User's Guide". Assumed: a library that takes the better of the two, and no tile but the table's.
 *
 * g gives the time of quantized work. Each of the table's runs has a W too, at which g is its time; between two of them
 * ln g is linear in ln W; before the first and beyond the last the rate W / g stays. So a table of a single rate gives
 * a rate of quantized work, and more of them what the mechanisms do not say: a power limit that large products meet,
 * caches. g never falls, and so t is monotone in R, N and D.
 *
 * A depth sweep of DeepGEMM on the H800, 4096 rows and columns so many that memory does not bind (fp8, tiles of 128 x
 * 128), has 590, 990, 1025, 1304 and 1358 TFLOP/s at depth 512, 1536, 2048, 7168 and 16384: p = 700 gives them within
 * 6 %. A kernel that writes a tile while it works on the next one (B200, cuBLAS) has p = 64.
 */
#ifndef CPSIM_MODELS_COST_PRODUCT_COST_H
#define CPSIM_MODELS_COST_PRODUCT_COST_H

#include <stdbool.h>

#include "models/base/diagnostics.h"
#include "models/base/dtype.h"
#include "models/input/device.h"

/* C [rows x columns] = A [rows x depth] B [depth x columns]. */
struct product {
    double rows, columns, depth;
    enum dtype dtype; /* of A and B */
};

/* The device's table for operands of `dtype`; NULL: it has none. */
const struct product_table *product_table_of(const struct device *device, enum dtype dtype);

/* False, with a message at line `line` of `path` (NULL: of the profile itself), when the device has no table for
 * products of `dtype`. */
bool product_check(const struct device *device, enum dtype dtype, const char *path, int line, struct diagnostics *diag);

/* 2 * rows * columns * depth. */
double product_flops(const struct product *product);

/* A, B and C once. */
double product_bytes(const struct product *product);

/* Seconds without launch; 0 of a product with nothing to do. The device has a table (product_check). */
double product_seconds(const struct device *device, const struct product *product);

#endif
