/* profile_writer.c - writes INI with the units and names that models/input reads back. */
#include "hw/calibrate/profile_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

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
        fprintf(stream, "%s%" PRIu32 ": %.5g GFLOP/s", separator, block->queries, rate_of(table, block) / 1e9);
        separator = ", ";
    }
    fputc('\n', stream);
}

static void write_source(const struct calibration *c, FILE *stream)
{
    char day[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts))
        strftime(day, sizeof day, "%Y-%m-%d", &parts);
    fprintf(stream, "source = measured by cpsim --hw --calibrate on %s, %s\n", c->host, day);
}

static void write_table(const struct calibration *c, const struct measured_table *table, FILE *stream)
{
    const char *dtype = dtype_name(table->dtype);
    fprintf(stream, "\n[attention " CALIBRATED_KERNEL " %s %" PRIu32 " %s]\n",
            table->pass == PASS_FORWARD ? "forward" : "backward", table->head_dim, dtype);
    fprintf(stream, "dtype  = %s\nheads  = %" PRIu32 "\nbatch  = 1\nspread = %.3g\n", dtype, table->blocks[0].heads,
            table->spread);
    write_rates(table, BLOCK_FULL, stream);
    write_rates(table, BLOCK_CAUSAL, stream);
    write_source(c, stream);
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
    fprintf(stream, "; %s, %" PRIu32 " core%s. All ranks measured at once.\n", c->processor, c->cores,
            c->cores == 1 ? "" : "s");
    write_warnings(c, stream);
}

bool profile_write(const struct calibration *c, FILE *stream)
{
    static const char *const steps[STEP_COUNT] = {"merge", "finish", "delta", "accumulate", "cast"};
    write_origin(c, stream);
    fprintf(stream, ";\n; A rank is a core. memory: the host's, divided by the ranks on it. memory_bandwidth: a copy "
                    "of 64 MiB,\n; bytes read and written. launch: the executor's own time for an operation.\n"
                    "; transfer_slowdown: of a kernel that tests messages between its tiles");
    if (c->ranks > 1)
        fprintf(stream, ", beside messages of %" PRIu64 " KiB; it varied by %.2f", c->slowdown_bytes / 1024,
                c->slowdown.spread);
    fprintf(stream, ".\n\n[device]\nname              = %.50s\nmemory            = %.0f MB\n", c->processor,
            c->memory_bytes / 1e6);
    fprintf(stream, "memory_bandwidth  = %.5g GB/s\nmemory_efficiency = 1\nlaunch            = %.4g us\n",
            c->copy.value / 1e9, c->launch.value * 1e6);
    fprintf(stream, "transfer_slowdown = %.3g\nprocessors        = 1\ntile_rows         = 1\n", c->slowdown.value);
    fprintf(stream, "kernel            = " CALIBRATED_KERNEL "\n\n[steps]\n");
    double spread = 0;
    for (int step = 0; step < STEP_COUNT; step++) {
        fprintf(stream, "%-10s = %.5g GB/s\n", steps[step], c->steps[step].value / 1e9);
        spread = fmax(spread, c->steps[step].spread);
    }
    fprintf(stream, "spread     = %.3g\n", spread);
    write_source(c, stream);
    for (uint32_t i = 0; i < c->n_tables; i++)
        write_table(c, &c->tables[i], stream);
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
        bool mebi = point->bytes >= 1 << 20;
        double rate = point->bytes / point->seconds;
        bool giga = rate >= 1e9;
        fprintf(stream, "%s%.0f %s: %.4g %s", i ? ", " : "", point->bytes / (mebi ? 1 << 20 : 1024),
                mebi ? "MiB" : "KiB", rate / (giga ? 1e9 : 1e6), giga ? "GB/s" : "MB/s");
    }
    fprintf(stream, "\nspread = %.3g\n", level->spread);
}

bool profile_write_topology(const struct calibration *c, const char *device, FILE *stream)
{
    write_origin(c, stream);
    fprintf(stream, "; Messages: every rank sends to the next and receives from the one before, at once.\n");
    if (c->ranks == 1)
        fprintf(stream, "; With a single rank nothing needs to move: the figures are of messages to itself.\n");
    fprintf(stream, "[cluster]\ndevice = %s\n", device);
    for (uint32_t i = 0; i < c->n_levels; i++)
        write_level(&c->levels[i], stream);
    return !ferror(stream);
}

bool profile_foretell(struct calibration *c, const struct device *device, struct diagnostics *diag)
{
    for (uint32_t i = 0; i < c->n_tables; i++) {
        struct measured_table *table = &c->tables[i];
        struct kernel_fit fit;
        if (!kernel_fit_init(&fit, device, "", table->pass, table->dtype, table->head_dim, diag))
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
    return true;
}
