/* divisors.h - what to say to somebody who asked for a number that does not divide. */
#ifndef CPSIM_MODELS_BASE_DIVISORS_H
#define CPSIM_MODELS_BASE_DIVISORS_H

#include <stddef.h>
#include <stdint.h>

/* Room for any such text. */
#define NEAREST_SIZE 32

/* Writes the divisors of `number` on both sides of `wished`, which is none: "2 or 4", or "4" beyond the largest. Both
 * are at least 1. */
void divisors_nearest(uint32_t number, uint32_t wished, char *text, size_t size);

uint32_t divisors_greatest_common(uint32_t a, uint32_t b);

#endif
