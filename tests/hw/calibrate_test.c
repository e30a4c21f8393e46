/* Calibration: the fits give back what made-up timings were made of, files are read back as they were meant, a quick
 * run leaves files that predictions can be made from. No timing is asserted. */
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
#include <unistd.h>

#include "cli/calibration.h"
#include "hw/calibrate/profile_writer.h"
#include "hw/machine.h"
#include "models/cost/cost.h"
#include "models/input/topology.h"
#include "tests/predict.h"

/* Files of random times that are written and read back; fewer under the sanitizers, which make that slow. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 500
#else
#define ROUNDS 2000
#endif

static void assert_close(double value, double expected, double relative)
{
    if (!(fabs(value / expected - 1) <= relative))
        fail_msg("%.9g, expected %.9g within %g", value, expected, relative);
}

/* ---- messages ---- */

static size_t made_up_points(struct link_point *points, double alpha, double bytes_per_s)
{
    size_t n = 0;
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= 4)
        points[n++] = (struct link_point){.bytes = bytes, .seconds = alpha + bytes / bytes_per_s};
    return n;
}

static void alpha_and_bandwidth_come_back_from_made_up_timings(void **state)
{
    (void)state;
    static const double alphas[] = {2e-7, 5e-6, 1e-4, 2e-3}, rates[] = {1.25e7, 1.25e9, 2e10, 4e11};
    for (size_t a = 0; a < 4; a++) {
        for (size_t r = 0; r < 4; r++) {
            struct link_point points[LINK_POINTS_MAX];
            struct link_fit fit = link_fit(points, made_up_points(points, alphas[a], rates[r]));
            assert_close(fit.alpha_seconds + 1024 / fit.bytes_per_s, points[0].seconds, 1e-9);
            if (1024 / rates[r] < 20 * alphas[a]) /* else alpha is lost beside the smallest message's bytes */
                assert_close(fit.alpha_seconds, alphas[a], 0.01);
            if ((64 << 20) / rates[r] > 0.5 * alphas[a])
                assert_close(fit.bytes_per_s, rates[r], 0.01);
            assert_true(fit.worst_error < 0.01);
        }
    }
}

/* A calibration with nothing in it but one level. */
static struct calibration *with_level(uint32_t size, const struct link_point *points, size_t n)
{
    struct calibration *c = memory_zeroed(1, sizeof *c);
    c->ranks = size;
    c->n_hosts = 1;
    c->n_levels = 1;
    c->levels[0] = (struct measured_level){.name = "host", .size = size, .fit = link_fit(points, n), .spread = 0.04};
    return c;
}

static char *text_of(bool (*write)(const struct calibration *c, FILE *stream), const struct calibration *c)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(write(c, stream));
    fclose(stream);
    return text;
}

static bool write_toy_topology(const struct calibration *c, FILE *stream)
{
    return profile_write_topology(c, "toy", stream);
}

/* Of messages that a machine was taken away from in between. */
static void any_spread_can_be_read_back(void **state)
{
    (void)state;
    struct link_point points[LINK_POINTS_MAX];
    struct calibration *c = with_level(2, points, made_up_points(points, 3e-6, 4e10));
    c->levels[0].spread = 26.9;
    char *text = text_of(write_toy_topology, c);
    struct topology topology;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(topology_read_text(&topology, "t", text, &diag));
    assert_close(topology.levels[0].spread, SPREAD_MAX, 1e-9);
    topology_fini(&topology);
    free(text);
    free(c);
}

/* Whatever the curve's shape: steps, a hump, a size that took less time than a smaller one. */
static void the_model_gives_every_measured_size_its_time(void **state)
{
    (void)state;
    static const double factors[] = {1, 1.1, 3, 2.9, 1, 1.4, 1.05, 0.5, 1.3};
    struct link_point points[LINK_POINTS_MAX];
    size_t n = made_up_points(points, 3e-6, 4e10); /* long numbers: the curve is a single line of limited length */
    for (size_t i = 0; i < n; i++)
        points[i].seconds *= factors[i];
    for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) { /* point to point: the number of ranks makes no difference */
        struct calibration *c = with_level(ranks, points, n);
        char *text = text_of(write_toy_topology, c);
        struct topology topology;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_true(topology_read_text(&topology, "t", text, &diag));
        assert_close(topology.levels[0].spread, 0.04, 1e-9);
        const struct cost cost = {.topology = &topology};
        struct route route;
        route_init(&route);
        assert_true(topology_route(&topology, 0, ranks - 1, &route, &diag));
        for (size_t i = 0; i < n; i++) {
            double bytes = points[i].bytes;
            const struct transfer transfer = {.bytes = (uint64_t)bytes, .call = CALL_COUNT};
            double seconds = cost_transfer(&cost, &route, &transfer).delay_seconds;
            assert_close(seconds + bytes / route.bytes_per_s, c->levels[0].fit.points[i].seconds, 2e-3);
        }
        route_fini(&route);
        topology_fini(&topology);
        free(text);
        free(c);
    }
}

