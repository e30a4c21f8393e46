/* gpu_watch.c - the few functions of NVML that are needed, declared here (they are a stable binary interface, described
 * in NVIDIA's "NVML API Reference Guide"), and the samples that they give.
 */
#include "hw/gpu_watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/dynamic_library.h"
#include "models/base/memory.h"
#include "models/base/statistics.h"

#define LIBRARY "libnvidia-ml.so.1"

/* NVML's numbers. */
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

struct nvml_device; /* its handles point to */

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int error);
    int (*driver_version)(char *text, unsigned size);
    int (*device_by_bus)(const char *bus, struct nvml_device **device);
    int (*clock)(struct nvml_device *device, int which, unsigned *mhz);
    int (*most_clock)(struct nvml_device *device, int which, unsigned *mhz);
    int (*power)(struct nvml_device *device, unsigned *milliwatts);
    int (*power_limit)(struct nvml_device *device, unsigned *milliwatts);
    int (*temperature)(struct nvml_device *device, int which, unsigned *celsius);
    int (*slowdowns)(struct nvml_device *device, unsigned long long *bits);
};

static const struct dynamic_function functions[] = {
    {.name = "nvmlInit_v2", .member = offsetof(struct nvml, init)},
    {.name = "nvmlShutdown", .member = offsetof(struct nvml, shutdown)},
    {.name = "nvmlErrorString", .member = offsetof(struct nvml, error_text)},
    {.name = "nvmlSystemGetDriverVersion", .member = offsetof(struct nvml, driver_version)},
    {.name = "nvmlDeviceGetHandleByPciBusId_v2", .member = offsetof(struct nvml, device_by_bus)},
    {.name = "nvmlDeviceGetClockInfo", .member = offsetof(struct nvml, clock)},
    {.name = "nvmlDeviceGetMaxClockInfo", .member = offsetof(struct nvml, most_clock)},
    {.name = "nvmlDeviceGetPowerUsage", .member = offsetof(struct nvml, power)},
    {.name = "nvmlDeviceGetEnforcedPowerLimit", .member = offsetof(struct nvml, power_limit)},
    {.name = "nvmlDeviceGetTemperature", .member = offsetof(struct nvml, temperature)},
    {.name = "nvmlDeviceGetCurrentClocksEventReasons",
     .member = offsetof(struct nvml, slowdowns),
     .older = "nvmlDeviceGetCurrentClocksThrottleReasons"},
};

/* The nvmlClocksEventReason bits. */
static const char *const slowdown_names[] = {"idle",
                                             "application clocks",
                                             "power cap",
                                             "hardware slowdown",
                                             "sync boost",
                                             "software thermal slowdown",
                                             "hardware thermal slowdown",
                                             "power brake",
                                             "display clocks"};

const char *gpu_slowdown_name(unsigned bit)
{
    return bit < sizeof slowdown_names / sizeof *slowdown_names ? slowdown_names[bit] : NULL;
}

/* ---- opening ---- */

struct values {
    double *items;
    size_t count, capacity;
};

struct gpu_watch {
    void *library;
    struct nvml nvml;
    bool initialized;
    struct nvml_device *device; /* NULL: nothing can be recorded */
    struct gpu_record record;   /* all but the readings */
    struct values sm_mhz, memory_mhz, power_watts, temperature_celsius;
};

/* Notes the first failure of a call, `what` being done there. */
static bool check(struct gpu_watch *watch, int error, int line, const char *what)
{
    char *problem = watch->record.problem;
    if (error && !*problem)
        snprintf(problem, sizeof watch->record.problem, "%s (%s:%d): NVML says: %s", what, __FILE__, line,
                 watch->nvml.error_text(error));
    return error == 0;
}

#define CHECK(watch, call, what) check(watch, call, __LINE__, what)

static bool load(struct gpu_watch *watch, const char *path)
{
    const char *const names[] = {path, NULL};
    char *problem = watch->record.problem, reason[160];
    watch->library = dynamic_library_open(names, reason, sizeof reason);
    if (!watch->library) {
        snprintf(problem, sizeof watch->record.problem, "opening NVML (%s:%d): %s", __FILE__, __LINE__, reason);
        return false;
    }
    if (dynamic_library_find(watch->library, functions, sizeof functions / sizeof *functions, &watch->nvml, reason,
                             sizeof reason))
        return true;
    snprintf(problem, sizeof watch->record.problem, "opening NVML (%s:%d): '%s' %s", __FILE__, __LINE__, path, reason);
    return false;
}

