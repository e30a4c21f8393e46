/* gpu_links.c - messages between GPUs: their times by size, and collectives by the size of the team.
 *
 * A message's time is that between events around it in the exchange stream: what the link and the library take, not the
 * host. As the host takes longer to queue a short message than that takes to move, the stream is held up meanwhile. One
 * rank alone has no link; between ranks that share its GPU a message is a copy.
 */
#include "hw/calibrate/gpu/gpu.h"

#include <sched.h>
#include <stdlib.h>

#include "models/base/memory.h"

/* ---- rings ---- */

static bool wait_for(struct gpu *gpu, int request)
{
    const struct crew *crew = gpu->part->crew;
    while (!crew->transport->test(crew->end, request)) {
        if (crew->transport->failed(crew->end))
            return false;
        sched_yield();
    }
    return true;
}

bool gpu_ring_queue(struct gpu_ring *of, uint64_t bytes)
{
    struct gpu *gpu = of->gpu;
    const struct ring *ring = &of->ring;
    const struct transport_ops *transport = ring->crew->transport;
    struct transport *end = ring->crew->end;
    if (!gpu->attached)
        return GPU_CHECK(gpu, cuda_copy(of->in, of->out, bytes, gpu->beside), "queueing a copy") ||
               gpu_fail(gpu, "a copy could not be queued");
    const struct piece_of_memory in = {of->in, bytes}, out = {of->out, bytes};
    const struct queued_message messages[2] = {
        {.send = false, .peer = ring->previous, .stream = STREAM_EXCHANGE, .pieces = &in, .n_pieces = 1},
        {.send = true, .peer = ring->next, .stream = STREAM_EXCHANGE, .pieces = &out, .n_pieces = 1},
    };
    int requests[2];
    if (transport->group_begin)
        transport->group_begin(end);
    for (int i = 0; i < 2; i++)
        requests[i] = transport->queue_message(end, &messages[i]);
    if (transport->group_end)
        transport->group_end(end);
    return wait_for(gpu, requests[0]) && wait_for(gpu, requests[1]);
}

bool gpu_ring_drain(struct gpu *gpu)
{
    const struct crew *crew = gpu->part->crew;
    bool over = false;
    bool good = gpu_record(gpu, 1, gpu->beside);
    while (good && !over) {
        if (crew->transport->failed(crew->end))
            return false;
        if (gpu->attached && crew->transport->settled)
            crew->transport->settled(crew->end);
        good = GPU_CHECK(gpu, cuda_event_passed(gpu->events[1], &over), "asking for an event");
    }
    return good || gpu_fail(gpu, "messages could not be waited for");
}

static bool seconds_since(struct gpu *gpu, double *seconds)
{
    return gpu_ring_drain(gpu) && (gpu_seconds(gpu, 0, 1, seconds) || gpu_fail(gpu, "a time could not be read"));
}

static bool begin_clock(struct gpu *gpu)
{
    return gpu_record(gpu, 0, gpu->beside) || gpu_fail(gpu, "an event could not be recorded");
}

/* ---- streams that are held up ---- */

/* Not where the host waits for what is in the stream before it can queue the rest: for that nobody would let go. */
static bool can_hold_up(const struct gpu *gpu)
{
    const struct transport_ops *transport = gpu->part->crew->transport;
    return !gpu->attached || transport->in_graphs || transport->library;
}

static bool hold_up(struct gpu_ring *ring)
{
    struct gpu *gpu = ring->gpu;
    return (gpu_hold_reset(gpu, ring->hold) &&
            GPU_CHECK(gpu, cuda_occupy(1, ring->hold, gpu->beside), "holding up a stream")) ||
           gpu_fail(gpu, "a stream could not be held up");
}

static bool let_go(struct gpu_ring *ring)
{
    const uint32_t release = 1;
    return GPU_CHECK(ring->gpu, cuda_write(&ring->hold->release, &release, sizeof release), "letting a stream go on") ||
           gpu_fail(ring->gpu, "a stream could not go on");
}

/* When all is done. A library that waited for the stream, until the hold ended by itself, would do so every time. */
static bool look_back(struct gpu_ring *ring)
{
    uint32_t expired = 0;
    if (!GPU_CHECK(ring->gpu, cuda_read(&expired, &ring->hold->expired, sizeof expired), "looking at a hold"))
        return gpu_fail(ring->gpu, "a hold could not be looked at");
    if (expired) {
        gpu_free(ring->gpu, ring->hold);
        ring->hold = NULL;
    }
    return true;
}

/* Not the first time, when the library connects with peers, for which it may wait for the GPU. */
static bool exchange(struct ring *of, uint64_t bytes, double *seconds, double *interrupted)
{
    struct gpu_ring *ring = (struct gpu_ring *)of;
    const bool held = ring->hold && ring->connected;
    *interrupted = 0;
    ring->connected = true;
    return (!held || hold_up(ring)) && begin_clock(ring->gpu) && gpu_ring_queue(ring, bytes) &&
           (!held || let_go(ring)) && seconds_since(ring->gpu, seconds) && (!held || look_back(ring));
}

bool gpu_ring_init(struct gpu_ring *ring, struct gpu *gpu, uint64_t bytes)
{
    *ring = (struct gpu_ring){.ring = {.crew = gpu->part->crew, .exchange = exchange}, .gpu = gpu, .room = bytes};
    return (ring->out = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, (bytes + 31) / 32 * 8)) &&
           (ring->in = gpu_memory(gpu, bytes)) &&
           (!can_hold_up(gpu) || (ring->hold = gpu_memory(gpu, sizeof *ring->hold)));
}

void gpu_ring_fini(struct gpu_ring *ring)
{
    gpu_free(ring->gpu, ring->hold);
    gpu_free(ring->gpu, ring->out);
    gpu_free(ring->gpu, ring->in);
}

