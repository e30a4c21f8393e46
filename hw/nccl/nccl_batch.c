/* nccl_batch.c - batches: what they do, and their turn.
 *
 * A batch's copies are queued in its stream around the library's part, so the order of the stream is all they need:
 * scratch memory is free for the stream's next batch as soon as the copies out of it are queued.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "hw/nccl/nccl_end.h"
#include "models/base/memory.h"

struct nccl_batch {
    struct nccl_batch *next;
    void *comm;
    bool begun; /* the library has its part, but may not be through with queueing it */
    struct nccl_act *acts;
    size_t n_acts, act_capacity;
    struct mark **marks;
    size_t n_marks, mark_capacity;
    int *requests;
    size_t n_requests, request_capacity;
};

struct nccl_batch *nccl_batch_create(void *comm)
{
    struct nccl_batch *batch = memory_zeroed(1, sizeof *batch);
    batch->comm = comm;
    return batch;
}

static void batch_free(struct nccl_batch *batch)
{
    if (!batch)
        return;
    free(batch->acts);
    free(batch->marks);
    free(batch->requests);
    free(batch);
}

void nccl_batch_add(struct nccl_batch *batch, struct nccl_act act)
{
    memory_grow(batch->acts, batch->n_acts, batch->act_capacity);
    batch->acts[batch->n_acts++] = act;
}

void nccl_batch_mark(struct nccl_batch *batch, struct mark *mark)
{
    memory_grow(batch->marks, batch->n_marks, batch->mark_capacity);
    batch->marks[batch->n_marks++] = mark;
}

int nccl_batch_request(struct transport *end, struct nccl_batch *batch)
{
    size_t i = 0;
    while (i < end->n_requests && end->requests[i].used)
        i++;
    if (i == end->n_requests) {
        memory_grow(end->requests, end->n_requests, end->request_capacity);
        end->n_requests++;
    }
    end->requests[i] = (struct nccl_request){.used = true};
    memory_grow(batch->requests, batch->n_requests, batch->request_capacity);
    batch->requests[batch->n_requests++] = (int)i;
    return (int)i;
}

/* ---- scratch memory ---- */

char *nccl_batch_scratch(struct transport *end, enum stream stream, const struct nccl_batch *batch, uint64_t bytes)
{
    struct nccl_stream *line = &end->streams[stream];
    for (size_t i = 0; i < line->n_scratches; i++) {
        struct nccl_scratch *scratch = &line->scratches[i];
        if (scratch->user || scratch->bytes != bytes)
            continue;
        scratch->user = batch;
        return scratch->memory;
    }
    void *memory = end->given_up ? NULL : end->ops->allocate(end->compute, bytes);
    if (!memory) {
        nccl_fail(end, "no memory for %" PRIu64 " bytes that are to be sent or received in one piece", bytes);
        return NULL;
    }
    memory_grow(line->scratches, line->n_scratches, line->scratch_capacity);
    line->scratches[line->n_scratches++] = (struct nccl_scratch){memory, bytes, batch};
    return memory;
}

static void free_scratches(struct nccl_stream *line, const struct nccl_batch *batch)
{
    for (size_t i = 0; i < line->n_scratches; i++)
        if (line->scratches[i].user == batch)
            line->scratches[i].user = NULL;
}

const void *nccl_source(struct transport *end, enum stream stream, struct nccl_batch *batch,
                        const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t bytes)
{
    if (n_pieces == 1)
        return pieces[0].memory;
    char *to = nccl_batch_scratch(end, stream, batch, bytes), *first = to;
    if (to && n_pieces == 0)
        nccl_batch_add(batch, (struct nccl_act){.kind = NCCL_ACT_CLEAR, .to = to, .count = bytes});
    for (uint32_t i = 0; to && i < n_pieces; to += pieces[i++].bytes)
        nccl_batch_add(batch, (struct nccl_act){
                                  .kind = NCCL_ACT_COPY, .from = pieces[i].memory, .to = to, .count = pieces[i].bytes});
    return first;
}

void *nccl_target(struct transport *end, enum stream stream, struct nccl_batch *batch,
                  const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t bytes)
{
    if (n_pieces == 1)
        return pieces[0].memory;
    char *from = nccl_batch_scratch(end, stream, batch, bytes), *first = from;
    for (uint32_t i = 0; from && i < n_pieces; from += pieces[i++].bytes)
        nccl_batch_add(
            batch, (struct nccl_act){
                       .kind = NCCL_ACT_COPY_AFTER, .from = from, .to = pieces[i].memory, .count = pieces[i].bytes});
    return first;
}

/* ---- queueing ---- */

static void copy(struct transport *end, enum stream stream, const struct nccl_batch *batch, enum nccl_act_kind kind)
{
    const struct queue_ops *queues = end->ops->queues;
    for (size_t i = 0; i < batch->n_acts; i++) {
        const struct nccl_act *act = &batch->acts[i];
        if (act->kind != kind || act->count == 0)
            continue;
        if (kind == NCCL_ACT_CLEAR)
            queues->fill(end->compute, stream, act->to, 0, act->count);
        else
            queues->copy(end->compute, stream, act->to, act->from, act->count);
    }
}

