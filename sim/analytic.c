/* analytic.c - the engine without contention: every message has its links to itself.
 *
 * What an activity takes is known when it begins: a local operation's seconds, or a message's delay plus its bytes over
 * the narrowest link, or at the lower rate that it reaches alone. A heap of events, earliest first and first in first
 * out among equals, is the whole engine; what it finds is the critical path through the programs, a lower bound of any
 * engine that shares links. Where transfers slow compute down, an operation that is due may still owe some time and
 * comes back to the heap; a kernel that waits for another one's end, or a message for SMs, is out of it meanwhile.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "sim/device_turns.h"
#include "sim/plan.h"
#include "sim/recorder.h"
#include "sim/slowdown.h"
#include "sim/sm_queue.h"

struct event {
    double at;
    uint64_t order; /* of insertion: breaks ties */
    struct activity activity;
    struct moment moment;
    struct slowed slowed;
    bool issues;   /* the host has issued it: it begins */
    bool moves;    /* a message begins to move; else the activity is due to end */
    bool launches; /* a kernel behind another one: its launch is due to end */
    bool asks;     /* a message asks for SMs */
    bool fills;    /* attention is due to have handed out its tiles; */
    double rest;   /* then it runs for so long */
};

/* Binary heap: no event is before its parent, events[(i - 1) / 2]. */
struct heap {
    struct event *events;
    size_t count, capacity;
    uint64_t inserted;
};

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at <= b->at && a->order < b->order);
}

