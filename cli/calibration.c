/* calibration.c - writes the calibration's files, reads them back as anybody would, and tabulates it. */
#include "cli/calibration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/result_file.h"
#include "hw/calibrate/profile_gpu.h"
#include "hw/calibrate/profile_writer.h"
#include "models/base/memory.h"
#include "models/input/topology.h"
#include "models/input/units.h"

static char *path_beside(const char *path, const char *ending)
{
    size_t length = strlen(path);
    bool ini = length > 4 && strcmp(path + length - 4, ".ini") == 0;
    return memory_format("%.*s%s", (int)(ini ? length - 4 : length), path, ending);
}

char *calibration_topology_path(const char *path)
{
    return path_beside(path, "-topology.ini");
}

char *calibration_collectives_path(const char *path)
{
    return path_beside(path, "-collectives.csv");
}

bool calibration_check_path(const char *path, struct diagnostics *diag)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? memory_format("%.*s", (int)(slash - path + 1), path) : memory_text(".");
    bool good = access(path, F_OK) == 0 ? access(path, W_OK) == 0 : access(folder, W_OK | X_OK) == 0;
    if (!good)
        diagnostics_add(diag, "cannot write '%s': %s", path, strerror(errno));
    free(folder);
    return good;
}

/* ---- files ---- */

static bool write_file(const char *path, const struct calibration *calibration, const char *device,
                       struct diagnostics *diag)
{
    struct result_file file;
    FILE *stream = result_file_open(&file, path, diag);
    if (!stream)
        return false;
    bool good = device ? profile_write_topology(calibration, device, stream) : profile_write(calibration, stream);
    return result_file_close(&file, good, diag);
}

/* Writes the profile, has its own tables foretell what was measured, and writes it again with the errors that its fits
 * leave. */
static bool write_profile(const char *path, struct calibration *calibration, struct diagnostics *diag)
{
    struct device device;
    if (!write_file(path, calibration, NULL, diag) || !device_read(&device, path, diag))
        return false;
    bool good = profile_foretell(calibration, &device, diag) && write_file(path, calibration, NULL, diag);
    device_fini(&device);
    if (!good || !device_read(&device, path, diag))
        return false;
    device_fini(&device);
    return true;
}

static bool write_topology(const char *path, const char *device, const struct calibration *calibration,
                           struct diagnostics *diag)
{
    struct topology topology;
    if (!write_file(path, calibration, device, diag) || !topology_read(&topology, path, NULL, 0, diag))
        return false;
    topology_fini(&topology);
    return true;
}

static bool write_collectives(const char *path, const struct calibration *calibration, struct diagnostics *diag)
{
    struct result_file file;
    FILE *stream = result_file_open(&file, path, diag);
    return stream && result_file_close(&file, profile_gpu_write_collectives(calibration, stream), diag);
}

/* ---- what was measured ---- */

static void print_errors(const struct calibration *c, bool probes, FILE *stream)
{
    fprintf(stream, "\n%-8s  %-5s  %4s  %-8s  %-11s  %5s  %11s  %8s  %9s\n", "pass", "dtype", "dim", "block",
            "rows x keys", "heads", "time", "spread", "foretold");
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct measured_table *table = &c->tables[i];
        for (uint32_t b = 0; b < table->n_blocks; b++) {
            const struct measured_block *block = &table->blocks[b];
            char shape[32], heads[32], time[32];
            if ((block->kind != BLOCK_FULL && block->kind != BLOCK_CAUSAL) != probes)
                continue;
            snprintf(shape, sizeof shape, "%" PRIu32 "x%" PRIu32, block->queries, block->keys);
            snprintf(heads, sizeof heads, "%" PRIu32 "/%" PRIu32, block->heads, block->kv_heads);
            units_print(time, sizeof time, DIMENSION_SECONDS, block->time.value);
            fprintf(stream, "%-8s  %-5s  %4" PRIu32 "  %-8s  %-11s  %5s  %11s  %6.1f %%  %+7.1f %%\n",
                    table->pass == PASS_FORWARD ? "forward" : "backward", dtype_name(table->dtype), table->head_dim,
                    block_kind_name(block->kind), shape, heads, time, 100 * block->time.spread,
                    100 * (block->foretold / block->time.value - 1));
        }
    }
}

static void print_products(const struct calibration *c, FILE *stream)
{
    fprintf(stream,
            "\nmatrix products, and what the table of them makes of each (*: the table does not hold it)\n\n"
            "%-5s  %-16s  %11s  %11s  %8s  %9s\n",
            "dtype", "product", "time", "rate", "spread", "foretold");
    for (uint32_t i = 0; i < c->n_products; i++) {
        for (uint32_t k = 0; k < c->products[i].n_items; k++) {
            const struct measured_product *item = &c->products[i].items[k];
            char shape[48], time[32], rate[32];
            snprintf(shape, sizeof shape, "%" PRIu32 "x%" PRIu32 "x%" PRIu32 "%s", item->rows, item->columns,
                     item->depth, item->probe ? " *" : "");
            units_print(time, sizeof time, DIMENSION_SECONDS, item->time.value);
            units_print(rate, sizeof rate, DIMENSION_FLOPS,
                        2.0 * item->rows * item->columns * item->depth / item->time.value);
            fprintf(stream, "%-5s  %-16s  %11s  %11s  %6.1f %%  %+7.1f %%\n", dtype_name(c->products[i].dtype), shape,
                    time, rate, 100 * item->time.spread, 100 * (item->foretold / item->time.value - 1));
        }
    }
}

static void print_rate(const char *what, struct measured rate, FILE *stream)
{
    char text[32];
    units_print(text, sizeof text, DIMENSION_RATE, rate.value);
    fprintf(stream, "%-12s %12s  +- %.1f %%\n", what, text, 100 * rate.spread);
}

