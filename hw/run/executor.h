/* executor.h - runs one rank's program for real: local operations on a compute backend, messages on a transport.
 *
 * One thread. What may start, models/schedule/streams.h says, as for the simulators. Messages are posted as soon as
 * their stream and buffers allow; local operations run on the calling thread, one at a time, those of the other streams
 * before those of the compute streams, and these in the order in which they became ready; between the tiles of a kernel
 * messages are tested and new ones posted, so that they move meanwhile. A collective may be one call of the transport
 * (collectives.h), which starts when all of its operations may and finishes all of them at once. Memory comes and goes
 * by rank_memory.h. The phases begin with a barrier of all ranks.
 *
 * On an asynchronous backend (compute.h) the same loop only queues: an operation counts as finished when it is queued,
 * with a gate behind it that conflicting operations of other queues wait for (queued.h), and the host is through long
 * before the device, for which it waits at the end of a phase. Memory may be given and taken as before: what is told of
 * lifetimes by the order of operations, the device's queues keep. Nothing that is called while operations are queued
 * waits for the device, which may be waiting for what this or another rank is yet to queue.
 */
#ifndef CPSIM_HW_RUN_EXECUTOR_H
#define CPSIM_HW_RUN_EXECUTOR_H

#include "hw/clock.h"
#include "hw/compute.h"
#include "hw/run/queued.h"
#include "hw/run/rank_calls.h"
#include "hw/run/rank_memory.h"
#include "hw/run/rank_tensors.h"
#include "hw/run/recording.h"
#include "hw/transport.h"
#include "models/result/timeline.h"

enum run_mode {
    RUN_ALL,
    RUN_COMPUTE,  /* messages count as done at once: contents are garbage */
    RUN_MESSAGES, /* local operations count as done at once: likewise */
};

/* Bytes and messages that a rank posted, as the transport was told, by traffic kind. Of a collective that the transport
 * has a call for: those that it is written out as, so that they are the predicted ones; what the library makes of the
 * call is its own. */
struct wire_count {
    uint64_t sent_bytes[TRAFFIC_COUNT], received_bytes[TRAFFIC_COUNT];
    uint64_t sent_messages[TRAFFIC_COUNT], received_messages[TRAFFIC_COUNT];
};

struct executor_step {
    enum run_mode mode;
    uint64_t seed;           /* of the inputs */
    bool poison;             /* fills what is not an input with NaN first */
    bool bare;               /* asynchronous backends: no marks but those that keep order; operations have no moments */
    double stall_seconds;    /* fails when for so long nothing came that it waits for; 0: waits for ever */
    struct outputs *outputs; /* NULL: not wanted; else filled (the caller calls outputs_fini) */
};

/* In seconds of CLOCK_MONOTONIC. A message's moments are those of this rank's end: posted, and seen finished. Those of
 * a collective's call are its messages'; its sums, which the library does, take no time at its finish. On a device:
 * begin is when its queue came to an operation, move (of a message received) when its bytes began to move. */
struct rank_record {
    struct moment *moments; /* [op]; all zero in a bare step */
    double phase_begin[PHASE_COUNT], phase_end[PHASE_COUNT];
    double clock_error_seconds; /* of the device's clock against the host's */
    uint64_t peak_bytes;
    struct wire_count wire;
};

struct executor;

/* All given outlives the executor, and `program` has passed layout_check. */
struct executor *executor_create(const struct schedule *schedule, const struct program *program,
                                 const struct compute_ops *compute_ops, struct compute *compute,
                                 const struct transport_ops *transport_ops, struct transport *end);
void executor_destroy(struct executor *x);

/* Of a layer: which rank of the run this is, and where in the layout. (Else the CP rank of the program.) */
void executor_set_place(struct executor *x, uint32_t rank, struct layers_place place);

/* From now on collectives are calls of the transport, in place of messages and sums; `calls` (of the executor's order
 * and end) outlives the executor. */
void executor_use_calls(struct executor *x, const struct rank_calls *calls);
const struct stream_order *executor_order(const struct executor *x);
/* From now on kernels take turns with those of other ranks (asynchronous backends); `turns` outlives the executor. */
void executor_take_turns(struct executor *x, struct turns *turns);

/* From now on each phase of a bare step is one graph (asynchronous backends that have them); `recording`, of all ranks
 * of the process, of which this is the `index`-th, outlives the executor. */
void executor_use_graphs(struct executor *x, struct recording *recording, uint32_t index);

/* Runs the program once. Every rank calls it with like settings. False when this rank or another failed: the transport
 * knows the reason. */
bool executor_run(struct executor *x, const struct executor_step *step);

/* Of the last run; the executor's own. */
const struct rank_record *executor_record(const struct executor *x);

#endif
