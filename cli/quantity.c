/* quantity.c - the unit is chosen by the largest value, the decimals by each value's size. */
#include "cli/quantity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* `units` in descending order of size; the last serves for whatever is smaller. */
static struct unit choose(const struct unit *units, size_t count, double largest)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (largest >= units[i].size)
            return units[i];
    return units[count - 1];
}

struct unit unit_of_seconds(double largest)
{
    static const struct unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    return largest > 0 ? choose(units, sizeof units / sizeof *units, largest) : units[1];
}

struct unit fine_unit_of_seconds(double largest)
{
    return unit_of_seconds(largest / 10);
}

struct unit unit_of_bytes(double largest)
{
    static const struct unit units[] = {{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}};
    return choose(units, sizeof units / sizeof *units, largest);
}

struct unit unit_of_memory(double largest)
{
    static const struct unit units[] = {{"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30},
                                        {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}};
    return choose(units, sizeof units / sizeof *units, largest);
}

static struct unit unit_of_flop_rate(double largest)
{
    static const struct unit units[] = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"MFLOP/s", 1e6}, {"FLOP/s", 1}};
    return choose(units, sizeof units / sizeof *units, largest);
}

struct short_text text_of_number(double value)
{
    struct short_text out;
    double magnitude = fabs(value);
    int decimals = 3;
    /* 9.9996 prints as 10.000 and so needs a decimal less */
    for (double limit = 10; decimals > 0 && magnitude >= limit - 0.5 * pow(10, -decimals); limit *= 10)
        decimals--;
    if (magnitude > 1e-6 && magnitude < 0.0005) /* what is smaller yet is rounding of sums */
        snprintf(out.text, sizeof out.text, "%.1e", value);
    else
        snprintf(out.text, sizeof out.text, "%.*f", decimals, value);
    return out;
}

struct short_text text_of_count(uint64_t count)
{
    struct short_text out;
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, count), length = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out.text[length++] = ',';
        out.text[length++] = digits[i];
    }
    out.text[length] = '\0';
    return out;
}

struct short_text text_in_unit(double value, struct unit unit)
{
    struct short_text out, number = text_of_number(value / unit.size);
    snprintf(out.text, sizeof out.text, "%.20s %.10s", number.text, unit.name);
    return out;
}

struct short_text text_of_seconds(double seconds)
{
    return text_in_unit(seconds, unit_of_seconds(seconds));
}

struct short_text text_of_memory(double bytes)
{
    return text_in_unit(bytes, unit_of_memory(bytes));
}

struct short_text text_of_flop_rate(double flops_per_s)
{
    return text_in_unit(flops_per_s, unit_of_flop_rate(flops_per_s));
}