/* A busy machine gives any times. What is written must be read back all the same. */
static void no_rate_exceeds_the_bandwidth_whatever_the_times(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < ROUNDS; round++) {
        struct link_point points[LINK_POINTS_MAX];
        size_t n = made_up_points(points, 2e-6, 5e9);
        for (size_t i = 0; i < n; i++)
            points[i].seconds *= rand() % 3 ? 1 : pow(10, rand() % 5);
        struct calibration *c = with_level(2, points, n);
        char *text = text_of(write_toy_topology, c);
        struct topology topology;
        struct diagnostics diag;
        diagnostics_init(&diag);
        if (!topology_read_text(&topology, "t", text, &diag))
            fail_msg("%s\n%s", diag.lines[0], text);
        topology_fini(&topology);
        free(text);
        free(c);
    }
}

/* ---- kernels ---- */

/* Seconds of a block by a law of the form that the model fits, or one that it cannot. */
static double made_up_seconds(const struct measured_table *table, const struct measured_block *block, double oddness)
{
    double pair = (table->pass == PASS_FORWARD ? 4.0 : 10.0) * table->head_dim / 80e9;
    double rows = table->pass == PASS_FORWARD ? block->queries : (block->queries + block->keys) / 2.0;
    double seconds = 4e-6 + block->heads * (40 * pair * rows + pair * block->pairs);
    return seconds * (block->queries == 256 ? 1 + oddness : 1);
}

/* Products by the model's own law, on one processor whose tiles are 4 x 8, with rates that rise. */
static double made_up_product_seconds(const struct measured_products *table, const struct measured_product *product)
{
    double tiles = ceil(product->rows / 4.0) * ceil(product->columns / 8.0);
    return pow(2.0 * 4 * 8 * tiles * (product->depth + 20.0), 0.9) / (table->dtype == DTYPE_BF16 ? 2e8 : 1e8);
}

static void add_made_up_products(struct calibration *c)
{
    static const uint32_t extents[][3] = {{32, 32, 32},   {128, 128, 128}, {512, 512, 512},
                                          {512, 512, 16}, {3, 500, 700},   {100, 300, 200}};
    for (int dtype = 0; dtype < 2; dtype++) {
        struct measured_products *table = &c->products[c->n_products++];
        *table = (struct measured_products){.dtype = dtype ? DTYPE_BF16 : DTYPE_FP32,
                                            .tile_rows = 4,
                                            .tile_columns = 8,
                                            .prologue = 20,
                                            .spread = 0.01};
        for (uint32_t i = 0; i < 6; i++) {
            struct measured_product *item = &table->items[table->n_items++];
            *item = (struct measured_product){
                .rows = extents[i][0], .columns = extents[i][1], .depth = extents[i][2], .probe = i > 2};
            item->time = (struct measured){made_up_product_seconds(table, item), 0.01};
        }
    }
}

