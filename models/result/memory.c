/* memory.c - adds up lives (models/schedule/lifetimes.h) point by point and finds the first highest sum. */
#include "models/result/memory.h"

#include <stdlib.h>
#include <string.h>

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

/* When the compute stream of whoever runs the program is at `point`. */
static void find_moment(struct high_water *water, const struct lifetimes *lifetimes, const struct program *program,
                        uint32_t point)
{
    for (water->phase = 0; water->phase < PHASE_COUNT; water->phase++)
        if (point == lifetimes->phase_begin[water->phase])
            return;
    if (point == lifetimes->n_points - 1)
        return;
    water->at = HIGH_AT_END;
    water->ops = memory_zeroed(program->n_ops, sizeof *water->ops);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].stream != STREAM_COMPUTE)
            continue;
        if (lifetimes->starts[i] == point) { /* the first of a group has the word on its begin */
            water->at = HIGH_AT_BEGIN;
            water->first = i;
            return;
        }
        if (lifetimes->starts[i] + 1 == point)
            water->ops[water->n_ops++] = i;
    }
}

double high_water_seconds(const struct high_water *water, const struct instance_times *times,
                          const double phase_end[PHASE_COUNT])
{
    if (water->at == HIGH_AT_PHASE)
        return water->phase ? phase_end[water->phase - 1] : 0;
    if (water->at == HIGH_AT_BEGIN)
        return instance_span(times, water->first).begin;
    double finish = 0;
    for (uint32_t i = 0; i < water->n_ops; i++) {
        double end = instance_span(times, water->ops[i]).end;
        finish = end > finish ? end : finish;
    }
    return finish;
}

struct water_moment high_water_moment(const struct high_water *water, const struct program *program)
{
    struct water_moment moment = {.op = NO_OPERATION, .phase = (uint8_t)water->phase};
    if (water->at == HIGH_AT_PHASE)
        return moment;
    moment.finish = water->at == HIGH_AT_END;
    moment.op = moment.finish ? water->ops[0] : water->first;
    moment.phase = (uint8_t)program_phase(program, moment.op);
    return moment;
}

void high_water_init(struct high_water *water, const struct stream_order *order)
{
    const struct program *program = order->program;
    struct lifetimes lifetimes;
    lifetimes_init(&lifetimes, order);
    struct change *changes = memory_zeroed(lifetimes.n_points, sizeof *changes);
    for (uint32_t b = 0; b < program->n_buffers; b++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            add_life(changes, lifetimes.lives[b][phase], &program->buffers[b]);

    *water = (struct high_water){.at = HIGH_AT_PHASE};
    uint64_t bytes = 0, by_role[ROLE_COUNT] = {0};
    uint32_t highest = 0;
    for (uint32_t point = 0; point < lifetimes.n_points; point++) {
        for (int role = 0; role < ROLE_COUNT; role++) {
            by_role[role] += (uint64_t)changes[point].by_role[role];
            bytes += (uint64_t)changes[point].by_role[role];
        }
        if (bytes > water->bytes) {
            water->bytes = bytes;
            memcpy(water->by_role, by_role, sizeof by_role);
            highest = point;
        }
    }
    find_moment(water, &lifetimes, program, highest);
    free(changes);
    lifetimes_fini(&lifetimes);
}

void high_water_fini(struct high_water *water)
{
    free(water->ops);
    *water = (struct high_water){0};
}

struct memory_peak memory_peak(const struct stream_order *order, const struct moment *moments,
                               const double phase_end[PHASE_COUNT])
{
    struct high_water water;
    high_water_init(&water, order);
    const struct instance_times times = {.moments = moments};
    struct memory_peak peak = {.bytes = water.bytes, .at_seconds = high_water_seconds(&water, &times, phase_end)};
    memcpy(peak.by_role, water.by_role, sizeof peak.by_role);
    high_water_fini(&water);
    return peak;
}
