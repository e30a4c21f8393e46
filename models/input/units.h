/* units.h - numbers as people write them, with units.
 *
 * One parser for the whole project. The whole text must be consumed; the unit is mandatory where a value has a
 * dimension; B is bytes and b is bits; prefixes are k M G T P (1000) and Ki Mi Gi Ti (1024). Numbers are read in the C
 * locale whatever the environment says.
 */
#ifndef CPSIM_MODELS_INPUT_UNITS_H
#define CPSIM_MODELS_INPUT_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dimension {
    DIMENSION_NUMBER,  /* a plain finite number: "0.85", "1e-3" */
    DIMENSION_BYTES,   /* "80 GiB", "512 kB" */
    DIMENSION_RATE,    /* "450 GB/s", "400 Gb/s", "400 Gbps": bytes per second */
    DIMENSION_SECONDS, /* "2 us", "1.5 ms" */
    DIMENSION_FLOPS,   /* "989 TFLOP/s": per second */
};

/* Reads `text` as a finite quantity of `dimension` in its base unit. False when it is not one. */
bool units_parse(const char *text, enum dimension dimension, double *value);
/* What would have been right, for an error message: "a rate such as 450 GB/s or 400 Gb/s (k M G T, Ki Mi Gi Ti)". */
const char *units_expected(enum dimension dimension);

/* Reads a whole number: digits with an optional Ki, Mi, Gi or k, M, G: "131072", "128Ki". No sign, no fraction, no 0x.
 */
bool units_parse_count(const char *text, uint64_t *value);

/* Writes a quantity for people: "67.1 MB", "1.23 ms", "450 GB/s", "989 TFLOP/s" (three significant digits). */
void units_print(char *text, size_t size, enum dimension dimension, double value);
/* Writes a quantity exactly, in INI syntax and base units: "450000000000 B/s". */
void units_print_exact(char *text, size_t size, enum dimension dimension, double value);

#endif
