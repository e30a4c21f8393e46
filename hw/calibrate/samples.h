/* samples.h - repeated timings of one thing, and what they say.
 *
 * Kernels are timed by the thread's CPU time: on a quiet machine the same as the wall clock, and on a shared one free
 * of the time in which others had the core. Before each sample a yardstick (a loop of arithmetic in registers) shows
 * how fast the core is just then; samples taken when it was slow are disregarded as long as enough others remain.
 */
#ifndef CPSIM_HW_CALIBRATE_SAMPLES_H
#define CPSIM_HW_CALIBRATE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

/* A constant as measured: the median, and half the distance from the 10th to the 90th percentile relative to it. */
struct measured {
    double value, spread;
};

struct samples {
    struct sample {
        double seconds, core_speed; /* of the yardstick, before it */
    } * items;
    size_t count, capacity;
    size_t disturbed; /* in which the thread did not have its core for more than a 20th of the time */
};

/* A stretch of a thread's time. */
struct stopwatch {
    double wall, cpu, core_speed;
};

struct stopwatch stopwatch_start(void); /* measures the yardstick first */
/* Adds the CPU time since. */
void samples_add(struct samples *samples, struct stopwatch since);
/* Adds what another clock than the core's said. */
void samples_add_seconds(struct samples *samples, double seconds);
void samples_fini(struct samples *samples);

struct measured samples_result(const struct samples *samples);

/* The same of bare numbers; they are sorted. */
struct measured measured_of(double *values, size_t count);

double cpu_seconds_now(void); /* of this thread */

#endif
