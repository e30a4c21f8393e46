/* dtype.c - one table of names and sizes. */
#include "models/base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint64_t bytes;
} types[DTYPE_COUNT] = {
    [DTYPE_FP64] = {"fp64", 8}, [DTYPE_FP32] = {"fp32", 4}, [DTYPE_BF16] = {"bf16", 2},
    [DTYPE_FP16] = {"fp16", 2}, [DTYPE_FP8] = {"fp8", 1},
};

uint64_t dtype_bytes(enum dtype dtype)
{
    return types[dtype].bytes;
}

const char *dtype_name(enum dtype dtype)
{
    return types[dtype].name;
}

bool dtype_parse(const char *text, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(text, types[i].name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

enum dtype dtype_output(enum dtype model)
{
    return model == DTYPE_FP8 ? DTYPE_BF16 : model;
}

enum dtype dtype_accumulator(enum dtype model)
{
    return model == DTYPE_FP64 ? DTYPE_FP64 : DTYPE_FP32;
}
