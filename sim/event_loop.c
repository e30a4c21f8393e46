/* event_loop.c - the heap, and what each kind of event does. */
#include "sim/event_loop.h"

#include <stdlib.h>

#include "models/base/memory.h"

struct event {
    struct activity activity;
    uint32_t next_free; /* of a place that is free: as event_loop.free */
    bool issues;        /* the host has issued it: it begins */
    bool moves;         /* a message begins to move; else the activity is due to end */
    bool launches;      /* a kernel behind another one: its launch is due to end */
    bool asks;          /* a message asks for SMs */
    bool fills;         /* attention is due to have handed out its tiles; */
    double rest;        /* then it runs for so long */
    double at;
    struct moment moment;
    struct slowed slowed;
};

/* ---- places and the heap ---- */

static uint32_t add_event(struct event_loop *loop, struct event event)
{
    uint32_t place = loop->free;
    if (place) {
        loop->free = loop->events[place - 1].next_free;
        loop->events[place - 1] = event;
        return place - 1;
    }
    memory_grow(loop->events, loop->n_events, loop->event_capacity);
    loop->events[loop->n_events] = event;
    return loop->n_events++;
}

static void drop_event(struct event_loop *loop, uint32_t place)
{
    loop->events[place].next_free = loop->free;
    loop->free = place + 1;
}

static bool is_before(const struct due *a, const struct due *b)
{
    return a->at < b->at || (a->at <= b->at && a->order < b->order);
}

