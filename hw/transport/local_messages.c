/* local_messages.c - queues of messages that wait for their other end. */
#include "hw/transport/local_messages.h"

#include <pthread.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct queue {
    struct local_message *first, *last;
};

struct local_board {
    pthread_mutex_t mutex;
    uint32_t ranks;
    struct queue *queues; /* [(source * ranks + destination) * STREAM_COUNT + stream] */
};

struct local_board *local_board_create(uint32_t ranks)
{
    struct local_board *board = memory_zeroed(1, sizeof *board);
    board->ranks = ranks;
    board->queues = memory_zeroed((size_t)ranks * ranks * STREAM_COUNT, sizeof *board->queues);
    pthread_mutex_init(&board->mutex, NULL);
    return board;
}

void local_board_forget(struct local_board *board)
{
    for (size_t q = 0; q < (size_t)board->ranks * board->ranks * STREAM_COUNT; q++)
        for (struct local_message *m = board->queues[q].first; m; m = m->next)
            atomic_store(&m->holders, 1);
}

void local_board_destroy(struct local_board *board)
{
    pthread_mutex_destroy(&board->mutex);
    free(board->queues);
    free(board);
}

static struct local_message *pop(struct queue *queue)
{
    struct local_message *message = queue->first;
    queue->first = message->next;
    if (!queue->first)
        queue->last = NULL;
    return message;
}

static void push(struct queue *queue, struct local_message *message)
{
    if (queue->last)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

struct local_message *local_board_post(struct local_board *board, uint32_t source, uint32_t destination, bool send,
                                       enum stream stream, const struct local_side *side, struct mark *ready)
{
    struct queue *queue = &board->queues[((size_t)source * board->ranks + destination) * STREAM_COUNT + stream];
    pthread_mutex_lock(&board->mutex);
    bool matches = queue->first && queue->first->from_sender != send;
    struct local_message *message = matches ? pop(queue) : memory_zeroed(1, sizeof *message);
    *(send ? &message->source : &message->target) = *side;
    if (send)
        message->ready = ready;
    if (matches) {
        atomic_store(&message->state, LOCAL_MATCHED);
    } else {
        message->stream = stream;
        message->from_sender = send;
        atomic_init(&message->holders, 2);
        push(queue, message);
    }
    pthread_mutex_unlock(&board->mutex);
    return message;
}

void local_message_drop(struct local_message *message)
{
    if (atomic_fetch_sub(&message->holders, 1) == 1)
        free(message);
}

uint32_t local_message_runs(const struct local_message *message, struct local_run runs[LOCAL_RUNS_MAX])
{
    const struct local_side *source = &message->source, *target = &message->target;
    uint32_t s = 0, t = 0, n = 0;
    uint64_t s_done = 0, t_done = 0;
    while (s < source->n_pieces && t < target->n_pieces) {
        uint64_t s_left = source->pieces[s].bytes - s_done, t_left = target->pieces[t].bytes - t_done;
        uint64_t bytes = s_left < t_left ? s_left : t_left;
        if (bytes)
            runs[n++] = (struct local_run){(char *)target->pieces[t].memory + t_done,
                                           (const char *)source->pieces[s].memory + s_done, bytes};
        s_done += bytes;
        t_done += bytes;
        if (s_done == source->pieces[s].bytes) {
            s++;
            s_done = 0;
        }
        if (t_done == target->pieces[t].bytes) {
            t++;
            t_done = 0;
        }
    }
    return n;
}
