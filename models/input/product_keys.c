/* product_keys.c - the key table of a device profile's [product DTYPE] sections, and the values that only it has: a
 * tile's shape, rates over products.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/device_keys.h"
#include "models/input/device_values.h"
#include "models/input/units.h"

#define TFLOP 1e12
#define PRODUCT_POINTS_MAX 24
#define EXTENT_MAX 1e9

static const char tile_form[] = "ROWSxCOLUMNS such as 128x256";
static const char product_rates_form[] = "PRODUCT: RATE, ... such as 2048: 676 TFLOP/s, 4096x7168x16384: 760 TFLOP/s "
                                         "(a square's size, or rows x columns x depth)";

/* Reads "128x256" into at most `most` numbers; how many there are, 0 if it is not that. */
static size_t parse_extents(char *text, double extents[], size_t most)
{
    size_t count = 0;
    for (char *item; (item = device_next_item(&text, 'x'));) {
        uint64_t value;
        if (count == most || !units_parse_count(item, &value) || value == 0 || (double)value > EXTENT_MAX)
            return 0;
        extents[count++] = (double)value;
    }
    return count;
}

static bool parse_tile(void *target, const char *text, const char **expected)
{
    struct product_table *table = target;
    double extents[2] = {0};
    char *copy = memory_text(text);
    bool good = parse_extents(copy, extents, 2) == 2;
    free(copy);
    table->tile_rows = extents[0];
    table->tile_columns = extents[1];
    *expected = tile_form;
    return good;
}

static void print_tile(const void *target, char *text, size_t size)
{
    const struct product_table *table = target;
    snprintf(text, size, "%.0fx%.0f", table->tile_rows, table->tile_columns);
}

/* A number stands for a square product. */
static bool parse_point(char *item, struct product_point *point)
{
    char *rate = item, *shape = device_next_item(&rate, ':');
    rate = device_next_item(&rate, '\0');
    double extents[3] = {0};
    size_t count = parse_extents(shape, extents, 3);
    if (!rate || (count != 1 && count != 3) || !units_parse(rate, DIMENSION_FLOPS, &point->flops_per_s))
        return false;
    point->rows = extents[0];
    point->columns = extents[count == 3 ? 1 : 0];
    point->depth = extents[count == 3 ? 2 : 0];
    return point->flops_per_s >= 1e6 && point->flops_per_s <= 1e18;
}

static size_t parse_points(char *text, struct product_point points[PRODUCT_POINTS_MAX])
{
    size_t count = 0;
    for (char *item; (item = device_next_item(&text, ','));)
        if (count == PRODUCT_POINTS_MAX || !parse_point(item, &points[count++]))
            return 0;
    return count;
}

static bool parse_product_rates(void *target, const char *text, const char **expected)
{
    struct product_table *table = target;
    struct product_point points[PRODUCT_POINTS_MAX];
    char *copy = memory_text(text);
    size_t count = parse_points(copy, points);
    free(copy);
    *expected = product_rates_form;
    if (count == 0)
        return false;
    free(table->rates);
    table->rates = memory_zeroed(count, sizeof *table->rates);
    memcpy(table->rates, points, count * sizeof *points);
    table->n_rates = count;
    return true;
}

static void print_product_rates(const void *target, char *text, size_t size)
{
    const struct product_table *table = target;
    size_t length = 0;
    if (size)
        text[0] = '\0';
    for (size_t i = 0; i < table->n_rates && length < size; i++) {
        const struct product_point *point = &table->rates[i];
        length += (size_t)snprintf(text + length, size - length, "%s%.0fx%.0fx%.0f: %.10g TFLOP/s", i ? ", " : "",
                                   point->rows, point->columns, point->depth, point->flops_per_s / TFLOP);
    }
}

static bool parse_product_dtypes(void *target, const char *text, const char **expected)
{
    struct product_table *table = target;
    return device_parse_dtypes(&table->dtypes, text, expected);
}

static void print_product_dtypes(const void *target, char *text, size_t size)
{
    const struct product_table *table = target;
    device_print_dtypes(table->dtypes, text, size);
}

static const struct key_spec product_keys[] = {
    {.name = "dtype",
     .type = KEY_CUSTOM,
     .fallback = "",
     .form = device_dtypes_form,
     .parse = parse_product_dtypes,
     .print = print_product_dtypes,
     .help = "the operands' dtypes that the rates hold for; absent: the section's"},
    {.name = "rate",
     .type = KEY_CUSTOM,
     .form = product_rates_form,
     .parse = parse_product_rates,
     .print = print_product_rates,
     .help = "rates, FLOPs = 2 x rows x columns x depth; a larger product takes longer"},
    {.name = "tile",
     .type = KEY_CUSTOM,
     .form = tile_form,
     .parse = parse_tile,
     .print = print_tile,
     .help = "of the result, that one processor works on at a time"},
    {.name = "prologue",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct product_table, prologue),
     .fallback = "0",
     .minimum = 0.0,
     .maximum = 1e6,
     .form = "a number such as 128",
     .help = "what a tile costs beside its depth, to begin and to write it, as so many more of depth"},
    {.name = "peak",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_FLOPS,
     .offset = offsetof(struct product_table, peak_flops_per_s),
     .fallback = "",
     .minimum = 1e6,
     .maximum = 1e18,
     .form = "a rate such as 1979 TFLOP/s",
     .help = "dense peak of these dtypes, which no rate exceeds; absent: the device's for 16-bit types, else no bound"},
    {.name = "rate_scale",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct product_table, rate_scale),
     .fallback = "1",
     .minimum = 0.001,
     .maximum = 1000.0,
     .form = "a number",
     .help = "multiplies the rates: for a device known by those of a relative"},
    SPREAD_KEY(struct product_table, spread, "how far the rates vary, relative: gives predictions an interval"),
    SOURCE_KEY,
};

const struct section_spec device_product_section = {
    .name = "product",
    .named = true,
    .help = "[product DTYPE]: how fast matrix products are, with operands of DTYPE, which may be any",
    .keys = product_keys,
    .n_keys = sizeof product_keys / sizeof *product_keys,
};
