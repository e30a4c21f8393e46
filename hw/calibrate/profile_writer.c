/* profile_writer.c - writes INI with the units and names that models/input reads back. */
#include "hw/calibrate/profile_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "hw/calibrate/profile_gpu.h"
#include "hw/calibrate/profile_products.h"
#include "models/cost/kernel_fit.h"

static double flops_per_pair(const struct measured_table *table)
{
    return (table->pass == PASS_FORWARD ? 4.0 : 10.0) * table->head_dim;
}

/* By the convention of rates: S^2 pairs, or S^2 / 2 causal. */
static double rate_of(const struct measured_table *table, const struct measured_block *block)
{
    double pairs = (double)block->queries * block->keys * (block->kind == BLOCK_CAUSAL ? 0.5 : 1);
    return block->heads * pairs * flops_per_pair(table) / block->time.value;
}

static void write_rates(const struct measured_table *table, enum block_kind kind, FILE *stream)
{
    const char *separator = "";
    fprintf(stream, "%-6s = ", block_kind_name(kind));
    for (uint32_t i = 0; i < table->n_blocks; i++) {
        const struct measured_block *block = &table->blocks[i];
        if (block->kind != kind)
            continue;
        const double rate = rate_of(table, block);
        const bool tera = rate >= 1e12;
        fprintf(stream, "%s%" PRIu32 ": %.5g %s", separator, block->queries, rate / (tera ? 1e12 : 1e9),
                tera ? "TFLOP/s" : "GFLOP/s");
        separator = ", ";
    }
    fputc('\n', stream);
}

void profile_write_source(const struct calibration *c, FILE *stream)
{
    char day[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts))
        strftime(day, sizeof day, "%Y-%m-%d", &parts);
    fprintf(stream, "source = measured by cpsim --hw --calibrate on %s, %s", c->host, day);
    if (c->on_gpu)
        fprintf(stream, ", %.50s, driver for CUDA %d.%d", c->processor, c->gpu.driver / 1000,
                c->gpu.driver % 1000 / 10);
    if (c->on_gpu && c->gpu.state.sm_mhz.count)
        fprintf(stream, ", SMs at %.0f MHz", c->gpu.state.sm_mhz.median);
    fputc('\n', stream);
}

static void write_table(const struct calibration *c, const struct measured_table *table, FILE *stream)
{
    const char *dtype = dtype_name(table->dtype);
    fprintf(stream, "\n[attention %s %s %" PRIu32 " %s]\n", c->kernel,
            table->pass == PASS_FORWARD ? "forward" : "backward", table->head_dim, dtype);
    fprintf(stream, "dtype  = %s\nheads  = %" PRIu32 "\nbatch  = 1\nspread = %.3g\n", dtype, table->blocks[0].heads,
            profile_spread(table->spread));
    write_rates(table, BLOCK_FULL, stream);
    write_rates(table, BLOCK_CAUSAL, stream);
    profile_write_source(c, stream);
}

static void write_warnings(const struct calibration *c, FILE *stream)
{
    if (c->oversubscribed)
        fprintf(stream, "; NOT A CALIBRATION: more ranks than cores. Times are those of ranks taking turns.\n");
    if (c->disturbed > 0.1)
        fprintf(stream,
                "; The machine was busy: in %.0f %% of the timings a rank did not have its core all the time.\n",
                100 * c->disturbed);
}

static void write_origin(const struct calibration *c, FILE *stream)
{
    fprintf(stream,
            "; Written by cpsim --hw --calibrate: %" PRIu32 " rank%s on %" PRIu32
            " host%s, transport %s, kernels %s.\n",
            c->ranks, c->ranks == 1 ? "" : "s", c->n_hosts, c->n_hosts == 1 ? "" : "s", c->transport, c->isa);
    if (c->on_gpu)
        fprintf(stream, "; %s, driver for CUDA %d.%d, runtime %d.%d. %s\n", c->processor, c->gpu.driver / 1000,
                c->gpu.driver % 1000 / 10, c->gpu.runtime / 1000, c->gpu.runtime % 1000 / 10,
                c->shared_gpu ? "One rank measured: the ranks are to share the GPU." : "All ranks measured at once.");
    else
        fprintf(stream, "; %s, %" PRIu32 " core%s. All ranks measured at once.\n", c->processor, c->cores,
                c->cores == 1 ? "" : "s");
    write_warnings(c, stream);
}

static void write_cpu_notes(const struct calibration *c, FILE *stream)
{
    fprintf(stream, "; A rank is a core. memory: the host's, divided by the ranks on it. memory_bandwidth: a copy "
                    "of 64 MiB,\n; bytes read and written. launch: the executor's own time for an operation.\n"
                    "; transfer_slowdown: of a kernel that tests messages between its tiles");
    if (c->ranks > 1)
        fprintf(stream, ", beside messages of %" PRIu64 " KiB; it varied by %.2f", c->slowdown_bytes / 1024,
                c->slowdown.spread);
    fprintf(stream, ".\n");
}

