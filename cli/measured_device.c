/* measured_device.c - see measured_device.h. Each GPU once, at its first rank. */
#include "cli/measured_device.h"

#include <inttypes.h>

#include "cli/json_set.h"

#define GPUS_SHOWN 8 /* in the table */

/* Whether no rank before computes on this one's GPU. */
static bool is_first_of_gpu(const struct measurement *m, uint32_t rank)
{
    for (uint32_t before = 0; before < rank; before++)
        if (machine_same_gpu(&m->machines[before], &m->machines[rank]))
            return false;
    return *m->machines[rank].gpu.bus;
}

uint32_t measured_gpus(const struct measurement *m)
{
    uint32_t gpus = 0;
    for (uint32_t rank = 0; rank < m->n_ranks; rank++)
        gpus += is_first_of_gpu(m, rank);
    return gpus;
}

bool measured_is_timed_twice(const struct measurement *m)
{
    return m->asynchronous && !m->composed;
}

/* ---- JSON ---- */

static json_t *reading_to_json(const struct gpu_reading *reading)
{
    if (reading->count == 0)
        return json_null();
    json_t *json = json_object();
    json_set_real(json, "median", reading->median);
    json_set_real(json, "least", reading->least);
    json_set_real(json, "most", reading->most);
    return json;
}

static void set_known(json_t *json, const char *key, double value)
{
    if (value > 0)
        json_set_real(json, key, value);
    else
        json_object_set_new(json, key, json_null());
}

static void slowdown_text(char *text, size_t size, unsigned bit)
{
    const char *name = gpu_slowdown_name(bit);
    if (name)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "bit %u", bit);
}

static json_t *state_to_json(const struct gpu_record *record)
{
    json_t *json = json_object(), *slowdowns = json_array();
    json_set_text(json, "driver", record->driver);
    json_set_count(json, "samples", record->samples);
    json_object_set_new(json, "sm_mhz", reading_to_json(&record->sm_mhz));
    set_known(json, "most_sm_mhz", record->most_sm_mhz);
    json_object_set_new(json, "memory_mhz", reading_to_json(&record->memory_mhz));
    json_object_set_new(json, "power_watts", reading_to_json(&record->power_watts));
    set_known(json, "power_limit_watts", record->power_limit_watts);
    json_object_set_new(json, "temperature_celsius", reading_to_json(&record->temperature_celsius));
    for (unsigned bit = 0; bit < GPU_SLOWDOWNS; bit++) {
        char text[48];
        slowdown_text(text, sizeof text, bit);
        if (record->slowdowns >> bit & 1)
            json_array_append_new(slowdowns, json_text(text));
    }
    json_object_set_new(json, "slowdowns", slowdowns);
    if (*record->problem)
        json_set_text(json, "not_recorded", record->problem);
    return json;
}

static void set_version(json_t *json, const char *key, int version)
{
    char text[24];
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    json_set_text(json, key, text);
}

static json_t *gpu_to_json(const struct measurement *m, uint32_t first)
{
    const struct machine *machine = &m->machines[first];
    const struct machine_gpu *gpu = &machine->gpu;
    json_t *json = json_object(), *ranks = json_array();
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", gpu->major, gpu->minor);
    json_set_text(json, "name", gpu->name);
    json_set_text(json, "host", machine->host);
    json_set_text(json, "bus", gpu->bus);
    for (uint32_t rank = first; rank < m->n_ranks; rank++)
        if (machine_same_gpu(&m->machines[rank], machine))
            json_array_append_new(ranks, json_integer(rank));
    json_object_set_new(json, "ranks", ranks);
    json_set_text(json, "capability", capability);
    json_set_count(json, "processors", gpu->processors);
    json_set_count(json, "memory_bytes", gpu->memory_bytes);
    set_version(json, "cuda_driver", gpu->driver);
    set_version(json, "cuda_runtime", gpu->runtime);
    json_object_set_new(json, "state", state_to_json(&m->gpus[first]));
    return json;
}

