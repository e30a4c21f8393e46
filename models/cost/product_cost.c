/* product_cost.c - quantized work, and its time by interpolation in a table. */
#include "models/cost/product_cost.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/cost/cost_parts.h"
#include "models/input/product_tables.h"

const struct product_table *product_table_of(const struct device *device, enum dtype dtype)
{
    for (size_t i = 0; i < device->n_products; i++)
        if (device->products[i].dtypes >> dtype & 1U)
            return &device->products[i];
    return NULL;
}

bool product_check(const struct device *device, enum dtype dtype, const char *path, int line, struct diagnostics *diag)
{
    if (product_table_of(device, dtype))
        return true;
    char dtypes[64] = "";
    uint32_t held = 0;
    for (size_t i = 0; i < device->n_products; i++)
        held |= device->products[i].dtypes;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        size_t length = strlen(dtypes);
        if (held >> d & 1U)
            snprintf(dtypes + length, sizeof dtypes - length, "%s%s", length ? ", " : "", dtype_name((enum dtype)d));
    }
    return diagnostics_at(diag, path ? path : device->path, path ? line : 0,
                          "device '%s' has no rates of matrix products in dtype '%s', expected a section [product %s] "
                          "in its profile%s%s",
                          device->name, dtype_name(dtype), dtype_name(dtype), *dtypes ? ", which has them in " : "",
                          dtypes);
}

double product_flops(const struct product *product)
{
    return 2.0 * product->rows * product->columns * product->depth;
}

double product_bytes(const struct product *product)
{
    double operands = product->depth * (product->rows + product->columns), result = product->rows * product->columns;
    return operands * (double)dtype_bytes(product->dtype) + result * (double)dtype_bytes(dtype_output(product->dtype));
}

/* W: FLOPs that the processors have time for until the last one ends. */
static double quantized_work(const struct device *device, const struct product_table *table, double rows,
                             double columns, double depth)
{
    double tiles = ceil(rows / table->tile_rows) * ceil(columns / table->tile_columns);
    double processors = device->processors, waves = floor(tiles / processors), left = tiles - waves * processors;
    double whole = depth + table->prologue;
    double rest = left > 0.0 ? fmin(whole, left / processors * depth + 2.0 * table->prologue) : 0.0;
    return 2.0 * table->tile_rows * table->tile_columns * processors * (waves * whole + rest);
}

/* One of the table's runs. */
struct known {
    double work, seconds;
};

static struct known known_point(const struct device *device, const struct product_table *table, size_t index)
{
    const struct product_point *point = &table->rates[index];
    double flops = 2.0 * point->rows * point->columns * point->depth;
    return (struct known){quantized_work(device, table, point->rows, point->columns, point->depth),
                          flops / (point->flops_per_s * table->rate_scale)};
}

/* g(work). The runs take longer one after the other; one whose work is quantized to no more than that of one before is
 * passed over. */
static double seconds_of_work(const struct device *device, const struct product_table *table, double work)
{
    struct known before = known_point(device, table, 0);
    if (work <= before.work)
        return before.seconds * work / before.work;
    for (size_t i = 1; i < table->n_rates; i++) {
        struct known after = known_point(device, table, i);
        if (after.work <= before.work)
            continue;
        if (work <= after.work) {
            double share = log(work / before.work) / log(after.work / before.work);
            return before.seconds * pow(after.seconds / before.seconds, share);
        }
        before = after;
    }
    return before.seconds * work / before.work;
}

double product_seconds(const struct device *device, const struct product *product)
{
    const struct product_table *table = product_table_of(device, product->dtype);
    assert(table && table->n_rates > 0);
    if (product_flops(product) <= 0.0)
        return 0.0;
    double work = quantized_work(device, table, product->rows, product->columns, product->depth);
    double seconds =
        fmax(seconds_of_work(device, table, work), product_bytes(product) / cost_memory_bytes_per_s(device));
    double peak = product_table_peak(device, table);
    return peak > 0.0 ? fmax(seconds, product_flops(product) / peak) : seconds;
}
