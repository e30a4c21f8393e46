/* messages.h - the messages of one program by peer: which ends meet.
 *
 * Between two ranks, of one group or of two, the n-th send in a stream meets the n-th receive in the same stream. So a
 * message's end is named by its peer, its stream and its number there, and the other end is found without looking at
 * any other program: the same number in the peer's list of the opposite kind.
 *
 * Peers are listed once each, ascending, as the program names them; an operation's peer is then an index among them.
 */
#ifndef CPSIM_MODELS_SCHEDULE_MESSAGES_H
#define CPSIM_MODELS_SCHEDULE_MESSAGES_H

#include <stdint.h>

#include "models/schedule/program.h"

#define NO_PEER UINT32_MAX

/* All that a program sends to one peer. */
struct sent_to {
    uint64_t bytes;
    uint32_t count;
};

struct messages {
    uint32_t *peers; /* numbers (peers.h) */
    uint32_t n_peers;
    uint32_t *peer_of;    /* [op]: index in peers; NO_PEER for a local operation */
    uint32_t *place;      /* [op]: of a message, its index in `ends` */
    uint32_t *ends;       /* operations by kind, peer and stream, in program order */
    uint32_t *first;      /* [messages_list(...)]: where each list begins in `ends`; one more for the end of the last */
    struct sent_to *sent; /* [peer] */
};

/* Which list the ends of one kind with one peer in one stream are in. */
static inline size_t messages_list(const struct messages *messages, enum op_kind kind, uint32_t peer,
                                   enum stream stream)
{
    return ((kind == OP_RECEIVE ? (size_t)messages->n_peers : 0) + peer) * STREAM_COUNT + stream;
}

static inline uint32_t messages_count(const struct messages *messages, size_t list)
{
    return messages->first[list + 1] - messages->first[list];
}

void messages_init(struct messages *messages, const struct program *program);
void messages_fini(struct messages *messages);

/* The index of rank `peer` among the program's peers; NO_PEER if it is none. */
uint32_t messages_find_peer(const struct messages *messages, uint32_t peer);

#endif
