/* gpu_slowdown.c - attention and messages at the same time: what each costs the other.
 *
 * The model's transfer_slowdown s says that an operation which takes w alone takes t, with t - s M = w, while messages
 * move for M of that time. So messages are queued beside a block for longer than it takes: M is what their stretch and
 * the block's have in common, and s = (t - w) / M. For what it costs a message, the block is queued for longer than
 * that takes.
 */
#include "hw/calibrate/gpu/gpu.h"

#include <math.h>

#define HEAD_DIM 128
#define QUEUED_MAX 200 /* messages, or blocks: a stream takes in no more than about a thousand */

enum { DRAINED = 1, BLOCK_BEGIN, BLOCK_END, MESSAGE_BEGIN, MESSAGE_END, READY }; /* events; 1: gpu_ring_drain */

struct pair_of_streams {
    struct gpu *gpu;
    struct gpu_ring *ring;
    struct gpu_work block;
    double block_alone, message_alone;
};

static bool queue_blocks(struct pair_of_streams *p, uint32_t count)
{
    struct gpu *gpu = p->gpu;
    bool good = gpu_record(gpu, BLOCK_BEGIN, gpu->stream);
    for (uint32_t i = 0; i < count && good; i++)
        good = GPU_CHECK(gpu, p->block.queue(p->block.context, gpu->stream), "queueing attention");
    return good && gpu_record(gpu, BLOCK_END, gpu->stream);
}

static bool queue_messages(struct pair_of_streams *p, uint32_t count)
{
    struct gpu *gpu = p->gpu;
    bool good = gpu_record(gpu, MESSAGE_BEGIN, gpu->beside);
    for (uint32_t i = 0; i < count && good; i++)
        good = gpu_ring_queue(p->ring, p->gpu->grid->beside_bytes);
    return good && gpu_record(gpu, MESSAGE_END, gpu->beside);
}

/* Seconds from one event to another, below 0 when it came before. */
static double between(struct gpu *gpu, uint32_t from, uint32_t to)
{
    double seconds = 0;
    gpu_seconds(gpu, from, to, &seconds);
    return seconds;
}

/* Both at once, the one named first beginning first. */
static bool run(struct pair_of_streams *p, bool messages_first, uint32_t blocks, uint32_t messages)
{
    struct gpu *gpu = p->gpu;
    void *const early = messages_first ? gpu->beside : gpu->stream;
    void *const late = messages_first ? gpu->stream : gpu->beside;
    if (!crew_meet(gpu->part->crew))
        return false;
    bool good = gpu_record(gpu, READY, early) &&
                GPU_CHECK(gpu, cuda_event_wait(late, gpu->events[READY]), "waiting for an event in a stream") &&
                (messages_first ? queue_messages(p, messages) && queue_blocks(p, blocks)
                                : queue_blocks(p, blocks) && queue_messages(p, messages)) &&
                gpu_ring_drain(gpu) && GPU_CHECK(gpu, cuda_stream_wait(gpu->stream), "running attention");
    return good || gpu_fail(gpu, "attention and messages could not be run at the same time");
}

static uint32_t enough(double seconds, double of_each)
{
    const double count = of_each > 0 ? ceil(1.5 * seconds / of_each) : 1;
    return count < 1 ? 1 : count > QUEUED_MAX ? QUEUED_MAX : (uint32_t)count;
}

static double clamped(double share)
{
    return share > 0 ? fmin(share, 1) : 0;
}

/* One sample of each. */
static bool sample(struct pair_of_streams *p, double *slowdown, double *longer)
{
    struct gpu *gpu = p->gpu;
    if (!run(p, true, 1, enough(p->block_alone, p->message_alone)))
        return false;
    const double block = between(gpu, BLOCK_BEGIN, BLOCK_END);
    const double moving = fmin(between(gpu, BLOCK_BEGIN, MESSAGE_END), block);
    *slowdown = moving > 0 ? clamped((block - p->block_alone) / moving) : 0;
    const uint32_t messages = enough(p->block_alone, p->message_alone);
    if (!run(p, false, enough(messages * p->message_alone, p->block_alone) + 1, messages))
        return false;
    *longer = p->message_alone > 0 ? between(gpu, MESSAGE_BEGIN, MESSAGE_END) / (messages * p->message_alone) : 0;
    return !gpu->compute->failure || gpu_fail(gpu, "");
}

/* What a message takes in a row of them. */
static bool messages_alone(struct pair_of_streams *p, double *seconds)
{
    const uint32_t count = 8;
    if (!run(p, true, 0, count))
        return false;
    *seconds = between(p->gpu, MESSAGE_BEGIN, MESSAGE_END) / count;
    return crew_largest(p->gpu->part->crew, seconds, 1);
}

static bool measure(struct pair_of_streams *p)
{
    struct gpu *gpu = p->gpu;
    struct calibration *c = gpu->part->calibration;
    double slowdowns[GPU_EVENTS_MAX], longer[GPU_EVENTS_MAX];
    const uint32_t repeats = gpu->grid->repeats;
    struct measured alone = {0};
    bool good = gpu_measure(gpu, &p->block, repeats, &alone) && messages_alone(p, &p->message_alone) &&
                messages_alone(p, &p->message_alone); /* the first time does not count */
    p->block_alone = alone.value;
    good = good && crew_largest(gpu->part->crew, &p->block_alone, 1);
    for (uint32_t i = 0; i < repeats && good; i++) {
        good = sample(p, &slowdowns[i], &longer[i]);
        gpu->part->progress(gpu->part, (i + 1.0) / repeats);
    }
    if (!good)
        return false;
    c->slowdown = measured_of(slowdowns, repeats);
    c->slowdown.spread *= c->slowdown.value; /* absolute */
    c->slowdown_bytes = gpu->grid->beside_bytes;
    c->gpu.copy_slowdown = measured_of(longer, repeats);
    return calibration_agree(gpu->part->crew, &c->slowdown) &&
           calibration_agree(gpu->part->crew, &c->gpu.copy_slowdown);
}

bool gpu_slowdown(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    const struct gpu_grid *grid = gpu->grid;
    struct measured_block block = {
        .queries = grid->beside_rows, .keys = grid->beside_rows, .heads = grid->heads, .kv_heads = grid->kv_heads};
    struct gpu_case c;
    struct gpu_ring ring;
    bool good = gpu_ring_init(&ring, gpu, grid->beside_bytes);
    ring_of_all(&ring.ring);
    good = gpu_case_init(&c, gpu, grid->dtypes[0], HEAD_DIM, &block, 1) && good && gpu_case_set(&c, &block);
    struct pair_of_streams p = {.gpu = gpu, .ring = &ring, .block = gpu_case_work(&c, PASS_FORWARD)};
    good = good && measure(&p);
    gpu_case_fini(&c);
    gpu_ring_fini(&ring);
    return good;
}
