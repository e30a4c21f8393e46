/* divisors.c - by trial: the numbers are counts of ranks and heads. */
#include "models/base/divisors.h"

#include <inttypes.h>
#include <stdio.h>

void divisors_nearest(uint32_t number, uint32_t wished, char *text, size_t size)
{
    uint32_t below = wished < number ? wished : number, above = wished;
    while (number % below)
        below--;
    while (above < number && number % above)
        above++;
    if (above <= number)
        snprintf(text, size, "%" PRIu32 " or %" PRIu32, below, above);
    else
        snprintf(text, size, "%" PRIu32, below);
}

uint32_t divisors_greatest_common(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
