/* The time model of matrix products: closed forms, monotone in every dimension, exact at a table's runs, and near
 * published runs that no table holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost/product_cost.h"
#include "models/input/data_path.h"
#include "tests/models/expect_lines.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g is not within %g of %.17g", value, relative, expected);
}

/* 10 processors, tiles of 100 x 200, a prologue of 50, 1 TFLOP/s of quantized work; memory that never binds. */
struct synthetic {
    struct device device;
    struct product_table table;
    struct product_point rates[3];
};

static void synthetic_init(struct synthetic *s)
{
    *s = (struct synthetic){0};
    s->device = (struct device){.path = (char *)"made-up.ini",
                                .name = "made up",
                                .processors = 10,
                                .memory_bytes_per_s = 1e18,
                                .memory_efficiency = 0.5,
                                .products = &s->table,
                                .n_products = 1};
    /* One wave of 10 whole tiles: 1000 x 200 of depth 950, with the prologue 1000. */
    s->rates[0] = (struct product_point){1000, 200, 950, 0.95e12};
    s->table = (struct product_table){.dtypes = 1U << DTYPE_BF16 | 1U << DTYPE_FP8,
                                      .tile_rows = 100,
                                      .tile_columns = 200,
                                      .prologue = 50,
                                      .rate_scale = 1,
                                      .rates = s->rates,
                                      .n_rates = 1};
}

static double seconds(const struct synthetic *s, double rows, double columns, double depth)
{
    const struct product product = {rows, columns, depth, DTYPE_BF16};
    return product_seconds(&s->device, &product);
}

