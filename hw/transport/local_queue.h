/* local_queue.h - messages between queues of one device (compute.h): ranks are threads and share the device.
 *
 * The host only matches ends and queues; the device moves. Each end touches the queues of its own rank only, from its
 * own thread, and ends know of each other by marks:
 *
 *     sender's queue      ready |                          wait begins | moves |        wait copied | ...
 *     receiver's queue      ... | wait ready | moves | begins | copies          | copied |            ...
 *
 * `ready` is set as the send is posted, behind what makes the bytes. A wait is queued only for a mark that is set
 * already, so queues cannot wait for each other in a circle. Before an end queues a sender's wait it queues the copies
 * that are due, so that bytes going both ways between two ranks do not wait for each other.
 *
 * A wait means the mark as it was set when the wait was queued (cudaStreamWaitEvent takes the event's last record): so
 * a mark is free to be set again as soon as the other end has queued its wait, whether the device is there or not.
 */
#ifndef CPSIM_HW_TRANSPORT_LOCAL_QUEUE_H
#define CPSIM_HW_TRANSPORT_LOCAL_QUEUE_H

#include "hw/compute.h"
#include "hw/transport/local_messages.h"

struct local_queue; /* one rank's end */

/* Moves a message's bytes in place of copies, in the receiver's queue, on its thread. */
struct local_mover {
    const char *version; /* of the library that moves, valid until `close` */
    /* Queues the move of all runs in `stream`. NULL, or why it could not (the mover's own text; people read it). */
    const char *(*move)(void *context, enum stream stream, const struct local_run *runs, uint32_t n_runs);
    void (*close)(void *context); /* when the transport is closed; NULL: nothing to do */
    void *context;
};

struct local_queue *local_queue_create(struct local_board *board, uint32_t rank, const struct compute_ops *ops,
                                       struct compute *compute);
/* Drops its messages itself; all queues of a board are destroyed between local_board_forget and
 * local_board_destroy. */
void local_queue_destroy(struct local_queue *queue);
void local_queue_set_mover(struct local_queue *queue, const struct local_mover *mover);

struct local_message *local_queue_post(struct local_queue *queue, const struct queued_message *message);
/* Queues what is due; true when all of `message` is queued that this end has to: the message is then not the caller's
 * any more. `sends`: which end it is. */
bool local_queue_test(struct local_queue *queue, struct local_message *message, bool sends);
/* The mover's version, or NULL. */
const char *local_queue_library(const struct local_queue *queue);

/* What the mover complained of first, or NULL. */
const char *local_queue_failure(const struct local_queue *queue);

#endif