static struct calibration *made_up_calibration(double oddness)
{
    struct calibration *c = memory_zeroed(1, sizeof *c);
    c->ranks = c->n_hosts = c->cores = c->processors = c->tile_rows = 1;
    snprintf(c->host, sizeof c->host, "there");
    snprintf(c->processor, sizeof c->processor, "Some CPU");
    snprintf(c->kernel, sizeof c->kernel, CALIBRATED_KERNEL);
    c->memory_bytes = 4e9;
    c->copy.value = 2e10;
    c->launch.value = 1e-6;
    for (int step = 0; step < STEP_COUNT; step++)
        c->steps[step] = (struct measured){1e10 * (step + 1), 0.1 * step};
    add_made_up_products(c);
    for (int dtype = 0; dtype < 2; dtype++) {
        for (int pass = 0; pass < PASS_COUNT; pass++) {
            struct measured_table *table = &c->tables[c->n_tables++];
            *table = (struct measured_table){.pass = (enum attention_pass)pass,
                                             .dtype = dtype ? DTYPE_BF16 : DTYPE_FP32,
                                             .head_dim = 64,
                                             .spread = 0.01};
            for (uint32_t rows = 64; rows <= 2048; rows *= 2) {
                for (int kind = BLOCK_FULL; kind <= BLOCK_CAUSAL; kind++) {
                    struct measured_block *block = &table->blocks[table->n_blocks++];
                    *block = (struct measured_block){
                        .kind = (enum block_kind)kind, .queries = rows, .keys = rows, .heads = 2, .kv_heads = 2};
                    block->pairs = kind == BLOCK_FULL ? (double)rows * rows : rows * (rows + 1.0) / 2;
                    block->time.value = made_up_seconds(table, block, oddness) * (dtype ? 0.5 : 1);
                }
            }
        }
    }
    return c;
}

