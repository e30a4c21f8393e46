/* queued.h - one rank's operations in the queues of an asynchronous backend: what waits for what there, and when it
 * ran.
 *
 * The executor queues operations in an order that the program allows; which of them the device runs at once is decided
 * here. An operation that conflicts with one of another stream waits, in its queue, for that one's gate: a mark behind
 * it and behind all that counts as finished with it (a group of messages, the operations of a collective's call).
 * Nothing has a gate that nobody waits for. In a traced step operations have timed marks before and behind them too;
 * the gates are the same, so a bare step runs in the same order.
 *
 * Phases: each begins with a mark that all queues wait for, and is over when a mark at the end of each queue is passed.
 * So nothing waits for operations of an earlier phase.
 */
#ifndef CPSIM_HW_RUN_QUEUED_H
#define CPSIM_HW_RUN_QUEUED_H

#include <pthread.h>

#include "hw/run/device_clock.h"
#include "models/result/timeline.h"
#include "models/schedule/streams.h"

struct queued;

/* Kernels of all ranks of a process, one after the other: each waits for the one that was queued last. */
struct turns {
    pthread_mutex_t mutex;
    const struct mark *last; /* NULL: none yet */
};

/* `order` outlives it. `calls`: the operations of a collective finish together. */
struct queued *queued_create(const struct stream_order *order, bool calls, const struct compute_ops *ops,
                             struct compute *compute);
void queued_destroy(struct queued *queued);

/* Begins a step. `turns`: NULL, or the kernels take turns with those of other ranks; the step is then traced. */
void queued_begin_step(struct queued *queued, bool traced, struct turns *turns);

/* ---- phases ---- */

/* Takes the device's time by the host's clock; as device_clock_set. */
bool queued_set_clock(struct queued *queued, bool (*waiting)(void *context), void *context);
void queued_begin_phase(struct queued *queued, enum phase phase);
/* Everything has been queued. */
void queued_end_phase(struct queued *queued);
/* All of the phase has run, or the backend has failed. */
bool queued_is_over(struct queued *queued);

/* Whether any gate has been passed since the last time it was asked. */
bool queued_has_moved(struct queued *queued);
/* An operation of the phase that has not been seen to be through; the program's count if there is none. */
uint32_t queued_waits_for(const struct queued *queued);

/* Of the phase that is over, on the host's clock; `moments` [op] gets those of its operations if the step is traced. */
struct queued_times {
    double begin, end;
    double clock_error_seconds;
};
struct queued_times queued_read(const struct queued *queued, struct moment *moments);

/* ---- phases that become one graph (recording.h) ---- */

/* The recorder's, as recording has begun: sets the mark that all queues wait for. */
void queued_open_recording(struct queued *recorder);
/* Every rank's: then its operations are queued. */
void queued_begin_recording(struct queued *queued, enum phase phase, const struct queued *recorder);
void queued_end_recording(struct queued *queued, const struct queued *recorder);
/* The recorder waits for the end of each rank's queues. */
void queued_join_recording(struct queued *recorder, const struct queued *queued);
/* The recorder's, before and after it launches the graph. */
void queued_begin_launch(struct queued *recorder);
void queued_end_launch(struct queued *recorder);

/* ---- operations ---- */

/* First of all, for each operation that starts: its queue waits for what it conflicts with. */
void queued_wait(struct queued *queued, uint32_t op);
/* Then, for a local operation: `run`, which may be NULL, between marks. */
void queued_run(struct queued *queued, uint32_t op, void (*run)(void *context, uint32_t op), void *context);
/* For a message, or the first operation of a call: before it is queued. */
void queued_post(struct queued *queued, uint32_t op);
/* The mark that a message's transport sets where bytes begin to move; NULL: nobody asks. */
struct mark *queued_moves(struct queued *queued, uint32_t op);
/* Behind a message, or the last operation of a call. */
void queued_receive(struct queued *queued, uint32_t op);
/* Last of all: `op` and all that finishes with it is queued. */
void queued_finish(struct queued *queued, uint32_t op);

#endif