json_t *measured_device_to_json(const struct measured_run *run)
{
    const struct measurement *m = &run->measurement;
    json_t *json = json_object(), *gpus = json_array();
    json_set_text(json, "name", run->prediction.device.name);
    json_set_text(json, "compute", hardware_compute(run->hardware)->name);
    json_set_text(json, "kernels", measured_kernels(run));
    json_set_flag(json, "deterministic", run->settings.kernels.deterministic);
    json_set_text(json, "transport", hardware_transport(run->hardware)->name);
    const char *nccl = hardware_library(run->hardware);
    json_object_set_new(json, "nccl", nccl ? json_text(nccl) : json_null());
    json_set_flag(json, "composed", m->composed);
    json_set_flag(json, "graph", run->settings.graph);
    for (uint32_t rank = 0; rank < m->n_ranks; rank++)
        if (is_first_of_gpu(m, rank))
            json_array_append_new(gpus, gpu_to_json(m, rank));
    json_object_set_new(json, "gpus", gpus);
    return json;
}

/* ---- table ---- */

/* `separator` is ", " from the second reading on. */
static void write_reading(const char **separator, const char *what, const struct gpu_reading *reading, const char *unit,
                          double limit, FILE *stream)
{
    if (reading->count == 0)
        return;
    fprintf(stream, "%s%s%.0f %s", *separator, what, reading->median, unit);
    *separator = ", ";
    if (reading->least < reading->most)
        fprintf(stream, " (%.0f to %.0f)", reading->least, reading->most);
    if (limit > 0)
        fprintf(stream, " of %.0f", limit);
}

static void write_state(const struct gpu_record *record, FILE *stream)
{
    fputs("state     ", stream);
    if (record->samples == 0) {
        fprintf(stream, "not recorded: %s\n", record->problem);
        return;
    }
    const char *separator = "";
    write_reading(&separator, "SM ", &record->sm_mhz, "MHz", record->most_sm_mhz, stream);
    write_reading(&separator, "memory ", &record->memory_mhz, "MHz", 0, stream);
    write_reading(&separator, "", &record->power_watts, "W", record->power_limit_watts, stream);
    write_reading(&separator, "", &record->temperature_celsius, "C", 0, stream);
    const char *before = "; held back by ";
    for (unsigned bit = 1; bit < GPU_SLOWDOWNS; bit++) { /* without "idle": samples are taken between kernels */
        char text[48];
        slowdown_text(text, sizeof text, bit);
        if (record->slowdowns >> bit & 1) {
            fprintf(stream, "%s%s", before, text);
            before = ", ";
        }
    }
    fputc('\n', stream);
    if (*record->problem)
        fprintf(stream, "          the rest is not recorded: %s\n", record->problem);
}

static void write_gpu(const struct measurement *m, uint32_t rank, FILE *stream)
{
    const struct machine_gpu *gpu = &m->machines[rank].gpu;
    const struct gpu_record *record = &m->gpus[rank];
    fprintf(stream, "GPU       %s at %s of %s: capability %d.%d, %" PRIu32 " SMs, %.4g GiB; CUDA %d.%d", gpu->name,
            gpu->bus, m->machines[rank].host, gpu->major, gpu->minor, gpu->processors,
            (double)gpu->memory_bytes / (1 << 30), gpu->runtime / 1000, gpu->runtime % 1000 / 10);
    if (*record->driver)
        fprintf(stream, ", driver %s", record->driver);
    fputc('\n', stream);
    write_state(record, stream);
}

void measured_write_gpus(const struct measured_run *run, FILE *stream)
{
    const struct measurement *m = &run->measurement;
    uint32_t shown = 0, gpus = measured_gpus(m);
    if (m->composed)
        fputs(
            "          COMPOSED: one rank's kernels at a time; the step is made of their times, as if each rank had a "
            "GPU of its own\n",
            stream);
    if (run->settings.graph)
        fputs("          each phase is one CUDA graph\n", stream);
    for (uint32_t rank = 0; rank < m->n_ranks && shown < GPUS_SHOWN; rank++) {
        if (!is_first_of_gpu(m, rank))
            continue;
        write_gpu(m, rank, stream);
        shown++;
    }
    if (gpus > shown)
        fprintf(stream, "          (%" PRIu32 " more GPUs: see --json)\n", gpus - shown);
}
