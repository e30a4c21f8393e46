/* kernels.h - all kernels of one instruction set. Included once by each isa_*.c, which defines:
 *
 *   ISA_KERNELS   name of the table defined here
 *   ISA_NAME      what users call it
 *   VECTOR_BYTES  width of a vector register
 *   MICRO_ROWS    rows of the multiplication's register tile; it is MICRO_ROWS x 2 vectors, beside which 2 vectors and
 *                 a broadcast number need registers
 *
 * Everything is static, so that no function compiled for one instruction set can be linked in another's place.
 */
#include "kernels/isa.h"
#include "kernels/tiles.h"
#include "kernels/workspace.h"
// clang-format off
#include "kernels/vector/simd.h"
#include "kernels/vector/multiply.h"
#include "kernels/vector/pack.h"
#include "kernels/vector/view.h"
#include "kernels/vector/forward.h"
#include "kernels/vector/backward.h"
#include "kernels/vector/elementwise.h"
#include "kernels/vector/spread.h"
#include "kernels/vector/product.h"
// clang-format on

const struct isa_kernels ISA_KERNELS = {
    .name = ISA_NAME,
    .forward = forward,
    .backward = backward,
    .merge = merge,
    .finish = finish,
    .delta = delta_of_rows,
    .accumulate = accumulate,
    .correct = correct,
    .weigh = weigh,
    .normalize = normalize,
    .multiply = multiply_matrices,
    .tile_rows = MICRO_ROWS,
    .tile_columns = PANEL,
};
