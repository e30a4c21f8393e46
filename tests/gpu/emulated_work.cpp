/* emulated_work.cpp - pieces of a stream's work: launches, copies, fills. What is wrong with one is found when it is
 * queued, where CUDA can see it, or else when it is done: then the error sticks.
 *
 * How long each takes is made up, but always the same: so a schedule has one timeline, whatever the order was.
 */
#include "emulated_runtime.h"

#include <stdlib.h>
#include <string.h>

#include "emulated_launch.h"
#include "kernels/cuda/runtime.h"

#define START_NS 1000. /* until any piece of work is under way */
#define BLOCK_NS 100.
#define DEVICE_BYTES_PER_NS 1000.
#define LINK_BYTES_PER_NS 50. /* to the host, to other devices */

work::~work()
{
    free(context);
    if (kind == OTHER && other.release)
        other.release(other.context);
}

/* ---- rows of memory ---- */

static size_t extent_of(const struct region &region)
{
    return (region.rows - 1) * region.pitch + region.width;
}

/* Whether one of its rows has one of the bytes. */
static bool touches(const struct region &region, const unsigned char *first, size_t bytes)
{
    if (region.width == 0 || bytes == 0 || first + bytes <= region.first)
        return false;
    const size_t row = first > region.first && region.pitch ? (size_t)(first - region.first) / region.pitch : 0;
    for (size_t i = row; i < region.rows && i < row + 2; i++) {
        const unsigned char *at = region.first + i * region.pitch;
        if (at < first + bytes && first < at + region.width)
            return true;
    }
    return false;
}

static bool work_conflict(const struct work &work, const unsigned char *first, size_t bytes, bool writes)
{
    if (work.kind == GRAPH) {
        for (const struct graph_node &node : work.graph->nodes)
            if (work_conflict(*node.work, first, bytes, writes))
                return true;
        return false;
    }
    if (work.kind != COPY && work.kind != FILL)
        return false;
    return touches(work.to, first, bytes) || (writes && work.kind == COPY && touches(work.from, first, bytes));
}

bool queued_conflict(const void *first, size_t bytes, bool writes)
{
    for (const auto &stream : machine().busy)
        for (const struct queued &queued : stream->queue)
            if (work_conflict(*queued.work, (const unsigned char *)first, bytes, writes))
                return true;
    return false;
}

/* ---- doing it ---- */

static void move_rows(const struct work &work)
{
    for (size_t row = 0; row < work.to.rows; row++) {
        unsigned char *to = work.to.first + row * work.to.pitch;
        if (work.kind == COPY)
            memmove(to, work.from.first + row * work.from.pitch, work.to.width);
        else
            memset(to, work.byte, work.to.width);
    }
}

/* NULL, or what is wrong with where the bytes are. */
static const char *misplaced(const struct work &work)
{
    const int to = emulation_place(work.to.first, extent_of(work.to));
    const int from = work.kind == COPY ? emulation_place(work.from.first, extent_of(work.from)) : work.device;
    if (to == EMULATION_NOWHERE || from == EMULATION_NOWHERE)
        return "not inside one allocation of a device or of cuda_host_allocate";
    if (work.kind == FILL && to != work.device)
        return "not memory of the stream's device";
    if (to >= 0 && from >= 0 ? to != work.device && from != work.device
                             : (to >= 0 && to != work.device) || (from >= 0 && from != work.device))
        return "between others than the stream's device";
    return NULL;
}

static void move_bytes(const struct work &work, double *ns)
{
    const char *wrong = misplaced(work);
    if (wrong) {
        break_down(ILLEGAL_ADDRESS, "a queued %s: %s", work.kind == COPY ? "copy" : "fill", wrong);
        return;
    }
    const bool within = work.kind == FILL || emulation_place(work.to.first, 1) == emulation_place(work.from.first, 1);
    move_rows(work);
    *ns += (double)(work.to.rows * work.to.width) / (within ? DEVICE_BYTES_PER_NS : LINK_BYTES_PER_NS);
}

