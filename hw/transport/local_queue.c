/* local_queue.c - queues copies and waits for them; see local_queue.h. */
#include "hw/transport/local_queue.h"

#include <stdlib.h>

#include "hw/transport/mark_pool.h"
#include "models/base/memory.h"

struct messages {
    struct local_message **items;
    size_t count, capacity;
};

struct local_queue {
    struct local_board *board;
    uint32_t rank;
    const struct queue_ops *ops;
    struct compute *compute;
    struct local_mover mover; /* without `move`: copies */
    char *failure;
    struct mark_pool marks;
    struct messages receives; /* whose copies are not queued, in the order in which they were posted */
    struct messages lent;     /* received, with marks that the sender has still to queue waits for */
};

struct local_queue *local_queue_create(struct local_board *board, uint32_t rank, const struct compute_ops *ops,
                                       struct compute *compute)
{
    struct local_queue *queue = memory_zeroed(1, sizeof *queue);
    *queue = (struct local_queue){.board = board,
                                  .rank = rank,
                                  .ops = ops->queues,
                                  .compute = compute,
                                  .marks = {.ops = ops->queues, .compute = compute}};
    return queue;
}

const char *local_queue_library(const struct local_queue *queue)
{
    return queue->mover.version;
}

void local_queue_set_mover(struct local_queue *queue, const struct local_mover *mover)
{
    queue->mover = *mover;
}

const char *local_queue_failure(const struct local_queue *queue)
{
    return queue->failure;
}

static void add(struct messages *messages, struct local_message *message)
{
    memory_grow(messages->items, messages->count, messages->capacity);
    messages->items[messages->count++] = message;
}

/* Those in `receives` are requests' too, and dropped with these. */
void local_queue_destroy(struct local_queue *queue)
{
    if (queue->mover.close)
        queue->mover.close(queue->mover.context);
    for (size_t i = 0; i < queue->lent.count; i++)
        local_message_drop(queue->lent.items[i]);
    mark_pool_fini(&queue->marks);
    free(queue->receives.items);
    free(queue->lent.items);
    free(queue->failure);
    free(queue);
}

/* Takes back marks that senders have queued their waits for. */
static void reclaim(struct local_queue *queue)
{
    size_t left = 0;
    for (size_t i = 0; i < queue->lent.count; i++) {
        struct local_message *message = queue->lent.items[i];
        if (atomic_load(&message->state) != LOCAL_DONE) {
            queue->lent.items[left++] = message;
            continue;
        }
        mark_pool_give(&queue->marks, message->begins);
        mark_pool_give(&queue->marks, message->copied);
        local_message_drop(message);
    }
    queue->lent.count = left;
}

/* ---- messages ---- */

struct local_message *local_queue_post(struct local_queue *queue, const struct queued_message *posted)
{
    struct local_side side = {.n_pieces = posted->n_pieces, .moves = posted->moves};
    for (uint32_t i = 0; i < posted->n_pieces; i++)
        side.pieces[i] = posted->pieces[i];
    reclaim(queue);
    struct local_message *message = local_board_post(
        queue->board, posted->send ? queue->rank : posted->peer, posted->send ? posted->peer : queue->rank,
        posted->send, posted->stream, &side, posted->send ? mark_pool_set(&queue->marks, posted->stream) : NULL);
    if (!posted->send)
        add(&queue->receives, message);
    return message;
}

static void move(struct local_queue *queue, const struct local_message *message)
{
    struct local_run runs[LOCAL_RUNS_MAX];
    const uint32_t n = local_message_runs(message, runs);
    if (queue->mover.move) {
        const char *reason = n ? queue->mover.move(queue->mover.context, message->stream, runs, n) : NULL;
        if (reason && !queue->failure)
            queue->failure = memory_text(reason);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        queue->ops->copy(queue->compute, message->stream, runs[i].target, runs[i].source, runs[i].bytes);
}

static void queue_copy(struct local_queue *queue, struct local_message *message)
{
    queue->ops->wait(queue->compute, message->stream, message->ready);
    if (message->target.moves)
        queue->ops->mark(queue->compute, message->stream, message->target.moves);
    if (message->source.moves)
        message->begins = mark_pool_set(&queue->marks, message->stream);
    move(queue, message);
    message->copied = mark_pool_set(&queue->marks, message->stream);
    atomic_store(&message->state, LOCAL_MOVING);
}

static void queue_copies(struct local_queue *queue)
{
    size_t left = 0;
    for (size_t i = 0; i < queue->receives.count; i++) {
        struct local_message *message = queue->receives.items[i];
        if (atomic_load(&message->state) == LOCAL_MATCHED)
            queue_copy(queue, message);
        else
            queue->receives.items[left++] = message;
    }
    queue->receives.count = left;
}

/* The sender's mark begins with the receiver's, not when its own queue comes to wait. */
static void finish_send(struct local_queue *queue, struct local_message *message)
{
    if (message->source.moves) {
        queue->ops->wait(queue->compute, message->stream, message->begins);
        queue->ops->mark(queue->compute, message->stream, message->source.moves);
    }
    queue->ops->wait(queue->compute, message->stream, message->copied);
    mark_pool_give(&queue->marks, message->ready);
    atomic_store(&message->state, LOCAL_DONE);
    local_message_drop(message);
}

bool local_queue_test(struct local_queue *queue, struct local_message *message, bool sends)
{
    queue_copies(queue);
    const int state = atomic_load(&message->state);
    if (state < LOCAL_MOVING)
        return false;
    if (sends)
        finish_send(queue, message);
    else
        add(&queue->lent, message); /* with the marks */
    return true;
}
