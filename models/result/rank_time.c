/* rank_time.c - splits a rank's time into computing, exposed communication and idle (definitions: report.h).
 *
 * The idea: walk the compute stream's local operations in order. Between two of them lies a gap (or none). What the
 * rank computes in it in another stream (the sums of a reduce-scatter) is compute. The later operation has waited for
 * certain messages: those that it waits for directly or through others (streams.h). The part of the gap in which one
 * of them was under way is exposed; in the rest nothing of this rank's moved that anybody waited for, so a peer was
 * late: idle. Behind the last kernel of a phase the rank waits for all of its transfers, and then for the other ranks.
 *
 * Two compute streams are walked as one, in order of begin: a gap is where neither runs anything. Both wait in it, so
 * what the other stream's next operation waits for counts as well.
 *
 * So waiting for a slow peer never passes for communication, and what is subtracted to get idle time is measured, not
 * assumed.
 *
 * Invariants: compute + exposed + idle = the step; compute + exposed <= time in which the rank computes or
 * communicates; overlapped <= min(compute, communication).
 */
#include "models/result/rank_time.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/result/intervals.h"
#include "models/schedule/streams.h"

static void raise(uint32_t *value, uint32_t to)
{
    if (*value < to)
        *value = to;
}

struct walk {
    const struct program *program;
    const struct stream_reach *reach;
    const struct moment *moments;
    uint32_t seen[STREAM_COUNT];     /* operations below this have been waited for by the compute streams */
    struct intervals beside;         /* computing in other streams than these */
    size_t beside_at;                /* those below ended before the gap at hand */
    struct intervals waited, filled; /* of the gap at hand: messages waited for, computing beside */
    struct rank_time *time;
};

/* Merges the local operations of both compute streams by their begin; each stream's own are in order. */
static void order_kernels(struct rank_time *time, const struct program *program, const struct moment *moments)
{
    static const enum stream streams[] = {STREAM_COMPUTE, STREAM_COMPUTE_2};
    uint32_t *kernels = memory_zeroed(program->n_ops, sizeof *kernels);
    time->kernels = kernels;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t at[2], end = program->phase_end[phase], count = 0;
        at[0] = at[1] = phase ? program->phase_end[phase - 1] : 0;
        for (;;) {
            for (int s = 0; s < 2; s++)
                while (at[s] < end &&
                       (program->ops[at[s]].stream != streams[s] || !op_is_compute(&program->ops[at[s]])))
                    at[s]++;
            if (at[0] >= end && at[1] >= end)
                break;
            bool second =
                at[0] >= end || (at[1] < end && (moments[at[1]].begin < moments[at[0]].begin ||
                                                 (moments[at[1]].begin <= moments[at[0]].begin && at[1] < at[0])));
            kernels[count++] = at[second]++;
        }
        kernels += time->n_kernels[phase] = count;
    }
}

static void add_clipped(struct intervals *set, double from, double to, double begin, double end)
{
    intervals_add(set, from > begin ? from : begin, to < end ? to : end);
}

static void start_gap(struct walk *walk, double begin, double end)
{
    intervals_clear(&walk->waited);
    intervals_clear(&walk->filled);
    const struct intervals *beside = &walk->beside;
    while (walk->beside_at < beside->count && beside->items[walk->beside_at].end <= begin)
        walk->beside_at++;
    for (size_t i = walk->beside_at; i < beside->count && beside->items[i].begin < end; i++)
        add_clipped(&walk->filled, beside->items[i].begin, beside->items[i].end, begin, end);
}

/* Splits the gap [begin, end) once the messages waited for in it are known. Gaps are disjoint and come in order, so
 * what was exposed in each adds up to the whole set. */
static void end_gap(struct walk *walk, double begin, double end, double *exposed, double *idle)
{
    struct rank_time *time = walk->time;
    intervals_unite(&walk->waited);
    intervals_subtract(&walk->waited, &walk->filled);
    for (size_t i = 0; i < walk->waited.count; i++)
        intervals_add(&time->exposed, walk->waited.items[i].begin, walk->waited.items[i].end);
    *exposed = intervals_seconds(&walk->waited);
    double rest = end - begin - *exposed - intervals_seconds(&walk->filled);
    *idle = rest > 0 ? rest : 0;
    time->exposed_seconds += *exposed;
}

/* Adds the messages that `op` waits for, as far as they were under way in the gap [begin, end). Each operation is
 * looked at once in the whole walk: what `op` has waited for is over when the next gap begins. */
static void add_waited(struct walk *walk, uint32_t op, double begin, double end)
{
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        uint32_t last = walk->reach->last[op][stream];
        for (uint32_t i = walk->seen[stream]; i < last; i++) {
            const struct op *other = &walk->program->ops[i];
            if (other->stream == stream && op_is_message(other))
                add_clipped(&walk->waited, walk->moments[i].begin, walk->moments[i].end, begin, end);
        }
        raise(&walk->seen[stream], last);
    }
}