/* Word for word: their sources and comments too. */
static void write_kernel_times(const struct kernel_times *times, FILE *stream)
{
    const size_t length = strlen(times->text);
    fprintf(stream, "\n; ---- what follows was given to the calibration, not measured by it: %s ----\n\n%s",
            times->path, times->text);
    if (length && times->text[length - 1] != '\n')
        fputc('\n', stream);
}

bool profile_write(const struct calibration *c, FILE *stream)
{
    static const char *const steps[STEP_COUNT] = {"merge", "finish", "delta", "accumulate", "cast", "elementwise"};
    write_origin(c, stream);
    fprintf(stream, ";\n");
    if (c->on_gpu)
        profile_gpu_write_notes(c, stream);
    else
        write_cpu_notes(c, stream);
    fprintf(stream, "\n[device]\nname              = %.50s\nmemory            = %.0f MB\n", c->processor,
            c->memory_bytes / 1e6);
    fprintf(stream, "memory_bandwidth  = %.5g GB/s\nmemory_efficiency = 1\nlaunch            = %.4g us\n",
            c->copy.value / 1e9, c->launch.value * 1e6);
    fprintf(stream, "transfer_slowdown = %.3g\nprocessors        = %" PRIu32 "\ntile_rows         = %" PRIu32 "\n",
            c->slowdown.value, c->processors, c->tile_rows);
    fprintf(stream, "kernel            = %s\n\n[steps]\n", c->times ? c->times->kernel : c->kernel);
    double spread = 0;
    for (int step = 0; step < STEP_COUNT; step++) {
        fprintf(stream, "%-11s = %.5g GB/s\n", steps[step], c->steps[step].value / 1e9);
        spread = fmax(spread, c->steps[step].spread);
    }
    fprintf(stream, "spread      = %.3g\n", profile_spread(spread));
    profile_write_source(c, stream);
    profile_write_products(c, stream);
    for (uint32_t i = 0; i < c->n_tables; i++)
        write_table(c, &c->tables[i], stream);
    if (c->times)
        write_kernel_times(c->times, stream);
    return !ferror(stream);
}

static void write_level(const struct measured_level *level, FILE *stream)
{
    const struct link_fit *fit = &level->fit;
    fprintf(stream, "[level %s]\nsize = %" PRIu32 "\nkind = switch\n", level->name, level->size);
    if (strcmp(level->name, "cluster") == 0)
        fprintf(stream, "attach = node\n");
    /* The curve has four digits: what is rounded up there must not exceed the bandwidth. */
    fprintf(stream, "bandwidth = %.6g MB/s\nlatency = %.4g us\ncurve = ", fit->bytes_per_s * 1.0006 / 1e6,
            fit->alpha_seconds * 1e6);
    for (size_t i = 0; i < fit->n_points; i++) {
        const struct link_point *point = &fit->points[i];
        bool mebi = point->bytes >= 1 << 20, gibi = point->bytes >= 1 << 30;
        double rate = point->bytes / point->seconds;
        bool giga = rate >= 1e9;
        fprintf(stream, "%s%.0f %s: %.4g %s", i ? ", " : "",
                point->bytes / (gibi   ? 1 << 30
                                : mebi ? 1 << 20
                                       : 1024),
                gibi   ? "GiB"
                : mebi ? "MiB"
                       : "KiB",
                rate / (giga ? 1e9 : 1e6), giga ? "GB/s" : "MB/s");
    }
    fprintf(stream, "\nspread = %.3g\n", profile_spread(level->spread));
}

bool profile_write_topology(const struct calibration *c, const char *device, FILE *stream)
{
    write_origin(c, stream);
    if (!c->shared_gpu)
        fprintf(stream, "; Messages: every rank sends to the next and receives from the one before, at once.\n");
    if (c->shared_gpu)
        fprintf(stream,
                "; The ranks share a GPU: a message is a copy within it, and its figures are of one at a time.\n");
    else if (c->ranks == 1)
        fprintf(stream, "; With a single rank nothing needs to move: the figures are of messages to itself.\n");
    fprintf(stream, "[cluster]\ndevice = %s\n", device);
    if (c->shared_gpu)
        fprintf(stream, "ranks_per_device = %" PRIu32 "\n", c->ranks);
    for (uint32_t i = 0; i < c->n_levels; i++)
        write_level(&c->levels[i], stream);
    return !ferror(stream);
}

bool profile_foretell(struct calibration *c, const struct device *device, struct diagnostics *diag)
{
    for (uint32_t i = 0; i < c->n_tables; i++) {
        struct measured_table *table = &c->tables[i];
        struct kernel_fit fit;
        if (!kernel_fit_init(&fit, device, c->kernel, table->pass, table->dtype, table->head_dim, diag))
            return false;
        table->fit_error = 0;
        for (uint32_t b = 0; b < table->n_blocks; b++) {
            struct measured_block *block = &table->blocks[b];
            block->foretold = kernel_fit_seconds(&fit, block->heads, block->queries, block->keys, block->pairs);
            if (block->kind == BLOCK_FULL || block->kind == BLOCK_CAUSAL)
                table->fit_error = fmax(table->fit_error, fabs(block->foretold / block->time.value - 1));
        }
        table->spread = fmax(table->spread, table->fit_error);
    }
    return profile_foretell_products(c, device, diag);
}
