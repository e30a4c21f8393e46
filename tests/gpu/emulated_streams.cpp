/* emulated_streams.cpp - streams and events of the emulated GPUs, and whose turn it is.
 *
 * What is queued waits until the host asks: whether an event has passed, which lets a few pieces of work be done, or
 * for the end of a stream or a device, which lets them be done until then. Whose turn it is is drawn by lot, but not
 * fairly, so that a wait that is missing shows soon: for a while one stream goes first as often as it can, or another
 * only when nobody else can. Only the order within a stream and waits for events are kept.
 *
 * Time is each stream's own: work begins when what is before it in the stream has ended, and not before events that it
 * waits for, nor before the host that queued it last waited for a stream or a device. What the host learns by asking
 * for events does not count, for when it learns it depends on the order.
 */
#include "emulated_runtime.h"

#include <algorithm>
#include <sched.h>
#include <time.h>

#include "kernels/cuda/runtime.h"

/* ---- handles ---- */

#define HANDLE_BASE ((uintptr_t)1 << 32) /* where no memory of ours is */

void *handle_of(enum handle_kind kind, size_t index)
{
    return (void *)(HANDLE_BASE + 16 * index + kind);
}

bool handle_index(const void *handle, enum handle_kind kind, size_t count, size_t *index)
{
    const uintptr_t number = (uintptr_t)handle;
    if (number < HANDLE_BASE || (number - HANDLE_BASE) % 16 != (uintptr_t)kind)
        return false;
    *index = (number - HANDLE_BASE) / 16;
    return *index < count;
}

struct stream *find_stream(void *handle)
{
    struct machine &m = machine();
    size_t index;
    if (!handle)
        return m.devices ? &m.defaults[current_device()] : NULL;
    if (handle_index(handle, STREAM_HANDLE, m.streams.size(), &index) && m.streams[index])
        return m.streams[index].get();
    refuse(INVALID_HANDLE, "a stream that is none (%p)", handle);
    return NULL;
}

struct event *find_event(void *handle)
{
    struct machine &m = machine();
    size_t index;
    if (handle_index(handle, EVENT_HANDLE, m.events.size(), &index) && m.events[index])
        return m.events[index].get();
    refuse(INVALID_HANDLE, "an event that is none (%p)", handle);
    return NULL;
}

/* ---- whose turn it is ---- */

void emulation_stream_order(uint32_t order)
{
    locked hold;
    struct machine &m = machine();
    m.random = order * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    m.favourite = m.starved = NULL;
    m.turns = 0;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint32_t random_below(uint32_t count)
{
    uint64_t mixed = machine().random += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return (uint32_t)((mixed >> 32) * count >> 32);
}

static const struct stream *draw_stream()
{
    const std::vector<std::shared_ptr<struct stream>> &busy = machine().busy;
    return busy.empty() ? NULL : busy[random_below((uint32_t)busy.size())].get();
}

static void change_manner()
{
    struct machine &m = machine();
    if (m.turns-- > 0)
        return;
    m.turns = 1 + random_below(64);
    m.favourite = random_below(3) ? draw_stream() : NULL;
    m.starved = random_below(3) ? draw_stream() : NULL;
}

/* Does what is first in the stream, or a node of it if it is a graph; false if that must wait. */
static bool step_stream(struct stream *stream)
{
    struct queued &head = stream->queue.front();
    const struct work &work = *head.work;
    double end_ns = std::max(stream->ns, head.not_before_ns);
    bool done = true;
    if (work.kind == WAIT) {
        if (!work.record->passed)
            return false;
        end_ns = std::max(end_ns, work.record->ns);
    } else if (work.kind == RECORD) {
        *work.record = record{true, end_ns};
    } else if (work.kind == GRAPH) {
        if (!head.run)
            head.run = graph_begin(*work.graph, end_ns);
        done = head.run->done == work.graph->nodes.size();
        if (!done && !graph_step(*work.graph, head.run.get()))
            return false;
        end_ns = graph_end(*head.run);
        done = head.run->done == work.graph->nodes.size();
    } else if (!perform(work, end_ns, &end_ns)) {
        return false;
    }
    if (done) {
        stream->ns = end_ns;
        stream->queue.pop_front();
    }
    return true;
}

bool step_machine()
{
    struct machine &m = machine();
    change_manner();
    std::vector<std::shared_ptr<struct stream>> order;
    for (const auto &stream : m.busy)
        if (!stream->queue.empty())
            order.push_back(stream);
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[random_below((uint32_t)i)]);
    const struct stream *favourite = random_below(8) ? m.favourite : NULL, *starved = m.starved;
    std::stable_sort(order.begin(), order.end(), [=](const auto &a, const auto &b) {
        const auto rank = [=](const auto &stream) {
            return stream.get() == starved ? 2 : stream.get() == favourite ? 0 : 1;
        };
        return rank(a) < rank(b);
    });
    bool stepped = false;
    for (size_t i = 0; i < order.size() && !stepped && !m.broken; i++)
        stepped = step_stream(order[i].get());
    m.busy.erase(std::remove_if(m.busy.begin(), m.busy.end(),
                                [](const auto &stream) { return stream->destroyed && stream->queue.empty(); }),
                 m.busy.end());
    return stepped;
}

