/* ensemble.c - shapes, instances, and the two ends of every way between them.
 *
 * Programs are alike in all groups, so what meets what is found out in the first group and repeated in the others:
 * there only who a peer of another group is differs.
 */
#include "models/schedule/ensemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

static uint32_t turned(const struct ensemble *ensemble, uint32_t instance, uint32_t rank)
{
    return (uint32_t)(((uint64_t)rank + ensemble->instances[instance].turn) % ensemble->ranks);
}

struct rank_place ensemble_peer_place(const struct ensemble *ensemble, uint32_t instance, uint32_t number)
{
    uint32_t group = ensemble->instances[instance].group;
    if (number < ensemble->ranks)
        return (struct rank_place){group, turned(ensemble, instance, number)};
    return (struct rank_place){peer_group(&ensemble->layout, group, number),
                               turned(ensemble, instance, number % ensemble->ranks)};
}

uint32_t ensemble_owner(const struct ensemble *ensemble, uint32_t instance, uint32_t owner)
{
    bool is_rank = owner != BLOCK_ALL && !block_is_joined(owner);
    return is_rank ? turned(ensemble, instance, owner) : owner;
}

struct op ensemble_op(const struct ensemble *ensemble, uint32_t instance, uint32_t op)
{
    struct op copy = ensemble_program(ensemble, instance)->ops[op];
    copy.q.owner = ensemble_owner(ensemble, instance, copy.q.owner);
    copy.k.owner = ensemble_owner(ensemble, instance, copy.k.owner);
    if (op_is_message(&copy)) {
        uint32_t rank = copy.peer % ensemble->ranks;
        copy.peer = copy.peer - rank + turned(ensemble, instance, rank);
    }
    return copy;
}

void ensemble_describe_peer(const struct ensemble *ensemble, uint32_t instance, uint32_t number, char *text,
                            size_t size)
{
    struct rank_place place = ensemble_peer_place(ensemble, instance, number);
    if (place.group == ensemble->instances[instance].group)
        snprintf(text, size, "rank %" PRIu32, place.rank);
    else
        snprintf(text, size, "rank %" PRIu32 " of group %" PRIu32, place.rank, place.group);
}

/* ---- two ends ---- */

static bool peers_exist(const struct ensemble *ensemble, struct diagnostics *diag)
{
    size_t before = diag->count;
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct program *program = ensemble->shapes[s].program;
        for (uint32_t i = 0; i < program->n_ops; i++)
            if (op_is_message(&program->ops[i]) && program->ops[i].peer / ensemble->ranks >= ensemble->groups)
                diagnostics_add(
                    diag, "rank %" PRIu32 ": operation %" PRIu32 " names rank %" PRIu32 ", but there are %" PRIu32, s,
                    i, program->ops[i].peer, ensemble->n_instances);
    }
    return diag->count == before;
}

/* Where a peer of another group is, as the program sees it: nothing for one of the own. */
static void describe_ahead(const struct ensemble *ensemble, uint32_t number, char *text, size_t size)
{
    struct peer_place place = peer_place_of(&ensemble->layout, number);
    text[0] = '\0';
    if (number >= ensemble->ranks)
        snprintf(text, size,
                 ", where rank %" PRIu32 " is rank %" PRIu32 " of the group %" PRIu32 " tp and %" PRIu32 " dp ahead",
                 number, place.rank, place.tp_ahead, place.dp_ahead);
}

