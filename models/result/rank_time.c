/* rank_time.c - splits a rank's time into computing, exposed communication and idle (definitions: report.h).
 *
 * What is subtracted to get idle time is measured, not assumed: it is the step without what was computed, and without
 * what was exposed in the gaps between (rank_gaps.h).
 *
 * Invariants: compute + exposed + idle = the step; compute + exposed <= time in which the rank computes or
 * communicates; overlapped <= min(compute, communication).
 */
#include "models/result/rank_time.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/result/intervals.h"

static bool begins_before(const struct instance_times *times, uint32_t a, uint32_t b)
{
    double a_begin = instance_span(times, a).begin, b_begin = instance_span(times, b).begin;
    return a_begin < b_begin || (a_begin <= b_begin && a < b);
}

/* Merges the kernels of both compute streams by their begin; each stream's own are in order. */
static void order_kernels(struct rank_time *time, const struct rank_ops *ops, const struct instance_times *times)
{
    const uint32_t *at[COMPUTE_STREAMS] = {ops->kernels[0].ops, ops->kernels[1].ops};
    uint32_t *kernels = memory_resized(NULL, ops->n_locals, sizeof *kernels);
    time->kernels = kernels;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const uint32_t *end[COMPUTE_STREAMS];
        for (int s = 0; s < COMPUTE_STREAMS; s++)
            end[s] = at[s] + ops->kernels[s].n[phase];
        uint32_t count = 0;
        while (at[0] < end[0] || at[1] < end[1]) {
            bool second = at[0] >= end[0] || (at[1] < end[1] && begins_before(times, *at[1], *at[0]));
            kernels[count++] = *at[second]++;
        }
        kernels += time->n_kernels[phase] = count;
    }
}

/* When `ops` ran, in order; and `last`, when the last of them ended, if it was later. */
static struct intervals busy(const uint32_t *ops, uint32_t count, const struct instance_times *times, double *last)
{
    struct intervals set = {.items = memory_resized(NULL, count, sizeof *set.items), .capacity = count};
    for (uint32_t i = 0; i < count; i++) {
        struct interval span = instance_span(times, ops[i]);
        intervals_add(&set, span.begin, span.end);
        if (span.end > *last)
            *last = span.end;
    }
    intervals_unite(&set);
    return set;
}

static void measure_busy(struct rank_time *time, const struct rank_ops *ops, const struct instance_times *times)
{
    struct intervals compute = busy(ops->locals, ops->n_locals, times, &time->seconds);
    struct intervals communication = busy(ops->messages, ops->n_messages, times, &time->seconds);
    time->compute_seconds = intervals_seconds(&compute);
    time->communication_seconds = intervals_seconds(&communication);
    time->overlapped_seconds = intervals_common_seconds(&compute, &communication);
    intervals_fini(&compute);
    intervals_fini(&communication);
}

/* Splits what was computed: two streams may compute at once. */
static void measure_parts(struct rank_time *time, const struct rank_ops *ops, const struct instance_times *times)
{
    struct intervals parts[COMPUTE_PARTS] = {{0}}, taken = {0}, again = {0};
    for (uint32_t l = 0; l < ops->n_locals; l++) {
        uint32_t i = ops->locals[l];
        struct interval span = instance_span(times, i);
        intervals_add(&parts[compute_part_of(&ops->program->ops[i])], span.begin, span.end);
        if (op_is_recomputed(ops->program, i))
            intervals_add(&again, span.begin, span.end);
    }
    double rest = time->compute_seconds;
    for (int part = 0; part < COMPUTE_OTHER; part++) {
        intervals_unite(&parts[part]);
        intervals_subtract(&parts[part], &taken);
        time->compute_by_part[part] = intervals_seconds(&parts[part]);
        rest -= time->compute_by_part[part];
        for (size_t i = 0; i < parts[part].count; i++)
            intervals_add(&taken, parts[part].items[i].begin, parts[part].items[i].end);
        intervals_unite(&taken);
    }
    time->compute_by_part[COMPUTE_OTHER] = rest > 0 ? rest : 0;
    intervals_unite(&again);
    time->recomputed_seconds = intervals_seconds(&again);
    for (int part = 0; part < COMPUTE_PARTS; part++)
        intervals_fini(&parts[part]);
    intervals_fini(&taken);
    intervals_fini(&again);
}

