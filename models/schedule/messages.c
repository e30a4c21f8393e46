/* messages.c - two passes of a counting sort: how long each list is, then who is where in it. */
#include "models/schedule/messages.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

static int compare_ranks(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Leaves each peer once, ascending. Programs name the same peer many times in a row, or two in turn: those are not
 * even taken down. */
static void list_peers(struct messages *messages, const struct program *program)
{
    uint32_t *peers = NULL, before[2] = {NO_PEER, NO_PEER};
    size_t count = 0, capacity = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (!op_is_message(op) || op->peer == before[0] || op->peer == before[1])
            continue;
        memory_grow(peers, count, capacity);
        peers[count++] = op->peer;
        before[1] = before[0];
        before[0] = op->peer;
    }
    if (count)
        qsort(peers, count, sizeof *peers, compare_ranks);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || peers[i] != peers[i - 1])
            peers[messages->n_peers++] = peers[i];
    messages->peers = memory_resized(peers, messages->n_peers + 1, sizeof *peers);
}

uint32_t messages_find_peer(const struct messages *messages, uint32_t peer)
{
    uint32_t low = 0, high = messages->n_peers;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (messages->peers[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < messages->n_peers && messages->peers[low] == peer ? low : NO_PEER;
}

static size_t list_of(const struct messages *messages, const struct op *op, uint32_t peer)
{
    return messages_list(messages, (enum op_kind)op->kind, peer, (enum stream)op->stream);
}

static void index_peers(struct messages *messages, const struct program *program)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        messages->peer_of[i] = NO_PEER;
        if (!op_is_message(op))
            continue;
        if (messages->peers[found] != op->peer)
            found = messages_find_peer(messages, op->peer);
        messages->peer_of[i] = found;
        messages->first[list_of(messages, op, found) + 1]++;
        if (op->kind == OP_RECEIVE)
            continue;
        messages->sent[found].bytes += op->bytes;
        messages->sent[found].count++;
    }
}

void messages_init(struct messages *messages, const struct program *program)
{
    *messages = (struct messages){0};
    list_peers(messages, program);
    size_t n_lists = (size_t)2 * messages->n_peers * STREAM_COUNT;
    messages->peer_of = memory_zeroed(program->n_ops, sizeof *messages->peer_of);
    messages->place = memory_zeroed(program->n_ops, sizeof *messages->place);
    messages->first = memory_zeroed(n_lists + 1, sizeof *messages->first);
    messages->sent = memory_zeroed(messages->n_peers, sizeof *messages->sent);
    index_peers(messages, program);
    for (size_t list = 0; list < n_lists; list++)
        messages->first[list + 1] += messages->first[list];
    messages->ends = memory_zeroed(messages->first[n_lists], sizeof *messages->ends);
    uint32_t *next = memory_zeroed(n_lists, sizeof *next);
    memcpy(next, messages->first, n_lists * sizeof *next);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (messages->peer_of[i] == NO_PEER)
            continue;
        messages->place[i] = next[list_of(messages, &program->ops[i], messages->peer_of[i])]++;
        messages->ends[messages->place[i]] = i;
    }
    free(next);
}

void messages_fini(struct messages *messages)
{
    free(messages->peers);
    free(messages->peer_of);
    free(messages->place);
    free(messages->ends);
    free(messages->first);
    free(messages->sent);
    *messages = (struct messages){0};
}
