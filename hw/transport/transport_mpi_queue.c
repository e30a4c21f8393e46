/* transport_mpi_queue.c - messages of a device's memory for the transport 'mpi': through memory of the host, as an MPI
 * in general reaches no other.
 *
 * A message goes in chunks, so that copies and network work at the same time; both ends cut alike. Sent: the chunk is
 * copied out in the message's stream, and when the mark behind the copy has passed, sent. Received: the chunk is
 * awaited, and when it is there, copied in, in the stream. An end's part is queued when all its copies are; what is
 * queued behind them is ordered by the stream, and the host has no more to do for it than `mpi_queue_settled` does.
 *
 * A lane is one way between this rank and a peer in one stream. Its chunks begin and go on in the order in which
 * messages were queued: MPI matches them in that order, and marks of one stream pass in it. Only so many chunks are
 * under way in a lane; with more to do a message waits for its turn, as in any rendezvous.
 *
 * Marks are set again only when they have passed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport/mark_pool.h"
#include "hw/transport/message_chunks.h"
#include "hw/transport/mpi_staging.h"
#include "hw/transport/transport_mpi.h"
#include "models/base/memory.h"

#define STAGED_BYTES (UINT64_C(4) << 20) /* of a chunk; the copy of less would not hide its own start */
#define CHUNKS_MAX 16                    /* under way in a lane */

struct mpi_queued {
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n_pieces;
    struct mark *moves;
    uint64_t bytes, begun;       /* of the message; in chunks that have begun */
    uint64_t n_chunks, n_copied; /* copied: the copy is queued */
};

struct chunk {
    struct mpi_queued *message; /* valid until the copy is queued */
    uint64_t offset, bytes;
    void *staging;
    struct mark *mark; /* behind the copy */
    MPI_Request request;
};

/* The first half of a chunk's way is to be copied out or to arrive, the second to be sent or copied in. */
struct lane {
    bool sends, is_busy;
    int peer;
    enum stream stream;
    struct chunk chunks[CHUNKS_MAX]; /* in a ring */
    uint32_t first, n_chunks, n_second;
    struct mpi_queued **messages; /* with chunks that have not begun */
    size_t n_messages, capacity;
};

struct mpi_queue {
    const struct queue_ops *ops;
    struct compute *compute;
    struct mark_pool marks;
    struct staging staging;
    struct lane **lanes; /* [(peer * STREAM_COUNT + stream) * 2 + sends], made when used */
    struct lane **busy;  /* with anything to do */
    size_t n_busy, busy_capacity;
};

bool mpi_attach(struct transport *end, const struct compute_ops *ops, struct compute *compute, uint32_t streams,
                const struct transport_settings *settings, struct diagnostics *diag)
{
    (void)streams;
    if (transport_settings_are_set(settings))
        return diagnostics_add(diag,
                               "transport 'mpi' copies through the host's memory: what is said of a communication "
                               "library has no effect");
    struct mpi_queue *queue = end->queue = memory_zeroed(1, sizeof *queue);
    *queue = (struct mpi_queue){.ops = ops->queues, .compute = compute};
    queue->marks = (struct mark_pool){.ops = ops->queues, .compute = compute};
    queue->staging = (struct staging){.ops = ops->queues, .compute = compute};
    queue->lanes = memory_zeroed(2 * (size_t)end->ranks * STREAM_COUNT, sizeof *queue->lanes);
    return true;
}

void mpi_queue_close(struct transport *end)
{
    struct mpi_queue *queue = end->queue;
    if (!queue)
        return;
    mark_pool_fini(&queue->marks);
    staging_fini(&queue->staging);
    for (size_t i = 0; i < 2 * (size_t)end->ranks * STREAM_COUNT; i++) {
        if (queue->lanes[i])
            free(queue->lanes[i]->messages);
        free(queue->lanes[i]);
    }
    free(queue->lanes);
    free(queue->busy);
    free(queue);
    end->queue = NULL;
}

/* ---- chunks ---- */

static struct chunk *chunk_at(struct lane *lane, uint32_t index)
{
    return &lane->chunks[(lane->first + index) % CHUNKS_MAX];
}

static void queue_copy(struct mpi_queue *queue, const struct lane *lane, struct chunk *chunk)
{
    struct mpi_queued *message = chunk->message;
    struct piece_of_memory pieces[PIECES_MAX];
    const uint32_t n = message_range(message->pieces, message->n_pieces, chunk->offset, chunk->bytes, pieces);
    if (message->n_copied++ == 0 && message->moves)
        queue->ops->mark(queue->compute, lane->stream, message->moves);
    char *staging = chunk->staging;
    for (uint32_t i = 0; i < n; staging += pieces[i++].bytes)
        queue->ops->copy(queue->compute, lane->stream, lane->sends ? (void *)staging : pieces[i].memory,
                         lane->sends ? pieces[i].memory : (void *)staging, pieces[i].bytes);
    chunk->mark = mark_pool_set(&queue->marks, lane->stream);
    chunk->message = NULL; /* its end may now be done with it */
}

/* Tags are those of no message of the host's memory. */
static void give_to_mpi(const struct transport *end, const struct lane *lane, struct chunk *chunk)
{
    const int tag = STREAM_COUNT + (int)lane->stream, count = (int)chunk->bytes;
    if (lane->sends)
        MPI_Isend(chunk->staging, count, MPI_BYTE, lane->peer, tag, end->data, &chunk->request);
    else
        MPI_Irecv(chunk->staging, count, MPI_BYTE, lane->peer, tag, end->data, &chunk->request);
}

