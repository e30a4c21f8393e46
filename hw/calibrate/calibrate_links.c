/* calibrate_links.c - messages of host memory, posted and tested as the executor does: their times by size, and how
 * much a rank computes more slowly while they move.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "hw/calibrate/attention_case.h"
#include "hw/calibrate/calibrate_ring.h"
#include "hw/run/executor.h"
#include "models/base/memory.h"

#define SMALLEST 1024
#define SIZES 9 /* each four times the one before: up to 64 MiB */
#define QUICK_SIZES 7
#define ROOM (64 << 20)

/* Exchanges of host memory. */
struct host_ring {
    struct ring ring; /* first: it is all that others know of */
    char *out, *in;
    size_t room, place; /* bytes of each; where the next message is */
    int requests[2];
    bool pending[2];
};

static void start_exchange(struct host_ring *ring, uint64_t bytes)
{
    const struct transport_ops *transport = ring->ring.crew->transport;
    struct transport *end = ring->ring.crew->end;
    if (ring->place + bytes > ring->room)
        ring->place = 0;
    const struct piece_of_memory in = {ring->in + ring->place, bytes}, out = {ring->out + ring->place, bytes};
    ring->place += bytes;
    ring->requests[0] = transport->post(end, false, ring->ring.previous, STREAM_EXCHANGE, &in, 1);
    ring->requests[1] = transport->post(end, true, ring->ring.next, STREAM_EXCHANGE, &out, 1);
    ring->pending[0] = ring->pending[1] = true;
}

/* Tests what is pending; whether anything still is. */
static bool poll_exchange(struct host_ring *ring)
{
    for (int i = 0; i < 2; i++)
        if (ring->pending[i])
            ring->pending[i] = !ring->ring.crew->transport->test(ring->ring.crew->end, ring->requests[i]);
    return ring->pending[0] || ring->pending[1];
}

static bool end_exchange(struct host_ring *ring)
{
    const struct crew *crew = ring->ring.crew;
    while (poll_exchange(ring)) {
        if (crew->transport->failed(crew->end))
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

static bool exchange(struct ring *of, uint64_t bytes, double *seconds, double *interrupted)
{
    struct host_ring *ring = (struct host_ring *)of;
    long before = interruptions();
    double begin = seconds_now();
    start_exchange(ring, bytes);
    bool good = end_exchange(ring);
    *seconds = seconds_now() - begin;
    *interrupted = interruptions() != before;
    return good;
}

static void ring_init(struct host_ring *ring, const struct crew *crew)
{
    *ring = (struct host_ring){.ring = {.crew = crew, .exchange = exchange},
                               .room = ROOM,
                               .out = memory_zeroed(1, ROOM),
                               .in = memory_zeroed(1, ROOM)};
    memset(ring->out, 1, ROOM);
    memset(ring->in, 1, ROOM);
}

static void ring_fini(struct host_ring *ring)
{
    free(ring->out);
    free(ring->in);
}

bool calibrate_links(struct calibration_part *part)
{
    uint64_t sizes[SIZES] = {SMALLEST};
    for (size_t i = 1; i < SIZES; i++)
        sizes[i] = 4 * sizes[i - 1];
    struct host_ring ring;
    ring_init(&ring, part->crew);
    bool good = calibrate_levels(part, &ring.ring, sizes, part->quick ? QUICK_SIZES : SIZES);
    ring_fini(&ring);
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
static bool timed_block(struct attention_case *c, struct host_ring *ring, uint64_t bytes, double *seconds)
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

static bool measure_slowdown(struct calibration_part *part, struct attention_case *c, struct host_ring *ring)
{
    const struct crew *crew = part->crew;
    double alone[SLOWDOWN_REPEATS], beside[SLOWDOWN_REPEATS], moving[SLOWDOWN_REPEATS], interrupted[SLOWDOWN_REPEATS];
    double warm;
    size_t repeats = part->quick ? SLOWDOWN_REPEATS / 4 : SLOWDOWN_REPEATS;
    for (int i = 0; i < 2; i++) /* the first time does not count */
        if (!timed_block(c, ring, 0, &warm))
            return false;
    if (!crew_mean(crew, &warm, 1))
        return false;
    uint64_t bytes = size_for(part->calibration, warm);
    for (size_t i = 0; i < repeats; i++) {
        c->call.between_tiles = NULL;
        if (!crew_meet(crew) || !exchange(&ring->ring, bytes, &moving[i], &interrupted[i]) || !crew_meet(crew) ||
            !timed_block(c, ring, 0, &alone[i]))
            return false;
        c->call.between_tiles = poll_between_tiles;
        c->call.between_tiles_context = ring;
        if (!crew_meet(crew) || !timed_block(c, ring, bytes, &beside[i]) || !crew_mean(crew, &beside[i], 1))
            return false;
    }
    struct measured move;
    if (!exchanges_settle(crew, moving, interrupted, repeats, &move))
        return false;
    double means[2] = {move.value, measured_of(alone, repeats).value};
    if (!crew_mean(crew, means, 2))
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
    struct host_ring ring;
    struct attention_case c;
    struct measured_block block = {
        .kind = BLOCK_FULL, .queries = ROWS, .keys = ROWS, .heads = SLOWDOWN_HEADS, .kv_heads = SLOWDOWN_HEADS};
    ring_init(&ring, crew);
    ring_of_all(&ring.ring);
    attention_case_init(&c, DTYPE_FP32, 64, (size_t)ROWS * SLOWDOWN_HEADS * 64, (size_t)ROWS * SLOWDOWN_HEADS);
    attention_case_set(&c, &block);
    bool good = crew->ranks < 2 || measure_slowdown(part, &c, &ring);
    attention_case_fini(&c);
    ring_fini(&ring);
    return good;
}
