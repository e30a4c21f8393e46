/* calibrate_products.c - times of matrix products on CPUs: squares, which become a table of rates, and others, which
 * show how well the table foretells what it does not hold. One of these has little depth, and says what a tile costs
 * beside it.
 */
#include <stdlib.h>

#include "hw/calibrate/calibrate.h"
#include "hw/verify/inputs.h"
#include "kernels/product.h"
#include "models/base/memory.h"

#define ROUNDS 3
#define REPEATS_MAX 12 /* of a product in a round, a multiple of PRODUCT_ORDERS */
#define EXTENT_MAX 1024

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct extents {
    uint32_t rows, columns, depth;
};

/* Ascending in work. */
static const struct extents squares[] = {
    {64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}};
static const struct extents quick_squares[] = {{64, 64, 64}, {256, 256, 256}, {384, 384, 384}};
/* The first of them has a square's rows and columns. */
static const struct extents probes[] = {{256, 256, 16}, {8, 1024, 1024}, {100, 300, 500}, {768, 1024, 256}};

const struct product_order product_orders[PRODUCT_ORDERS] = {{false, true}, {false, false}, {true, false}};

static void add_products(struct measured_products *table, const struct extents *of, size_t count, bool probe)
{
    for (size_t i = 0; i < count; i++)
        table->items[table->n_items++] = (struct measured_product){
            .rows = of[i].rows, .columns = of[i].columns, .depth = of[i].depth, .probe = probe};
}

/* Operands and result of the largest product. */
struct matrices {
    enum dtype dtype;
    void *a, *b, *c;
};

static void *numbers(enum dtype dtype, enum input input)
{
    const size_t count = (size_t)EXTENT_MAX * EXTENT_MAX;
    void *matrix = memory_zeroed(count, dtype_bytes(dtype));
    input_row(3, input, 0, 0, count, dtype, matrix);
    return matrix;
}

static void multiply(const struct matrices *m, const struct measured_product *product, uint32_t order)
{
    const struct product_order *as = &product_orders[order % PRODUCT_ORDERS];
    product_multiply(&(struct product_call){
        .rows = product->rows,
        .columns = product->columns,
        .depth = product->depth,
        .a = {.dtype = m->dtype, .at = m->a, .transposed = as->a_transposed},
        .b = {.dtype = m->dtype, .at = m->b, .transposed = as->b_transposed},
        .c_dtype = m->dtype,
        .c = m->c,
    });
}

/* The first call, which brings the operands into the caches, does not count. */
static void sample(const struct matrices *m, const struct measured_product *product, uint32_t repeats,
                   struct samples *samples)
{
    multiply(m, product, 0);
    for (uint32_t i = 0; i < repeats; i++) {
        struct stopwatch watch = stopwatch_start();
        multiply(m, product, i);
        samples_add(samples, watch);
    }
}

static double flops_of(const struct measured_product *product)
{
    return 2.0 * product->rows * product->columns * product->depth;
}

/* A guess from the slowest rank's time, so that all ranks repeat equally often. */
static uint32_t repeats_in(double seconds, double guess)
{
    double some = seconds / guess;
    uint32_t repeats = some < REPEATS_MAX ? (uint32_t)some : REPEATS_MAX;
    return repeats < PRODUCT_ORDERS ? PRODUCT_ORDERS : repeats - repeats % PRODUCT_ORDERS;
}

static bool collect(struct calibration_part *part, struct measured_products *table, struct samples *samples)
{
    double spreads[PRODUCTS_MAX];
    for (uint32_t i = 0; i < table->n_items; i++) {
        table->items[i].time = samples_result(&samples[i]);
        part->samples += samples[i].count;
        part->disturbed += samples[i].disturbed;
        if (!calibration_agree(part->crew, &table->items[i].time))
            return false;
        spreads[i] = table->items[i].time.spread;
    }
    table->spread = measured_of(spreads, table->n_items).value;
    return true;
}

void measured_products_set_prologue(struct measured_products *table)
{
    const struct measured_product *flat = NULL, *deep = NULL;
    for (uint32_t i = 0; i < table->n_items && !flat; i++)
        if (table->items[i].probe)
            flat = &table->items[i];
    for (uint32_t i = 0; i < table->n_items && flat && !deep; i++)
        if (!table->items[i].probe && table->items[i].rows == flat->rows && table->items[i].columns == flat->columns)
            deep = &table->items[i];
    table->prologue = 0;
    if (!deep || deep->time.value <= flat->time.value)
        return;
    double prologue =
        (flat->time.value * deep->depth - deep->time.value * flat->depth) / (deep->time.value - flat->time.value);
    if (prologue > 0 && prologue < deep->depth)
        table->prologue = prologue;
}

static bool measure_table(struct calibration_part *part, enum dtype dtype, double from, double to)
{
    struct measured_products *table = &part->calibration->products[part->calibration->n_products++];
    size_t tile_rows, tile_columns;
    product_tile(&tile_rows, &tile_columns);
    *table = (struct measured_products){
        .dtype = dtype, .tile_rows = (uint32_t)tile_rows, .tile_columns = (uint32_t)tile_columns};
    if (part->quick)
        add_products(table, quick_squares, COUNT_OF(quick_squares), false);
    else
        add_products(table, squares, COUNT_OF(squares), false);
    add_products(table, probes, COUNT_OF(probes), true);

    struct samples samples[PRODUCTS_MAX] = {{.count = 0}}, first = {.count = 0};
    const struct matrices m = {dtype, numbers(dtype, INPUT_Q), numbers(dtype, INPUT_K), numbers(dtype, INPUT_V)};
    const struct measured_product *reference = &table->items[1];
    bool good = crew_meet(part->crew);
    sample(&m, reference, PRODUCT_ORDERS, &first);
    double seconds_per_flop = samples_result(&first).value / flops_of(reference);
    samples_fini(&first);
    good = good && crew_largest(part->crew, &seconds_per_flop, 1);
    const uint32_t rounds = part->quick ? 1 : ROUNDS;
    const double each = part->seconds * (to - from) / rounds / table->n_items;
    for (uint32_t round = 0; round < rounds && good; round++) {
        for (uint32_t i = 0; i < table->n_items && good; i++) {
            good = crew_meet(part->crew);
            sample(&m, &table->items[i], repeats_in(each, flops_of(&table->items[i]) * seconds_per_flop), &samples[i]);
        }
        part->progress(part, from + (to - from) * (round + 1) / rounds);
    }
    good = good && collect(part, table, samples);
    if (good)
        measured_products_set_prologue(table);
    for (uint32_t i = 0; i < table->n_items; i++)
        samples_fini(&samples[i]);
    free(m.a);
    free(m.b);
    free(m.c);
    return good;
}

bool calibrate_products(struct calibration_part *part)
{
    return measure_table(part, DTYPE_FP32, 0, 0.5) && measure_table(part, DTYPE_BF16, 0.5, 1);
}
