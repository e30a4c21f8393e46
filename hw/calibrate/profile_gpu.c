/* profile_gpu.c - launches, held SMs and the state of the GPU in words; collectives as CSV. */
#include "hw/calibrate/profile_gpu.h"

#include <inttypes.h>

static void write_launches(const struct calibration *c, FILE *stream)
{
    const struct gpu_figures *gpu = &c->gpu;
    fprintf(
        stream,
        "; launch: from one tiny kernel to the next in a stream, while the host launches them (+- %.0f %%).\n"
        "; When the host is ahead it is %.3g us (+- %.0f %%), in a graph %.3g us (+- %.0f %%); a kernel that has to\n"
        "; wait for one of another stream comes %.3g us later. The executor takes %.3g us to queue and end a\n"
        "; tiny operation: it is ahead of the GPU where operations are longer.\n",
        100 * c->launch.spread, 1e6 * gpu->gap.value, 100 * gpu->gap.spread, 1e6 * gpu->graph.value,
        100 * gpu->graph.spread, 1e6 * gpu->event_wait.value, 1e6 * gpu->executor.value);
}

static void write_held(const struct gpu_figures *gpu, FILE *stream)
{
    if (gpu->n_held_blocks == 0)
        return;
    fprintf(stream,
            ";\n; Attention (head dim 128, full) while another kernel holds so many SMs: its time over that alone.\n");
    fprintf(stream, "; %-14s", "SMs held");
    for (uint32_t i = 0; i < gpu->n_held; i++)
        fprintf(stream, " %6" PRIu32, gpu->held[i]);
    for (uint32_t b = 0; b < gpu->n_held_blocks; b++) {
        const struct held_block *block = &gpu->held_blocks[b];
        fprintf(stream, "\n; %-8s %5" PRIu32, block->pass == PASS_FORWARD ? "forward" : "backward", block->rows);
        for (uint32_t i = 0; i < gpu->n_held; i++)
            fprintf(stream, " %6.3f", block->times[i].value / block->times[0].value);
    }
    fputc('\n', stream);
}

static void write_reading(const char *what, const char *unit, const struct gpu_reading *reading, FILE *stream)
{
    if (reading->count)
        fprintf(stream, "; %s: %.0f %s (%.0f to %.0f) while attention was measured.\n", what, reading->median, unit,
                reading->least, reading->most);
}

static void write_state(const struct gpu_record *state, FILE *stream)
{
    if (*state->driver)
        fprintf(stream, "; Driver %s.\n", state->driver);
    if (*state->problem)
        fprintf(stream, "; Not all of the GPU's state is known: %s.\n", state->problem);
    write_reading("SM clock", "MHz", &state->sm_mhz, stream);
    write_reading("Power", "W", &state->power_watts, stream);
    for (unsigned bit = 0; bit < GPU_SLOWDOWNS; bit++)
        if (state->slowdowns >> bit & 1)
            fprintf(stream, "; Slowed down by: %s.\n", gpu_slowdown_name(bit) ? gpu_slowdown_name(bit) : "unknown");
}

void profile_gpu_write_notes(const struct calibration *c, FILE *stream)
{
    const struct gpu_figures *gpu = &c->gpu;
    fprintf(
        stream,
        "; A rank is a GPU. memory_bandwidth: a copy within the GPU, bytes read and written. Times are between events\n"
        "; on a busy stream, of random numbers. [steps]: rates beyond the launch. Blocks of the tables have %" PRIu32
        " query heads\n; and %" PRIu32 " KV heads.\n",
        gpu->heads, gpu->kv_heads);
    write_state(&gpu->state, stream);
    write_launches(c, stream);
    fprintf(
        stream,
        "; transfer_slowdown: of attention beside %s of %" PRIu64 " MiB; it varied by %.2f. They took %.2f times as\n"
        "; long as alone.\n",
        c->shared_gpu ? "copies" : "messages", c->slowdown_bytes >> 20, c->slowdown.spread, gpu->copy_slowdown.value);
    write_held(gpu, stream);
    if (*gpu->no_products)
        fprintf(stream, ";\n; Matrix products were not measured: %.150s\n", gpu->no_products);
}

/* ---- collectives ---- */

/* Bus bandwidth over algorithm bandwidth (NVIDIA/nccl-tests doc/PERFORMANCE.md): for all three (n - 1) / n of what is
 * moved has to leave a rank, or to reach it. */
static double bus_factor(uint32_t ranks)
{
    return (ranks - 1.0) / ranks;
}

bool profile_gpu_write_collectives(const struct calibration *c, FILE *stream)
{
    fprintf(stream, "collective,ranks,bytes,seconds,spread,algorithm_bytes_per_s,bus_bytes_per_s\n");
    for (uint32_t i = 0; i < c->gpu.n_collectives; i++) {
        const struct measured_collective *m = &c->gpu.collectives[i];
        const double rate = (double)m->bytes / m->time.value;
        fprintf(stream, "%s,%" PRIu32 ",%" PRIu64 ",%.6g,%.3g,%.6g,%.6g\n", collective_call_name(m->call), m->ranks,
                m->bytes, m->time.value, m->time.spread, rate, rate * bus_factor(m->ranks));
    }
    return !ferror(stream);
}
