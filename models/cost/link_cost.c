/* link_cost.c - what a message of some size loses against alpha and the full bandwidth of its links.
 *
 * A size curve gives the whole time of messages of a few sizes, bytes / bandwidth. Between two of them time is linear
 * in size, and so it is from alpha at no bytes to the first point; beyond the last the last bandwidth holds.
 * Interpolating time, not bandwidth, keeps it monotone where bandwidth grows as fast as size does (a transport that
 * takes as long for 64 MiB as for 128). Where a larger message of the curve took less time than a smaller one (a
 * transport that changes its protocol too late), the larger one's counts: no message need take longer than a larger
 * one. Blocks of keys and values lie at the large end, so it is there that the curve has to hold.
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

double cost_message_delay(const struct cost *cost, const struct route *route, uint64_t bytes)
{
    const struct level *level = &cost->topology->levels[route->level];
    double alpha = route->alpha_seconds;
    if (level->n_curve == 0)
        return alpha;
    return fmax(alpha, curve_seconds(level, alpha, (double)bytes) - (double)bytes / level->bytes_per_s);
}
