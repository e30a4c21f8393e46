/* layers_flows.c - flowing collectives: as many bytes as their kind takes, of buffers that are ready for it. */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/layers/layers_proof.h"
#include "models/schedule/messages.h"
#include "models/schedule/peers.h"

static const struct collective *collective_of(const struct proof *proof, uint32_t op)
{
    return &proof->program->collectives[proof->program->ops[op].collective - 1];
}

static uint64_t bytes_of(const struct program *program, const uint32_t *buffers, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += program->buffers[buffers[i]].bytes;
    return bytes;
}

/* All that a member sends and gets: (N - 1)/N of the data, twice that where it is summed and gathered. */
static void check_bytes(struct proof *proof, const struct collective *what, const struct op *send,
                        const struct op *receive)
{
    const struct program *program = proof->program;
    uint64_t sent = 0, received = 0, n = what->n_members;
    for (uint32_t i = what->first_op; i < what->end_op; i++)
        *(program->ops[i].kind == OP_SEND ? &sent : &received) += program->ops[i].bytes;
    uint64_t data = what->call == CALL_ALL_GATHER
                        ? bytes_of(program, program_writes(program, receive), receive->n_writes)
                        : bytes_of(program, program_reads(program, send), send->n_reads);
    uint64_t expected = (data + n - 1) / n * (n - 1) * (what->call == CALL_ALL_REDUCE ? 2 : 1);
    if (sent != expected || received != expected)
        findings_add_op(proof->findings, program, what->first_op,
                        "is of an %s that sends %" PRIu64 " and gets %" PRIu64 " bytes, expected %" PRIu64
                        " for %" PRIu64 " bytes among %" PRIu64,
                        collective_call_name((enum collective_call)what->call), sent, received, expected, data, n);
}

/* ---- among tp ranks ---- */

/* Hidden tensors change between a rank's own rows and all; norms' gradients are summed. */
static void walk_tensor(struct proof *proof, uint32_t op, const struct op *send, const struct op *receive)
{
    const struct program *program = proof->program;
    enum collective_call call = (enum collective_call)collective_of(proof, op)->call;
    uint64_t from = call == CALL_ALL_GATHER ? proof->rows : proof->tokens;
    uint64_t to = call == CALL_REDUCE_SCATTER ? proof->rows : proof->tokens;
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t *buffers = side ? program_writes(program, receive) : program_reads(program, send);
        uint32_t n = side ? receive->n_writes : send->n_reads;
        for (uint32_t i = 0; i < n; i++) {
            struct proof_buffer *state = &proof->buffers[buffers[i]];
            const struct buffer *buffer = &program->buffers[buffers[i]];
            uint64_t rows = side ? to : from;
            if (buffer->tensor == TENSOR_WEIGHT_GRADIENT)
                state->tensor_sums += side;
            else if (buffer->role == ROLE_ACTIVATIONS && buffer->rows != rows)
                findings_add_op(proof->findings, program, op,
                                "takes %" PRIu64 " rows of buffer '%s', expected %" PRIu64, buffer->rows, buffer->name,
                                rows);
        }
    }
}

/* ---- among dp x cp ranks ---- */

/* Layers' weights come, or all weights are new. */
static void walk_weights(struct proof *proof, uint32_t op, const struct op *receive)
{
    const uint32_t *writes = program_writes(proof->program, receive);
    for (uint32_t i = 0; i < receive->n_writes; i++) {
        struct proof_buffer *state = &proof->buffers[writes[i]];
        bool kept = proof->program->buffers[writes[i]].kept;
        if (kept && state->updates != 1)
            findings_add_op(proof->findings, proof->program, op,
                            "gathers '%s', of which there is no new part since it was last gathered",
                            proof_name(proof, writes[i]));
        state->updates = 0;
        state->fresh = !kept;
    }
}

