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
 * A gap's exposed time is of one kind: that of the message that ended last of those waited for in it.
 *
 * Invariants: compute + exposed + idle = the step; compute + exposed <= time in which the rank computes or
 * communicates; overlapped <= min(compute, communication).
 */
#include "models/result/rank_time.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/result/intervals.h"

static void raise(uint32_t *value, uint32_t to)
{
    if (*value < to)
        *value = to;
}

struct walk {
    const struct rank_ops *ops;
    const struct moment *moments;
    uint32_t seen[STREAM_COUNT];     /* [which stream]: the messages that the compute streams have not waited for begin
                                        here,     in ops.by_stream */
    struct intervals beside;         /* computing in other streams than these */
    size_t beside_at;                /* those below ended before the gap at hand */
    struct intervals waited, filled; /* of the gap at hand: messages waited for, computing beside */
    double last_end;                 /* of those messages, the latest end in the gap, and its kind */
    enum wait_kind last_kind;
    struct rank_time *time;
};

/* Merges the kernels of both compute streams by their begin; each stream's own are in order. */
static void order_kernels(struct rank_time *time, const struct rank_ops *ops, const struct moment *moments)
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
            bool second = at[0] >= end[0] ||
                          (at[1] < end[1] && (moments[*at[1]].begin < moments[*at[0]].begin ||
                                              (moments[*at[1]].begin <= moments[*at[0]].begin && *at[1] < *at[0])));
            kernels[count++] = *at[second]++;
        }
        kernels += time->n_kernels[phase] = count;
    }
}

static void add_clipped(struct intervals *set, double from, double to, double begin, double end)
{
    intervals_add(set, from > begin ? from : begin, to < end ? to : end);
}

/* Notes that message `i` is waited for in the gap [begin, end). */
static void add_message(struct walk *walk, uint32_t i, double begin, double end)
{
    struct moment moment = walk->moments[i];
    add_clipped(&walk->waited, moment.begin, moment.end, begin, end);
    double last = moment.end < end ? moment.end : end;
    if (!(moment.begin < end && last > walk->last_end))
        return;
    walk->last_end = last;
    walk->last_kind = wait_kind_of((enum traffic)walk->ops->program->ops[i].traffic);
}

static void start_gap(struct walk *walk, double begin, double end)
{
    intervals_clear(&walk->waited);
    intervals_clear(&walk->filled);
    walk->last_end = begin;
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
    time->exposed_by_kind[walk->last_kind] += *exposed;
}

/* Adds messages [first, end) of a stream, as far as they were under way in the gap [from, to). */
static void add_messages(struct walk *walk, uint32_t first, uint32_t end, double from, double to)
{
    for (uint32_t m = first; m < end; m++)
        add_message(walk, walk->ops->by_stream[m], from, to);
}

static const uint32_t *waited_by(const struct walk *walk, uint32_t op)
{
    return walk->ops->waited + (size_t)op * walk->ops->n_streams;
}

/* Adds the messages that `op` waits for, as far as they were under way in the gap [begin, end). Each message is looked
 * at once in the whole walk: what `op` has waited for is over when the next gap begins. */
static void add_waited(struct walk *walk, uint32_t op, double begin, double end)
{
    const uint32_t *waited = waited_by(walk, op);
    for (uint32_t which = 0; which < walk->ops->n_streams; which++) {
        if (begin < end)
            add_messages(walk, walk->seen[which], waited[which], begin, end);
        raise(&walk->seen[which], waited[which]);
    }
}

/* Adds what `op`, which begins later than the gap ends, waits for in it already. Most of that will be looked at again,
 * but not far ahead: messages of a stream begin in order, but for those of a group. */
static void add_awaited(struct walk *walk, uint32_t op, double begin, double end)
{
    const uint32_t *waited = waited_by(walk, op);
    for (uint32_t which = 0; which < walk->ops->n_streams; which++) {
        for (uint32_t m = walk->seen[which]; m < waited[which]; m++) {
            uint32_t i = walk->ops->by_stream[m];
            if (walk->moments[i].begin >= end && !walk->ops->program->ops[i].group)
                break;
            add_message(walk, i, begin, end);
        }
    }
}

/* The first of `kernels` that is of another stream than `op`; NULL if none is. */
static const uint32_t *next_of_other_stream(const struct walk *walk, uint32_t op, const uint32_t *kernels,
                                            const uint32_t *end)
{
    const struct program *program = walk->ops->program;
    if (!walk->ops->kernels[1].n[PHASE_FORWARD] && !walk->ops->kernels[1].n[PHASE_BACKWARD])
        return NULL;
    while (kernels < end && program->ops[*kernels].stream == program->ops[op].stream)
        kernels++;
    return kernels < end ? kernels : NULL;
}

