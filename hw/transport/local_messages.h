/* local_messages.h - where the two ends of a message between threads of one process meet.
 *
 * A message is one object that both ends share. Whoever posts first queues it under (source, destination, stream);
 * whoever posts second takes the first in the queue, so messages match in posting order.
 *
 * Threads: the queues are under one mutex. What an end posts is written before the state is LOCAL_MATCHED, and read
 * after. Later states are the business of whoever moves the bytes.
 */
#ifndef CPSIM_HW_TRANSPORT_LOCAL_MESSAGES_H
#define CPSIM_HW_TRANSPORT_LOCAL_MESSAGES_H

#include <stdatomic.h>

#include "hw/transport.h"

enum local_state {
    LOCAL_POSTED,  /* by one end */
    LOCAL_MATCHED, /* by both */
    LOCAL_MOVING,  /* one end is copying; of queued messages: the copy is queued */
    LOCAL_DONE,    /* copied; of queued messages: both ends have queued all they want */
};

struct local_side {
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n_pieces;
    struct mark *moves; /* queued messages (local_queue.h): as the end asked for it */
};

struct local_message {
    struct local_message *next; /* in its queue */
    struct local_side source, target;
    enum stream stream;
    bool from_sender;          /* which end was posted first */
    atomic_int state, holders; /* enum local_state; ends that have not dropped it */
    /* Queued messages: set when the source may be read, when the copy begins (if the sender asks), when it ends. */
    struct mark *ready, *begins, *copied;
};

struct local_board;

struct local_board *local_board_create(uint32_t ranks);
/* Before ends drop what they hold at the end of all: what only one end has posted is from then on held by that one
 * alone. */
void local_board_forget(struct local_board *board);
void local_board_destroy(struct local_board *board);

/* Posts one end of a message from rank `source` to rank `destination`; `ready` is the sender's, else NULL. */
struct local_message *local_board_post(struct local_board *board, uint32_t source, uint32_t destination, bool send,
                                       enum stream stream, const struct local_side *side, struct mark *ready);
/* Each end calls it once. */
void local_message_drop(struct local_message *message);

/* Bytes that are in one piece at both ends, which may cut the message differently. */
struct local_run {
    void *target;
    const void *source;
    uint64_t bytes;
};
#define LOCAL_RUNS_MAX (2 * PIECES_MAX - 1)

/* The runs of a message, none of them empty; returns their number. */
uint32_t local_message_runs(const struct local_message *message, struct local_run runs[LOCAL_RUNS_MAX]);

#endif
