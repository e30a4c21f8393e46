/* inputs.c - a hash of seed, tensor, position and element, mixed until every bit depends on all. */
#include "hw/verify/inputs.h"

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

double input_value(uint64_t seed, enum input input, uint64_t position, uint64_t index, enum dtype dtype)
{
    return (double)number_rounded(dtype, row_value(row_key(seed, input, position), input, index));
}

double input_number(uint64_t seed, enum input input, uint64_t position, uint64_t index)
{
    return (double)row_value(row_key(seed, input, position), input, index);
}

void input_row(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count, enum dtype dtype,
               void *row)
{
    uint64_t key = row_key(seed, input, position);
    for (size_t i = 0; i < count; i++)
        number_write(dtype, row, i, row_value(key, input, first + i));
}

void input_row_double(uint64_t seed, enum input input, uint64_t position, uint64_t first, size_t count,
                      enum dtype dtype, double *row)
{
    uint64_t key = row_key(seed, input, position);
    for (size_t i = 0; i < count; i++)
        row[i] = (double)number_rounded(dtype, row_value(key, input, first + i));
}
