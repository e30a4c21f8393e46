/* Calibration on emulated GPUs: what is written is read back and can be predicted from, all of it is there, SMs are
 * held and let go, kernel times from elsewhere join it. The emulation's clock tells nothing of a real GPU's times. */
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
#include "hw/calibrate/gpu/gpu_grid.h"
#include "hw/calibrate/profile_writer.h"
#include "kernels/cuda/occupy.h"
#include "kernels/cuda/runtime.h"
#include "models/input/topology.h"
#include "tests/gpu/emulation.h"
#include "tests/predict.h"

/* An emulated GPU is a millionth as fast as a real one. */
static const struct gpu_grid tiny_grid = {
    .sizes = {16, 48},
    .n_sizes = 2,
    .probes = {{24, 4, 2}},
    .n_probes = 1,
    .heads = 2,
    .kv_heads = 1,
    .head_dims = {64},
    .n_head_dims = 1,
    .dtypes = {DTYPE_BF16, DTYPE_FP16},
    .n_dtypes = 2,
    .rounds = 1,
    .repeats = 2,
    .batch_max = 1,
    .held = {0, 2, 1000},
    .n_held = 3,
    .held_rows = {16},
    .n_held_rows = 1,
    .beside_rows = 16,
    .beside_bytes = 4096,
    .step_lanes = {32, 64},
    .n_step_lanes = 2,
    .product_sizes = {8, 24},
    .n_product_sizes = 2,
    .product_probes = {{.rows = 24, .columns = 24, .depth = 4}, {.rows = 3, .columns = 40, .depth = 16}},
    .n_product_probes = 2,
    .copy_bytes = 65536,
    .tiny_kernels = 5,
    .message_bytes = {1024, 8192, 65536},
    .n_message_bytes = 3,
};

static char *text_at(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("there is no '%s'", path);
    assert_true(getdelim(&text, &size, '\0', file) > 0);
    fclose(file);
    return text;
}

struct written {
    char directory[32], *profile_path, *topology_path, *profile, *table;
};

/* What it is calibrated with where the grid is not what is tested: under the sanitizers one of the types. */
static struct gpu_grid grid_of_few(void)
{
    struct gpu_grid grid = tiny_grid;
#ifdef __SANITIZE_ADDRESS__
    grid.n_dtypes = 1;
#endif
    return grid;
}

/* Calibrates emulated GPUs; the caller calls remove_written. */
static struct written calibrate_on(const struct gpu_grid *grid, const struct kernel_times *times, uint32_t ranks,
                                   const char *library)
{
    struct written w = {.directory = "/tmp/cpsim-calibrate-XXXXXX"};
    assert_non_null(mkdtemp(w.directory));
    w.profile_path = memory_format("%s/gpu.ini", w.directory);
    w.topology_path = calibration_topology_path(w.profile_path);
    const struct calibration_settings settings = {.compute = &compute_cuda,
                                                  .kernels = {.device = -1},
                                                  .carrying = {.library = library},
                                                  .grid = grid,
                                                  .cublas = FAKE_CUBLAS,
                                                  .ranks = ranks,
                                                  .seconds = 0.1};
    struct diagnostics diag;
    diagnostics_init(&diag);
    size_t size = 0;
    bool speaks = false;
    FILE *stream = open_memstream(&w.table, &size);
    const bool good = calibration_run(w.profile_path, &settings, times, stream, &speaks, &diag);
    fclose(stream);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    assert_true(good && speaks);
    w.profile = text_at(w.profile_path);
    return w;
}

static struct written calibrate_tiny(const struct kernel_times *times, uint32_t ranks, const char *library)
{
    return calibrate_on(&tiny_grid, times, ranks, library);
}

static struct written calibrate_few(const struct kernel_times *times, uint32_t ranks, const char *library)
{
    const struct gpu_grid grid = grid_of_few();
    return calibrate_on(&grid, times, ranks, library);
}

static void remove_written(struct written *w)
{
    unlink(w->profile_path);
    unlink(w->topology_path);
    rmdir(w->directory);
    free(w->profile_path);
    free(w->topology_path);
    free(w->profile);
    free(w->table);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in:\n%s", part, text);
}

static void assert_positive(double value)
{
    if (!(isfinite(value) && value > 0))
        fail_msg("%g, expected a number above 0", value);
}

/* The training step of a tiny model on the written topology. */
static void assert_predicts(const struct written *w, uint32_t cp, const char *dtype)
{
    char *experiment =
        memory_format("[model]\nq_heads = 4\nkv_heads = 2\nhead_dim = 64\ndtype = %s\n[workload]\nseq_len "
                      "= 768\nbatch = 1\nmask = causal\npass = train\n[parallel]\ncp = %u\n[schedule]\n"
                      "algorithm = ring\nsharding = zigzag\n",
                      dtype, cp);
    struct prediction prediction;
    assert_int_equal(predict(&prediction, &engine_analytic, text_at(w->topology_path), experiment), PREDICTION_DONE);
    assert_positive(prediction.report.seconds);
    prediction_fini(&prediction);
}