static void quantized_work_is_tiles_waves_and_prologues(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    const double tile = 2.0 * 100 * 200, processors = 10;
    const struct {
        double rows, columns, depth, units;
    } cases[] = {
        {1000, 200, 950, 1000},                /* ten tiles, one wave */
        {901, 101, 950, 1000},                 /* ten tiles, padded */
        {1000, 400, 950, 2000},                /* two waves */
        {100, 200, 950, 95 + 100},             /* one tile, its depth over all ten */
        {100, 200, 40, 4 + 100 > 90 ? 90 : 0}, /* too short to be worth splitting */
        {1100, 200, 950, 1000 + 95 + 100},     /* a wave, and one tile split */
        {900, 200, 950, 855 + 100},            /* nine tiles split over ten */
        {1000, 200, 10, 60},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_near(seconds(&s, cases[i].rows, cases[i].columns, cases[i].depth),
                    tile * processors * cases[i].units / 1e12, 1e-12);
}

static void a_row_beyond_a_tile_costs_a_tile(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    assert_true(seconds(&s, 1000, 200, 950) == seconds(&s, 901, 200, 950));
    assert_true(seconds(&s, 1001, 200, 950) > 1.19 * seconds(&s, 1000, 200, 950));
    assert_true(seconds(&s, 1000, 201, 950) > 1.99 * seconds(&s, 1000, 200, 950));
}

static void a_thin_product_takes_what_its_bytes_take(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    s.device.memory_bytes_per_s = 2e9; /* of which half is achieved */
    assert_near(seconds(&s, 1, 5000, 7000), (7000.0 * 5001 + 5000) * 2 / 1e9, 1e-12);
    const struct product fp8 = {1, 5000, 7000, DTYPE_FP8}; /* puts out bf16 */
    assert_near(product_seconds(&s.device, &fp8), (7000.0 * 5001 + 5000 * 2) / 1e9, 1e-12);
    assert_near(product_bytes(&fp8), 7000.0 * 5001 + 5000 * 2, 1e-12);
}

static void nothing_to_multiply_takes_no_time(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    assert_true(seconds(&s, 0, 10, 10) == 0 && seconds(&s, 10, 0, 10) == 0 && seconds(&s, 10, 10, 0) == 0);
}

static void a_huge_square_runs_at_the_rate_of_the_table(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    s.table.prologue = 0;
    s.rates[0] = (struct product_point){8000, 8000, 8000, 0.7e12};
    s.table.rate_scale = 1.1;
    assert_near(seconds(&s, 8e5, 8e5, 8e5), 2 * 8e5 * 8e5 * 8e5 / 0.77e12, 1e-12);
}

static void the_peak_bounds_every_rate(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    s.table.dtypes = 1U << DTYPE_BF16;
    s.device.peak_flops_per_s = 0.96e12;
    assert_near(seconds(&s, 1000, 200, 95000), 2.0 * 1000 * 200 * 95000 / 0.96e12, 1e-12);
    s.table.peak_flops_per_s = 0.99e12; /* of the table itself */
    assert_near(seconds(&s, 1000, 200, 95000), 2.0 * 1000 * 200 * 95000 / 0.99e12, 1e-12);
    s.table.peak_flops_per_s = 0;
    s.table.dtypes = 1U << DTYPE_BF16 | 1U << DTYPE_FP8; /* of 8-bit types the device's peak says nothing */
    assert_near(seconds(&s, 1000, 200, 95000), 2.0 * 1000 * 200 * 95050 / 1e12, 1e-12);
}

static void three_rates(struct synthetic *s)
{
    synthetic_init(s);
    s->rates[0] = (struct product_point){1000, 1000, 1000, 0.5e12};
    s->rates[1] = (struct product_point){2000, 4000, 3000, 0.9e12};
    s->rates[2] = (struct product_point){8000, 8000, 8000, 0.7e12};
    s->table.n_rates = 3;
}

static void a_run_of_the_table_has_its_time_and_none_beside_it_jumps(void **state)
{
    (void)state;
    struct synthetic s;
    three_rates(&s);
    for (int i = 0; i < 3; i++) {
        const struct product_point *run = &s.rates[i];
        double expected = 2 * run->rows * run->columns * run->depth / run->flops_per_s;
        assert_near(seconds(&s, run->rows, run->columns, run->depth), expected, 1e-12);
        for (double step = 1e-6; step < 1e-2; step *= 10) /* depth has no steps */
            for (int sign = -1; sign <= 1; sign += 2)
                assert_near(seconds(&s, run->rows, run->columns, run->depth * (1 + sign * step)), expected, 2 * step);
    }
}

static void a_run_quantized_to_no_more_than_one_before_is_passed_over(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    s.rates[0] = (struct product_point){901, 101, 950, 0.5e12}; /* ten tiles, both */
    s.rates[1] = (struct product_point){1000, 200, 950, 0.95e12};
    s.table.n_rates = 2;
    assert_near(seconds(&s, 1000, 200, 950), 2.0 * 901 * 101 * 950 / 0.5e12, 1e-12);
    assert_near(seconds(&s, 1000, 2000, 950), 10 * 2.0 * 901 * 101 * 950 / 0.5e12, 1e-12);
}

/* --- what is shipped ------------------------------------------------------------------------------------------------
 */

static void time_never_falls_when_a_dimension_grows(void **state)
{
    (void)state;
    static const char *const names[] = {"h100-sxm", "h200-sxm", "h800-sxm", "a100-sxm-80gb",
                                        "b200",     "gb200",    "l20",      "toy"};
    static const double extents[] = {1,     8,     64,    127,   128,   129,   256,    257,    512,
                                     640,   1024,  1111,  2048,  3072,  4096,  5120,   7168,   8192,
                                     10000, 10240, 12288, 16384, 28672, 53248, 131072, 1048576};
    const int n = COUNT(extents);
    for (size_t d = 0; d < COUNT(names); d++) {
        struct device device;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_true(device_read(&device, names[d], &diag));
        for (size_t t = 0; t < device.n_products; t++) {
            enum dtype dtype = device.products[t].dtypes >> DTYPE_FP8 & 1U ? DTYPE_FP8 : DTYPE_BF16;
            for (int i = 0; i < n * n * n; i++) {
                const int at[3] = {i % n, i / n % n, i / n / n};
                double here =
                    product_seconds(&device, &(struct product){extents[at[0]], extents[at[1]], extents[at[2]], dtype});
                for (int k = 0; k < 3; k++) {
                    int next[3] = {at[0], at[1], at[2]};
                    if (++next[k] == n)
                        continue;
                    double there = product_seconds(
                        &device, &(struct product){extents[next[0]], extents[next[1]], extents[next[2]], dtype});
                    if (there < here * (1 - 1e-12))
                        fail_msg("%s %s: dimension %d from %.0f %.0f %.0f falls from %g to %g s", names[d],
                                 dtype_name(dtype), k, extents[at[0]], extents[at[1]], extents[at[2]], here, there);
                }
            }
        }
        device_fini(&device);
    }
}

static void shipped_tables_give_back_their_runs(void **state)
{
    (void)state;
    static const char *const names[] = {"h100-sxm", "h200-sxm", "h800-sxm", "a100-sxm-80gb", "b200", "gb200", "l20"};
    for (size_t d = 0; d < COUNT(names); d++) {
        struct device device;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_true(device_read(&device, names[d], &diag));
        assert_true(product_table_of(&device, DTYPE_BF16) && product_table_of(&device, DTYPE_FP16));
        assert_true((product_table_of(&device, DTYPE_FP8) != NULL) == (strncmp(names[d], "a100", 4) != 0));
        for (size_t t = 0; t < device.n_products; t++) {
            const struct product_table *table = &device.products[t];
            for (size_t i = 0; i < table->n_rates; i++) {
                const struct product_point *run = &table->rates[i];
                const struct product product = {run->rows, run->columns, run->depth,
                                                table->dtypes >> DTYPE_FP8 & 1U ? DTYPE_FP8 : DTYPE_BF16};
                assert_near(product_flops(&product) / product_seconds(&device, &product),
                            run->flops_per_s * table->rate_scale, 1e-9);
            }
        }
        device_fini(&device);
    }
}

/* Of the README of DeepGEMM (February 2025, H800), shapes that the table does not hold: thin ones that memory binds, a
 * short depth, tiles that fill no whole number of waves. */
static void published_runs_beside_the_table_are_near(void **state)
{
    (void)state;
    static const struct {
        double rows, columns, depth, tflops, off;
    } runs[] = {
        {64, 24576, 1536, 289, 0.3},   {64, 7168, 16384, 336, 0.3},  {128, 24576, 1536, 535, 0.3},
        {128, 7168, 16384, 645, 0.3},  {128, 4096, 7168, 533, 0.5},  {4096, 2112, 7168, 1058, 0.15},
        {4096, 24576, 1536, 990, 0.1}, {4096, 32768, 512, 590, 0.1},
    };
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(device_read(&device, "h800-sxm", &diag));
    for (size_t i = 0; i < COUNT(runs); i++) {
        const struct product product = {runs[i].rows, runs[i].columns, runs[i].depth, DTYPE_FP8};
        double rate = product_flops(&product) / product_seconds(&device, &product);
        if (getenv("CPSIM_SHOW"))
            printf("%.0f %.0f %.0f: %.0f for %.0f\n", runs[i].rows, runs[i].columns, runs[i].depth, rate / 1e12,
                   runs[i].tflops);
        assert_near(rate, runs[i].tflops * 1e12, runs[i].off);
    }
    device_fini(&device);
}

static void on_the_toy_products_are_as_simple_as_they_look(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(device_read(&device, "toy", &diag));
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        const struct product square = {1000, 3000, 7000, (enum dtype)dtype};
        assert_near(product_seconds(&device, &square), product_flops(&square) / 100e12, 1e-12);
        const struct product thin = {1, 1000, 1000, (enum dtype)dtype};
        assert_near(product_seconds(&device, &thin), product_bytes(&thin) / 1e12, 1e-12);
    }
    device_fini(&device);
}

