/* rank_gaps.c - walks the compute streams' local operations in order.
 *
 * Between two of them lies a gap (or none). What the rank computes in it in another stream (the sums of a
 * reduce-scatter) is compute. The later operation has waited for certain messages: those that it waits for directly or
 * through others (streams.h). The part of the gap in which one of them was under way is exposed; in the rest nothing of
 * this rank's moved that anybody waited for, so a peer was late: idle. Behind the last kernel of a phase the rank waits
 * for all of its transfers, and then for the other ranks.
 *
 * Two compute streams are walked as one, in order of begin: a gap is where neither runs anything. Both wait in it, so
 * what the other stream's next operation waits for counts as well.
 *
 * So waiting for a slow peer never passes for communication.
 */
#include "models/result/rank_gaps.h"

#include <string.h>

static void raise(uint32_t *value, uint32_t to)
{
    if (*value < to)
        *value = to;
}

struct walk {
    const struct rank_ops *ops;
    struct instance_times times;
    uint32_t seen[STREAM_COUNT];     /* [which stream]: the messages that the compute streams have not waited for begin
                                        here, in     ops.by_stream */
    struct intervals beside;         /* computing in other streams than these */
    size_t beside_at;                /* those below ended before the gap at hand */
    struct intervals waited, filled; /* of the gap at hand: messages waited for, computing beside */
    double last_end;                 /* of those messages, the latest end in the gap, and its kind */
    enum wait_kind last_kind;
    struct rank_gaps *gaps;
};

static void add_clipped(struct intervals *set, double from, double to, double begin, double end)
{
    intervals_add(set, from > begin ? from : begin, to < end ? to : end);
}

/* Notes that message `i` is waited for in the gap [begin, end). */
static void add_message(struct walk *walk, uint32_t i, double begin, double end)
{
    struct interval span = instance_span(&walk->times, i);
    add_clipped(&walk->waited, span.begin, span.end, begin, end);
    double last = span.end < end ? span.end : end;
    if (!(span.begin < end && last > walk->last_end))
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
static void end_gap(struct walk *walk, double begin, double end, struct gap_seconds *seconds)
{
    struct rank_gaps *gaps = walk->gaps;
    intervals_unite(&walk->waited);
    intervals_subtract(&walk->waited, &walk->filled);
    double exposed = intervals_seconds(&walk->waited);
    gaps->exposed_by_kind[walk->last_kind] += exposed;
    for (size_t i = 0; gaps->exposed && i < walk->waited.count; i++)
        intervals_add(gaps->exposed, walk->waited.items[i].begin, walk->waited.items[i].end);
    double rest = end - begin - exposed - intervals_seconds(&walk->filled);
    if (seconds)
        *seconds = (struct gap_seconds){exposed, rest > 0 ? rest : 0};
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
            if (instance_span(&walk->times, i).begin >= end && !walk->ops->program->ops[i].group)
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
static void walk_phase(struct walk *walk, int phase, const uint32_t *kernels, uint32_t n_kernels, double begin,
                       double end)
{
    struct rank_gaps *gaps = walk->gaps;
    const uint32_t *kernels_end = kernels + n_kernels, *other = kernels;
    double free_since = begin;
    for (; kernels < kernels_end; kernels++) {
        uint32_t i = *kernels;
        struct interval span = instance_span(&walk->times, i);
        bool gap = span.begin > free_since;
        if (gap)
            start_gap(walk, free_since, span.begin);
        add_waited(walk, i, free_since, span.begin);
        if (other && other <= kernels)
            other = next_of_other_stream(walk, i, kernels, kernels_end);
        if (other && gap)
            add_awaited(walk, *other, free_since, span.begin);
        if (gap)
            end_gap(walk, free_since, span.begin, gaps->before ? &gaps->before[i] : NULL);
        if (span.end > free_since)
            free_since = span.end;
    }
    /* What is under way behind the last kernel is all waited for: the phase ends with it. */
    start_gap(walk, free_since, end);
    add_rest(walk, walk->ops->program->phase_end[phase], free_since, end);
    end_gap(walk, free_since, end, &gaps->tail[phase]);
}

void rank_gaps_walk(struct rank_gaps *gaps, const struct rank_ops *ops, struct instance_times times,
                    const uint32_t *kernels, const uint32_t n_kernels[PHASE_COUNT], const double phase_end[PHASE_COUNT])
{
    struct walk walk = {.ops = ops, .times = times, .gaps = gaps};
    memcpy(walk.seen, ops->first, sizeof walk.seen);
    for (uint32_t i = 0; i < ops->n_beside; i++) {
        struct interval span = instance_span(&times, ops->beside[i]);
        intervals_add(&walk.beside, span.begin, span.end);
    }
    intervals_unite(&walk.beside);
    for (int phase = 0; phase < PHASE_COUNT; kernels += n_kernels[phase++])
        walk_phase(&walk, phase, kernels, n_kernels[phase], phase ? phase_end[phase - 1] : 0, phase_end[phase]);
    intervals_fini(&walk.beside);
    intervals_fini(&walk.waited);
    intervals_fini(&walk.filled);
}

double rank_gaps_exposed(const struct rank_gaps *gaps)
{
    double seconds = 0;
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        seconds += gaps->exposed_by_kind[kind];
    return seconds;
}