static void a_calibration_leaves_files_to_predict_from(void **state)
{
    (void)state;
    struct written w = calibrate_tiny(NULL, 4, NULL);
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct device device;
    assert_true(device_read(&device, w.profile_path, &diag));
    struct cuda_device gpu;
    assert_int_equal(cuda_describe(0, &gpu), 0);
    assert_string_equal(device.default_kernel, "cpsim-mma");
    assert_int_equal(device.processors, gpu.processors);
    assert_int_equal(device.tile_rows, 128);
    assert_true(fabs(device.memory_bytes - (double)gpu.memory_bytes) < 1e6);
    assert_positive(device.memory_bytes_per_s);
    assert_positive(device.launch_seconds);
    for (int step = 0; step < STEP_COUNT; step++)
        assert_positive(device.step_bytes_per_s[step]);
    assert_int_equal(device.n_tables, 2 * PASS_COUNT);
    for (size_t i = 0; i < device.n_tables; i++) {
        assert_int_equal(device.tables[i].n_full, 2);
        assert_int_equal(device.tables[i].n_causal, 2);
        assert_true(device.tables[i].heads == 2);
        for (size_t k = 0; k < 2; k++) {
            assert_positive(device.tables[i].full[k].flops_per_s);
            assert_positive(device.tables[i].causal[k].flops_per_s);
        }
    }
    assert_int_equal(device.n_products, 2);
    for (size_t i = 0; i < device.n_products; i++) {
        assert_true(device.products[i].n_rates >= 1);
        for (size_t k = 0; k < device.products[i].n_rates; k++)
            assert_positive(device.products[i].rates[k].flops_per_s);
    }
    assert_has(w.table, "24x24x4 *");
    device_fini(&device);
    struct topology topology;
    assert_true(topology_read(&topology, w.topology_path, NULL, 0, &diag));
    assert_int_equal(topology.n_gpus, 4);
    assert_int_equal(topology.ranks_per_device, 4);
    assert_int_equal(topology.levels[0].n_curve, 3);
    topology_fini(&topology);
    assert_predicts(&w, 4, "bf16");
    assert_predicts(&w, 4, "fp16");
    remove_written(&w);
}

static void a_profile_says_what_else_was_measured(void **state)
{
    (void)state;
    struct written w = calibrate_tiny(NULL, 0, NULL);
    static const char *const said[] = {"emulated GPU",
                                       "driver for CUDA 13.0",
                                       "in a graph",
                                       "; SMs held            0      2\n",
                                       "; forward     16  1.000",
                                       "; backward    16  1.000",
                                       "transfer_slowdown = ",
                                       "2 query heads",
                                       "One rank measured",
                                       ", driver for CUDA"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_has(w.profile, said[i]);
    assert_has(w.table, "2 SMs");
    assert_has(w.table, "event wait");
    assert_has(w.table, "grouped");
    assert_null(strstr(w.profile, "nan"));
    assert_null(strstr(w.profile, "inf"));
    remove_written(&w);
}

static void without_cublas_a_profile_has_no_products_and_says_so(void **state)
{
    (void)state;
    setenv("CPSIM_FAKE_CUBLAS_FAILS", "1", 1);
    struct written w = calibrate_few(NULL, 4, NULL);
    unsetenv("CPSIM_FAKE_CUBLAS_FAILS");
    assert_has(w.profile, "; Matrix products were not measured: cuBLAS cannot use the GPU (status 1)\n");
    assert_null(strstr(w.profile, "[product"));
    assert_null(strstr(w.table, "matrix products"));
    assert_predicts(&w, 4, "bf16");
    remove_written(&w);
}

/* ---- several GPUs ---- */

static void machine_of(const char *gpus)
{
    setenv("CPSIM_EMULATED_GPUS", gpus, 1);
    emulation_reset();
}

/* Rows of the table of collectives that begin with `what`; every figure in them must be positive. */
static uint32_t collectives_of(const char *text, const char *what)
{
    uint32_t rows = 0;
    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        double bytes, seconds, spread, rate, bus;
        if (strncmp(line + 1, what, strlen(what)) != 0)
            continue;
        assert_int_equal(
            sscanf(line + 1 + strlen(what), ",%lf,%lf,%lf,%lf,%lf", &bytes, &seconds, &spread, &rate, &bus), 5);
        assert_positive(bytes);
        assert_positive(seconds);
        assert_true(fabs(rate / (bytes / seconds) - 1) < 1e-3);
        assert_true(bus > 0 && bus < rate);
        rows++;
    }
    return rows;
}

static void several_gpus_measure_links_and_collectives(void **state)
{
    (void)state;
    machine_of("3");
    struct written w = calibrate_few(NULL, 0, FAKE_NCCL);
    char *path = calibration_collectives_path(w.profile_path), *collectives = text_at(path);
    assert_has(w.profile, "3 ranks on 1 host, transport nccl-threads");
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct topology topology;
    assert_true(topology_read(&topology, w.topology_path, NULL, 0, &diag));
    assert_int_equal(topology.n_gpus, 3);
    assert_int_equal(topology.ranks_per_device, 1);
    assert_int_equal(topology.levels[0].n_curve, 3);
    topology_fini(&topology);
    static const char *const calls[] = {"all-gather", "reduce-scatter", "all-to-all"};
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t ranks = 2; ranks <= 3; ranks++) {
            char *what = memory_format("%s,%u", calls[i], ranks);
            assert_int_equal(collectives_of(collectives, what), 3);
            free(what);
        }
    }
    assert_predicts(&w, 3, "bf16");
    unlink(path);
    free(path);
    free(collectives);
    remove_written(&w);
    machine_of("1");
}