static void heap_push(struct heap *heap, struct event event)
{
    memory_grow(heap->events, heap->count, heap->capacity);
    event.order = heap->inserted++;
    size_t i = heap->count++;
    while (i > 0 && is_before(&event, &heap->events[(i - 1) / 2])) {
        heap->events[i] = heap->events[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->events[i] = event;
}

static struct event heap_pop(struct heap *heap)
{
    struct event first = heap->events[0], last = heap->events[--heap->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && is_before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!is_before(&heap->events[child], &last))
            break;
        heap->events[i] = heap->events[child];
    }
    heap->events[i] = last;
    return first;
}

struct session {
    const struct simulation *simulation;
    struct plan plan;
    struct recorder recorder;
    struct slowdown slowdown;
    struct device_turns turns;
    struct sm_queue sms;
    struct event *waiting; /* [compute_stream_index]: the kernel that waits for its turn */
    struct heap heap;
};

/* Lets `event` be due when its local operation has run for `seconds` from `now`. */
static void run_for(struct session *session, struct event *event, double seconds, double now)
{
    event->at = now + seconds;
    event->slowed =
        slowdown_begin(&session->slowdown, event->activity.instance, plan_op(&session->plan, event->activity), now);
    heap_push(&session->heap, *event);
}

/* Lets a kernel run that has the device, but for what of it passed before. */
static void run_kernel(struct session *session, struct event *event, double before, double now)
{
    double seconds = plan_seconds(&session->plan, event->activity) - before;
    double fill = session->sms.counts ? plan_fill_seconds(&session->plan, event->activity) - before : 0;
    if (fill > 0) {
        sm_queue_fill(&session->sms, event->activity.instance);
        event->fills = true;
        event->rest = seconds - fill;
        seconds = fill;
    }
    run_for(session, event, seconds, now);
}

static void begin_local(struct session *session, struct event *event, enum stream stream, double now)
{
    struct activity activity = event->activity;
    event->launches = stream_computes(stream) && !device_turns_enter(&session->turns, activity.instance, stream);
    if (event->launches)
        run_for(session, event, plan_fixed_seconds(&session->plan, activity), now);
    else
        run_kernel(session, event, 0, now);
}

/* The kernel has waited for its turn since event->at, or not at all; now it works. */
static void begin_work(struct session *session, struct event *event, double now)
{
    event->launches = false;
    event->moment.move += now - event->at;
    run_kernel(session, event, plan_fixed_seconds(&session->plan, event->activity), now);
}

/* A message that began at `begin` has all that it needs since `now`. */
static void begin_delay(struct session *session, struct activity send, double begin, double now)
{
    struct event event = {.activity = send, .moment = {begin, begin, begin}};
    const struct path *path = plan_path(&session->plan, send);
    double factor = cost_message_factor(session->simulation->cost, &path->cost);
    double bytes = (double)plan_op(&session->plan, send)->bytes;
    event.moment.move = now + factor * path->cost.delay_seconds;
    event.moment.end = event.moment.move + factor * bytes / path->cost.bytes_per_s;
    event.moves = slowdown_counts(&session->slowdown, plan_sms(&session->plan, send));
    event.at = event.moves ? event.moment.move : event.moment.end;
    heap_push(&session->heap, event);
}

/* A message has been called. */
static void begin_message(struct session *session, struct activity send, double now)
{
    if (session->sms.counts)
        heap_push(&session->heap,
                  (struct event){.at = now + RACE_SECONDS, .activity = send, .moment = {now, now, now}, .asks = true});
    else
        begin_delay(session, send, now, now);
}

static void begin_issued(struct session *session, struct activity activity, double now)
{
    const struct op *op = plan_op(&session->plan, activity);
    if (op_is_message(op)) {
        if (!session->sms.counts || sm_queue_call(&session->sms, activity, NULL))
            begin_message(session, activity, now);
        return;
    }
    struct event event = {.activity = activity, .moment = {now, now, now}};
    begin_local(session, &event, (enum stream)op->stream, now);
}

/* Lets those messages go on that have waited long enough. */
static void go_on(struct session *session, double now)
{
    struct waiting_message message;
    while (sm_queue_next(&session->sms, &message)) {
        if (message.called)
            begin_delay(session, message.send, message.begin, now);
        else
            begin_message(session, message.send, now);
    }
}

/* An activity is ready; it begins when the host has issued it. */
static void begin(struct session *session, struct activity activity, double now)
{
    double issued = plan_issued(&session->plan, activity);
    if (issued > now)
        heap_push(&session->heap, (struct event){.at = issued, .activity = activity, .issues = true});
    else
        begin_issued(session, activity, now);
}

/* Whether the event ends its local operation. */
static bool ends_local(struct session *session, struct event *event)
{
    uint32_t instance = event->activity.instance;
    enum stream stream = (enum stream)plan_op(&session->plan, event->activity)->stream;
    double owed = slowdown_owed(&session->slowdown, instance, &event->slowed, event->at);
    if (owed > 0) {
        event->at += owed;
        heap_push(&session->heap, *event);
        return false;
    }
    if (event->launches) {
        if (device_turns_launched(&session->turns, instance, stream))
            begin_work(session, event, event->at);
        else
            session->waiting[compute_stream_index(instance, stream)] = *event;
        return false;
    }
    if (event->fills) {
        event->fills = false;
        sm_queue_handed_out(&session->sms, instance);
        go_on(session, event->at);
        run_for(session, event, event->rest, event->at);
        return false;
    }
    event->moment.end = event->at;
    if (session->sms.counts && stream_computes(stream)) {
        sm_queue_ended(&session->sms, event->activity);
        go_on(session, event->at);
    }
    struct turn next;
    if (stream_computes(stream) && device_turns_leave(&session->turns, instance, &next))
        begin_work(session, &session->waiting[compute_stream_index(next.instance, (enum stream)next.stream)],
                   event->at);
    return true;
}

/* Whether the event ends its activity; otherwise it is back in the heap for later. */
static bool ends(struct session *session, struct event *event)
{
    struct slowdown *slowdown = &session->slowdown;
    uint32_t instance = event->activity.instance;
    if (event->issues) {
        begin_issued(session, event->activity, event->at);
        return false;
    }
    if (event->asks) {
        if (sm_queue_ask(&session->sms, event->activity, event->moment.begin, NULL))
            begin_delay(session, event->activity, event->moment.begin, event->moment.begin);
        return false;
    }
    const struct op *op = plan_op(&session->plan, event->activity);
    if (!op_is_message(op))
        return ends_local(session, event);
    enum stream stream = (enum stream)op->stream;
    uint32_t sms = plan_sms(&session->plan, event->activity);
    uint32_t receiver = execution_receive_of(session->simulation->execution, event->activity).instance;
    if (event->moves) {
        slowdown_move(slowdown, instance, receiver, stream, sms, event->at);
        event->moves = false;
        event->at = event->moment.end;
        heap_push(&session->heap, *event);
        return false;
    }
    if (slowdown_counts(slowdown, sms))
        slowdown_stop(slowdown, instance, receiver, stream, event->at);
    return true;
}

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    struct session session = {.simulation = simulation};
    if (!plan_init(&session.plan, simulation, diag))
        return false;
    recorder_init(&session.recorder, simulation, timeline);
    slowdown_init(&session.slowdown, simulation->cost, simulation->ensemble->n_instances);
    device_turns_init(&session.turns, simulation->ensemble, simulation->placement,
                      simulation->cost->topology->ranks_per_device);
    sm_queue_init(&session.sms, &session.plan);
    session.waiting = memory_zeroed(2 * (size_t)simulation->ensemble->n_instances, sizeof *session.waiting);
    timeline->unshared = true;
    double now = 0;
    for (;;) {
        struct activity activity;
        while (execution_next(simulation->execution, &activity))
            begin(&session, activity, now);
        if (session.heap.count == 0)
            break;
        struct event event = heap_pop(&session.heap);
        now = event.at;
        if (ends(&session, &event))
            recorder_finish(&session.recorder, event.activity, event.moment);
    }
    free(session.heap.events);
    free(session.waiting);
    sm_queue_fini(&session.sms);
    device_turns_fini(&session.turns);
    slowdown_fini(&session.slowdown);
    plan_fini(&session.plan);
    return recorder_end(&session.recorder, diag);
}

const struct engine_ops engine_analytic = {
    .name = "analytic",
    .summary = "no contention: the critical path when every transfer has its links to itself; a lower bound",
    .run = run,
};
