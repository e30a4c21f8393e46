/* gpu_watch.h - what state a GPU was in while it was measured: clocks, power, temperature, and what held it back.
 *
 * Asks NVML, which comes with the driver and is opened at run time; where it is missing nothing is recorded and nothing
 * fails. It only reads, never sets. There is no thread: who measures takes samples between what it times. Readings are
 * the driver's own averages over some milliseconds.
 */
#ifndef CPSIM_HW_GPU_WATCH_H
#define CPSIM_HW_GPU_WATCH_H

#include <stdint.h>

/* Of the samples; count 0: not recorded. */
struct gpu_reading {
    double least, median, most;
    uint32_t count;
};

/* Plain data, so that processes can exchange it. */
struct gpu_record {
    uint32_t samples;
    char problem[256]; /* why something, or everything, is not recorded, with file and line; "": all is */
    char driver[80];   /* its version; "": not recorded */
    struct gpu_reading sm_mhz, memory_mhz, power_watts, temperature_celsius;
    double most_sm_mhz, power_limit_watts; /* what the GPU is made or set for; 0: not recorded */
    uint64_t slowdowns;                    /* bit i is set: gpu_slowdown_name(i) was seen in a sample */
};

#define GPU_SLOWDOWNS 64
/* NULL: a bit that no NVML has a name for that is known here. */
const char *gpu_slowdown_name(unsigned bit);

struct gpu_watch;

/* Watches the GPU at PCI address `bus`. `library`: NVML's path; NULL: as the system finds it. Never NULL: what goes
 * wrong is in the record. */
struct gpu_watch *gpu_watch_create(const char *library, const char *bus);
void gpu_watch_destroy(struct gpu_watch *watch);

/* Takes some tens of microseconds. */
void gpu_watch_sample(struct gpu_watch *watch);

/* Of the samples so far. */
void gpu_watch_record(const struct gpu_watch *watch, struct gpu_record *record);

#endif