/* Adds what is under way behind the last kernel of a phase that ends with operation `last`: those seen are over. */
static void add_rest(struct walk *walk, uint32_t last, double begin, double end)
{
    for (uint32_t which = 0; which < walk->ops->n_streams; which++) {
        uint32_t m = walk->seen[which];
        while (m < walk->ops->first[which + 1] && walk->ops->by_stream[m] < last)
            m++;
        add_messages(walk, walk->seen[which], m, begin, end);
        raise(&walk->seen[which], m);
    }
}

/* Walks one phase, which lasted from `begin` to `end`, and its kernels. */
static void walk_phase(struct walk *walk, int phase, const uint32_t *kernels, double begin, double end)
{
    struct rank_time *time = walk->time;
    const uint32_t *kernels_end = kernels + time->n_kernels[phase], *other = kernels;
    double free_since = begin;
    for (; kernels < kernels_end; kernels++) {
        uint32_t i = *kernels;
        struct moment moment = walk->moments[i];
        bool gap = moment.begin > free_since;
        if (gap)
            start_gap(walk, free_since, moment.begin);
        add_waited(walk, i, free_since, moment.begin);
        if (other && other <= kernels)
            other = next_of_other_stream(walk, i, kernels, kernels_end);
        if (other && gap)
            add_awaited(walk, *other, free_since, moment.begin);
        if (gap)
            end_gap(walk, free_since, moment.begin, &time->exposed_before[i], &time->idle_before[i]);
        if (moment.end > free_since)
            free_since = moment.end;
    }
    /* What is under way behind the last kernel is all waited for: the phase ends with it. */
    start_gap(walk, free_since, end);
    add_rest(walk, walk->ops->program->phase_end[phase], free_since, end);
    end_gap(walk, free_since, end, &time->exposed_tail[phase], &time->idle_tail[phase]);
}

/* When `ops` ran, in order; and `last`, when the last of them ended, if it was later. */
static struct intervals busy(const uint32_t *ops, uint32_t count, const struct moment *moments, double *last)
{
    struct intervals set = {.items = memory_resized(NULL, count, sizeof *set.items), .capacity = count};
    for (uint32_t i = 0; i < count; i++) {
        const struct moment *moment = &moments[ops[i]];
        intervals_add(&set, moment->begin, moment->end);
        if (moment->end > *last)
            *last = moment->end;
    }
    intervals_unite(&set);
    return set;
}

static void measure_busy(struct rank_time *time, const struct rank_ops *ops, const struct moment *moments)
{
    struct intervals compute = busy(ops->locals, ops->n_locals, moments, &time->seconds);
    struct intervals communication = busy(ops->messages, ops->n_messages, moments, &time->seconds);
    time->compute_seconds = intervals_seconds(&compute);
    time->communication_seconds = intervals_seconds(&communication);
    time->overlapped_seconds = intervals_common_seconds(&compute, &communication);
    intervals_fini(&compute);
    intervals_fini(&communication);
}

/* Splits what was computed: two streams may compute at once. */
static void measure_parts(struct rank_time *time, const struct rank_ops *ops, const struct moment *moments)
{
    struct intervals parts[COMPUTE_PARTS] = {{0}}, taken = {0}, again = {0};
    for (uint32_t l = 0; l < ops->n_locals; l++) {
        uint32_t i = ops->locals[l];
        intervals_add(&parts[compute_part_of(&ops->program->ops[i])], moments[i].begin, moments[i].end);
        if (op_is_recomputed(ops->program, i))
            intervals_add(&again, moments[i].begin, moments[i].end);
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

void rank_time_init(struct rank_time *time, const struct rank_ops *ops, const struct moment *moments,
                    const double phase_end[PHASE_COUNT])
{
    *time = (struct rank_time){
        .exposed_before = memory_zeroed(ops->program->n_ops, sizeof(double)),
        .idle_before = memory_zeroed(ops->program->n_ops, sizeof(double)),
    };
    measure_busy(time, ops, moments);
    if (ops->program->n_works)
        measure_parts(time, ops, moments);
    order_kernels(time, ops, moments);
    double last = 0;
    struct walk walk = {.ops = ops, .moments = moments, .time = time};
    memcpy(walk.seen, ops->first, sizeof walk.seen);
    walk.beside = busy(ops->beside, ops->n_beside, moments, &last);
    const uint32_t *kernels = time->kernels;
    for (int phase = 0; phase < PHASE_COUNT; kernels += time->n_kernels[phase++])
        walk_phase(&walk, phase, kernels, phase ? phase_end[phase - 1] : 0, phase_end[phase]);
    intervals_fini(&walk.beside);
    intervals_fini(&walk.waited);
    intervals_fini(&walk.filled);
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        time->exposed_seconds += time->exposed_by_kind[kind];
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
