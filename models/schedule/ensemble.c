/* ensemble.c - shapes, instances, and the two ends of every way between them.
 *
 * Groups are alike, so all is found out in the first one and repeated in the others.
 */
#include "models/schedule/ensemble.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"

uint32_t ensemble_rank(const struct ensemble *ensemble, uint32_t instance, uint32_t rank)
{
    return (uint32_t)(((uint64_t)rank + ensemble->instances[instance].turn) % ensemble->ranks);
}

uint32_t ensemble_owner(const struct ensemble *ensemble, uint32_t instance, uint32_t owner)
{
    bool is_rank = owner != BLOCK_ALL && !block_is_joined(owner);
    return is_rank ? ensemble_rank(ensemble, instance, owner) : owner;
}

struct op ensemble_op(const struct ensemble *ensemble, uint32_t instance, uint32_t op)
{
    struct op turned = ensemble_program(ensemble, instance)->ops[op];
    turned.q.owner = ensemble_owner(ensemble, instance, turned.q.owner);
    turned.k.owner = ensemble_owner(ensemble, instance, turned.k.owner);
    if (op_is_message(&turned))
        turned.peer = ensemble_rank(ensemble, instance, turned.peer);
    return turned;
}

/* What a rank of a program that has turned is called there. */
static uint32_t name_of(const struct ensemble *ensemble, uint32_t instance, uint32_t rank)
{
    return (uint32_t)(((uint64_t)rank + ensemble->ranks - ensemble->instances[instance].turn) % ensemble->ranks);
}

static bool peers_exist(const struct ensemble *ensemble, struct diagnostics *diag)
{
    size_t before = diag->count;
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct program *program = ensemble->shapes[s].program;
        for (uint32_t i = 0; i < program->n_ops; i++)
            if (op_is_message(&program->ops[i]) && program->ops[i].peer >= ensemble->ranks)
                diagnostics_add(
                    diag, "rank %" PRIu32 ": operation %" PRIu32 " names rank %" PRIu32 ", but there are %" PRIu32, s,
                    i, program->ops[i].peer, ensemble->ranks);
    }
    return diag->count == before;
}

static void report_unmatched(const struct ensemble *ensemble, uint32_t rank, uint32_t op, struct diagnostics *diag)
{
    const struct program *program = ensemble_program(ensemble, rank);
    char text[256];
    program_describe_op(program, op, text, sizeof text);
    diagnostics_add(diag, "rank %" PRIu32 ": no rank posts the other end of '%s' (operation %" PRIu32 ", %s stream)",
                    rank, text, op, stream_name((enum stream)program->ops[op].stream));
}

/* Reports the ends that `rank` has of one kind with one peer in one stream beyond those that the peer has of the other.
 */
static void check_list(const struct ensemble *ensemble, uint32_t rank, enum op_kind kind, uint32_t peer,
                       enum stream stream, struct diagnostics *diag)
{
    const struct messages *mine = &ensemble_shape(ensemble, rank)->messages;
    const struct peer *other = &ensemble_peers(ensemble, rank)[peer];
    const struct messages *theirs = &ensemble_shape(ensemble, other->instance)->messages;
    size_t list = messages_list(mine, kind, peer, stream);
    uint32_t met = 0;
    if (other->back != NO_PEER)
        met =
            messages_count(theirs, messages_list(theirs, kind == OP_SEND ? OP_RECEIVE : OP_SEND, other->back, stream));
    for (uint32_t i = met; i < messages_count(mine, list); i++)
        report_unmatched(ensemble, rank, mine->ends[mine->first[list] + i], diag);
}

/* The ways of the first group, and whether everything that is sent is received. */
static bool pair_up(struct ensemble *ensemble, struct diagnostics *diag)
{
    size_t before = diag->count;
    for (uint32_t rank = 0; rank < ensemble->ranks; rank++) {
        const struct messages *messages = &ensemble_shape(ensemble, rank)->messages;
        struct peer *peers = &ensemble->peers[ensemble->instances[rank].first_peer];
        for (uint32_t p = 0; p < messages->n_peers; p++) {
            uint32_t other = ensemble_rank(ensemble, rank, messages->peers[p]);
            const struct messages *theirs = &ensemble_shape(ensemble, other)->messages;
            peers[p] = (struct peer){other, messages_find_peer(theirs, name_of(ensemble, other, rank))};
            for (int s = 0; s < STREAM_COUNT; s++) {
                check_list(ensemble, rank, OP_SEND, p, (enum stream)s, diag);
                check_list(ensemble, rank, OP_RECEIVE, p, (enum stream)s, diag);
            }
        }
    }
    return diag->count == before;
}