/* ---- collectives ---- */

/* A team of the first ranks, and what its members give and get: `bytes` of the whole, from `out` into `in`. */
struct team {
    struct gpu *gpu;
    struct gpu_ring *ring;
    int number;
    uint32_t ranks;
    struct share_of_memory *sources, *targets;
    uint64_t *bytes;
};

static struct share_of_memory share_at(char *memory, uint64_t offset, uint64_t bytes)
{
    return (struct share_of_memory){.pieces = {{memory + offset, bytes}}, .n_pieces = 1};
}

static struct collective_part part_of(const struct team *team, enum collective_call call, uint64_t each)
{
    const uint32_t me = team->gpu->part->crew->rank;
    const struct share_of_memory nothing = {.n_pieces = 0};
    for (uint32_t i = 0; i < team->ranks; i++) {
        const bool mine = i == me;
        const bool gives = call == CALL_ALL_GATHER ? mine : call == CALL_REDUCE_SCATTER || !mine;
        const bool gets = call == CALL_REDUCE_SCATTER ? mine : call == CALL_ALL_GATHER || !mine;
        team->sources[i] = gives ? share_at(team->ring->out, each * i, each) : nothing;
        team->targets[i] = gets ? share_at(team->ring->in, each * i, each) : nothing;
        team->bytes[i] = each;
    }
    return (struct collective_part){
        .call = call, .sources = team->sources, .targets = team->targets, .bytes = team->bytes, .dtype = DTYPE_BF16};
}

static bool run_collective(struct team *team, enum collective_call call, uint64_t each, bool connected, double *seconds)
{
    const struct crew *crew = team->gpu->part->crew;
    const struct collective_part part = part_of(team, call, each);
    const bool held = team->ring->hold && connected;
    return (!held || hold_up(team->ring)) && begin_clock(team->gpu) &&
           wait_for(team->gpu, crew->transport->queue_collective(crew->end, team->number, &part)) &&
           (!held || let_go(team->ring)) && seconds_since(team->gpu, seconds) && (!held || look_back(team->ring));
}

/* The slowest member's time counts. */
static bool measure_collective(struct team *team, struct measured_collective *collective)
{
    struct gpu *gpu = team->gpu;
    double seconds[GPU_EVENTS_MAX] = {0}, interrupted[GPU_EVENTS_MAX] = {0};
    uint32_t repeats = gpu->grid->repeats < GPU_EVENTS_MAX ? gpu->grid->repeats : GPU_EVENTS_MAX;
    const uint64_t each = collective->bytes / team->ranks;
    bool good = crew_meet(gpu->part->crew);
    for (uint32_t i = 0; i <= repeats && good && team->number >= 0; i++) /* the first does not count */
        good = run_collective(team, collective->call, each, i > 0, &seconds[i ? i - 1 : 0]);
    return good && crew_largest(gpu->part->crew, seconds, repeats) &&
           exchanges_settle(gpu->part->crew, seconds, interrupted, repeats, &collective->time);
}

static bool measure_team(struct gpu *gpu, struct gpu_ring *ring, uint32_t ranks)
{
    static const enum collective_call calls[] = {CALL_ALL_GATHER, CALL_REDUCE_SCATTER, CALL_ALL_TO_ALL};
    const struct crew *crew = gpu->part->crew;
    struct gpu_figures *figures = &gpu->part->calibration->gpu;
    struct team team = {.gpu = gpu, .ring = ring, .number = -1, .ranks = ranks};
    uint32_t *members = memory_zeroed(ranks, sizeof *members);
    for (uint32_t i = 0; i < ranks; i++)
        members[i] = i;
    team.sources = memory_zeroed(ranks, sizeof *team.sources);
    team.targets = memory_zeroed(ranks, sizeof *team.targets);
    team.bytes = memory_zeroed(ranks, sizeof *team.bytes);
    bool good = crew_meet(crew);
    if (good && crew->rank < ranks)
        team.number = crew->transport->queue_team(crew->end, STREAM_EXCHANGE, members, ranks);
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        for (uint32_t i = 0; i < gpu->grid->n_message_bytes && good; i++) {
            const uint64_t whole = gpu->grid->message_bytes[i] / (16 * ranks) * (16 * ranks);
            if (whole == 0 || figures->n_collectives == COLLECTIVES_MAX)
                continue;
            struct measured_collective *collective = &figures->collectives[figures->n_collectives++];
            *collective = (struct measured_collective){.call = calls[k], .ranks = ranks, .bytes = whole};
            good = measure_collective(&team, collective);
        }
    }
    free(members);
    free(team.sources);
    free(team.targets);
    free(team.bytes);
    return good;
}

/* Teams of 2, 4, 8 ... and all of the ranks. */
static bool measure_collectives(struct gpu *gpu, struct gpu_ring *ring)
{
    const struct crew *crew = gpu->part->crew;
    bool good = true;
    if (!gpu->attached || !crew->transport->queue_collective)
        return true;
    for (uint32_t ranks = 2; ranks < crew->ranks && good; ranks *= 2)
        good = measure_team(gpu, ring, ranks);
    return good && measure_team(gpu, ring, crew->ranks);
}

bool gpu_links(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    const struct gpu_grid *grid = gpu->grid;
    struct calibration *c = part->calibration;
    struct gpu_ring ring;
    bool good = gpu_ring_init(&ring, gpu, grid->message_bytes[grid->n_message_bytes - 1]) &&
                calibrate_levels(part, &ring.ring, grid->message_bytes, grid->n_message_bytes) &&
                measure_collectives(gpu, &ring);
    if (good && c->shared_gpu)
        c->levels[0].size = c->ranks;
    gpu_ring_fini(&ring);
    return good;
}
