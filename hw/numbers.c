/* numbers.c - by the bits of IEEE 754: 8 bits of exponent and 7 behind the point (bf16), or 5 and 10 (fp16). */
#include "hw/numbers.h"

#include <assert.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define SIGN 0x80000000u
#define INFINITE 0x7f800000u

uint16_t bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & ~SIGN) > INFINITE) /* NaN stays one */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bf16_to_float(uint16_t bits)
{
    return of_bits((uint32_t)bits << 16);
}

#define FP16_NORMAL 0x38800000u /* 2^-14, the least with all digits */
#define FP16_BEYOND 0x47800000u /* 2^16 */
#define FP16_BIAS (112u << 23)  /* between the exponents' of the two */

uint16_t fp16_from_float(float value)
{
    const uint32_t sign = bits_of(value) & SIGN, size = bits_of(value) & ~SIGN;
    uint32_t bits;
    if (size > INFINITE)
        bits = 0x7e00;
    else if (size >= FP16_BEYOND)
        bits = 0x7c00;
    else if (size >= FP16_NORMAL)
        bits = (size - FP16_BIAS + 0xfff + (size >> 13 & 1)) >> 13;
    else /* steps of 2^-24, which are those of fp32 at 0.5 */
        bits = bits_of(of_bits(size) + 0.5f) - bits_of(0.5f);
    return (uint16_t)(sign >> 16 | bits);
}

float fp16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, size = bits & 0x7fff;
    if (size >= 0x7c00)
        return of_bits(sign | INFINITE | (size & 0x3ff) << 13);
    if (size >= 0x400)
        return of_bits(sign | ((size << 13) + FP16_BIAS));
    return of_bits(sign | bits_of((float)size / 16777216.0f));
}

float number_read(enum dtype dtype, const void *array, size_t i)
{
    if (dtype == DTYPE_FP32)
        return ((const float *)array)[i];
    assert(dtype == DTYPE_BF16 || dtype == DTYPE_FP16);
    const uint16_t bits = ((const uint16_t *)array)[i];
    return dtype == DTYPE_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

void number_write(enum dtype dtype, void *array, size_t i, float value)
{
    assert(dtype == DTYPE_FP32 || dtype == DTYPE_BF16 || dtype == DTYPE_FP16);
    if (dtype == DTYPE_FP32)
        ((float *)array)[i] = value;
    else
        ((uint16_t *)array)[i] = dtype == DTYPE_BF16 ? bf16_from_float(value) : fp16_from_float(value);
}

float number_rounded(enum dtype dtype, float value)
{
    uint32_t held = 0;
    number_write(dtype, &held, 0, value);
    return number_read(dtype, &held, 0);
}
