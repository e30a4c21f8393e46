/* event_loop.h - what happens when: the part of an engine that all engines share.
 *
 * What a local operation takes is known when it begins, and so is a message's delay; both go into a heap of events,
 * earliest first and first in first out among equals. What an engine adds is how long a message's bytes move: those of
 * a loop that has no `transfer` have their links to themselves, and end by the heap too, as do those that meet no other
 * anyway (path.solitary). Otherwise the engine is told where bytes begin to move, and says when they have arrived.
 *
 * Where transfers slow compute down, an operation that is due may still owe some time and comes back to the heap; a
 * kernel that waits for another one's end, or a message for SMs, is out of it meanwhile.
 *
 * An event has its place until it is over; the heap holds but its time and its place.
 */
#ifndef CPSIM_SIM_EVENT_LOOP_H
#define CPSIM_SIM_EVENT_LOOP_H

#include "sim/device_turns.h"
#include "sim/plan.h"
#include "sim/recorder.h"
#include "sim/slowdown.h"
#include "sim/sm_queue.h"

struct event;

struct due {
    double at;
    uint64_t order; /* of insertion: breaks ties */
    uint32_t event;
};

struct event_loop {
    const struct simulation *simulation;
    struct plan plan;
    struct recorder recorder;
    struct slowdown slowdown;
    struct device_turns turns;
    struct sm_queue sms;
    struct event *events;
    uint32_t n_events, free; /* the first place that is free, plus 1; 0: none */
    size_t event_capacity;
    struct due *heap; /* binary: no event is before its parent, heap[(i - 1) / 2] */
    size_t n_due, heap_capacity;
    uint64_t inserted;
    uint32_t *waiting; /* [compute_stream_index]: the kernel that waits for its turn */
    double now;        /* never goes back */
    /* The bytes of a message begin to move; event_loop_arrive has to follow. Must not call back. */
    void (*transfer)(void *context, uint32_t message);
    void *context;
};

/* False, with messages, when something cannot be planned. */
bool event_loop_init(struct event_loop *loop, const struct simulation *simulation, struct timeline *timeline,
                     struct diagnostics *diag);
/* The same with a plan that has been made, which is the loop's then. */
void event_loop_init_planned(struct event_loop *loop, const struct plan *plan, struct timeline *timeline);
void event_loop_fini(struct event_loop *loop);

/* Lets begin all that is ready. */
void event_loop_begin_ready(struct event_loop *loop);

/* When the first event is due; false when there is none. */
static inline bool event_loop_next(const struct event_loop *loop, double *at)
{
    if (loop->n_due == 0)
        return false;
    *at = loop->heap[0].at;
    return true;
}

/* Takes the first event: it is now. */
void event_loop_step(struct event_loop *loop);

/* The send of a message under way; and its bytes have arrived. */
struct activity event_loop_send(const struct event_loop *loop, uint32_t message);
void event_loop_arrive(struct event_loop *loop, uint32_t message, double now);

#endif
