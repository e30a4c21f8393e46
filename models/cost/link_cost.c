/* link_cost.c - what a message waits before its bytes move, and how fast they can.
 *
 * By its channels, by the protocol of the collective that it is a part of, or by a size curve; and no faster than its
 * part of a fan.
 *
 * A size curve gives the whole time of messages of a few sizes, bytes / bandwidth. Between two of them time is linear
 * in size, and so it is from alpha at no bytes to the first point; beyond the last the last bandwidth holds.
 * Interpolating time, not bandwidth, keeps it monotone where bandwidth grows as fast as size does (a transport that
 * takes as long for 64 MiB as for 128). Where a larger message of the curve took less time than a smaller one (a
 * transport that changes its protocol too late), the larger one's counts: no message need take longer than a larger
 * one. Blocks of keys and values lie at the large end, so it is there that the curve has to hold.
 *
 * A flowing collective (models/schedule/program.h) is a pipelined ring of N members whose one message stands for n
 * steps: n = N - 1 of an all-gather or a reduce-scatter, 2 (N - 1) of an all-reduce, whose bytes are n / N of the data.
 * By a protocol it takes what it takes written out: the protocol's start and all bytes at its rate. By channels or a
 * curve, n times what a step's message waits, and the bytes at the rate that such a message has: as if no step began
 * before the one before it ended, which is right for a ring in step over links that are alike. Its sums are a part of
 * the rate.
 * A ring is as fast as its slowest part: a message to a neighbour that is nearer than others takes what one over the
 * outermost level of the ring takes, by that level's own latency and bandwidth. What this leaves out: steps over links
 * of several latencies wait for some of them each, not all for the longest; who comes behind a slow link gets its first
 * blocks sooner; and what others do to a slow link, members elsewhere in the ring do not feel.
 */
#include <math.h>

#include "models/cost/cost.h"

/* Whole time of a message of `bytes` by the curve: downwards from its end to the two points around `bytes`. */
static double curve_seconds(const struct level *level, double alpha_seconds, double bytes)
{
    const struct curve_point *curve = level->curve;
    size_t i = level->n_curve - 1;
    double seconds = fmax(alpha_seconds, curve[i].bytes / curve[i].bytes_per_s);
    if (bytes >= curve[i].bytes)
        return fmax(seconds, bytes / curve[i].bytes_per_s);
    for (;; i--) {
        double from_bytes = i ? curve[i - 1].bytes : 0.0;
        double from_seconds = i ? fmax(alpha_seconds, from_bytes / curve[i - 1].bytes_per_s) : alpha_seconds;
        from_seconds = fmin(from_seconds, seconds);
        if (bytes >= from_bytes)
            return from_seconds + (seconds - from_seconds) * (bytes - from_bytes) / (curve[i].bytes - from_bytes);
        seconds = from_seconds;
    }
}

/* How many messages one after the other a transfer stands for, and the bytes of each. */
static double steps_of(const struct transfer *transfer)
{
    return transfer->steps > 1 ? transfer->steps : 1;
}

static double step_bytes(const struct transfer *transfer)
{
    return (double)transfer->bytes / steps_of(transfer);
}

static struct transfer_cost by_curve(const struct cost *cost, const struct route *route,
                                     const struct transfer *transfer)
{
    const struct level *level = &cost->topology->levels[route->level];
    double bytes = step_bytes(transfer), delay = route->alpha_seconds;
    if (level->n_curve > 0 && mechanism_counts(cost->without, MECHANISM_CURVES))
        delay = fmax(delay, curve_seconds(level, route->alpha_seconds, bytes) - bytes / level->bytes_per_s);
    return (struct transfer_cost){
        .delay_seconds = delay * steps_of(transfer), .bytes_per_s = route->bytes_per_s, .level = route->level};
}

/* Alpha of the route, with `seconds` in place of its outermost level's latency. */
static double alpha_with(const struct cost *cost, const struct route *route, double seconds)
{
    return fmax(0.0, route->alpha_seconds - cost->topology->levels[route->level].latency_seconds) + seconds;
}

static double share(uint64_t bytes, uint64_t of)
{
    return of > bytes ? (double)bytes / (double)of : 1.0;
}

/* How many messages a channel serves at once: those posted together have channels of their own, while there are. */
static double load_of(const struct channels *channels, const struct transfer *transfer)
{
    return fmax(1.0, ceil(channels->count / share(transfer->bytes, transfer->posted_bytes) / channels->all - 1e-9));
}