bool perform(const struct work &work, double begin_ns, double *end_ns)
{
    *end_ns = begin_ns + START_NS;
    if (work.kind == OTHER)
        return work.other.step(work.other.context, begin_ns, end_ns);
    if (work.kind == KERNEL) {
        const int error =
            emulation_run(work.device, work.blocks, work.threads, work.shared_bytes, work.body, work.context);
        if (error)
            machine().broken = error;
        *end_ns += (double)work.blocks * BLOCK_NS;
    } else {
        move_bytes(work, end_ns);
    }
    return true;
}

/* ---- queueing it ---- */

int emulation_launch(void *handle, uint64_t blocks, uint32_t threads, size_t shared_bytes,
                     void (*body)(const void *context), const void *context, size_t context_bytes)
{
    locked hold;
    struct stream *stream = find_stream(handle);
    if (machine_error())
        return machine_error();
    if (!stream)
        return INVALID_HANDLE;
    if (stream->device != current_device())
        return refuse(INVALID_HANDLE, "a kernel is launched in a stream of device %d by a thread that uses device %d",
                      stream->device, current_device());
    if (blocks == 0)
        return 0;
    if (!emulation_can_run(blocks, threads, shared_bytes))
        return refuse(INVALID_CONFIGURATION, "a launch of %llu blocks of %u threads with %zu bytes of shared memory",
                      (unsigned long long)blocks, threads, shared_bytes);
    auto work = std::make_unique<struct work>();
    work->kind = KERNEL;
    work->blocks = blocks;
    work->threads = threads;
    work->shared_bytes = shared_bytes;
    work->body = body;
    work->context = aligned_alloc(CONTEXT_ALIGNMENT,
                                  (context_bytes + CONTEXT_ALIGNMENT - 1) / CONTEXT_ALIGNMENT * CONTEXT_ALIGNMENT);
    if (!work->context)
        abort();
    memcpy(work->context, context, context_bytes);
    return queue_work(stream, std::move(work));
}

static int queue_bytes(std::unique_ptr<struct work> work, void *handle, const char *name)
{
    locked hold;
    struct stream *stream = find_stream(handle);
    if (machine_error())
        return machine_error();
    if (!stream)
        return INVALID_HANDLE;
    work->device = stream->device;
    if (work->to.width == 0 || work->to.rows == 0)
        return 0;
    if (work->to.width > work->to.pitch || (work->kind == COPY && work->to.width > work->from.pitch))
        return refuse(INVALID_PITCH, "%s: rows of %zu bytes overlap", name, work->to.width);
    if (work->kind == FILL && stream->device != current_device())
        return refuse(INVALID_HANDLE, "%s in a stream of device %d by a thread that uses device %d", name,
                      stream->device, current_device());
    const char *wrong = misplaced(*work);
    if (wrong)
        return refuse(INVALID_VALUE, "%s of %zu rows of %zu bytes: %s", name, work->to.rows, work->to.width, wrong);
    return queue_work(stream, std::move(work));
}

int cuda_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                   void *stream)
{
    auto work = std::make_unique<struct work>();
    work->kind = COPY;
    work->to = region{(unsigned char *)to, to_pitch, width, rows};
    work->from = region{(unsigned char *)from, from_pitch, width, rows};
    return queue_bytes(std::move(work), stream, "cuda_copy_rows");
}

int cuda_copy(void *to, const void *from, size_t bytes, void *stream)
{
    auto work = std::make_unique<struct work>();
    work->kind = COPY;
    work->to = region{(unsigned char *)to, bytes, bytes, 1};
    work->from = region{(unsigned char *)from, bytes, bytes, 1};
    return queue_bytes(std::move(work), stream, "cuda_copy");
}

int cuda_fill(void *memory, int byte, size_t bytes, void *stream)
{
    auto work = std::make_unique<struct work>();
    work->kind = FILL;
    work->to = region{(unsigned char *)memory, bytes, bytes, 1};
    work->byte = byte;
    return queue_bytes(std::move(work), stream, "cuda_fill");
}

int emulation_queue(const struct emulation_work *other, void *handle)
{
    auto work = std::make_unique<struct work>();
    work->kind = OTHER;
    work->other = *other;
    locked hold;
    struct stream *stream = find_stream(handle);
    if (machine_error())
        return machine_error();
    return stream ? queue_work(stream, std::move(work)) : (int)INVALID_HANDLE;
}
