/* profile_products.c - writes tables of product rates, and holds them against what was measured beside them. */
#include "hw/calibrate/profile_products.h"

#include <inttypes.h>
#include <math.h>

#include "hw/calibrate/profile_writer.h"
#include "models/cost/product_cost.h"

static struct product product_of(const struct measured_products *table, const struct measured_product *item)
{
    return (struct product){item->rows, item->columns, item->depth, table->dtype};
}

static void write_rates(const struct measured_products *table, FILE *stream)
{
    const char *separator = "";
    double longest = 0;
    fprintf(stream, "rate     = ");
    for (uint32_t i = 0; i < table->n_items; i++) {
        const struct measured_product *item = &table->items[i];
        /* The rates have five digits. */
        if (item->probe || item->time.value <= longest * 1.001)
            continue;
        longest = item->time.value;
        const struct product product = product_of(table, item);
        const double rate = product_flops(&product) / item->time.value;
        const bool tera = rate >= 1e12;
        fprintf(stream, "%s%" PRIu32 ": %.5g %s", separator, item->rows, rate / (tera ? 1e12 : 1e9),
                tera ? "TFLOP/s" : "GFLOP/s");
        separator = ", ";
    }
    fputc('\n', stream);
}

void profile_write_products(const struct calibration *c, FILE *stream)
{
    for (uint32_t i = 0; i < c->n_products; i++) {
        const struct measured_products *table = &c->products[i];
        fprintf(stream, "\n[product %s]\n", dtype_name(table->dtype));
        write_rates(table, stream);
        fprintf(stream, "tile     = %" PRIu32 "x%" PRIu32 "\nprologue = %.3g\nspread   = %.3g\n", table->tile_rows,
                table->tile_columns, table->prologue, profile_spread(table->spread));
        profile_write_source(c, stream);
    }
}

bool profile_foretell_products(struct calibration *c, const struct device *device, struct diagnostics *diag)
{
    for (uint32_t i = 0; i < c->n_products; i++) {
        struct measured_products *table = &c->products[i];
        if (!product_check(device, table->dtype, NULL, 0, diag))
            return false;
        double errors = 0, probes = 0;
        for (uint32_t k = 0; k < table->n_items; k++) {
            struct measured_product *item = &table->items[k];
            const struct product product = product_of(table, item);
            item->foretold = product_seconds(device, &product);
            errors += item->probe ? fabs(item->foretold / item->time.value - 1) : 0;
            probes += item->probe;
        }
        table->spread = fmax(table->spread, probes > 0 ? errors / probes : 0);
    }
    return true;
}