/* Reads the profile of `c` back. */
static void read_back(const struct calibration *c, struct device *device)
{
    char *text = text_of(profile_write, c), *path = temporary_file(text);
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = device_read(device, path, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    unlink(path);
    free(path);
    free(text);
}

static void written_tables_foretell_the_times_they_were_made_of(void **state)
{
    (void)state;
    struct calibration *c = made_up_calibration(0);
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_back(c, &device);
    assert_true(profile_foretell(c, &device, &diag));
    for (uint32_t t = 0; t < c->n_tables; t++) {
        for (uint32_t b = 0; b < c->tables[t].n_blocks; b++)
            assert_close(c->tables[t].blocks[b].foretold, c->tables[t].blocks[b].time.value, 1e-3);
        assert_close(c->tables[t].spread, 0.01, 1e-9);
    }
    assert_close(device.step_bytes_per_s[STEP_MERGE], 1e10, 1e-9);
    assert_close(device.step_bytes_per_s[STEP_CAST], 5e10, 1e-9);
    assert_close(device.step_bytes_per_s[STEP_ELEMENTWISE], 6e10, 1e-9);
    assert_close(device.steps_spread, 0.5, 1e-9);
    device_fini(&device);
    free(c);
}

/* Also of those that the table does not hold: they follow the law that it is made of. */
static void written_products_foretell_the_times_they_were_made_of(void **state)
{
    (void)state;
    struct calibration *c = made_up_calibration(0);
    c->copy.value = 1e15; /* memory is no bound */
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_back(c, &device);
    assert_int_equal(device.n_products, 2);
    assert_true(profile_foretell(c, &device, &diag));
    for (uint32_t t = 0; t < 2; t++) {
        assert_int_equal(device.products[t].n_rates, 3);
        for (uint32_t i = 0; i < c->products[t].n_items; i++)
            assert_close(c->products[t].items[i].foretold, c->products[t].items[i].time.value, 1e-3);
        assert_close(c->products[t].spread, 0.01, 1e-9);
    }
    device_fini(&device);
    for (uint32_t i = 3; i < 6; i++) /* but if these take longer, the spread says so */
        c->products[0].items[i].time.value *= 2;
    read_back(c, &device);
    assert_true(profile_foretell(c, &device, &diag));
    assert_close(c->products[0].spread, 0.5, 1e-2);
    assert_close(c->products[1].spread, 0.01, 1e-9);
    device_fini(&device);
    free(c);
}

static void products_of_any_times_are_read_back(void **state)
{
    (void)state;
    struct calibration *c = made_up_calibration(0);
    struct device device;
    srand(11);
    for (int round = 0; round < ROUNDS / 10; round++) {
        for (uint32_t i = 0; i < 3; i++)
            c->products[0].items[i].time.value = pow(10, -6 + rand() % 3) * (1 + rand() % 3 * 1e-4);
        read_back(c, &device);
        assert_true(device.products[0].n_rates >= 1);
        device_fini(&device);
    }
    free(c);
}

static void a_fit_that_errs_widens_the_spread(void **state)
{
    (void)state;
    struct calibration *c = made_up_calibration(0.3);
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_back(c, &device);
    assert_true(profile_foretell(c, &device, &diag));
    assert_true(c->tables[0].fit_error > 0.1);
    assert_true(c->tables[0].spread >= c->tables[0].fit_error);
    device_fini(&device);
    free(c);
}

static void predictions_from_varying_constants_carry_an_interval(void **state)
{
    (void)state;
    struct calibration *c = made_up_calibration(0);
    for (int i = 0; i < 2; i++) { /* with spread, and without any */
        for (uint32_t t = 0; t < c->n_tables; t++)
            c->tables[t].spread = i ? 0 : 0.25;
        for (int step = 0; step < STEP_COUNT; step++)
            c->steps[step].spread = i ? 0 : 0.25;
        char *text = text_of(profile_write, c), *path = temporary_file(text);
        char *topology = memory_format("[cluster]\ndevice = %s\n[level host]\nsize = 1\nkind = switch\n"
                                       "bandwidth = 1 GB/s\nlatency = 0 s\n",
                                       path);
        char *experiment = memory_text("[model]\nq_heads = 2\nkv_heads = 2\nhead_dim = 64\ndtype = fp32\n[workload]\n"
                                       "seq_len = 512\nbatch = 1\nmask = full\npass = train\n[parallel]\ncp = 1\n"
                                       "[schedule]\nalgorithm = ring\n");
        struct prediction prediction;
        assert_int_equal(predict(&prediction, &engine_analytic, topology, experiment), PREDICTION_DONE);
        double seconds = prediction.report.seconds;
        assert_true(seconds > 0);
        double low = prediction.report.seconds_low / seconds, high = prediction.report.seconds_high / seconds;
        if (i) {
            assert_close(low, 1, 1e-9);
            assert_close(high, 1, 1e-9);
        } else { /* forward, backward and steps vary by a quarter, each for itself: between one of them and all alike */
            assert_true(high < 1.25 && high >= 1 + 0.25 / sqrt(3) - 1e-9);
            assert_true(low > 1 / 1.25 && low <= 1 - 0.2 / sqrt(3) + 1e-9);
        }
        prediction_fini(&prediction);
        unlink(path);
        free(path);
        free(text);
    }
    free(c);
}

/* ---- samples ---- */

static void samples_of_a_slow_core_do_not_count(void **state)
{
    (void)state;
    struct samples samples = {0};
    for (int i = 0; i < 9; i++) {
        struct stopwatch watch = stopwatch_start();
        samples_add(&samples, watch);
        bool slow = i % 3 == 0;
        samples.items[i] = (struct sample){.seconds = slow ? 10 + i : 1, .core_speed = slow ? 50 : 100};
    }
    struct measured result = samples_result(&samples);
    assert_true(result.value == 1 && result.spread == 0);
    for (int i = 0; i < 9; i++)
        samples.items[i].core_speed = i == 4 ? 100 : 50; /* one good sample is too few */
    assert_true(samples_result(&samples).value == 1);
    samples_fini(&samples);
}

static void a_spread_is_half_of_what_lies_between_the_outer_tenths(void **state)
{
    (void)state;
    double values[11];
    for (int i = 0; i < 11; i++)
        values[i] = 10 - i + 95;
    struct measured result = measured_of(values, 11);
    assert_close(result.value, 100, 1e-12);
    assert_close(result.spread, 0.04, 1e-12);
    assert_true(measured_of(values, 0).value == 0);
}

/* ---- the whole ---- */

/* A try-out into `directory`; returns the profile's text. */
static char *calibrate_quickly(const char *directory, uint32_t ranks, bool *speaks)
{
    char *path = memory_format("%s/machine.ini", directory), *text = NULL;
    size_t size = 0;
    const struct calibration_settings settings = {
        .compute = &compute_cpu, .transport = "local", .ranks = ranks, .quick = true, .seconds = 0.5};
    struct diagnostics diag;
    diagnostics_init(&diag);
    char *table = NULL;
    FILE *stream = open_memstream(&table, &size);
    bool good = calibration_run(path, &settings, NULL, stream, speaks, &diag);
    fclose(stream);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    assert_true(good);
    assert_non_null(strstr(table, "forward"));
    free(table);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size = 0;
    assert_true(getdelim(&text, &size, '\0', file) > 0);
    fclose(file);
    free(path);
    return text;
}

static void remove_files(const char *directory)
{
    char *profile = memory_format("%s/machine.ini", directory), *topology = calibration_topology_path(profile);
    unlink(profile);
    unlink(topology);
    rmdir(directory);
    free(profile);
    free(topology);
}

/* Steps of `ranks` ranks can be predicted from the files in `directory`. */
static void expect_predictions(const char *directory, uint32_t ranks)
{
    char path[64];
    snprintf(path, sizeof path, "%s/machine-topology.ini", directory);
    const struct {
        const char *dtype;
        uint32_t head_dim;
    } cases[] = {{"fp32", 64}, {"fp32", 128}, {"bf16", 64}, {"bf16", 128}};
    for (size_t i = 0; i < 4; i++) {
        char *experiment =
            memory_format("[model]\nq_heads = 4\nkv_heads = 2\nhead_dim = %u\ndtype = %s\n[workload]\nseq_len = %u"
                          "\nbatch = 1\nmask = causal\npass = train\n[parallel]\ncp = %u\n[schedule]\nalgorithm = "
                          "ring\nsharding = zigzag\n",
                          cases[i].head_dim, cases[i].dtype, 256 * ranks, ranks);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        char *topology = NULL;
        size_t size = 0;
        assert_true(getdelim(&topology, &size, '\0', file) > 0);
        fclose(file);
        struct prediction prediction;
        assert_int_equal(predict(&prediction, &engine_analytic, topology, experiment), PREDICTION_DONE);
        assert_true(prediction.report.seconds > 0);
        assert_true(prediction.report.seconds_low < prediction.report.seconds);
        assert_true(prediction.report.seconds_high > prediction.report.seconds);
        prediction_fini(&prediction);
    }
}

/* Of two ranks; under the sanitizers those below, more than there are cores, are the only ones of several. */
#ifdef __SANITIZE_ADDRESS__
#define QUICK_RANKS 1
#else
#define QUICK_RANKS 2
#endif

static void a_quick_calibration_leaves_files_to_predict_from(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= QUICK_RANKS; ranks++) {
        char directory[] = "/tmp/cpsim-calibrate-XXXXXX";
        assert_non_null(mkdtemp(directory));
        bool speaks = false;
        char *profile = calibrate_quickly(directory, ranks, &speaks);
        assert_true(speaks);
        if (ranks == 1)
            assert_null(strstr(profile, "; NOT A CALIBRATION"));
        assert_non_null(strstr(profile, "\n[product fp32]\n"));
        assert_non_null(strstr(profile, "\n[product bf16]\n"));
        assert_non_null(strstr(profile, "\nelementwise = "));
        expect_predictions(directory, ranks);
        free(profile);
        remove_files(directory);
    }
}

