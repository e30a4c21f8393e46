/* executor.h - runs one rank's program for real: local operations on a compute backend, messages on a transport.
 *
 * One thread. What may start, models/schedule/streams.h says, as for the simulators. Messages are posted as soon as
 * their stream and buffers allow; local operations run on the calling thread, one at a time, those of the other streams
 * before those of the compute stream; between the tiles of a kernel messages are tested and new ones posted, so that
 * they move meanwhile. Memory comes and goes by rank_memory.h. The phases begin with a barrier of all ranks.
 */
#ifndef CPSIM_HW_EXECUTOR_H
#define CPSIM_HW_EXECUTOR_H

#include "hw/clock.h"
#include "hw/compute.h"
#include "hw/rank_memory.h"
#include "hw/transport.h"
#include "models/result/timeline.h"

enum run_mode {
    RUN_ALL,
    RUN_COMPUTE,  /* messages count as done at once: contents are garbage */
    RUN_MESSAGES, /* local operations count as done at once: likewise */
};

/* What a rank ends with. */
enum output { OUTPUT_O, OUTPUT_LSE, OUTPUT_DQ, OUTPUT_DK, OUTPUT_DV, OUTPUT_COUNT };

/* On the host, as fp32: [row][batch][head][dim] (LSE without dim) of the rank's shard. NULL where there is none. */
struct outputs {
    float *tensors[OUTPUT_COUNT];
};

/* Bytes and messages that a rank posted, as the transport was told, by traffic kind. */
struct wire_count {
    uint64_t sent_bytes[TRAFFIC_COUNT], received_bytes[TRAFFIC_COUNT];
    uint64_t sent_messages[TRAFFIC_COUNT], received_messages[TRAFFIC_COUNT];
};

struct executor_step {
    enum run_mode mode;
    uint64_t seed;           /* of the inputs */
    bool poison;             /* fills what is not an input with NaN first */
    double stall_seconds;    /* fails when for so long nothing came that it waits for; 0: waits for ever */
    struct outputs *outputs; /* NULL: not wanted; else filled (the caller calls outputs_fini) */
};

/* In seconds of CLOCK_MONOTONIC. A message's moments are those of this rank's end: posted, and seen finished. */
struct rank_record {
    struct moment *moments; /* [op] */
    double phase_begin[PHASE_COUNT], phase_end[PHASE_COUNT];
    uint64_t peak_bytes;
    struct wire_count wire;
};

struct executor;

/* All given outlives the executor, and `program` has passed layout_check. */
struct executor *executor_create(const struct schedule *schedule, const struct program *program,
                                 const struct compute_ops *compute_ops, struct compute *compute,
                                 const struct transport_ops *transport_ops, struct transport *end);
void executor_destroy(struct executor *x);

/* Runs the program once. Every rank calls it with like settings. False when this rank or another failed: the transport
 * knows the reason. */
bool executor_run(struct executor *x, const struct executor_step *step);

/* Of the last run; the executor's own. */
const struct rank_record *executor_record(const struct executor *x);

void outputs_fini(struct outputs *outputs);
const char *output_name(enum output output); /* "O", "LSE", "dQ", ... */

#endif