static void push(struct event_loop *loop, uint32_t event)
{
    memory_grow(loop->heap, loop->n_due, loop->heap_capacity);
    struct due due = {.at = loop->events[event].at, .order = loop->inserted++, .event = event};
    size_t i = loop->n_due++;
    while (i > 0 && is_before(&due, &loop->heap[(i - 1) / 2])) {
        loop->heap[i] = loop->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    loop->heap[i] = due;
}

static void push_new(struct event_loop *loop, struct event event)
{
    push(loop, add_event(loop, event));
}

static uint32_t pop(struct event_loop *loop)
{
    struct due *heap = loop->heap, last = heap[--loop->n_due];
    uint32_t first = heap[0].event;
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < loop->n_due; i = child) {
        if (child + 1 < loop->n_due && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

/* ---- local operations ---- */

/* Lets an event be due when its local operation has run for `seconds` from now. */
static void run_for(struct event_loop *loop, uint32_t place, double seconds)
{
    struct event *event = &loop->events[place];
    event->at = loop->now + seconds;
    event->slowed =
        slowdown_begin(&loop->slowdown, event->activity.instance, plan_op(&loop->plan, event->activity), loop->now);
    push(loop, place);
}

/* Lets a kernel run that has the device, but for what of it passed before. */
static void run_kernel(struct event_loop *loop, uint32_t place, double before)
{
    struct event *event = &loop->events[place];
    double seconds = plan_seconds(&loop->plan, event->activity) - before;
    double fill = loop->sms.counts ? plan_fill_seconds(&loop->plan, event->activity) - before : 0;
    if (fill > 0) {
        sm_queue_fill(&loop->sms, event->activity.instance);
        event->fills = true;
        event->rest = seconds - fill;
        seconds = fill;
    }
    run_for(loop, place, seconds);
}

static void begin_local(struct event_loop *loop, struct activity activity, enum stream stream)
{
    uint32_t place = add_event(loop, (struct event){.activity = activity, .moment = {loop->now, loop->now, loop->now}});
    if (stream_computes(stream) && !device_turns_enter(&loop->turns, activity.instance, stream)) {
        loop->events[place].launches = true;
        run_for(loop, place, plan_fixed_seconds(&loop->plan, activity));
    } else {
        run_kernel(loop, place, 0);
    }
}

/* The kernel has waited for its turn since it was due, or not at all; now it works. */
static void begin_work(struct event_loop *loop, uint32_t place)
{
    struct event *event = &loop->events[place];
    event->launches = false;
    event->moment.move += loop->now - event->at;
    run_kernel(loop, place, plan_fixed_seconds(&loop->plan, event->activity));
}

/* ---- messages ---- */

/* A message that began at `begin` has all that it needs since `since`. */
static void begin_delay(struct event_loop *loop, struct activity send, double begin, double since)
{
    struct event event = {.activity = send, .moment = {begin, begin, begin}};
    const struct path *path = plan_path(&loop->plan, send);
    double bytes = (double)plan_op(&loop->plan, send)->bytes;
    event.moment.move = since + path->factor * path->cost.delay_seconds;
    event.moment.end = event.moment.move + path->factor * bytes / path->cost.bytes_per_s;
    event.moves = (loop->transfer && !path->solitary) || slowdown_counts(&loop->slowdown, path->sms);
    event.at = event.moves ? event.moment.move : event.moment.end;
    push_new(loop, event);
}

/* A message has been called. */
static void begin_message(struct event_loop *loop, struct activity send)
{
    double now = loop->now;
    if (loop->sms.counts)
        push_new(loop,
                 (struct event){.at = now + RACE_SECONDS, .activity = send, .moment = {now, now, now}, .asks = true});
    else
        begin_delay(loop, send, now, now);
}

/* Lets those messages go on that have waited long enough. */
static void go_on(struct event_loop *loop)
{
    struct waiting_message message;
    while (sm_queue_next(&loop->sms, &message)) {
        if (message.called)
            begin_delay(loop, message.send, message.begin, loop->now);
        else
            begin_message(loop, message.send);
    }
}

/* ---- beginnings ---- */

static void begin_issued(struct event_loop *loop, struct activity activity)
{
    const struct op *op = plan_op(&loop->plan, activity);
    if (!op_is_message(op))
        begin_local(loop, activity, (enum stream)op->stream);
    else if (!loop->sms.counts || sm_queue_call(&loop->sms, activity, NULL))
        begin_message(loop, activity);
}

void event_loop_begin_ready(struct event_loop *loop)
{
    struct activity activity;
    while (execution_next(loop->recorder.execution, &activity)) {
        double issued = plan_issued(&loop->plan, activity);
        if (issued > loop->now)
            push_new(loop, (struct event){.at = issued, .activity = activity, .issues = true});
        else
            begin_issued(loop, activity);
    }
}

/* ---- events ---- */

/* The activity of an event is over. */
static void finish(struct event_loop *loop, uint32_t place)
{
    struct event *event = &loop->events[place];
    struct activity activity = event->activity;
    struct moment moment = event->moment;
    drop_event(loop, place);
    recorder_finish(&loop->recorder, activity, moment);
}

static void handed_out(struct event_loop *loop, uint32_t place)
{
    struct event *event = &loop->events[place];
    uint32_t instance = event->activity.instance;
    double rest = event->rest;
    event->fills = false;
    sm_queue_handed_out(&loop->sms, instance);
    go_on(loop); /* may move the events */
    run_for(loop, place, rest);
}

static void launched(struct event_loop *loop, uint32_t place, enum stream stream)
{
    uint32_t instance = loop->events[place].activity.instance;
    if (device_turns_launched(&loop->turns, instance, stream))
        begin_work(loop, place);
    else
        loop->waiting[compute_stream_index(instance, stream)] = place;
}

static void due_local(struct event_loop *loop, uint32_t place)
{
    struct event *event = &loop->events[place];
    struct activity activity = event->activity;
    uint32_t instance = activity.instance;
    enum stream stream = (enum stream)plan_op(&loop->plan, activity)->stream;
    double owed = slowdown_owed(&loop->slowdown, instance, &event->slowed, loop->now);
    if (owed > 0) {
        event->at += owed;
        push(loop, place);
        return;
    }
    if (event->launches) {
        launched(loop, place, stream);
        return;
    }
    if (event->fills) {
        handed_out(loop, place);
        return;
    }
    event->moment.end = loop->now;
    if (loop->sms.counts && stream_computes(stream)) {
        sm_queue_ended(&loop->sms, activity);
        go_on(loop);
    }
    struct turn next;
    if (stream_computes(stream) && device_turns_leave(&loop->turns, instance, &next))
        begin_work(loop, loop->waiting[compute_stream_index(next.instance, (enum stream)next.stream)]);
    finish(loop, place);
}

static uint32_t receiver_of(const struct event_loop *loop, const struct path *path)
{
    return loop->simulation->ensemble->peers[path->way].instance;
}

static void due_to_move(struct event_loop *loop, uint32_t place)
{
    struct event *event = &loop->events[place];
    struct activity send = event->activity;
    const struct path *path = plan_path(&loop->plan, send);
    enum stream stream = (enum stream)plan_op(&loop->plan, send)->stream;
    if (slowdown_counts(&loop->slowdown, path->sms))
        slowdown_move(&loop->slowdown, send.instance, receiver_of(loop, path), stream, path->sms, loop->now);
    event->moves = false;
    event->moment.move = loop->now;
    event->at = event->moment.end;
    if (loop->transfer && !path->solitary)
        loop->transfer(loop->context, place);
    else
        push(loop, place);
}

void event_loop_arrive(struct event_loop *loop, uint32_t message, double now)
{
    struct event *event = &loop->events[message];
    struct activity send = event->activity;
    const struct path *path = plan_path(&loop->plan, send);
    enum stream stream = (enum stream)plan_op(&loop->plan, send)->stream;
    loop->now = now > loop->now ? now : loop->now;
    event->moment.end = loop->now;
    if (slowdown_counts(&loop->slowdown, path->sms))
        slowdown_stop(&loop->slowdown, send.instance, receiver_of(loop, path), stream, loop->now);
    finish(loop, message);
}

void event_loop_step(struct event_loop *loop)
{
    uint32_t place = pop(loop);
    struct event *event = &loop->events[place];
    struct activity activity = event->activity;
    double begin = event->moment.begin;
    event->at = loop->now = event->at > loop->now ? event->at : loop->now;
    if (event->issues) {
        drop_event(loop, place);
        begin_issued(loop, activity);
    } else if (event->asks) {
        drop_event(loop, place);
        if (sm_queue_ask(&loop->sms, activity, begin, NULL))
            begin_delay(loop, activity, begin, begin);
    } else if (!op_is_message(plan_op(&loop->plan, activity))) {
        due_local(loop, place);
    } else if (event->moves) {
        due_to_move(loop, place);
    } else {
        event_loop_arrive(loop, place, event->at);
    }
}

struct activity event_loop_send(const struct event_loop *loop, uint32_t message)
{
    return loop->events[message].activity;
}

/* ---- the loop ---- */

void event_loop_init_planned(struct event_loop *loop, const struct plan *plan, struct timeline *timeline)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    *loop = (struct event_loop){.simulation = simulation, .plan = *plan};
    recorder_init(&loop->recorder, simulation, timeline);
    slowdown_init(&loop->slowdown, simulation->cost, ensemble->n_instances);
    device_turns_init(&loop->turns, ensemble, simulation->placement, simulation->cost->topology->ranks_per_device);
    sm_queue_init(&loop->sms, &loop->plan);
    loop->waiting = memory_zeroed(2 * (size_t)ensemble->n_instances, sizeof *loop->waiting);
}

bool event_loop_init(struct event_loop *loop, const struct simulation *simulation, struct timeline *timeline,
                     struct diagnostics *diag)
{
    struct plan plan;
    if (!plan_init(&plan, simulation, diag))
        return false;
    event_loop_init_planned(loop, &plan, timeline);
    return true;
}

void event_loop_fini(struct event_loop *loop)
{
    recorder_fini(&loop->recorder);
    free(loop->events);
    free(loop->heap);
    free(loop->waiting);
    sm_queue_fini(&loop->sms);
    device_turns_fini(&loop->turns);
    slowdown_fini(&loop->slowdown);
    plan_fini(&loop->plan);
}
