/* dtype.h - the element types that a tensor may have. */
#ifndef CPSIM_MODELS_BASE_DTYPE_H
#define CPSIM_MODELS_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum dtype {
    DTYPE_FP64,
    DTYPE_FP32,
    DTYPE_BF16,
    DTYPE_FP16,
    DTYPE_FP8,
    DTYPE_COUNT,
};

uint64_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "bf16", ... */
bool dtype_parse(const char *text, enum dtype *dtype);

/* The type of O, dO and of gradients in the model's precision: fp8 attention puts out bf16; all others put out their
 * own type. */
enum dtype dtype_output(enum dtype model);

/* The type of values that are summed over steps (online softmax state, gradient accumulators): fp32 or wider. */
enum dtype dtype_accumulator(enum dtype model);

#endif