static bool is_default(const struct stream *stream)
{
    return stream == &machine().defaults[stream->device];
}

/* A default stream's is done at once: it has to wait for others only where it waits for an event or a graph. */
int queue_work(struct stream *stream, std::unique_ptr<struct work> work)
{
    work->device = stream->device;
    if (stream->capture && stream->capture->invalid)
        return CAPTURE_INVALIDATED;
    if (stream->capture) {
        capture_add(stream, std::move(work));
        return 0;
    }
    stream->queue.push_back(queued{std::shared_ptr<const struct work>(std::move(work)), host_ns(), NULL});
    while (is_default(stream) && !stream->queue.empty() && !machine().broken)
        if (!step_stream(stream) && !step_machine())
            return break_down(LAUNCH_FAILURE, "the default stream waits for what only another thread can do");
    return machine().broken;
}

/* ---- waiting ---- */

/* Lets work be done until `over` is true or the machine is broken; others may have the machine in between. */
template <class F> static int wait_until(const F &over)
{
    for (;;) {
        bool stepped;
        {
            locked hold;
            if (machine().broken)
                return machine().broken;
            if (over())
                return 0;
            stepped = step_machine();
        }
        const struct timespec moment = {0, 50000};
        if (stepped)
            sched_yield();
        else
            nanosleep(&moment, NULL); /* it takes another thread */
    }
}

static bool is_idle(int device)
{
    for (const auto &stream : machine().busy)
        if (stream->device == device && !stream->queue.empty())
            return false;
    return true;
}

void finish_device(int device)
{
    wait_until([=] { return is_idle(device); });
}

int cuda_wait(void)
{
    int device;
    {
        locked hold;
        device = current_device();
        if (machine_error())
            return machine_error();
        for (const auto &stream : machine().busy)
            if (stream->device == device && stream->capture) {
                stream->capture->invalid = true;
                return refuse(CAPTURE_UNSUPPORTED, "cuda_wait while a stream of the device is being recorded");
            }
    }
    return wait_until([=] {
        const bool idle = is_idle(device);
        for (const auto &stream : machine().busy)
            if (idle && stream->device == device)
                host_ns() = std::max(host_ns(), stream->ns);
        return idle;
    });
}

int cuda_stream_wait(void *handle)
{
    std::shared_ptr<struct stream> stream;
    {
        locked hold;
        struct stream *found = find_stream(handle);
        if (machine_error() || !found)
            return machine_error() ? machine_error() : (int)INVALID_HANDLE;
        if (found->capture) {
            found->capture->invalid = true;
            return refuse(CAPTURE_UNSUPPORTED, "cuda_stream_wait for a stream that is being recorded");
        }
        if (!handle)
            return 0;
        size_t index = 0;
        handle_index(handle, STREAM_HANDLE, machine().streams.size(), &index);
        stream = machine().streams[index];
    }
    return wait_until([&] {
        if (!stream->queue.empty())
            return false;
        host_ns() = std::max(host_ns(), stream->ns);
        return true;
    });
}

/* ---- streams ---- */

int cuda_stream_create(void **handle, bool urgent)
{
    (void)urgent; /* any order is an order that it may not hasten */
    locked hold;
    struct machine &m = machine();
    *handle = NULL;
    if (machine_error())
        return machine_error();
    auto stream = std::make_shared<struct stream>();
    stream->device = current_device();
    m.busy.push_back(stream);
    m.streams.push_back(stream);
    *handle = handle_of(STREAM_HANDLE, m.streams.size() - 1);
    return 0;
}

/* As CUDA's: does not wait; what is queued will still be done. */
int cuda_stream_destroy(void *handle)
{
    locked hold;
    struct machine &m = machine();
    size_t index = 0;
    struct stream *stream = handle ? find_stream(handle) : NULL;
    if (!stream)
        return machine_error() ? machine_error() : (int)INVALID_HANDLE;
    if (stream->capture) {
        stream->capture->invalid = true;
        return refuse(CAPTURE_UNSUPPORTED, "a stream is destroyed that is being recorded");
    }
    handle_index(handle, STREAM_HANDLE, m.streams.size(), &index);
    stream->destroyed = true;
    m.streams[index].reset();
    return m.broken;
}

/* ---- events ---- */

