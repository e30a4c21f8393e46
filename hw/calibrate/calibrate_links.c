/* calibrate_links.c - messages: their times by size, and how much a rank computes more slowly while they move.
 *
 * The pattern is that of a ring step: every rank sends to the next and receives from the one before, at once, posted
 * and tested as the executor does. One rank alone sends to itself. On several hosts the ring is first closed within
 * each host, then over the first ranks of the hosts.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "hw/calibrate/attention_case.h"
#include "hw/run/executor.h"
#include "models/base/memory.h"

#define SMALLEST 1024
#define LARGEST (64 << 20)
#define QUICK_LARGEST (4 << 20)
#define ROOM (64 << 20)
#define REPEATS_MAX 200
#define REPEATS_MIN 9
#define KEPT_MIN 5

/* A ring that this rank is in. */
struct ring {
    const struct crew *crew;
    bool member; /* else this rank only waits */
    uint32_t next, previous;
    char *out, *in;
    size_t room, place; /* bytes of each; where the next message is */
    int requests[2];
    bool pending[2];
};

static void start_exchange(struct ring *ring, uint64_t bytes)
{
    const struct transport_ops *transport = ring->crew->transport;
    if (ring->place + bytes > ring->room)
        ring->place = 0;
    const struct piece_of_memory in = {ring->in + ring->place, bytes}, out = {ring->out + ring->place, bytes};
    ring->place += bytes;
    ring->requests[0] = transport->post(ring->crew->end, false, ring->previous, STREAM_EXCHANGE, &in, 1);
    ring->requests[1] = transport->post(ring->crew->end, true, ring->next, STREAM_EXCHANGE, &out, 1);
    ring->pending[0] = ring->pending[1] = true;
}

/* Tests what is pending; whether anything still is. */
static bool poll_exchange(struct ring *ring)
{
    for (int i = 0; i < 2; i++)
        if (ring->pending[i])
            ring->pending[i] = !ring->crew->transport->test(ring->crew->end, ring->requests[i]);
    return ring->pending[0] || ring->pending[1];
}

static bool end_exchange(struct ring *ring)
{
    while (poll_exchange(ring)) {
        if (ring->crew->transport->failed(ring->crew->end))
            return false;
        sched_yield();
    }
    return true;
}