static void what_a_profile_lacks_is_said_at_the_place_that_asks(void **state)
{
    (void)state;
    struct synthetic s;
    synthetic_init(&s);
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(product_check(&s.device, DTYPE_BF16, "e.ini", 3, &diag));
    assert_false(product_check(&s.device, DTYPE_FP32, "e.ini", 3, &diag));
    s.device.n_products = 0;
    assert_false(product_check(&s.device, DTYPE_BF16, NULL, 3, &diag));
    EXPECT_LINES(&diag,
                 "e.ini:3: device 'made up' has no rates of matrix products in dtype 'fp32', expected a section "
                 "[product fp32] in its profile, which has them in bf16, fp8",
                 "made-up.ini: device 'made up' has no rates of matrix products in dtype 'bf16', expected a section "
                 "[product bf16] in its profile");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_work_is_tiles_waves_and_prologues),
        cmocka_unit_test(a_row_beyond_a_tile_costs_a_tile),
        cmocka_unit_test(a_thin_product_takes_what_its_bytes_take),
        cmocka_unit_test(nothing_to_multiply_takes_no_time),
        cmocka_unit_test(a_huge_square_runs_at_the_rate_of_the_table),
        cmocka_unit_test(the_peak_bounds_every_rate),
        cmocka_unit_test(a_run_of_the_table_has_its_time_and_none_beside_it_jumps),
        cmocka_unit_test(a_run_quantized_to_no_more_than_one_before_is_passed_over),
        cmocka_unit_test(time_never_falls_when_a_dimension_grows),
        cmocka_unit_test(shipped_tables_give_back_their_runs),
        cmocka_unit_test(published_runs_beside_the_table_are_near),
        cmocka_unit_test(on_the_toy_products_are_as_simple_as_they_look),
        cmocka_unit_test(what_a_profile_lacks_is_said_at_the_place_that_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