/* Adds what `op`, which begins later than the gap ends, waits for in it already. Most of that will be looked at again,
 * but not far ahead: messages of a stream begin in order, but for those of a group. */
static void add_awaited(struct walk *walk, uint32_t op, double begin, double end)
{
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        for (uint32_t i = walk->seen[stream]; i < walk->reach->last[op][stream]; i++) {
            const struct op *other = &walk->program->ops[i];
            if (other->stream != stream || !op_is_message(other))
                continue;
            if (walk->moments[i].begin >= end && !other->group)
                break;
            add_clipped(&walk->waited, walk->moments[i].begin, walk->moments[i].end, begin, end);
        }
    }
}

/* The first of `kernels` that is of another stream than `op`; NULL if none is. */
static const uint32_t *next_of_other_stream(const struct walk *walk, uint32_t op, const uint32_t *kernels,
                                            const uint32_t *end)
{
    while (kernels < end && walk->program->ops[*kernels].stream == walk->program->ops[op].stream)
        kernels++;
    return kernels < end ? kernels : NULL;
}

/* Walks one phase, which lasted from `begin` to `end`, and its kernels. */
static void walk_phase(struct walk *walk, int phase, const uint32_t *kernels, double begin, double end)
{
    struct rank_time *time = walk->time;
    uint32_t first = phase ? walk->program->phase_end[phase - 1] : 0, last = walk->program->phase_end[phase];
    const uint32_t *kernels_end = kernels + time->n_kernels[phase], *other = kernels;
    double free_since = begin;
    for (; kernels < kernels_end; kernels++) {
        uint32_t i = *kernels;
        struct moment moment = walk->moments[i];
        start_gap(walk, free_since, moment.begin);
        add_waited(walk, i, free_since, moment.begin);
        if (other && other <= kernels)
            other = next_of_other_stream(walk, i, kernels, kernels_end);
        if (other && moment.begin > free_since)
            add_awaited(walk, *other, free_since, moment.begin);
        end_gap(walk, free_since, moment.begin, &time->exposed_before[i], &time->idle_before[i]);
        if (moment.end > free_since)
            free_since = moment.end;
    }
    /* What is under way behind the last kernel is all waited for: the phase ends with it. */
    start_gap(walk, free_since, end);
    for (uint32_t i = first; i < last; i++)
        if (op_is_message(&walk->program->ops[i]))
            add_clipped(&walk->waited, walk->moments[i].begin, walk->moments[i].end, free_since, end);
    end_gap(walk, free_since, end, &time->exposed_tail[phase], &time->idle_tail[phase]);
}

static void measure_busy(struct rank_time *time, const struct program *program, const struct moment *moments)
{
    struct intervals compute = {0}, communication = {0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        intervals_add(op_is_message(&program->ops[i]) ? &communication : &compute, moments[i].begin, moments[i].end);
        if (moments[i].end > time->seconds)
            time->seconds = moments[i].end;
    }
    intervals_unite(&compute);
    intervals_unite(&communication);
    time->compute_seconds = intervals_seconds(&compute);
    time->communication_seconds = intervals_seconds(&communication);
    time->overlapped_seconds = intervals_common_seconds(&compute, &communication);
    intervals_fini(&compute);
    intervals_fini(&communication);
}

void rank_time_init(struct rank_time *time, const struct program *program, const struct stream_reach *reach,
                    const struct moment *moments, const double phase_end[PHASE_COUNT])
{
    *time = (struct rank_time){
        .exposed_before = memory_zeroed(program->n_ops, sizeof(double)),
        .idle_before = memory_zeroed(program->n_ops, sizeof(double)),
    };
    measure_busy(time, program, moments);
    order_kernels(time, program, moments);
    struct walk walk = {.program = program, .reach = reach, .moments = moments, .time = time};
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (!op_is_message(&program->ops[i]) && !op_is_compute(&program->ops[i]))
            intervals_add(&walk.beside, moments[i].begin, moments[i].end);
    intervals_unite(&walk.beside);
    const uint32_t *kernels = time->kernels;
    for (int phase = 0; phase < PHASE_COUNT; kernels += time->n_kernels[phase++])
        walk_phase(&walk, phase, kernels, phase ? phase_end[phase - 1] : 0, phase_end[phase]);
    intervals_fini(&walk.beside);
    intervals_fini(&walk.waited);
    intervals_fini(&walk.filled);
    time->idle_seconds = phase_end[PHASE_COUNT - 1] - time->compute_seconds - time->exposed_seconds;
    if (time->idle_seconds < 0 && time->idle_seconds > -1e-12 * phase_end[PHASE_COUNT - 1])
        time->idle_seconds = 0; /* rounding */
}

void rank_time_fini(struct rank_time *time)
{
    free(time->kernels);
    free(time->exposed_before);
    free(time->idle_before);
    intervals_fini(&time->exposed);
}