/* How often this thread has been taken off its core. */
static long interruptions(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* Seconds of an exchange, and whether something came between. */
static bool exchange(struct ring *ring, uint64_t bytes, double *seconds, double *interrupted)
{
    long before = interruptions();
    double begin = seconds_now();
    start_exchange(ring, bytes);
    bool good = end_exchange(ring);
    *seconds = seconds_now() - begin;
    *interrupted = interruptions() != before;
    return good;
}

/* What repeats of something say that every rank did at once. Where `interrupted`, on any rank, they do not count. */
static bool settle(const struct crew *crew, double *seconds, double *interrupted, size_t repeats,
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
        if (!exchange(ring, bytes, &once, &interrupted[0]))
            return false;
    interrupted[0] = 0;
    if (!crew_largest(ring->crew, &once, 1))
        return false;
    size_t repeats = once > 0 && budget / once < REPEATS_MAX ? (size_t)(budget / once) : REPEATS_MAX;
    repeats = repeats < REPEATS_MIN ? REPEATS_MIN : repeats;
    for (size_t i = 0; i < repeats && ring->member; i++)
        if (!exchange(ring, bytes, &seconds[i], &interrupted[i]))
            return false;
    struct measured time;
    if (!settle(ring->crew, seconds, interrupted, repeats, &time))
        return false;
    double sums[3] = {ring->member ? time.value : 0, ring->member ? time.spread : 0, ring->member ? 1 : 0};
    if (!crew_mean(ring->crew, sums, 3))
        return false;
    *point = (struct link_point){(double)bytes, sums[0] / sums[2], sums[1] / sums[2]};
    return true;
}

static bool measure_level(struct calibration_part *part, struct ring *ring, struct measured_level *level,
                          double seconds)
{
    struct link_point points[LINK_POINTS_MAX];
    size_t n = 0;
    double spreads[LINK_POINTS_MAX];
    uint64_t largest = part->quick ? QUICK_LARGEST : LARGEST;
    for (uint64_t bytes = SMALLEST; bytes <= largest && n < LINK_POINTS_MAX; bytes *= 4, n++) {
        if (!measure_size(ring, bytes, seconds / 10, &points[n]))
            return false;
        spreads[n] = points[n].spread;
        part->progress(part, (double)n / 10);
    }
    level->fit = link_fit(points, n);
    level->spread = measured_of(spreads, n).value;
    return true;
}

static void ring_init(struct ring *ring, const struct crew *crew)
{
    *ring = (struct ring){.crew = crew, .room = ROOM, .out = memory_zeroed(1, ROOM), .in = memory_zeroed(1, ROOM)};
    memset(ring->out, 1, ROOM);
    memset(ring->in, 1, ROOM);
}

static void ring_fini(struct ring *ring)
{
    free(ring->out);
    free(ring->in);
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

bool calibrate_links(struct calibration_part *part)
{
    struct calibration *calibration = part->calibration;
    const struct crew *crew = part->crew;
    uint32_t *host_of_rank = memory_zeroed(crew->ranks, sizeof *host_of_rank), n_hosts;
    struct ring ring;
    ring_init(&ring, crew);
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
        close_ring(&ring, host_of_rank, false);
        good = measure_level(part, &ring, level, share * part->seconds);
    }
    if (good && n_hosts > 1) {
        struct measured_level *level = &calibration->levels[calibration->n_levels++];
        *level = (struct measured_level){.size = n_hosts};
        strcpy(level->name, per_host > 1 ? "cluster" : "network");
        close_ring(&ring, host_of_rank, true);
        good = measure_level(part, &ring, level, share * part->seconds);
    }
    ring_fini(&ring);
    free(host_of_rank);
    return good;
}

/* ---- computing while messages move ---- */

#define ROWS 384
#define SLOWDOWN_HEADS 4
#define SLOWDOWN_REPEATS 30

static void poll_between_tiles(void *context)
{
    poll_exchange(context);
}

/* Seconds of its core that the block takes with messages of `bytes` on their way meanwhile (0: none): who moves the
 * bytes may change from time to time, so what counts is the mean over the ranks. */
static bool timed_block(struct attention_case *c, struct ring *ring, uint64_t bytes, double *seconds)
{
    if (bytes)
        start_exchange(ring, bytes);
    double start = cpu_seconds_now();
    attention_case_run(c, PASS_FORWARD);
    *seconds = cpu_seconds_now() - start;
    return !bytes || end_exchange(ring);
}

/* Message size that moves for about a third of the time that the block takes, by the innermost curve. */
static uint64_t size_for(const struct calibration *calibration, double seconds)
{
    const struct link_fit *fit = &calibration->levels[calibration->n_levels - 1].fit;
    uint64_t bytes = SMALLEST;
    for (size_t i = 0; i < fit->n_points; i++)
        if (fit->points[i].seconds < seconds / 3)
            bytes = (uint64_t)fit->points[i].bytes;
    return bytes;
}

static bool measure_slowdown(struct calibration_part *part, struct attention_case *c, struct ring *ring)
{
    double alone[SLOWDOWN_REPEATS], beside[SLOWDOWN_REPEATS], moving[SLOWDOWN_REPEATS], interrupted[SLOWDOWN_REPEATS];
    double warm;
    size_t repeats = part->quick ? SLOWDOWN_REPEATS / 4 : SLOWDOWN_REPEATS;
    if (!timed_block(c, ring, 0, &warm) || !timed_block(c, ring, 0, &warm) || !crew_mean(ring->crew, &warm, 1))
        return false;
    uint64_t bytes = size_for(part->calibration, warm);
    for (size_t i = 0; i < repeats; i++) {
        c->call.between_tiles = NULL;
        if (!crew_meet(ring->crew) || !exchange(ring, bytes, &moving[i], &interrupted[i]) || !crew_meet(ring->crew) ||
            !timed_block(c, ring, 0, &alone[i]))
            return false;
        c->call.between_tiles = poll_between_tiles;
        c->call.between_tiles_context = ring;
        if (!crew_meet(ring->crew) || !timed_block(c, ring, bytes, &beside[i]) || !crew_mean(ring->crew, &beside[i], 1))
            return false;
    }
    struct measured move;
    if (!settle(ring->crew, moving, interrupted, repeats, &move))
        return false;
    double means[2] = {move.value, measured_of(alone, repeats).value};
    if (!crew_mean(ring->crew, means, 2))
        return false;
    for (size_t i = 0; i < repeats; i++)
        beside[i] = (beside[i] - means[1]) / means[0];
    struct measured slowdown = measured_of(beside, repeats);
    double s = slowdown.value < 0 ? 0 : slowdown.value > 1 ? 1 : slowdown.value;
    part->calibration->slowdown = (struct measured){s, slowdown.spread * s};
    part->calibration->slowdown_bytes = bytes;
    return true;
}

bool calibrate_slowdown(struct calibration_part *part)
{
    const struct crew *crew = part->crew;
    struct ring ring;
    struct attention_case c;
    struct measured_block block = {
        .kind = BLOCK_FULL, .queries = ROWS, .keys = ROWS, .heads = SLOWDOWN_HEADS, .kv_heads = SLOWDOWN_HEADS};
    ring_init(&ring, crew);
    ring.member = true;
    ring.next = (crew->rank + 1) % crew->ranks;
    ring.previous = (crew->rank + crew->ranks - 1) % crew->ranks;
    attention_case_init(&c, DTYPE_FP32, 64, (size_t)ROWS * SLOWDOWN_HEADS * 64, (size_t)ROWS * SLOWDOWN_HEADS);
    attention_case_set(&c, &block);
    bool good = crew->ranks < 2 || measure_slowdown(part, &c, &ring);
    attention_case_fini(&c);
    ring_fini(&ring);
    return good;
}