/* One call of the library; true for acts that are none of its. */
static bool call(struct transport *end, void *comm, const struct nccl_act *act, void *stream)
{
    const struct nccl_library *nccl = &end->library;
    switch (act->kind) {
    case NCCL_ACT_SEND:
        return NCCL_CHECK(end, comm, nccl->send(act->from, act->count, act->type, act->peer, comm, stream),
                          "sending a message");
    case NCCL_ACT_RECEIVE:
        return NCCL_CHECK(end, comm, nccl->receive(act->to, act->count, act->type, act->peer, comm, stream),
                          "receiving a message");
    case NCCL_ACT_BROADCAST:
        return NCCL_CHECK(end, comm,
                          nccl->broadcast(act->from, act->to, act->count, act->type, act->peer, comm, stream),
                          "gathering one rank's block");
    case NCCL_ACT_REDUCE:
        return NCCL_CHECK(end, comm,
                          nccl->reduce(act->from, act->to, act->count, act->type, act->fold, act->peer, comm, stream),
                          "adding up one rank's block");
    case NCCL_ACT_ALL_REDUCE:
        return NCCL_CHECK(end, comm,
                          nccl->all_reduce(act->from, act->to, act->count, act->type, act->fold, comm, stream),
                          "an all-reduce");
    case NCCL_ACT_ALL_GATHER:
        return NCCL_CHECK(end, comm, nccl->all_gather(act->from, act->to, act->count, act->type, comm, stream),
                          "an all-gather");
    case NCCL_ACT_REDUCE_SCATTER:
        return NCCL_CHECK(end, comm,
                          nccl->reduce_scatter(act->from, act->to, act->count, act->type, act->fold, comm, stream),
                          "a reduce-scatter");
    case NCCL_ACT_COPY:
    case NCCL_ACT_CLEAR:
    case NCCL_ACT_COPY_AFTER:
        break;
    }
    return true;
}

static bool begin(struct transport *end, enum stream stream, struct nccl_batch *batch)
{
    const struct queue_ops *queues = end->ops->queues;
    batch->begun = true;
    nccl_register_all(end, batch->comm);
    copy(end, stream, batch, NCCL_ACT_COPY);
    copy(end, stream, batch, NCCL_ACT_CLEAR);
    for (size_t i = 0; i < batch->n_marks; i++)
        queues->mark(end->compute, stream, batch->marks[i]);
    if (!NCCL_CHECK(end, batch->comm, end->library.group_start(), "beginning a group"))
        return false;
    bool good = true;
    void *native = queues->native(end->compute, stream);
    for (size_t i = 0; i < batch->n_acts && good; i++)
        good = call(end, batch->comm, &batch->acts[i], native);
    int result = end->library.group_end(); /* after an error too: the thread is in the group until then */
    return good && NCCL_CHECK(end, batch->comm, result, "queueing a group");
}

/* Whether the library has queued all of it. */
static bool is_through(struct transport *end, const struct nccl_batch *batch)
{
    int state = NCCL_DONE;
    return NCCL_CHECK(end, batch->comm, end->library.comm_state(batch->comm, &state),
                      "asking whether a group is queued") &&
           NCCL_CHECK(end, batch->comm, state, "queueing a group") && state == NCCL_DONE;
}

static void finish(struct transport *end, enum stream stream, struct nccl_batch *batch)
{
    struct nccl_stream *line = &end->streams[stream];
    copy(end, stream, batch, NCCL_ACT_COPY_AFTER);
    free_scratches(line, batch);
    for (size_t i = 0; i < batch->n_requests; i++)
        end->requests[batch->requests[i]].done = true;
    line->first = batch->next;
    if (!line->first)
        line->last = NULL;
    batch_free(batch);
}

static bool progress(struct transport *end, enum stream stream)
{
    struct nccl_stream *line = &end->streams[stream];
    while (line->first && !end->given_up) {
        struct nccl_batch *batch = line->first;
        if (!batch->begun && !begin(end, stream, batch))
            return false;
        if (!is_through(end, batch))
            return false;
        finish(end, stream, batch);
    }
    return !line->first;
}

bool nccl_progress(struct transport *end)
{
    bool nothing_left = true;
    for (int s = 0; s < STREAM_COUNT; s++)
        nothing_left = progress(end, (enum stream)s) && nothing_left;
    return nothing_left;
}

void nccl_batch_push(struct transport *end, enum stream stream, struct nccl_batch *batch)
{
    struct nccl_stream *line = &end->streams[stream];
    if (line->last)
        line->last->next = batch;
    else
        line->first = batch;
    line->last = batch;
    progress(end, stream);
}

void nccl_batches_close(struct transport *end)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        struct nccl_stream *line = &end->streams[s];
        while (line->first) {
            struct nccl_batch *next = line->first->next;
            batch_free(line->first);
            line->first = next;
        }
        batch_free(line->open);
        free(line->scratches); /* the memory is the backend's, which takes back all of its own */
    }
    free(end->requests);
}
