/* samples.c - the yardstick, and which samples count. */
#include "hw/calibrate/samples.h"

#include <stdlib.h>
#include <time.h>

#include "hw/clock.h"
#include "models/base/memory.h"
#include "models/base/statistics.h"

/* Samples at less than this share of the best speed seen are slow. */
#define STEADY_SHARE 0.93
#define WAITED_SHARE 1.05

double cpu_seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#define CHAINS 8
#define LOOPS 20000

/* Independent chains of multiplications and additions; about 50 us. */
static double core_speed(void)
{
    typedef float vec __attribute__((vector_size(16)));
    volatile float almost_one = 0.999F, tiny = 1e-9F;
    const vec factor = almost_one - (vec){0}, summand = tiny - (vec){0};
    vec sum[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        sum[c] = summand * (float)c;
    double start = cpu_seconds_now();
    for (int i = 0; i < LOOPS; i++)
        for (int c = 0; c < CHAINS; c++)
            sum[c] = sum[c] * factor + summand;
    double seconds = cpu_seconds_now() - start;
    for (int c = 1; c < CHAINS; c++)
        sum[0] += sum[c];
    volatile float sink = sum[0][0];
    (void)sink;
    return LOOPS / (seconds > 0 ? seconds : 1e-9);
}

struct stopwatch stopwatch_start(void)
{
    double speed = core_speed();
    return (struct stopwatch){.wall = seconds_now(), .cpu = cpu_seconds_now(), .core_speed = speed};
}

void samples_add(struct samples *samples, struct stopwatch since)
{
    double cpu = cpu_seconds_now() - since.cpu, wall = seconds_now() - since.wall;
    memory_grow(samples->items, samples->count, samples->capacity);
    samples->items[samples->count++] = (struct sample){cpu, since.core_speed};
    samples->disturbed += wall > WAITED_SHARE * cpu + 1e-6;
}

void samples_add_seconds(struct samples *samples, double seconds)
{
    memory_grow(samples->items, samples->count, samples->capacity);
    samples->items[samples->count++] = (struct sample){seconds, 1};
}

void samples_fini(struct samples *samples)
{
    free(samples->items);
    *samples = (struct samples){0};
}

struct measured measured_of(double *values, size_t count)
{
    if (count == 0)
        return (struct measured){0, 0};
    sort_ascending(values, count);
    double median = quantile(values, count, 0.5);
    double width = quantile(values, count, 0.9) - quantile(values, count, 0.1);
    return (struct measured){median, median > 0 ? width / 2 / median : 0};
}

struct measured samples_result(const struct samples *samples)
{
    double best = 0, *kept = memory_zeroed(samples->count, sizeof *kept);
    for (size_t i = 0; i < samples->count; i++)
        best = samples->items[i].core_speed > best ? samples->items[i].core_speed : best;
    size_t n = 0;
    for (size_t i = 0; i < samples->count; i++)
        if (samples->items[i].core_speed >= STEADY_SHARE * best)
            kept[n++] = samples->items[i].seconds;
    if (2 * n < samples->count || n < 3) /* too few to be choosy */
        for (size_t i = n = 0; i < samples->count; i++)
            kept[n++] = samples->items[i].seconds;
    struct measured result = measured_of(kept, n);
    free(kept);
    return result;
}
