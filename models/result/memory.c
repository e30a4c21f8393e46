/* memory.c - adds up lives (models/schedule/lifetimes.h) point by point and finds the first highest sum. */
#include "models/result/memory.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/lifetimes.h"

/* Bytes that are born less bytes that die at a point. */
struct change {
    int64_t by_role[ROLE_COUNT];
};

static void add_life(struct change *changes, struct life life, const struct buffer *buffer)
{
    if (life.born >= life.dies)
        return;
    changes[life.born].by_role[buffer->role] += (int64_t)buffer->bytes;
    changes[life.dies].by_role[buffer->role] -= (int64_t)buffer->bytes;
}

/* When the compute stream was at each point. The caller frees the array. */
static double *point_seconds(const struct lifetimes *lifetimes, const struct program *program,
                             const struct moment *moments, const double phase_end[PHASE_COUNT])
{
    double *seconds = memory_zeroed(lifetimes->n_points, sizeof *seconds);
    for (uint32_t i = program->n_ops; i-- > 0;) { /* backwards: the first of a group has the last word on its begin */
        if (program->ops[i].stream != STREAM_COMPUTE)
            continue;
        double *start = &seconds[lifetimes->starts[i]], *finish = start + 1;
        *start = moments[i].begin;
        *finish = moments[i].end > *finish ? moments[i].end : *finish;
    }
    for (int phase = 1; phase < PHASE_COUNT; phase++)
        seconds[lifetimes->phase_begin[phase]] = phase_end[phase - 1];
    seconds[lifetimes->n_points - 1] = phase_end[PHASE_COUNT - 1];
    return seconds;
}

struct memory_peak memory_peak(const struct stream_order *order, const struct moment *moments,
                               const double phase_end[PHASE_COUNT])
{
    const struct program *program = order->program;
    struct lifetimes lifetimes;
    lifetimes_init(&lifetimes, order);
    struct change *changes = memory_zeroed(lifetimes.n_points, sizeof *changes);
    for (uint32_t b = 0; b < program->n_buffers; b++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            add_life(changes, lifetimes.lives[b][phase], &program->buffers[b]);

    struct memory_peak now = {0}, peak = {0};
    uint32_t peak_point = 0;
    for (uint32_t point = 0; point < lifetimes.n_points; point++) {
        for (int role = 0; role < ROLE_COUNT; role++) {
            now.by_role[role] += (uint64_t)changes[point].by_role[role];
            now.bytes += (uint64_t)changes[point].by_role[role];
        }
        if (now.bytes > peak.bytes) {
            peak = now;
            peak_point = point;
        }
    }
    double *seconds = point_seconds(&lifetimes, program, moments, phase_end);
    peak.at_seconds = seconds[peak_point];
    free(seconds);
    free(changes);
    lifetimes_fini(&lifetimes);
    return peak;
}