static void repeat_for_groups(struct ensemble *ensemble, uint32_t peers_of_group)
{
    for (uint32_t i = ensemble->ranks; i < ensemble->n_instances; i++) {
        struct instance *instance = &ensemble->instances[i];
        *instance = ensemble->instances[i % ensemble->ranks];
        instance->group = i / ensemble->ranks;
        instance->first_peer += instance->group * peers_of_group;
    }
    for (size_t p = peers_of_group; p < (size_t)ensemble->groups * peers_of_group; p++) {
        ensemble->peers[p] = ensemble->peers[p - peers_of_group];
        ensemble->peers[p].instance += ensemble->ranks;
    }
}

bool ensemble_init(struct ensemble *ensemble, const struct program *programs, uint32_t n_programs, uint32_t ranks,
                   uint32_t groups, struct diagnostics *diag)
{
    *ensemble = (struct ensemble){.ranks = ranks,
                                  .groups = groups,
                                  .shapes = memory_zeroed(n_programs, sizeof *ensemble->shapes),
                                  .n_shapes = n_programs,
                                  .n_instances = ranks * groups,
                                  .n_replicas = 1};
    for (uint32_t s = 0; s < n_programs; s++)
        ensemble->shapes[s].program = &programs[s];
    if (!peers_exist(ensemble, diag)) {
        ensemble_fini(ensemble);
        return false;
    }
    for (uint32_t s = 0; s < n_programs; s++) {
        stream_order_init(&ensemble->shapes[s].order, &programs[s]);
        messages_init(&ensemble->shapes[s].messages, &programs[s]);
    }
    ensemble->instances = memory_zeroed(ensemble->n_instances, sizeof *ensemble->instances);
    uint32_t n_peers = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t shape = r % n_programs;
        ensemble->instances[r] =
            (struct instance){.shape = shape, .rank = r, .turn = r - shape, .stands_for = 1, .first_peer = n_peers};
        n_peers += ensemble->shapes[shape].messages.n_peers;
    }
    ensemble->peers = memory_zeroed((size_t)groups * n_peers, sizeof *ensemble->peers);
    if (!pair_up(ensemble, diag)) {
        ensemble_fini(ensemble);
        return false;
    }
    repeat_for_groups(ensemble, n_peers);
    return true;
}

static bool has_phases(const struct ensemble *ensemble)
{
    bool begun[PHASE_COUNT] = {false};
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct program *program = ensemble->shapes[s].program;
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            begun[phase] |= program->phase_end[phase] > (phase ? program->phase_end[phase - 1] : 0);
    }
    return begun[PHASE_FORWARD] && begun[PHASE_BACKWARD];
}

void ensemble_set_replicas(struct ensemble *ensemble, uint32_t groups)
{
    if (!has_phases(ensemble))
        return;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        ensemble->instances[i].replica = ensemble->instances[i].group / groups;
    ensemble->n_replicas = ensemble->groups / groups;
}

void ensemble_fini(struct ensemble *ensemble)
{
    for (uint32_t s = 0; s < ensemble->n_shapes && !ensemble->borrows_shapes; s++) {
        stream_order_fini(&ensemble->shapes[s].order);
        messages_fini(&ensemble->shapes[s].messages);
    }
    if (!ensemble->borrows_shapes)
        free(ensemble->shapes);
    free(ensemble->instances);
    free(ensemble->peers);
    *ensemble = (struct ensemble){0};
}

struct activity ensemble_other_end(const struct ensemble *ensemble, struct activity end)
{
    const struct shape *shape = ensemble_shape(ensemble, end.instance);
    const struct messages *mine = &shape->messages;
    const struct op *op = &shape->program->ops[end.op];
    uint32_t p = mine->peer_of[end.op];
    const struct peer *peer = &ensemble_peers(ensemble, end.instance)[p];
    uint32_t number =
        mine->place[end.op] - mine->first[messages_list(mine, (enum op_kind)op->kind, p, (enum stream)op->stream)];
    const struct messages *theirs = &ensemble_shape(ensemble, peer->instance)->messages;
    size_t list =
        messages_list(theirs, op->kind == OP_SEND ? OP_RECEIVE : OP_SEND, peer->back, (enum stream)op->stream);
    return (struct activity){.instance = peer->instance, .op = theirs->ends[theirs->first[list] + number]};
}