static void describe(struct gpu_watch *watch)
{
    struct nvml *nvml = &watch->nvml;
    struct gpu_record *record = &watch->record;
    unsigned number;
    if (!CHECK(watch, nvml->driver_version(record->driver, sizeof record->driver), "reading the driver's version"))
        *record->driver = '\0';
    if (CHECK(watch, nvml->most_clock(watch->device, NVML_CLOCK_SM, &number), "reading the highest SM clock"))
        record->most_sm_mhz = number;
    if (CHECK(watch, nvml->power_limit(watch->device, &number), "reading the power limit"))
        record->power_limit_watts = number / 1e3;
}

struct gpu_watch *gpu_watch_create(const char *library, const char *bus)
{
    struct gpu_watch *watch = memory_zeroed(1, sizeof *watch);
    watch->initialized =
        load(watch, library ? library : LIBRARY) && CHECK(watch, watch->nvml.init(), "initializing NVML");
    if (!watch->initialized)
        return watch;
    char *what = memory_format("looking for GPU %s", bus);
    if (!CHECK(watch, watch->nvml.device_by_bus(bus, &watch->device), what))
        watch->device = NULL;
    free(what);
    if (watch->device)
        describe(watch);
    return watch;
}

void gpu_watch_destroy(struct gpu_watch *watch)
{
    if (!watch)
        return;
    if (watch->initialized)
        (void)CHECK(watch, watch->nvml.shutdown(), "leaving NVML"); /* all that matters is recorded already */
    if (watch->library)
        dynamic_library_close(watch->library);
    free(watch->sm_mhz.items);
    free(watch->memory_mhz.items);
    free(watch->power_watts.items);
    free(watch->temperature_celsius.items);
    free(watch);
}

/* ---- samples ---- */

static void add(struct values *values, double value)
{
    memory_grow(values->items, values->count, values->capacity);
    values->items[values->count++] = value;
}

void gpu_watch_sample(struct gpu_watch *watch)
{
    struct nvml *nvml = &watch->nvml;
    unsigned number;
    unsigned long long bits;
    if (!watch->device)
        return;
    watch->record.samples++;
    if (CHECK(watch, nvml->clock(watch->device, NVML_CLOCK_SM, &number), "reading the SM clock"))
        add(&watch->sm_mhz, number);
    if (CHECK(watch, nvml->clock(watch->device, NVML_CLOCK_MEMORY, &number), "reading the memory clock"))
        add(&watch->memory_mhz, number);
    if (CHECK(watch, nvml->power(watch->device, &number), "reading the power"))
        add(&watch->power_watts, number / 1e3);
    if (CHECK(watch, nvml->temperature(watch->device, NVML_TEMPERATURE_GPU, &number), "reading the temperature"))
        add(&watch->temperature_celsius, number);
    if (CHECK(watch, nvml->slowdowns(watch->device, &bits), "reading what holds the clocks back"))
        watch->record.slowdowns |= bits;
}

static struct gpu_reading reading_of(const struct values *values)
{
    if (values->count == 0)
        return (struct gpu_reading){.count = 0};
    double *sorted = memory_zeroed(values->count, sizeof *sorted);
    memcpy(sorted, values->items, values->count * sizeof *sorted);
    sort_ascending(sorted, values->count);
    const struct gpu_reading reading = {.least = sorted[0],
                                        .median = sorted[(values->count - 1) / 2],
                                        .most = sorted[values->count - 1],
                                        .count = (uint32_t)values->count};
    free(sorted);
    return reading;
}

void gpu_watch_record(const struct gpu_watch *watch, struct gpu_record *record)
{
    *record = watch->record;
    record->sm_mhz = reading_of(&watch->sm_mhz);
    record->memory_mhz = reading_of(&watch->memory_mhz);
    record->power_watts = reading_of(&watch->power_watts);
    record->temperature_celsius = reading_of(&watch->temperature_celsius);
}