int cuda_event_create(void **handle, bool timed)
{
    locked hold;
    struct machine &m = machine();
    *handle = NULL;
    if (machine_error())
        return machine_error();
    m.events.push_back(std::make_unique<struct event>());
    m.events.back()->device = current_device();
    m.events.back()->timed = timed;
    *handle = handle_of(EVENT_HANDLE, m.events.size() - 1);
    return 0;
}

int cuda_event_destroy(void *handle)
{
    locked hold;
    struct machine &m = machine();
    size_t index = 0;
    if (!find_event(handle))
        return machine_error() ? machine_error() : (int)INVALID_HANDLE;
    handle_index(handle, EVENT_HANDLE, m.events.size(), &index);
    m.events[index].reset();
    return m.broken;
}

int cuda_event_record(void *handle, void *stream_handle)
{
    locked hold;
    struct event *event = find_event(handle);
    struct stream *stream = find_stream(stream_handle);
    if (machine_error())
        return machine_error();
    if (!event || !stream)
        return INVALID_HANDLE;
    if (event->device != stream->device)
        return refuse(INVALID_HANDLE, "an event of device %d is recorded in a stream of device %d", event->device,
                      stream->device);
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    if (stream->capture)
        return stream->capture->invalid ? (int)CAPTURE_INVALIDATED : 0;
    event->latest = std::make_shared<struct record>();
    auto work = std::make_unique<struct work>();
    work->kind = RECORD;
    work->record = event->latest;
    return queue_work(stream, std::move(work));
}

/* The stream's next work comes after what the event's stream has recorded. */
static int wait_recorded(struct stream *stream, const struct event &event)
{
    if (is_default(stream)) {
        event.capture->invalid = true;
        return refuse(CAPTURE_IMPLICIT, "the default stream waits for an event of a recording");
    }
    if (event.capture->ended)
        return refuse(CAPTURE_ISOLATION, "a stream waits for an event of a recording that has ended");
    if (event.capture->invalid)
        return CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != event.capture) {
        stream->capture->invalid = event.capture->invalid = true;
        return refuse(CAPTURE_MERGE, "a stream waits for an event of another recording");
    }
    if (!stream->capture) {
        stream->capture = event.capture;
        stream->capture->streams.push_back(stream);
    }
    std::vector<size_t> &frontier = stream->frontier;
    frontier.insert(frontier.end(), event.frontier.begin(), event.frontier.end());
    std::sort(frontier.begin(), frontier.end());
    frontier.erase(std::unique(frontier.begin(), frontier.end()), frontier.end());
    return 0;
}

int cuda_event_wait(void *stream_handle, void *handle)
{
    locked hold;
    struct event *event = find_event(handle);
    struct stream *stream = find_stream(stream_handle);
    if (machine_error())
        return machine_error();
    if (!event || !stream)
        return INVALID_HANDLE;
    if (event->capture)
        return wait_recorded(stream, *event);
    if (!event->latest)
        return 0;
    if (stream->capture) {
        stream->capture->invalid = true;
        return refuse(CAPTURE_ISOLATION, "a stream that is being recorded waits for an event from outside");
    }
    auto work = std::make_unique<struct work>();
    work->kind = WAIT;
    work->record = event->latest;
    return queue_work(stream, std::move(work));
}

/* What CUDA says when an event is asked for that is in a graph only. */
static int check_captured(const struct event *event)
{
    return event->capture ? refuse(CAPTURED_EVENT, "an event is asked for that was recorded last in a graph") : 0;
}

int cuda_event_passed(void *handle, bool *passed)
{
    *passed = false;
    {
        locked hold;
        const struct event *event = find_event(handle);
        if (machine().broken)
            return machine().broken;
        if (!event)
            return INVALID_HANDLE;
        if (check_captured(event))
            return CAPTURED_EVENT;
        for (uint32_t steps = random_below(4); steps > 0 && step_machine();)
            steps--;
        if (machine().broken)
            return machine().broken;
        *passed = !event->latest || event->latest->passed;
    }
    if (!*passed)
        sched_yield();
    return 0;
}

int cuda_event_seconds(void *from_handle, void *to_handle, double *seconds)
{
    locked hold;
    const struct event *from = find_event(from_handle), *to = find_event(to_handle);
    *seconds = 0;
    if (machine_error())
        return machine_error();
    if (!from || !to)
        return INVALID_HANDLE;
    if (check_captured(from) || check_captured(to))
        return CAPTURED_EVENT;
    if (!from->timed || !to->timed || !from->latest || !to->latest || from->device != to->device)
        return refuse(INVALID_HANDLE, "time between events that are not timed, not recorded, or of two devices");
    if (!from->latest->passed || !to->latest->passed)
        return NOT_READY;
    *seconds = 1e-9 * (to->latest->ns - from->latest->ns);
    return 0;
}
