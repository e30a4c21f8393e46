/* units.c - numbers with units: a strict grammar of our own finds where the number ends, the C library converts it.
 *
 * number = ['-'] digits ['.' digits] [('e' | 'E') ['+' | '-'] digits], then blanks, then the unit; nothing may follow.
 * So "nan", "inf", "0x80", "+8", "5." and "1,5" are no numbers. A unit is a suffix with a prefix before it. Small units
 * (ms, us, ns, bits) divide, since 1e3, 1e6, 1e9 and 8 are exact and their inverses are not: "2 us" is 2e-6 to the bit.
 */
#include "models/input/units.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
    const char *text;
    double scale;
};

static const struct prefix prefixes[] = {
    {"", 1},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"P", 1e15},
    {"Ki", 1024.0},
    {"Mi", 1024.0 * 1024},
    {"Gi", 1024.0 * 1024 * 1024},
    {"Ti", 1024.0 * 1024 * 1024 * 1024},
};

struct suffix {
    const char *text;
    enum dimension dimension;
    double divisor;
    bool prefixed; /* takes one of `prefixes` */
};

static const struct suffix suffixes[] = {
    {"", DIMENSION_NUMBER, 1, false},      {"B", DIMENSION_BYTES, 1, true},       {"B/s", DIMENSION_RATE, 1, true},
    {"Bps", DIMENSION_RATE, 1, true},      {"b/s", DIMENSION_RATE, 8, true},      {"bps", DIMENSION_RATE, 8, true},
    {"ns", DIMENSION_SECONDS, 1e9, false}, {"us", DIMENSION_SECONDS, 1e6, false}, {"ms", DIMENSION_SECONDS, 1e3, false},
    {"s", DIMENSION_SECONDS, 1, false},    {"FLOP/s", DIMENSION_FLOPS, 1, true},  {"FLOPS", DIMENSION_FLOPS, 1, true},
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The C locale without touching the process's: glibc hands out a constant object for it, so there is nothing to free
 * late and no state to keep. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

static const char *skip_blanks(const char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

/* The end of the number that `text` begins with, or NULL. */
static const char *number_end(const char *text)
{
    const char *digits = text + (*text == '-');
    const char *end = skip_digits(digits);
    if (end == digits)
        return NULL;
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        if (end == fraction)
            return NULL;
    }
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;
        exponent += *exponent == '+' || *exponent == '-';
        end = skip_digits(exponent);
        if (end == exponent)
            return NULL;
    }
    return end;
}

static bool find_prefix(const char *text, size_t length, double *scale)
{
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        if (strlen(prefixes[i].text) == length && strncmp(prefixes[i].text, text, length) == 0) {
            *scale = prefixes[i].scale;
            return true;
        }
    }
    return false;
}

static bool find_unit(const char *unit, enum dimension dimension, double *scale, double *divisor)
{
    size_t length = strlen(unit);
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        const struct suffix *suffix = &suffixes[i];
        size_t tail = strlen(suffix->text);
        if (suffix->dimension != dimension || tail > length || strcmp(unit + length - tail, suffix->text) != 0)
            continue;
        *scale = 1;
        *divisor = suffix->divisor;
        if (suffix->prefixed ? find_prefix(unit, length - tail, scale) : length == tail)
            return true;
    }
    return false;
}

bool units_parse(const char *text, enum dimension dimension, double *value)
{
    const char *end = number_end(text);
    double scale, divisor;
    if (!end || !find_unit(skip_blanks(end), dimension, &scale, &divisor))
        return false;
    if (dimension == DIMENSION_NUMBER && *end) /* a blank behind a bare number */
        return false;

    char *stop;
    locale_t locale = c_locale();
    errno = 0;
    double number = strtod_l(text, &stop, locale);
    freelocale(locale);
    if (errno == ERANGE || stop != end)
        return false;
    number = number * scale / divisor;
    if (!isfinite(number))
        return false;
    *value = number;
    return true;
}

const char *units_expected(enum dimension dimension)
{
    switch (dimension) {
    case DIMENSION_NUMBER:
        return "a plain number such as 0.85 or 1e-3";
    case DIMENSION_BYTES:
        return "a size such as 80 GiB or 512 kB (k M G T P, Ki Mi Gi Ti)";
    case DIMENSION_RATE:
        return "a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)";
    case DIMENSION_SECONDS:
        return "a time such as 2 us (s, ms, us, ns)";
    case DIMENSION_FLOPS:
        return "a compute rate such as 989 TFLOP/s (k M G T P)";
    }
    return "";
}

bool units_parse_count(const char *text, uint64_t *value)
{
    const char *end = skip_digits(text);
    if (end == text)
        return false;
    uint64_t count = 0;
    for (const char *digit = text; digit < end; digit++) {
        if (__builtin_mul_overflow(count, 10, &count) ||
            __builtin_add_overflow(count, (uint64_t)(*digit - '0'), &count))
            return false;
    }
    double scale;
    const char *prefix = skip_blanks(end);
    if ((prefix > end && !*prefix) || !find_prefix(prefix, strlen(prefix), &scale) ||
        __builtin_mul_overflow(count, (uint64_t)scale, &count))
        return false;
    *value = count;
    return true;
}

static const char *base_unit(enum dimension dimension)
{
    switch (dimension) {
    case DIMENSION_NUMBER:
        return "";
    case DIMENSION_BYTES:
        return "B";
    case DIMENSION_RATE:
        return "B/s";
    case DIMENSION_SECONDS:
        return "s";
    case DIMENSION_FLOPS:
        return "FLOP/s";
    }
    return "";
}

/* The largest prefix that leaves at least 1 after rounding to three digits: 999,600 B is "1 MB". The smallest one if
 * there is none. */
static const struct prefix *readable_prefix(const struct prefix *descending, size_t count, double magnitude)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (magnitude >= 0.9995 * descending[i].scale)
            return &descending[i];
    }
    return &descending[count - 1];
}

void units_print(char *text, size_t size, enum dimension dimension, double value)
{
    static const struct prefix large[] = {{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}};
    static const struct prefix small[] = {{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}};
    static const struct prefix none[] = {{"", 1}};
    double magnitude = fabs(value);
    const struct prefix *prefix;
    if (dimension == DIMENSION_NUMBER || !isfinite(value) || magnitude == 0)
        prefix = none;
    else if (dimension == DIMENSION_SECONDS)
        prefix = readable_prefix(small, COUNT_OF(small), magnitude);
    else
        prefix = readable_prefix(large, COUNT_OF(large), magnitude);

    double scaled = value / prefix->scale;
    bool whole = dimension != DIMENSION_NUMBER && fabs(scaled) >= 999.5 && fabs(scaled) < 1e6;
    locale_t locale = c_locale();
    locale_t previous = uselocale(locale);
    if (whole)
        snprintf(text, size, "%.0f", scaled);
    else
        snprintf(text, size, "%.3g", scaled);
    uselocale(previous);
    freelocale(locale);

    size_t length = strlen(text);
    if (dimension != DIMENSION_NUMBER && length < size)
        snprintf(text + length, size - length, " %s%s", prefix->text, base_unit(dimension));
}

void units_print_exact(char *text, size_t size, enum dimension dimension, double value)
{
    char number[40];
    locale_t locale = c_locale();
    locale_t previous = uselocale(locale);
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back as the same double */
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod_l(number, NULL, locale) >= value && strtod_l(number, NULL, locale) <= value)
            break;
    }
    uselocale(previous);
    freelocale(locale);
    snprintf(text, size, "%s%s%s", number, dimension == DIMENSION_NUMBER ? "" : " ", base_unit(dimension));
}
