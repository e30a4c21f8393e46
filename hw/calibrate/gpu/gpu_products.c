/* gpu_products.c - on a GPU, times of cuBLAS's matrix products: squares, which become tables, and others, which show
 * how well these foretell what they do not hold (calibrate_products.c has the same on CPUs).
 *
 * Without cuBLAS there is no table, and the profile says why. Times are those beyond the launch, which the model adds.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hw/calibrate/gpu/gpu.h"
#include "hw/cuda/cublas_library.h"

/* ASSUMPTION: of cuBLAS's kernels it chooses those of its largest usual tile. */
#define TILE_ROWS 128
#define TILE_COLUMNS 256

/* What can be queued again and again; the orders take turns. */
struct multiplication {
    const struct cublas_library *cublas;
    struct cublas_product product;
    uint32_t turn;
};

static int queue_product(void *context, void *stream)
{
    struct multiplication *m = context;
    const uint32_t order = m->turn++ % PRODUCT_ORDERS;
    m->product.a_transposed = product_orders[order].a_transposed;
    m->product.b_transposed = product_orders[order].b_transposed;
    return cublas_multiply(m->cublas, &m->product, stream);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Of the grid's products those that half of the free memory has room for; and how many elements the largest operand of
 * each kind has. */
static void choose_products(const struct gpu *gpu, struct measured_products *table, uint64_t elements[3])
{
    const struct gpu_grid *grid = gpu->grid;
    memset(elements, 0, 3 * sizeof *elements);
    for (uint32_t i = 0; i < grid->n_product_sizes + grid->n_product_probes; i++) {
        const bool probe = i >= grid->n_product_sizes;
        const uint32_t size = probe ? 0 : grid->product_sizes[i];
        struct measured_product product = {.rows = size, .columns = size, .depth = size};
        if (probe)
            product = grid->product_probes[i - grid->n_product_sizes];
        product.probe = probe;
        const uint64_t a = (uint64_t)product.rows * product.depth, b = (uint64_t)product.depth * product.columns;
        const uint64_t c = (uint64_t)product.rows * product.columns;
        if ((double)(a + b + c) * (double)dtype_bytes(table->dtype) > gpu->room_bytes / 2)
            continue;
        table->items[table->n_items++] = product;
        elements[0] = larger(elements[0], a);
        elements[1] = larger(elements[1], b);
        elements[2] = larger(elements[2], c);
    }
}

static bool time_products(struct gpu *gpu, const struct cublas_library *cublas, struct measured_products *table,
                          struct multiplication *m)
{
    const double launch = gpu->part->calibration->launch.value;
    double spreads[PRODUCTS_MAX];
    bool good = true;
    for (uint32_t i = 0; i < table->n_items && good; i++) {
        struct measured_product *item = &table->items[i];
        const struct gpu_work work = {queue_product, m};
        m->cublas = cublas;
        m->product.rows = item->rows;
        m->product.columns = item->columns;
        m->product.depth = item->depth;
        good = crew_meet(gpu->part->crew) && gpu_measure(gpu, &work, gpu->grid->repeats, &item->time);
        item->time.value = fmax(item->time.value - launch, 0.25 * item->time.value);
        good = good && calibration_agree(gpu->part->crew, &item->time);
        spreads[i] = item->time.spread;
    }
    if (good)
        table->spread = measured_of(spreads, table->n_items).value;
    return good;
}

static bool measure_table(struct gpu *gpu, const struct cublas_library *cublas, enum dtype dtype)
{
    struct calibration *c = gpu->part->calibration;
    struct measured_products *table = &c->products[c->n_products++];
    *table = (struct measured_products){.dtype = dtype, .tile_rows = TILE_ROWS, .tile_columns = TILE_COLUMNS};
    uint64_t elements[3];
    choose_products(gpu, table, elements);
    struct multiplication m = {.product = {.dtype = dtype}};
    void *a = NULL, *b = NULL;
    bool good = (a = gpu_numbers(gpu, INPUT_Q, dtype, elements[0])) &&
                (b = gpu_numbers(gpu, INPUT_K, dtype, elements[1])) &&
                (m.product.c = gpu_memory(gpu, elements[2] * dtype_bytes(dtype)));
    m.product.a = a;
    m.product.b = b;
    good = good && time_products(gpu, cublas, table, &m);
    if (good)
        measured_products_set_prologue(table);
    gpu_free(gpu, a);
    gpu_free(gpu, b);
    gpu_free(gpu, m.product.c);
    return good;
}

bool gpu_products(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    struct gpu_figures *figures = &part->calibration->gpu;
    struct cublas_library cublas;
    double lacks =
        !cublas_library_open(&cublas, part->settings->cublas, figures->no_products, sizeof figures->no_products);
    const bool mine = lacks > 0;
    bool good = crew_largest(part->crew, &lacks, 1);
    if (good && lacks > 0 && !mine)
        snprintf(figures->no_products, sizeof figures->no_products, "another rank has no cuBLAS");
    for (uint32_t i = 0; i < gpu->grid->n_dtypes && good && !(lacks > 0); i++)
        good = measure_table(gpu, &cublas, gpu->grid->dtypes[i]);
    cublas_library_close(&cublas);
    return good;
}
