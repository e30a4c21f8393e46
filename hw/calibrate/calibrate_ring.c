/* calibrate_ring.c - which ranks are in which ring, and what the times of its exchanges say. */
#include "hw/calibrate/calibrate_ring.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

#define REPEATS_MAX 200
#define REPEATS_MIN 9
#define KEPT_MIN 5

bool exchanges_settle(const struct crew *crew, double *seconds, double *interrupted, size_t repeats,
                      struct measured *result)
{
    if (!crew_largest(crew, interrupted, (uint32_t)repeats))
        return false;
    size_t n = 0;
    for (size_t i = 0; i < repeats; i++)
        if (interrupted[i] <= 0)
            seconds[n++] = seconds[i];
    if (n < KEPT_MIN && n < repeats) {
        measured_of(seconds, repeats); /* sorts them */
        n = (repeats + 1) / 2;
    }
    *result = measured_of(seconds, n);
    return true;
}

/* Times of one size: the first exchanges are not counted. */
static bool measure_size(struct ring *ring, uint64_t bytes, double budget, struct link_point *point)
{
    double once = 0, seconds[REPEATS_MAX] = {0}, interrupted[REPEATS_MAX] = {0};
    if (!crew_meet(ring->crew))
        return false;
    for (int i = 0; i < 3 && ring->member; i++)
        if (!ring->exchange(ring, bytes, &once, &interrupted[0]))
            return false;
    interrupted[0] = 0;
    if (!crew_largest(ring->crew, &once, 1))
        return false;
    size_t repeats = once > 0 && budget / once < REPEATS_MAX ? (size_t)(budget / once) : REPEATS_MAX;
    repeats = repeats < REPEATS_MIN ? REPEATS_MIN : repeats;
    for (size_t i = 0; i < repeats && ring->member; i++)
        if (!ring->exchange(ring, bytes, &seconds[i], &interrupted[i]))
            return false;
    struct measured time;
    if (!exchanges_settle(ring->crew, seconds, interrupted, repeats, &time))
        return false;
    double sums[3] = {ring->member ? time.value : 0, ring->member ? time.spread : 0, ring->member ? 1 : 0};
    if (!crew_mean(ring->crew, sums, 3))
        return false;
    *point = (struct link_point){(double)bytes, sums[0] / sums[2], sums[1] / sums[2]};
    return true;
}

/* The sizes that `ring` is measured at. */
struct sizes {
    const uint64_t *bytes;
    size_t count;
};

static bool measure_level(struct calibration_part *part, struct ring *ring, const struct sizes *sizes,
                          struct measured_level *level, double seconds)
{
    struct link_point points[LINK_POINTS_MAX];
    size_t n = 0;
    double spreads[LINK_POINTS_MAX];
    for (; n < sizes->count && n < LINK_POINTS_MAX; n++) {
        if (!measure_size(ring, sizes->bytes[n], seconds / (double)(sizes->count + 1), &points[n]))
            return false;
        spreads[n] = points[n].spread;
        part->progress(part, (double)n / (double)sizes->count);
    }
    level->fit = link_fit(points, n);
    level->spread = measured_of(spreads, n).value;
    return true;
}

/* Closes the ring over the ranks for which `host_of_rank` says so: those of this rank's host, or the first of every
 * host. */
static void close_ring(struct ring *ring, const uint32_t *host_of_rank, bool across)
{
    uint32_t ranks = ring->crew->ranks, mine = ring->crew->rank, members[2] = {mine, mine};
    bool seen_next = false, first_of_host = true;
    for (uint32_t r = 0; r < mine; r++)
        first_of_host = first_of_host && host_of_rank[r] != host_of_rank[mine];
    ring->member = !across || first_of_host;
    for (uint32_t step = 1; step < ranks; step++) {
        uint32_t r = (mine + step) % ranks;
        bool counts = across ? true : host_of_rank[r] == host_of_rank[mine];
        for (uint32_t k = 0; k < r && counts && across; k++)
            counts = host_of_rank[k] != host_of_rank[r];
        if (!counts)
            continue;
        if (!seen_next)
            members[0] = r;
        seen_next = true;
        members[1] = r;
    }
    ring->next = members[0];
    ring->previous = members[1];
}

/* Ranks of one host must follow each other, as many on each: what a topology of two levels can say. */
static bool hosts_are_even(const uint32_t *host_of_rank, uint32_t ranks, uint32_t n_hosts)
{
    for (uint32_t r = 0; r < ranks; r++)
        if (ranks % n_hosts || host_of_rank[r] != r / (ranks / n_hosts))
            return false;
    return true;
}

void ring_of_all(struct ring *ring)
{
    const struct crew *crew = ring->crew;
    ring->member = true;
    ring->next = (crew->rank + 1) % crew->ranks;
    ring->previous = (crew->rank + crew->ranks - 1) % crew->ranks;
}

bool calibrate_levels(struct calibration_part *part, struct ring *ring, const uint64_t *sizes, size_t n_sizes)
{
    struct calibration *calibration = part->calibration;
    const struct crew *crew = part->crew;
    uint32_t *host_of_rank = memory_zeroed(crew->ranks, sizeof *host_of_rank), n_hosts;
    const struct sizes all = {sizes, n_sizes};
    bool good = crew_hosts(crew, host_of_rank, &n_hosts);
    calibration->n_hosts = n_hosts;
    if (good && !hosts_are_even(host_of_rank, crew->ranks, n_hosts)) {
        crew->transport->fail(crew->end, "calibration needs as many ranks on every host, those of a host one after the "
                                         "other");
        good = false;
    }
    uint32_t per_host = good ? crew->ranks / n_hosts : 1;
    double share = per_host > 1 && n_hosts > 1 ? 0.5 : 1;
    if (good && (per_host > 1 || n_hosts == 1)) {
        struct measured_level *level = &calibration->levels[calibration->n_levels++];
        *level = (struct measured_level){.size = per_host};
        strcpy(level->name, n_hosts > 1 ? "node" : "host");
        close_ring(ring, host_of_rank, false);
        good = measure_level(part, ring, &all, level, share * part->seconds);
    }
    if (good && n_hosts > 1) {
        struct measured_level *level = &calibration->levels[calibration->n_levels++];
        *level = (struct measured_level){.size = n_hosts};
        strcpy(level->name, per_host > 1 ? "cluster" : "network");
        close_ring(ring, host_of_rank, true);
        good = measure_level(part, ring, &all, level, share * part->seconds);
    }
    free(host_of_rank);
    return good;
}