/* Gradients of layers become whole. */
static void walk_gradients(struct proof *proof, uint32_t op, const struct op *send)
{
    const uint32_t *reads = program_reads(proof->program, send);
    for (uint32_t i = 0; i < send->n_reads; i++) {
        struct proof_buffer *state = &proof->buffers[reads[i]];
        if (!state->contributions || state->data_sums)
            findings_add_op(proof->findings, proof->program, op, "sums '%s', which %s", proof_name(proof, reads[i]),
                            state->data_sums ? "is summed already" : "has nothing new in it");
        state->data_sums++;
        proof->layers[state->layer].summed++;
    }
}

/* All messages of a collective carry the same. */
static bool same_buffers(const struct program *program, const struct op *a, const struct op *b)
{
    bool same = a->n_reads == b->n_reads && a->n_writes == b->n_writes;
    const uint32_t *one = program_reads(program, a), *other = program_reads(program, b);
    for (uint32_t i = 0; same && i < (uint32_t)a->n_reads + a->n_writes; i++)
        same = one[i] == other[i];
    return same;
}

void proof_walk_flow(struct proof *proof, uint32_t op)
{
    const struct program *program = proof->program;
    const struct collective *what = collective_of(proof, op);
    const struct op *send = NULL, *receive = NULL;
    bool sound = true;
    for (uint32_t i = what->first_op; i < what->end_op; i++) {
        const struct op **first = program->ops[i].kind == OP_SEND ? &send : &receive;
        sound = sound && op_is_message(&program->ops[i]) && program->ops[i].collective == program->ops[op].collective;
        if (sound && *first)
            sound = same_buffers(program, *first, &program->ops[i]);
        *first = *first ? *first : &program->ops[i];
    }
    if (!sound || !send || !receive) {
        findings_add_op(proof->findings, program, op,
                        "is of a collective that is not messages with the same buffers, to and fro");
        return;
    }
    check_bytes(proof, what, send, receive);
    if (send->traffic == TRAFFIC_TENSOR)
        walk_tensor(proof, op, send, receive);
    else if (send->traffic == TRAFFIC_WEIGHTS)
        walk_weights(proof, op, receive);
    else if (send->traffic == TRAFFIC_WEIGHT_GRADIENT)
        walk_gradients(proof, op, send);
}

/* ---- both ends ---- */

static void compare_lists(const struct program *mine, const struct messages *messages, size_t list,
                          const struct program *theirs, const struct messages *others, size_t other_list,
                          struct findings *findings)
{
    uint32_t n = messages_count(messages, list), m = messages_count(others, other_list);
    for (uint32_t i = 0; i < n && i < m; i++) {
        uint32_t send = messages->ends[messages->first[list] + i];
        const struct op *receive = &theirs->ops[others->ends[others->first[other_list] + i]];
        if (mine->ops[send].bytes != receive->bytes || mine->ops[send].traffic != receive->traffic)
            findings_add_op(findings, mine, send, "meets a receive of %" PRIu64 " bytes (%s) on rank %" PRIu32,
                            receive->bytes, traffic_name((enum traffic)receive->traffic), theirs->rank);
    }
}

void proof_check_ends(const struct schedule *schedule, const struct program *programs, struct findings *findings)
{
    const struct layout layout = layers_layout(schedule);
    struct messages *messages = memory_zeroed(schedule->ranks, sizeof *messages);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        messages_init(&messages[rank], &programs[rank]);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct messages *mine = &messages[rank];
        for (uint32_t p = 0; p < mine->n_peers; p++) {
            uint32_t other = peer_place_of(&layout, mine->peers[p]).rank;
            uint32_t back = messages_find_peer(&messages[other], peer_back(&layout, rank, mine->peers[p]));
            for (int s = 0; s < STREAM_COUNT && back != NO_PEER; s++)
                compare_lists(&programs[rank], mine, messages_list(mine, OP_SEND, p, (enum stream)s), &programs[other],
                              &messages[other], messages_list(&messages[other], OP_RECEIVE, back, (enum stream)s),
                              findings);
        }
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        messages_fini(&messages[rank]);
    free(messages);
}