static double idle_rest(double step_seconds, double compute_seconds, double exposed_seconds)
{
    double idle = step_seconds - compute_seconds - exposed_seconds;
    return idle < 0 && idle > -1e-12 * step_seconds ? 0 : idle; /* rounding */
}

void rank_time_init(struct rank_time *time, const struct rank_ops *ops, struct instance_times times,
                    const double phase_end[PHASE_COUNT])
{
    *time = (struct rank_time){.before = memory_zeroed(ops->program->n_ops, sizeof *time->before)};
    measure_busy(time, ops, &times);
    if (ops->program->n_works)
        measure_parts(time, ops, &times);
    order_kernels(time, ops, &times);
    struct rank_gaps gaps = {.before = time->before, .exposed = &time->exposed};
    rank_gaps_walk(&gaps, ops, times, time->kernels, time->n_kernels, phase_end);
    memcpy(time->exposed_by_kind, gaps.exposed_by_kind, sizeof time->exposed_by_kind);
    memcpy(time->tail, gaps.tail, sizeof time->tail);
    time->exposed_seconds = rank_gaps_exposed(&gaps);
    time->idle_seconds = idle_rest(phase_end[PHASE_COUNT - 1], time->compute_seconds, time->exposed_seconds);
}

void rank_time_fini(struct rank_time *time)
{
    free(time->kernels);
    free(time->before);
    intervals_fini(&time->exposed);
}

/* Most programs compute one operation after the other, and then no set of intervals is needed. */
double rank_compute_seconds(const struct rank_ops *ops, struct instance_times times)
{
    struct interval run = {0, 0};
    double seconds = 0, last = 0;
    for (uint32_t l = 0; l < ops->n_locals; l++) {
        struct interval span = instance_span(&times, ops->locals[l]);
        if (!(span.end > span.begin))
            continue;
        if (span.begin < run.begin) {
            struct intervals set = busy(ops->locals, ops->n_locals, &times, &last);
            seconds = intervals_seconds(&set);
            intervals_fini(&set);
            return seconds;
        }
        if (span.begin > run.end) {
            seconds += run.end - run.begin;
            run = span;
        } else if (span.end > run.end) {
            run.end = span.end;
        }
    }
    return seconds + (run.end - run.begin);
}

double rank_idle_seconds(const struct rank_ops *ops, struct instance_times times, const double phase_end[PHASE_COUNT],
                         double compute_seconds)
{
    struct rank_gaps gaps = {0};
    if (ops->kernels[1].n[PHASE_FORWARD] + ops->kernels[1].n[PHASE_BACKWARD] == 0) {
        rank_gaps_walk(&gaps, ops, times, ops->kernels[0].ops, ops->kernels[0].n, phase_end);
    } else {
        struct rank_time time;
        order_kernels(&time, ops, &times);
        rank_gaps_walk(&gaps, ops, times, time.kernels, time.n_kernels, phase_end);
        free(time.kernels);
    }
    return idle_rest(phase_end[PHASE_COUNT - 1], compute_seconds, rank_gaps_exposed(&gaps));
}

double rank_idle_seconds_least(const struct rank_ops *ops, struct instance_times times,
                               const double phase_end[PHASE_COUNT])
{
    const uint32_t *last = ops->last;
    double least = 0;
    for (int phase = 0; phase < PHASE_COUNT; last += ops->n_last[phase++]) {
        double ended = phase ? phase_end[phase - 1] : 0;
        for (uint32_t i = 0; i < ops->n_last[phase]; i++) {
            double end = instance_span(&times, last[i]).end;
            ended = end > ended ? end : ended;
        }
        least += phase_end[phase] - ended;
    }
    return least;
}
