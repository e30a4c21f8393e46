/* numbers.h - numbers of 16 bits on the host: to and from fp32, alone and in arrays of any type that runs here.
 */
#ifndef CPSIM_HW_NUMBERS_H
#define CPSIM_HW_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "models/base/dtype.h"

/* To 16 bits: to the nearest, ties to even. fp16 has no number beyond 65504: larger ones become infinite. */
uint16_t bf16_from_float(float value);
float bf16_to_float(uint16_t bits);
uint16_t fp16_from_float(float value);
float fp16_to_float(uint16_t bits);

/* Number `i` of an array of fp32, bf16 or fp16. */
float number_read(enum dtype dtype, const void *array, size_t i);
void number_write(enum dtype dtype, void *array, size_t i, float value);

/* `value` as the type can hold it. */
float number_rounded(enum dtype dtype, float value);

#endif
