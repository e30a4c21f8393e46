/* inputs.c - a hash of seed, tensor, position and element, mixed until every bit depends on all. */
#include "hw/verify/inputs.h"

#include <string.h>

/* The mixing steps of splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio, odd */

static uint64_t row_key(uint64_t seed, enum input input, uint64_t position)
{
    return mix(mix(seed * GOLDEN + (uint64_t)input + 1) + (position + 1) * GOLDEN);
}

static float row_value(uint64_t key, enum input input, uint64_t index)
{
    int64_t bits = (int64_t)(mix(key + (index + 1) * GOLDEN) >> 40) - (INT64_C(1) << 23); /* 24 bits: exact in fp32 */
    return (float)bits * (input == INPUT_Q ? QUERY_GAIN : 1) / 8388608.0f;
}

uint16_t bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) /* NaN stays one */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bf16_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

double input_value(uint64_t seed, enum input input, uint64_t position, uint64_t index, enum dtype dtype)
{
    float value = row_value(row_key(seed, input, position), input, index);
    return (double)(dtype == DTYPE_BF16 ? bf16_to_float(bf16_from_float(value)) : value);
}

void input_row(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count, enum dtype dtype,
               void *row)
{
    uint64_t key = row_key(seed, input, position);
    for (size_t i = 0; i < count; i++) {
        float value = row_value(key, input, first + i);
        if (dtype == DTYPE_BF16)
            ((uint16_t *)row)[i] = bf16_from_float(value);
        else
            ((float *)row)[i] = value;
    }
}

void input_row_double(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count,
                      enum dtype dtype, double *row)
{
    uint64_t key = row_key(seed, input, position);
    for (size_t i = 0; i < count; i++) {
        float value = row_value(key, input, first + i);
        row[i] = (double)(dtype == DTYPE_BF16 ? bf16_to_float(bf16_from_float(value)) : value);
    }
}