static void report_unmatched(const struct ensemble *ensemble, uint32_t rank, uint32_t op, struct diagnostics *diag)
{
    const struct program *program = ensemble_program(ensemble, rank);
    char text[256], ahead[128];
    program_describe_op(program, op, text, sizeof text);
    describe_ahead(ensemble, program->ops[op].peer, ahead, sizeof ahead);
    diagnostics_add(diag, "rank %" PRIu32 ": no rank posts the other end of '%s' (operation %" PRIu32 ", %s stream)%s",
                    rank, text, op, stream_name((enum stream)program->ops[op].stream), ahead);
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

/* How the rank at the other end, `other`, calls an instance that calls it `number`. */
static uint32_t number_back(const struct ensemble *ensemble, uint32_t instance, uint32_t number, uint32_t other)
{
    uint32_t ranks = ensemble->ranks, rank = ensemble->instances[instance].rank;
    rank = (uint32_t)(((uint64_t)rank + ranks - ensemble->instances[other].turn) % ranks);
    return number < ranks ? rank : peer_back(&ensemble->layout, rank, number);
}

/* The ways of the first group, and whether everything that is sent is received. */
static bool pair_up(struct ensemble *ensemble, struct diagnostics *diag)
{
    size_t before = diag->count;
    for (uint32_t rank = 0; rank < ensemble->ranks; rank++) {
        const struct messages *messages = &ensemble_shape(ensemble, rank)->messages;
        struct peer *peers = &ensemble->peers[ensemble->instances[rank].first_peer];
        for (uint32_t p = 0; p < messages->n_peers; p++) {
            uint32_t number = messages->peers[p];
            struct rank_place place = ensemble_peer_place(ensemble, rank, number);
            uint32_t other = place.group * ensemble->ranks + place.rank;
            peers[p] = (struct peer){other, messages_find_peer(&ensemble_shape(ensemble, other)->messages,
                                                               number_back(ensemble, rank, number, other))};
            for (int s = 0; s < STREAM_COUNT; s++) {
                check_list(ensemble, rank, OP_SEND, p, (enum stream)s, diag);
                check_list(ensemble, rank, OP_RECEIVE, p, (enum stream)s, diag);
            }
        }
    }
    return diag->count == before;
}

/* An instance for each rank. Returns how many peers those of one group have. */
static uint32_t add_instances(struct ensemble *ensemble)
{
    uint32_t ranks = ensemble->ranks, n_peers = 0;
    ensemble->instances = memory_zeroed(ensemble->n_instances, sizeof *ensemble->instances);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t shape = r % ensemble->n_shapes;
        ensemble->instances[r] =
            (struct instance){.shape = shape, .rank = r, .turn = r - shape, .stands_for = 1, .first_peer = n_peers};
        n_peers += ensemble->shapes[shape].messages.n_peers;
    }
    for (uint32_t i = ranks; i < ensemble->n_instances; i++) {
        struct instance *instance = &ensemble->instances[i];
        *instance = ensemble->instances[i % ranks];
        instance->group = i / ranks;
        instance->first_peer += instance->group * n_peers;
    }
    return n_peers;
}

/* The ways of the other groups: as those of the first, but for where other groups are. */
static void repeat_for_groups(struct ensemble *ensemble)
{
    for (uint32_t i = ensemble->ranks; i < ensemble->n_instances; i++) {
        const struct instance *instance = &ensemble->instances[i];
        const uint32_t *numbers = ensemble->shapes[instance->shape].messages.peers;
        const struct peer *like = ensemble_peers(ensemble, instance->rank);
        struct peer *peers = &ensemble->peers[instance->first_peer];
        for (uint32_t p = 0; p < ensemble->shapes[instance->shape].messages.n_peers; p++) {
            struct rank_place place = ensemble_peer_place(ensemble, i, numbers[p]);
            peers[p] = (struct peer){place.group * ensemble->ranks + place.rank, like[p].back};
        }
    }
}

bool ensemble_init(struct ensemble *ensemble, const struct program *programs, uint32_t n_programs, struct layout layout,
                   struct diagnostics *diag)
{
    uint32_t groups = layout.tp * layout.dp;
    *ensemble = (struct ensemble){.layout = layout,
                                  .ranks = layout.cp,
                                  .groups = groups,
                                  .shapes = memory_zeroed(n_programs, sizeof *ensemble->shapes),
                                  .n_shapes = n_programs,
                                  .n_instances = layout.cp * groups,
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
    uint32_t n_peers = add_instances(ensemble);
    ensemble->peers = memory_zeroed((size_t)groups * n_peers, sizeof *ensemble->peers);
    if (!pair_up(ensemble, diag)) {
        ensemble_fini(ensemble);
        return false;
    }
    repeat_for_groups(ensemble);
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

void ensemble_set_replicas(struct ensemble *ensemble)
{
    if (!has_phases(ensemble))
        return;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        ensemble->instances[i].replica = ensemble->instances[i].group / ensemble->layout.tp;
    ensemble->n_replicas = ensemble->layout.dp;
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