static void begin_half(struct transport *end, const struct lane *lane, struct chunk *chunk, bool copies)
{
    if (copies)
        queue_copy(end->queue, lane, chunk);
    else
        give_to_mpi(end, lane, chunk);
}

static bool half_is_done(struct mpi_queue *queue, struct chunk *chunk, bool copies)
{
    int done = 0;
    if (!copies) {
        MPI_Test(&chunk->request, &done, MPI_STATUS_IGNORE);
        return done;
    }
    if (!queue->ops->passed(queue->compute, chunk->mark))
        return false;
    mark_pool_give(&queue->marks, chunk->mark);
    return true;
}

/* ---- lanes ---- */

/* Begins the next chunk of the lane's first message; false when there is no memory for it. To wait for some to come
 * back would not do: what is received could have it all, and wait for what others cannot send for the same reason. */
static bool begin_chunk(struct transport *end, struct lane *lane)
{
    struct mpi_queue *queue = end->queue;
    struct mpi_queued *message = lane->messages[0];
    const uint64_t left = message->bytes - message->begun, bytes = left < STAGED_BYTES ? left : STAGED_BYTES;
    struct chunk chunk = {.message = message, .offset = message->begun, .bytes = bytes};
    chunk.staging = staging_take(&queue->staging, bytes);
    if (bytes && !chunk.staging) {
        char reason[160];
        snprintf(reason, sizeof reason,
                 "rank %d: no memory of the host that the GPU reaches for %" PRIu64 " bytes of a message", end->rank,
                 bytes);
        mpi_fail(end, reason);
        return false;
    }
    *chunk_at(lane, lane->n_chunks) = chunk;
    begin_half(end, lane, chunk_at(lane, lane->n_chunks++), lane->sends);
    message->begun += bytes;
    if (message->begun == message->bytes)
        memmove(lane->messages, lane->messages + 1, --lane->n_messages * sizeof *lane->messages);
    return true;
}

static void advance(struct transport *end, struct lane *lane)
{
    struct mpi_queue *queue = end->queue;
    while (lane->n_second < lane->n_chunks && half_is_done(queue, chunk_at(lane, lane->n_second), lane->sends))
        begin_half(end, lane, chunk_at(lane, lane->n_second++), !lane->sends);
    while (lane->n_second && half_is_done(queue, chunk_at(lane, 0), !lane->sends)) {
        struct chunk *chunk = chunk_at(lane, 0);
        staging_give(&queue->staging, chunk->staging, chunk->bytes);
        lane->first = (lane->first + 1) % CHUNKS_MAX;
        lane->n_second--;
        lane->n_chunks--;
    }
    while (lane->n_messages && lane->n_chunks < CHUNKS_MAX && begin_chunk(end, lane))
        ;
}

static void progress(struct transport *end)
{
    struct mpi_queue *queue = end->queue;
    size_t left = 0;
    for (size_t i = 0; i < queue->n_busy; i++) {
        struct lane *lane = queue->busy[i];
        advance(end, lane);
        lane->is_busy = lane->n_chunks || lane->n_messages;
        if (lane->is_busy)
            queue->busy[left++] = lane;
    }
    queue->n_busy = left;
}

static struct lane *lane_of(struct transport *end, bool sends, uint32_t peer, enum stream stream)
{
    struct mpi_queue *queue = end->queue;
    struct lane **lane = &queue->lanes[((size_t)peer * STREAM_COUNT + stream) * 2 + sends];
    if (!*lane) {
        *lane = memory_zeroed(1, sizeof **lane);
        (*lane)->sends = sends;
        (*lane)->peer = (int)peer;
        (*lane)->stream = stream;
    }
    if (!(*lane)->is_busy) {
        (*lane)->is_busy = true;
        memory_grow(queue->busy, queue->n_busy, queue->busy_capacity);
        queue->busy[queue->n_busy++] = *lane;
    }
    return *lane;
}

/* ---- messages ---- */

int mpi_queue_message(struct transport *end, const struct queued_message *posted)
{
    struct mpi_queued *message = memory_zeroed(1, sizeof *message);
    memcpy(message->pieces, posted->pieces, posted->n_pieces * sizeof *posted->pieces);
    message->n_pieces = posted->n_pieces;
    message->moves = posted->moves;
    message->bytes = message_bytes(posted->pieces, posted->n_pieces);
    message->n_chunks = message->bytes ? (message->bytes - 1) / STAGED_BYTES + 1 : 1;
    struct lane *lane = lane_of(end, posted->send, posted->peer, posted->stream);
    memory_grow(lane->messages, lane->n_messages, lane->capacity);
    lane->messages[lane->n_messages++] = message;
    advance(end, lane);
    return mpi_take_request(end, (struct mpi_request){.queued = message});
}

bool mpi_queue_test(struct transport *end, const struct mpi_queued *message)
{
    progress(end);
    return message->n_copied == message->n_chunks;
}

bool mpi_queue_settled(struct transport *end)
{
    if (end->queue)
        progress(end);
    return !end->queue || end->queue->n_busy == 0;
}
