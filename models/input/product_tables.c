/* product_tables.c - reads tables of product rates, and judges what must hold between their keys. */
#include "models/input/product_tables.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/device_keys.h"

#define PREFIX "product "
#define TFLOP 1e12

static const uint32_t any_dtype = (1U << DTYPE_COUNT) - 1U;
static const uint32_t types_of_16_bits = 1U << DTYPE_BF16 | 1U << DTYPE_FP16;

double product_table_peak(const struct device *device, const struct product_table *table)
{
    if (table->peak_flops_per_s > 0.0)
        return table->peak_flops_per_s;
    return table->dtypes && !(table->dtypes & ~types_of_16_bits) ? device->peak_flops_per_s : 0.0;
}

static bool is_product(const struct ini_section *section)
{
    return strncmp(section->name, PREFIX, strlen(PREFIX)) == 0;
}

static bool read_name(struct product_table *table, const char *path, const struct ini_section *section,
                      struct diagnostics *diag)
{
    const char *name = section->name + strlen(PREFIX);
    enum dtype dtype;
    table->named_dtype = -1;
    if (strcmp(name, "any") == 0)
        return true;
    if (!dtype_parse(name, &dtype))
        return diagnostics_at(diag, path, section->line,
                              "section '[%s]', expected [product DTYPE] with DTYPE fp64, fp32, bf16, fp16, fp8 or any",
                              section->name);
    table->named_dtype = (int)dtype;
    return true;
}

/* The dtypes are the section's unless a key names more. */
static bool settle_dtypes(const struct device *device, struct product_table *table, struct diagnostics *diag)
{
    uint32_t named = table->named_dtype < 0 ? any_dtype : 1U << table->named_dtype;
    if (!table->dtypes)
        table->dtypes = named;
    if ((table->dtypes & named) == named)
        return true;
    return diagnostics_at(diag, device->path, table->line, "'dtype' lacks the section's, expected %s among them",
                          table->named_dtype < 0 ? "any" : dtype_name((enum dtype)table->named_dtype));
}

static double seconds_of(const struct product_point *point)
{
    return 2.0 * point->rows * point->columns * point->depth / point->flops_per_s;
}

/* More work that takes less time says that one of two rates is wrong. */
static bool check_order(const struct device *device, const struct product_table *table, struct diagnostics *diag)
{
    for (size_t i = 1; i < table->n_rates; i++) {
        const struct product_point *before = &table->rates[i - 1], *point = &table->rates[i];
        double work_before = before->rows * before->columns * before->depth;
        if (point->rows * point->columns * point->depth <= work_before || seconds_of(point) <= seconds_of(before))
            return diagnostics_at(diag, device->path, table->line,
                                  "'rate' has %.0fx%.0fx%.0f in %.4g us after %.0fx%.0fx%.0f in %.4g us, expected more "
                                  "work that takes longer",
                                  point->rows, point->columns, point->depth, seconds_of(point) * 1e6, before->rows,
                                  before->columns, before->depth, seconds_of(before) * 1e6);
    }
    return true;
}

static bool check_peak(const struct device *device, const struct product_table *table, struct diagnostics *diag)
{
    double peak = product_table_peak(device, table);
    for (size_t i = 0; i < table->n_rates; i++) {
        double rate = table->rates[i].flops_per_s * table->rate_scale;
        if (peak > 0.0 && rate > peak)
            return diagnostics_at(diag, device->path, table->line,
                                  "rate '%.4g' TFLOP/s (with rate_scale) of %.0fx%.0fx%.0f, expected at most the peak "
                                  "of %.4g TFLOP/s",
                                  rate / TFLOP, table->rates[i].rows, table->rates[i].columns, table->rates[i].depth,
                                  peak / TFLOP);
    }
    return true;
}

/* Each dtype has one table. */
static bool check_repetition(const struct device *device, size_t index, struct diagnostics *diag)
{
    const struct product_table *table = &device->products[index];
    for (size_t i = 0; i < index; i++)
        if (device->products[i].dtypes & table->dtypes)
            return diagnostics_at(
                diag, device->path, table->line,
                "products of a dtype of this table are in that of line %d, expected one table of each",
                device->products[i].line);
    return true;
}

bool product_tables_read(struct device *device, const struct ini_document *document, struct diagnostics *diag)
{
    bool good = true;
    device->products = memory_zeroed(document->n_sections, sizeof *device->products);
    for (size_t i = 0; i < document->n_sections; i++) {
        const struct ini_section *section = &document->sections[i];
        if (!is_product(section))
            continue;
        struct product_table *table = &device->products[device->n_products++];
        table->line = section->line;
        bool named = read_name(table, device->path, section, diag);
        bool read = key_table_read(&device_product_section, document, section, table, diag);
        good &= named && read;
        if (!named || !read)
            continue;
        good &= settle_dtypes(device, table, diag);
        good &= check_order(device, table, diag);
        good &= check_peak(device, table, diag);
        good &= check_repetition(device, device->n_products - 1, diag);
    }
    return good;
}

void product_tables_fini(struct device *device)
{
    for (size_t i = 0; i < device->n_products; i++)
        free(device->products[i].rates);
    free(device->products);
}