static void more_ranks_than_cores_are_flagged(void **state)
{
    (void)state;
    struct machine machine;
    machine_read(&machine);
    uint32_t cores = machine_cores(&machine, 1);
    if (cores > 16)
        skip();
    char directory[] = "/tmp/cpsim-calibrate-XXXXXX";
    assert_non_null(mkdtemp(directory));
    bool speaks;
    char *crowded = calibrate_quickly(directory, cores + 1, &speaks);
    assert_non_null(strstr(crowded, "; NOT A CALIBRATION"));
    expect_predictions(directory, cores + 1);
    free(crowded);
    remove_files(directory);
}

static void the_topology_lies_beside_the_profile(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"a/b.ini", "a/b-topology.ini"}, {"b", "b-topology.ini"}};
    for (size_t i = 0; i < 2; i++) {
        char *path = calibration_topology_path(cases[i][0]);
        assert_string_equal(path, cases[i][1]);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alpha_and_bandwidth_come_back_from_made_up_timings),
        cmocka_unit_test(any_spread_can_be_read_back),
        cmocka_unit_test(the_model_gives_every_measured_size_its_time),
        cmocka_unit_test(no_rate_exceeds_the_bandwidth_whatever_the_times),
        cmocka_unit_test(written_tables_foretell_the_times_they_were_made_of),
        cmocka_unit_test(written_products_foretell_the_times_they_were_made_of),
        cmocka_unit_test(products_of_any_times_are_read_back),
        cmocka_unit_test(a_fit_that_errs_widens_the_spread),
        cmocka_unit_test(predictions_from_varying_constants_carry_an_interval),
        cmocka_unit_test(samples_of_a_slow_core_do_not_count),
        cmocka_unit_test(a_spread_is_half_of_what_lies_between_the_outer_tenths),
        cmocka_unit_test(a_quick_calibration_leaves_files_to_predict_from),
        cmocka_unit_test(more_ranks_than_cores_are_flagged),
        cmocka_unit_test(the_topology_lies_beside_the_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
