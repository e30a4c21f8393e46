/* streams.h - one rank's streams: which operations may start, given which have finished.
 *
 * Operations of a stream start and finish in list order, one at a time or a group of messages together. An operation
 * also waits for the earlier operations of other streams that it conflicts with on a buffer. Because streams finish in
 * order, "stream s has finished up to operation w" says it all: a hazard is one comparison. The order is fixed by the
 * program and shared by all ranks that run it; the progress is each rank's own.
 */
#ifndef CPSIM_MODELS_SCHEDULE_STREAMS_H
#define CPSIM_MODELS_SCHEDULE_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/schedule/program.h"

/* Only streams that have operations have a column of waits: few programs use all, and there is one for each operation
 * of each rank. */
struct stream_order {
    const struct program *program;
    uint32_t *waits; /* [op][column of stream]: 1 + index of the operation to have finished; 0: none */
    uint8_t column[STREAM_COUNT];
    uint8_t streams[STREAM_COUNT], n_streams; /* [column]: those that have operations */
    uint32_t *sequence[STREAM_COUNT];         /* the operations of each stream, in order */
    uint32_t length[STREAM_COUNT];
    uint32_t *sequence_memory;
};

struct stream_progress {
    struct {
        uint32_t position; /* in the stream's sequence: the first operation not finished */
        uint32_t running;  /* operations from there on that were started together, 0: none */
        uint32_t pending;  /* of those, not finished */
        uint32_t done;     /* 1 + index of the last finished operation */
        uint32_t held_by;  /* what held it up when it was last asked to start: a stream */
        uint32_t until;    /* that has to have `done` so much; 0: nothing */
    } streams[STREAM_COUNT];
};

/* `program` outlives the order. */
void stream_order_init(struct stream_order *order, const struct program *program);
void stream_order_fini(struct stream_order *order);

/* What operation `op` waits for in `stream`: 1 + the index of the last operation there to have finished, 0 if none. In
 * its own stream: the operation before it, or before its group. */
uint32_t stream_order_waits(const struct stream_order *order, uint32_t op, enum stream stream);

/* What each operation has waited for when it starts, directly or through others. */
struct stream_reach {
    uint32_t (*last)[STREAM_COUNT]; /* [op]: 1 + the last operation of each stream to have finished; 0: none */
    uint32_t *group_ends;           /* [group]: 1 + its last operation: whoever waits for one message waits for all */
};

void stream_reach_init(struct stream_reach *reach, const struct stream_order *order);
void stream_reach_fini(struct stream_reach *reach);

/* Starts the next operations of `stream` if it is free, they belong to `phase` and nothing holds them up: all of a
 * group, or one. Returns their number, and their indices in `*ops`; 0 if nothing starts now. */
uint32_t streams_start(const struct stream_order *order, struct stream_progress *progress, enum stream stream,
                       enum phase phase, const uint32_t **ops);

/* Notes that a started operation has finished. True if that frees its stream (others may then be free to start too). */
bool streams_finish(const struct stream_order *order, struct stream_progress *progress, uint32_t op);

/* The operations that `stream` is at: those started, or those to start next (even of a later phase). 0 at its end. */
uint32_t streams_head(const struct stream_order *order, const struct stream_progress *progress, enum stream stream,
                      const uint32_t **ops);

/* The stream that holds up `op`, or STREAM_COUNT if none does. */
enum stream streams_held_up_by(const struct stream_order *order, const struct stream_progress *progress, uint32_t op);

#endif