static void print_level(const struct measured_level *level, FILE *stream)
{
    char alpha[32], rate[32];
    units_print(alpha, sizeof alpha, DIMENSION_SECONDS, level->fit.alpha_seconds);
    units_print(rate, sizeof rate, DIMENSION_RATE, level->fit.bytes_per_s);
    fprintf(stream, "\nmessages of level '%s': alpha %s, up to %s, times vary by %.1f %%\n", level->name, alpha, rate,
            100 * level->spread);
    for (size_t i = 0; i < level->fit.n_points; i++) {
        const struct link_point *point = &level->fit.points[i];
        char size[32], time[32], reached[32];
        units_print(size, sizeof size, DIMENSION_BYTES, point->bytes);
        units_print(time, sizeof time, DIMENSION_SECONDS, point->seconds);
        units_print(reached, sizeof reached, DIMENSION_RATE, point->bytes / point->seconds);
        fprintf(stream, "%12s %12s %12s  +- %.1f %%\n", size, time, reached, 100 * point->spread);
    }
}

static void print_gpu(const struct calibration *c, FILE *stream)
{
    const struct gpu_figures *gpu = &c->gpu;
    const struct {
        const char *what;
        struct measured time;
    } launches[] = {{"host ahead", gpu->gap},
                    {"in a graph", gpu->graph},
                    {"event wait", gpu->event_wait},
                    {"executor", gpu->executor}};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        fprintf(stream, "%-12s %9.2f us  +- %.1f %%\n", launches[i].what, 1e6 * launches[i].time.value,
                100 * launches[i].time.spread);
    if (gpu->n_held_blocks)
        fprintf(stream, "\nattention while something else holds SMs, over its time alone\n%-8s  %5s", "pass", "rows");
    for (uint32_t i = 0; i < gpu->n_held && gpu->n_held_blocks; i++)
        fprintf(stream, "  %4" PRIu32 " SMs", gpu->held[i]);
    for (uint32_t b = 0; b < gpu->n_held_blocks; b++) {
        const struct held_block *block = &gpu->held_blocks[b];
        fprintf(stream, "\n%-8s  %5" PRIu32, block->pass == PASS_FORWARD ? "forward" : "backward", block->rows);
        for (uint32_t i = 0; i < gpu->n_held; i++)
            fprintf(stream, "  %8.3f", block->times[i].value / block->times[0].value);
    }
    if (gpu->state.sm_mhz.count)
        fprintf(stream, "\n\nSMs at %.0f MHz while attention was measured", gpu->state.sm_mhz.median);
    fprintf(stream, "%sbeside attention a message takes %.2f times as long +- %.1f %%\n",
            gpu->n_held_blocks || gpu->state.sm_mhz.count ? "\n\n" : "\n", gpu->copy_slowdown.value,
            100 * gpu->copy_slowdown.spread);
}

static void print(const struct calibration *c, FILE *stream)
{
    static const char *const steps[STEP_COUNT] = {"merge", "finish", "delta", "accumulate", "cast", "elementwise"};
    fprintf(stream, "%s: %" PRIu32 " rank%s on %" PRIu32 " host%s, transport %s, kernels %s, %.0f s\n", c->processor,
            c->ranks, c->ranks == 1 ? "" : "s", c->n_hosts, c->n_hosts == 1 ? "" : "s", c->transport, c->isa,
            c->seconds);
    if (c->oversubscribed)
        fprintf(stream, "not a calibration: there are more ranks than cores\n");
    if (!c->on_gpu)
        fprintf(stream, "in %.0f %% of the timings a rank did not have its core all the time\n", 100 * c->disturbed);
    fprintf(stream, "\nlaunch       %9.2f us  +- %.1f %%\n", 1e6 * c->launch.value, 100 * c->launch.spread);
    print_rate("copy", c->copy, stream);
    for (int step = 0; step < STEP_COUNT; step++)
        print_rate(steps[step], c->steps[step], stream);
    for (uint32_t i = 0; i < c->n_levels; i++)
        print_level(&c->levels[i], stream);
    if (c->on_gpu)
        print_gpu(c, stream);
    if (c->ranks > 1)
        fprintf(stream, "\nwhile messages move a rank computes more slowly by %.2f +- %.2f of that time\n",
                c->slowdown.value, c->slowdown.spread);
    if (c->n_products)
        print_products(c, stream);
    fprintf(stream, "\nblocks that the tables hold, and what their fits make of them");
    print_errors(c, false, stream);
    fprintf(stream, "\nblocks that they do not hold");
    print_errors(c, true, stream);
}

static bool write_files(const char *path, struct calibration *calibration, FILE *stream, struct diagnostics *diag)
{
    char *topology = calibration_topology_path(path), *collectives = calibration_collectives_path(path);
    const bool some = calibration->gpu.n_collectives > 0;
    bool good = write_profile(path, calibration, diag) && write_topology(topology, path, calibration, diag) &&
                (!some || write_collectives(collectives, calibration, diag));
    if (good && stream) {
        print(calibration, stream);
        fprintf(stream, "\nwritten: %s, %s%s%s\n", path, topology, some ? ", " : "", some ? collectives : "");
    }
    free(topology);
    free(collectives);
    return good;
}

bool calibration_run(const char *path, const struct calibration_settings *settings, const struct kernel_times *times,
                     FILE *stream, bool *speaks, struct diagnostics *diag)
{
    struct calibration *calibration = memory_zeroed(1, sizeof *calibration);
    bool good = calibrate(calibration, settings, speaks, diag);
    calibration->times = times;
    good = good && (!*speaks || write_files(path, calibration, stream, diag));
    free(calibration);
    return good;
}
