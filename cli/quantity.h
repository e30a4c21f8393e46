/* quantity.h - numbers for people: in tables, titles and plots the same digits and units. */
#ifndef CPSIM_CLI_QUANTITY_H
#define CPSIM_CLI_QUANTITY_H

#include <stdint.h>

/* A unit that suits a column whose largest value is `largest`: value / size is printed, with `name` in the header. */
struct unit {
    const char *name;
    double size;
};

struct unit unit_of_seconds(double largest);
/* A smaller one, for columns whose small values matter beside the largest: up to five digits before the point. */
struct unit fine_unit_of_seconds(double largest);
struct unit unit_of_bytes(double largest);  /* decimal, for traffic: links are sold in GB/s */
struct unit unit_of_memory(double largest); /* binary, for memory: devices are sold in GiB */

/* A quantity by itself, in a unit that suits it: "12.34 ms". Returned by value, so that calls can stand among the
 * arguments of a printf. */
struct short_text {
    char text[32];
};

struct short_text text_of_number(double value);  /* four digits, as many of them decimals as fit; at most three */
struct short_text text_of_count(uint64_t count); /* thousands separated by commas */
struct short_text text_in_unit(double value, struct unit unit);
struct short_text text_of_seconds(double seconds);
struct short_text text_of_memory(double bytes);
struct short_text text_of_flop_rate(double flops_per_s); /* "612.6 TFLOP/s" */

#endif