/* ---- SMs that are held ---- */

static void held_processors_are_there_and_let_go(void **state)
{
    (void)state;
    static const struct cuda_hold nobody;
    struct cuda_hold *hold, seen;
    void *stream;
    assert_int_equal(cuda_allocate((void **)&hold, sizeof *hold), 0);
    assert_int_equal(cuda_stream_create(&stream, false), 0);
    for (uint32_t n = 1; n <= 4; n++) {
        assert_int_equal(cuda_write(hold, &nobody, sizeof nobody), 0);
        assert_int_equal(cuda_occupy(n, hold, stream), 0);
        assert_int_equal(cuda_stream_wait(stream), 0);
        assert_int_equal(cuda_read(&seen, hold, sizeof seen), 0);
        for (uint32_t i = 0; i < 256; i++)
            assert_int_equal(seen.arrived[i], i < n);
        assert_int_equal(seen.expired, 0);
    }
    assert_int_equal(cuda_occupy(257, hold, stream), 1);
    assert_int_equal(cuda_stream_destroy(stream), 0);
    assert_int_equal(cuda_release(hold), 0);
}

/* ---- kernel times from elsewhere ---- */

#define TABLE(KERNEL, PASS)                                                                                            \
    "[attention " KERNEL " " PASS " 64]\ndtype = bf16, fp16\nheads = 16\nbatch = 1\nfull = 1024: 300 TFLOP/s, 4096: "  \
    "400 TFLOP/s\nsource = measured there"

static void kernel_times_join_the_profile_and_lead_it(void **state)
{
    (void)state;
    char *path = temporary_file("; of another library\n" TABLE("fast", "forward") "\n" TABLE("fast", "backward"));
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct kernel_times times;
    assert_true(kernel_times_read(&times, path, &diag));
    assert_string_equal(times.kernel, "fast");
    struct written w = calibrate_few(&times, 2, NULL);
    struct device device;
    assert_true(device_read(&device, w.profile_path, &diag));
    assert_string_equal(device.default_kernel, "fast");
    assert_int_equal(device.n_tables, grid_of_few().n_dtypes * PASS_COUNT + 2);
    assert_has(w.profile, "[attention cpsim-mma forward 64 bf16]");
    assert_has(w.profile, "; of another library");
    assert_has(w.profile, path);
    device_fini(&device);
    assert_predicts(&w, 2, "bf16");
    remove_written(&w);
    kernel_times_fini(&times);
    unlink(path);
    free(path);
}

static void assert_refused(const char *text, const char *message)
{
    char *path = temporary_file(text), *expected = memory_format("%s:%s", path, message);
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct kernel_times times;
    assert_false(kernel_times_read(&times, path, &diag));
    assert_true(diag.count >= 1);
    assert_has(diag.lines[0], expected);
    diagnostics_fini(&diag);
    unlink(path);
    free(path);
    free(expected);
}

static void bad_kernel_times_are_refused_where_they_are_bad(void **state)
{
    (void)state;
    assert_refused("\n" TABLE("cpsim-mma", "forward") "\n",
                   "2: kernel 'cpsim-mma' is what a calibration calls its own");
    assert_refused(TABLE("cpsim", "forward") "\n", "1: kernel 'cpsim' is what");
    assert_refused(TABLE("fast", "sideways") "\n", "1: section '[attention fast sideways 64]', expected");
    assert_refused("[attention fast forward 64]\ndtype = bf16\nheads = 2\nbatch = 1\nfull = 1024: 300\nsource = x\n",
                   "5: ");
    assert_refused("[attention fast forward 64]\ndtype = bf16\nheads = 2\nbatch = 1\nfull = 1024: 3 TFLOP/s\n", "1: ");
    assert_refused(TABLE("fast", "forward") "\n[device]\nname = x\n", "7: ");
    assert_refused(TABLE("fast", "forward") "\n" TABLE("fast", "forward") "\n", "7: ");
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct kernel_times times;
    assert_false(kernel_times_read(&times, "/nowhere/times.ini", &diag));
    assert_int_equal(diag.count, 1);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calibration_leaves_files_to_predict_from),
        cmocka_unit_test(a_profile_says_what_else_was_measured),
        cmocka_unit_test(without_cublas_a_profile_has_no_products_and_says_so),
        cmocka_unit_test(several_gpus_measure_links_and_collectives),
        cmocka_unit_test(held_processors_are_there_and_let_go),
        cmocka_unit_test(kernel_times_join_the_profile_and_lead_it),
        cmocka_unit_test(bad_kernel_times_are_refused_where_they_are_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
