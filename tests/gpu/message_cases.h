/* message_cases.h - for tests: ranks that send each other a device's memory, on any transport. All ranks know from a
 * seed who sends what.
 *
 * In each stream a rank goes through rounds. A round copies contents into the buffers to send, queues the messages of
 * the round, and behind them copies what came to where it stays, and spoils all buffers: whatever is done out of its
 * order shows in what stayed.
 */
#ifndef CPSIM_TESTS_GPU_MESSAGE_CASES_H
#define CPSIM_TESTS_GPU_MESSAGE_CASES_H

#include <sched.h>
#include <stdlib.h>

#include "hw/transport.h"
#include "tests/hw/scene.h"

#define MESSAGES_MAX 4
#define GAP 48 /* bytes between pieces */
#define SPOILT 0xee

struct exchange {
    uint64_t seed, bytes_max;
    uint32_t ranks, rounds;
    int streams;
    uint32_t messages_max; /* of all ranks in a round of a stream */
    bool all_largest;
};

struct planned {
    uint32_t source, destination;
    uint64_t bytes;
};

static inline uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t x = (a + 0x9e3779b97f4a7c15u) ^ (b * 0xbf58476d1ce4e5b9u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint32_t plan(const struct exchange *exchange, int stream, uint32_t round,
                            struct planned messages[MESSAGES_MAX])
{
    const uint64_t seed = mixed(exchange->seed, round * STREAM_COUNT + (uint64_t)stream);
    const uint32_t n = exchange->all_largest ? exchange->messages_max : (uint32_t)(seed % (exchange->messages_max + 1));
    for (uint32_t m = 0; m < n; m++) {
        const uint64_t number = mixed(seed, m), size = mixed(number, 1);
        const uint32_t source = (uint32_t)(number % exchange->ranks);
        const uint32_t step = 1 + (uint32_t)(number / 97 % (exchange->ranks - 1));
        messages[m] = (struct planned){
            .source = source,
            .destination = (source + step) % exchange->ranks,
            .bytes = exchange->all_largest || size % 7 == 1 ? exchange->bytes_max
                     : size % 7 == 0                        ? 0
                                                            : mixed(number, 2) % (exchange->bytes_max + 1),
        };
    }
    return n;
}

/* ---- a rank ---- */

struct round_buffer {
    char *memory;
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n_pieces;
    int request; /* -1: none, or done */
    struct mark *moves;
};

struct stream_state {
    uint32_t round;
    bool under_way;
    struct planned messages[MESSAGES_MAX];
    uint32_t n;
    struct round_buffer buffers[2][MESSAGES_MAX]; /* to receive, to send */
};

struct exchanger {
    const struct exchange *exchange;
    const struct transport_ops *transport;
    struct transport *end;
    uint32_t rank;
    const struct compute_ops *ops;
    struct compute *compute;
    uint64_t slot;           /* bytes for one message with its gaps */
    char *contents, *stayed; /* [(stream * rounds + round) * messages_max + message], of slot bytes */
    struct stream_state streams[STREAM_COUNT];
};

static inline uint64_t slot_of(const struct exchanger *x, int stream, uint32_t round, uint32_t m)
{
    return (((uint64_t)stream * x->exchange->rounds + round) * x->exchange->messages_max + m) * x->slot;
}

/* Cuts a buffer into pieces with gaps between, each end in its own way. */
static inline void cut(struct round_buffer *buffer, uint64_t bytes, uint64_t seed)
{
    uint64_t left = bytes;
    char *memory = buffer->memory;
    buffer->n_pieces = 1 + (uint32_t)(seed % PIECES_MAX);
    for (uint32_t p = 0; p < buffer->n_pieces; p++) {
        const uint64_t part = p + 1 == buffer->n_pieces ? left : mixed(seed, p) % (left + 1);
        buffer->pieces[p] = (struct piece_of_memory){memory, part};
        memory += part + GAP;
        left -= part;
    }
}

/* Between a run of memory and a buffer's pieces, in the stream. */
static inline void copy_pieces(const struct exchanger *x, int stream, char *run, const struct round_buffer *buffer,
                               bool into_buffer)
{
    for (uint32_t p = 0; p < buffer->n_pieces; run += buffer->pieces[p++].bytes)
        if (buffer->pieces[p].bytes)
            x->ops->queues->copy(x->compute, (enum stream)stream, into_buffer ? buffer->pieces[p].memory : run,
                                 into_buffer ? run : buffer->pieces[p].memory, buffer->pieces[p].bytes);
}

static inline void begin_round(struct exchanger *x, int s)
{
    struct stream_state *stream = &x->streams[s];
    stream->under_way = true;
    stream->n = plan(x->exchange, s, stream->round, stream->messages);
    if (x->transport->group_begin)
        x->transport->group_begin(x->end);
    for (uint32_t m = 0; m < stream->n; m++) {
        const struct planned *message = &stream->messages[m];
        for (int sends = 0; sends < 2; sends++) {
            struct round_buffer *buffer = &stream->buffers[sends][m];
            buffer->request = -1;
            if ((sends ? message->source : message->destination) != x->rank)
                continue;
            cut(buffer, message->bytes, mixed(slot_of(x, s, stream->round, m), (uint64_t)sends + 5));
            if (sends)
                copy_pieces(x, s, x->contents + slot_of(x, s, stream->round, m), buffer, true);
            const struct queued_message queued = {
                .send = sends,
                .peer = sends ? message->destination : message->source,
                .stream = (enum stream)s,
                .pieces = buffer->pieces,
                .n_pieces = buffer->n_pieces,
                .moves = (m + stream->round) % 2 ? buffer->moves : NULL,
            };
            buffer->request = x->transport->queue_message(x->end, &queued);
        }
    }
    if (x->transport->group_end)
        x->transport->group_end(x->end);
}

/* True when all of the round is queued. */
static inline bool end_round(struct exchanger *x, int s)
{
    struct stream_state *stream = &x->streams[s];
    bool done = true;
    for (uint32_t m = 0; m < stream->n; m++) {
        for (int sends = 0; sends < 2; sends++) {
            struct round_buffer *buffer = &stream->buffers[sends][m];
            if (buffer->request >= 0 && x->transport->test(x->end, buffer->request))
                buffer->request = -1;
            done = done && buffer->request < 0;
        }
    }
    for (uint32_t m = 0; m < stream->n && done; m++) {
        const bool came = stream->messages[m].destination == x->rank, went = stream->messages[m].source == x->rank;
        if (came)
            copy_pieces(x, s, x->stayed + slot_of(x, s, stream->round, m), &stream->buffers[0][m], false);
        for (int sends = 0; sends < 2; sends++)
            if (sends ? went : came)
                x->ops->queues->fill(x->compute, (enum stream)s, stream->buffers[sends][m].memory, SPOILT, x->slot);
    }
    return done;
}

/* Until all is queued, the transport has no more to do, and the device is through. */
static inline void run_streams(struct exchanger *x)
{
    bool left = true;
    while (left && !x->transport->failed(x->end)) {
        left = false;
        for (int s = 0; s < x->exchange->streams; s++) {
            struct stream_state *stream = &x->streams[s];
            if (stream->round == x->exchange->rounds)
                continue;
            left = true;
            if (!stream->under_way)
                begin_round(x, s);
            if (end_round(x, s)) {
                stream->under_way = false;
                stream->round++;
            }
        }
        sched_yield();
    }
    while (x->transport->settled && !x->transport->settled(x->end) && !x->transport->failed(x->end))
        sched_yield();
    for (int s = 0; s < x->exchange->streams; s++) {
        struct mark *last = x->ops->queues->mark_create(x->compute, false);
        x->ops->queues->mark(x->compute, (enum stream)s, last);
        while (!x->ops->queues->passed(x->compute, last))
            sched_yield();
        x->ops->queues->mark_destroy(x->compute, last);
    }
}

/* ---- contents ---- */

static inline void fill_contents(const struct exchanger *x, uint32_t rank, int s, uint32_t round, uint32_t m,
                                 unsigned char *host, uint64_t bytes)
{
    const uint64_t seed = mixed(slot_of(x, s, round, m), rank + 1000);
    for (uint64_t i = 0; i < bytes; i++)
        host[i] = (unsigned char)((seed >> (i % 8 * 8)) + i / 8 * 31);
}

static inline bool all_is_right(const struct exchanger *x)
{
    unsigned char *host = malloc(x->slot), *expected = malloc(x->slot);
    bool good = !x->transport->failed(x->end) && !compute_failure(x->ops, x->compute);
    for (int s = 0; s < x->exchange->streams && good; s++) {
        for (uint32_t round = 0; round < x->exchange->rounds; round++) {
            struct planned messages[MESSAGES_MAX];
            const uint32_t n = plan(x->exchange, s, round, messages);
            for (uint32_t m = 0; m < n; m++) {
                if (messages[m].destination != x->rank || messages[m].bytes == 0)
                    continue;
                fill_contents(x, messages[m].source, s, round, m, expected, messages[m].bytes);
                x->ops->read(x->compute, host, x->stayed + slot_of(x, s, round, m), messages[m].bytes);
                good = good && memcmp(host, expected, messages[m].bytes) == 0;
            }
        }
    }
    free(host);
    free(expected);
    return good;
}

static inline void exchanger_init(struct exchanger *x)
{
    const struct exchange *exchange = x->exchange;
    x->slot = exchange->bytes_max + PIECES_MAX * GAP;
    const uint64_t all = slot_of(x, exchange->streams, 0, 0);
    x->contents = x->ops->allocate(x->compute, all);
    x->stayed = x->ops->allocate(x->compute, all);
    unsigned char *host = malloc(x->slot);
    for (int s = 0; s < x->exchange->streams; s++) {
        for (uint32_t round = 0; round < exchange->rounds; round++) {
            for (uint32_t m = 0; m < exchange->messages_max; m++) {
                fill_contents(x, x->rank, s, round, m, host, exchange->bytes_max);
                x->ops->write(x->compute, x->contents + slot_of(x, s, round, m), host, exchange->bytes_max);
            }
        }
        for (uint32_t b = 0; b < 2 * x->exchange->messages_max; b++) {
            struct round_buffer *buffer = &x->streams[s].buffers[b % 2][b / 2];
            buffer->memory = x->ops->allocate(x->compute, x->slot);
            buffer->moves = x->ops->queues->mark_create(x->compute, true);
        }
    }
    free(host);
}

static inline void exchanger_fini(struct exchanger *x)
{
    for (int s = 0; s < x->exchange->streams; s++) {
        for (uint32_t b = 0; b < 2 * x->exchange->messages_max; b++) {
            x->ops->release(x->compute, x->streams[s].buffers[b % 2][b / 2].memory);
            x->ops->queues->mark_destroy(x->compute, x->streams[s].buffers[b % 2][b / 2].moves);
        }
    }
    x->ops->release(x->compute, x->contents);
    x->ops->release(x->compute, x->stayed);
}

/* Whether everything came as it was sent, on this rank; `end` is attached to `compute`. */
static inline bool exchange_messages(const struct exchange *exchange, const struct transport_ops *transport,
                                     struct transport *end, uint32_t rank, const struct compute_ops *ops,
                                     struct compute *compute)
{
    struct exchanger x = {exchange, transport, end, rank, ops, compute, 0, NULL, NULL, {{0}}};
    exchanger_init(&x);
    run_streams(&x);
    const bool good = all_is_right(&x);
    exchanger_fini(&x);
    return good;
}

/* An experiment that the kernels for GPUs can compute. */
static inline void schedule_for_gpus(struct schedule *schedule, struct experiment *experiment, uint32_t ranks)
{
    *experiment = make_experiment("ring", ranks, 64 * ranks);
    experiment->model.head_dim = 64;
    experiment->dtype = DTYPE_BF16;
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (!schedule_init(schedule, experiment, NULL, &diag))
        abort();
    diagnostics_fini(&diag);
}

#endif
