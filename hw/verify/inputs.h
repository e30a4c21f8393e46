/* inputs.h - random inputs that any rank can make any row of: a number is a hash of where it stands.
 *
 * Uniform in [-1, 1), except that Q is QUERY_GAIN times as large: scores then spread over several units, and a softmax
 * that forgets its maximum or a mask that forgets a key shows.
 */
#ifndef CPSIM_HW_VERIFY_INPUTS_H
#define CPSIM_HW_VERIFY_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "hw/numbers.h"

#define QUERY_GAIN 6

/* Of a layer: its input, the gradient of its output, and from INPUT_WEIGHTS on each of its weights. */
enum input { INPUT_Q, INPUT_K, INPUT_V, INPUT_DO, INPUT_X, INPUT_DY, INPUT_WEIGHTS };

/* The value at `index` of row `position`, rounded to `dtype` (fp32, bf16 or fp16); index: ((batch item * heads) + head)
 * * dim
 * + d. */
double input_value(uint64_t seed, enum input input, uint64_t position, uint64_t index, enum dtype dtype);

/* The number before it is rounded: exact in fp32. */
double input_number(uint64_t seed, enum input input, uint64_t position, uint64_t index);

/* Values `first`, first + 1, ... of a row: `count` of them, of type `dtype`, or as doubles. */
void input_row(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count, enum dtype dtype,
               void *row);
void input_row_double(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count,
                      enum dtype dtype, double *row);

#endif
