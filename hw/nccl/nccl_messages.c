/* nccl_messages.c - messages between queues: NCCL's sends and receives.
 *
 * NCCL matches sends and receives of one pair of ranks, in one communicator, one to one and in order, and their sizes
 * must be the same. The pieces of the two ends may be cut differently (K and V rows touch in a buffer that holds just
 * these rows, and are apart in a larger one), so what is sent at once is not a piece but an array of the message, which
 * both ends know: nearly always it lies within one piece. One that does not goes through scratch memory, which the
 * other end need not know.
 *
 * A message, or what is between group_begin and group_end, is one group of NCCL: sends and receives of it wait for each
 * other nowhere, so two ranks that are each other's both neighbours may queue theirs in one order.
 */
#include "hw/nccl/nccl_end.h"
#include "hw/transport/message_chunks.h"

/* The array at `offset` of the message. */
static void add_array(struct transport *end, struct nccl_batch *batch, const struct queued_message *message,
                      uint64_t offset, uint64_t bytes)
{
    struct piece_of_memory pieces[PIECES_MAX];
    struct nccl_act act = {.kind = message->send ? NCCL_ACT_SEND : NCCL_ACT_RECEIVE,
                           .count = bytes,
                           .type = NCCL_INT8,
                           .peer = (int)message->peer};
    if (bytes == 0)
        return;
    uint32_t n = message_range(message->pieces, message->n_pieces, offset, bytes, pieces);
    if (message->send)
        act.from = nccl_source(end, message->stream, batch, pieces, n, bytes);
    else
        act.to = nccl_target(end, message->stream, batch, pieces, n, bytes);
    nccl_batch_add(batch, act);
}

static void add_message(struct transport *end, struct nccl_batch *batch, const struct queued_message *message)
{
    uint64_t offset = 0;
    if (message->n_arrays == 0)
        add_array(end, batch, message, 0, message_bytes(message->pieces, message->n_pieces));
    for (uint32_t a = 0; a < message->n_arrays; offset += message->arrays[a++])
        add_array(end, batch, message, offset, message->arrays[a]);
}

static struct nccl_batch *batch_for(struct transport *end, enum stream stream)
{
    struct nccl_stream *line = &end->streams[stream];
    if (!end->grouping)
        return nccl_batch_create(line->comm);
    if (!line->open)
        line->open = nccl_batch_create(line->comm);
    return line->open;
}

int nccl_queue_message(struct transport *end, const struct queued_message *message)
{
    struct nccl_batch *batch = batch_for(end, message->stream);
    int request = nccl_batch_request(end, batch);
    if (message->moves)
        nccl_batch_mark(batch, message->moves);
    if (!end->given_up)
        add_message(end, batch, message);
    if (!end->grouping)
        nccl_batch_push(end, message->stream, batch);
    return request;
}

void nccl_group_begin(struct transport *end)
{
    end->grouping = true;
}

void nccl_group_end(struct transport *end)
{
    end->grouping = false;
    for (int s = 0; s < STREAM_COUNT; s++) {
        struct nccl_batch *batch = end->streams[s].open;
        end->streams[s].open = NULL;
        if (batch)
            nccl_batch_push(end, (enum stream)s, batch);
    }
}