static struct transfer_cost by_channels(const struct cost *cost, const struct route *route,
                                        const struct transfer *transfer)
{
    const struct level *level = &cost->topology->levels[route->level];
    struct channels channels =
        channels_of(cost->topology, transfer->communicator, route->level, (uint64_t)ceil(step_bytes(transfer)));
    double channel = channels.small ? level->ll_bytes_per_s : level->channel_bytes_per_s;
    double to_peer = channels.count * channel, to_all = INFINITY;
    double start = !channels.small && level->channel_seconds > 0 ? level->channel_seconds : level->latency_seconds;
    enum message_class class = MESSAGE_LONE;
    if (level->message_bytes_per_s > 0)
        to_peer = fmin(to_peer, level->message_bytes_per_s);
    if (level->n_protocols && mechanism_counts(cost->without, MECHANISM_COLLECTIVES)) {
        const struct protocol *large = &level->protocols[level->n_protocols - 1];
        to_all = large->bytes_per_s; /* to several peers a rank sends no faster than in a collective */
        if (transfer->call != CALL_COUNT) {
            start = channels.small ? level->protocols[0].start_seconds : large->start_seconds;
            class = channels.small ? MESSAGE_OF_SMALL_COLLECTIVE : MESSAGE_OF_COLLECTIVE;
        }
    }
    double rate = fmin(to_peer * share(transfer->bytes, transfer->peer_bytes),
                       channels.count * channel / load_of(&channels, transfer));
    if (transfer->posted_bytes > transfer->peer_bytes)
        rate = fmin(rate, to_all * share(transfer->bytes, transfer->posted_bytes));
    return (struct transfer_cost){alpha_with(cost, route, start) * steps_of(transfer), fmin(rate, route->bytes_per_s),
                                  channels.count, class, route->level};
}

/* However the collective is written out, its groups one after the other make the protocol's start and rate. */
static struct transfer_cost by_protocol(const struct cost *cost, const struct route *route,
                                        const struct transfer *transfer)
{
    const struct level *level = &cost->topology->levels[route->level];
    double further = transfer->members ? transfer->members - 1.0 : 0.0, least = INFINITY, start = 0.0, rate = 0.0;
    enum message_class class = MESSAGE_OF_COLLECTIVE;
    for (size_t i = 0; i < level->n_protocols; i++) {
        const struct protocol *protocol = &level->protocols[i];
        double begun = protocol->start_seconds + further * protocol->member_seconds;
        double seconds = begun + (double)transfer->level_bytes / protocol->bytes_per_s;
        if (seconds >= least)
            continue;
        least = seconds;
        start = begun;
        rate = protocol->bytes_per_s;
        class = i + 1 < level->n_protocols ? MESSAGE_OF_SMALL_COLLECTIVE : MESSAGE_OF_COLLECTIVE;
    }
    return (struct transfer_cost){alpha_with(cost, route, start / transfer->rounds),
                                  fmin(rate * share(transfer->bytes, transfer->posted_bytes), route->bytes_per_s), 0,
                                  class, route->level};
}

static struct transfer_cost by_library(const struct cost *cost, const struct route *route,
                                       const struct transfer *transfer)
{
    const struct level *level = &cost->topology->levels[route->level];
    bool is_collective = transfer->call != CALL_COUNT && transfer->call != CALL_ALL_TO_ALL;
    if (is_collective && level->n_protocols && mechanism_counts(cost->without, MECHANISM_COLLECTIVES))
        return by_protocol(cost, route, transfer);
    if (level->channels && mechanism_counts(cost->without, MECHANISM_CHANNELS))
        return by_channels(cost, route, transfer);
    return by_curve(cost, route, transfer);
}

/* What a message of a flowing collective would take over the outermost level of its ring. */
static struct transfer_cost over_span(const struct cost *cost, const struct route *route,
                                      const struct transfer *transfer)
{
    const struct level *level = &cost->topology->levels[transfer->communicator.span];
    struct route outermost = *route;
    struct transfer as_there = *transfer;
    outermost.level = transfer->communicator.span;
    outermost.alpha_seconds = fmax(route->alpha_seconds, level->latency_seconds);
    outermost.bytes_per_s = fmin(route->bytes_per_s, level->bytes_per_s);
    as_there.members = transfer->span_members;
    uint64_t all = transfer->level_bytes / transfer->rounds;
    if (all > transfer->bytes) /* of several rings one leaves the node here: the others leave it elsewhere, as fast */
        as_there.bytes = as_there.posted_bytes = all - transfer->bytes;
    struct transfer_cost pace = by_library(cost, &outermost, &as_there);
    pace.bytes_per_s *= (double)transfer->bytes / (double)as_there.bytes;
    return pace;
}

static double seconds_of(const struct transfer_cost *cost, const struct transfer *transfer)
{
    return cost->delay_seconds + (double)transfer->bytes / cost->bytes_per_s;
}

struct transfer_cost cost_transfer(const struct cost *cost, const struct route *route, const struct transfer *transfer)
{
    struct transfer_cost result = by_library(cost, route, transfer);
    if (transfer->steps > 1 && transfer->communicator.span > route->level && !cost->topology->graph) {
        struct transfer_cost pace = over_span(cost, route, transfer);
        result = seconds_of(&pace, transfer) > seconds_of(&result, transfer) ? pace : result;
    }
    bool fans = transfer->fan_bytes_per_s > 0 && mechanism_counts(cost->without, MECHANISM_FANS);
    if (fans && transfer->fan_bytes_per_s < result.bytes_per_s) {
        result.bytes_per_s = transfer->fan_bytes_per_s;
        result.class = MESSAGE_OF_COLLECTIVE;
        result.level = transfer->fan_level;
    }
    return result;
}
