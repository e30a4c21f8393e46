/* executor_parts.h - what the executor's files share; for them only. */
#ifndef CPSIM_HW_RUN_EXECUTOR_PARTS_H
#define CPSIM_HW_RUN_EXECUTOR_PARTS_H

#include "hw/run/executor.h"
#include "hw/run/packing.h"

struct in_flight {
    uint32_t op; /* of a call: the first of its collective */
    int request;
    size_t packing;
};

struct executor {
    const struct schedule *schedule;
    const struct program *program;
    const struct compute_ops *compute_ops;
    struct compute *compute;
    const struct transport_ops *transport_ops;
    struct transport *end;
    uint32_t rank; /* of the run */
    struct layers_place place;
    const struct rank_calls *calls; /* NULL: collectives are messages and sums like others */
    struct queued *queued;          /* NULL: the backend is not asynchronous, or nothing has run yet */
    struct turns *turns;            /* NULL: kernels do not take turns with those of other ranks */
    struct recording *recording;    /* NULL: no graphs */
    uint32_t index;                 /* in the recording */
    struct stream_order order;
    struct rank_memory memory;
    struct rank_record record;
    uint64_t inputs_seed;
    bool has_inputs;
    bool *unfilled; /* [buffer]: to be filled with poison by the first operation that touches it; asynchronous only */
    /* the run under way */
    const struct executor_step *step;
    struct stream_progress progress;
    /* When the next operation of a compute stream became ready, on a clock of ready_count; 0: it is not. */
    uint64_t ready_since[STREAM_COUNT];
    uint64_t ready_count;
    enum phase phase;
    uint32_t left; /* operations of the phase */
    struct in_flight *in_flight;
    size_t n_in_flight, in_flight_capacity;
    struct packings packings;
    double moved_at; /* when anything last finished */
    bool failed;
};

/* Tells all ranks. */
void executor_fail(struct executor *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether this rank or another has failed. */
bool executor_stopped(struct executor *x);

/* ---- executor_memory.c ---- */

struct rank_tensors executor_tensors(const struct executor *x);
/* Takes and gives the memory of a point of the lifetimes. */
void executor_go_to_point(struct executor *x, uint32_t point);
/* Asynchronous backends: takes all memory that a step will take and gives it back, while nothing is queued yet. */
void executor_rehearse_memory(struct executor *x);
/* An operation is about to be queued: what it touches is filled with poison before, if nobody has done it yet. */
void executor_fill_before(struct executor *x, uint32_t op);

/* ---- executor.c ---- */

/* The operation that `stream` would start next in this phase, or NULL. */
const struct op *executor_next_op(const struct executor *x, enum stream stream);
/* Notes which compute streams have become ready since the last time. */
void executor_note_ready(struct executor *x);
void executor_begin_op(struct executor *x, uint32_t op);
void executor_finish_op(struct executor *x, uint32_t op);
/* Runs, or queues, all operations of the phase. */
void executor_run_operations(struct executor *x);

/* ---- executor_phases.c ---- */

bool executor_run_phase(struct executor *x, enum phase phase);
/* Fails, naming what is waited for, when nothing has come for too long. */
void executor_watch(struct executor *x);
/* Looks for all reasons to stop waiting; false if there is one. */
bool executor_may_wait(void *executor);
/* Whether the host has nothing left to do for messages that are queued. */
bool executor_settled(struct executor *x);
/* Until the end of the phase, which has been queued; false when that will not come. */
bool executor_wait_for_device(struct executor *x);
void executor_note_times(struct executor *x, struct queued_times times);

/* ---- executor_graph.c ---- */

/* Before and after what is queued: if that is being recorded, no other rank of the process queues in between. */
void executor_begin_queueing(struct executor *x);
void executor_end_queueing(struct executor *x);
/* Runs the phase, whose operations nobody has begun, as one graph. */
bool executor_run_graph(struct executor *x);

/* ---- executor_messages.c ---- */

/* Whether it belongs to a collective that is one call. */
bool executor_is_call(const struct executor *x, const struct op *op);
/* Posts every group of messages, and every call, that may be posted now. */
void executor_start_messages(struct executor *x);
/* Tests what is in flight; true if anything finished. */
bool executor_progress_messages(struct executor *x);

#endif
