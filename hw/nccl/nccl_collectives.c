/* nccl_collectives.c - collectives between queues, as NCCL's.
 *
 * All members must make the same calls of the library, so which calls is decided by what all of them know: the sizes of
 * the blocks, not where they are on this rank.
 *
 * all-gather: equal blocks that are small, in one ncclAllGather; others as an ncclBroadcast of each block, in one
 * group. ncclAllGather wants all blocks behind one another, and each of ours is in a buffer of its own: it goes through
 * scratch memory, which is no matter for small ones, and would be as large as all keys and values for others. The
 * broadcasts of a group share the links evenly and take no such copy. With copy engines, which only ncclAllGather
 * knows, it is taken at any size.
 * reduce-scatter: in the same way ncclReduceScatter, or an ncclReduce of each block.
 * all-to-all: sends and receives in one group, one for each pair that has something to move.
 * all-reduce: ncclAllReduce.
 *
 * A share in several pieces goes through scratch memory of its own.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "hw/clock.h"
#include "hw/nccl/nccl_end.h"
#include "hw/transport/shares.h"
#include "models/base/memory.h"

#define SMALL_BLOCK_BYTES (UINT64_C(1) << 20)

/* ---- teams ---- */

static bool wait_for(struct transport *end, int request)
{
    const double limit = seconds_now() + end->seconds_to_come;
    while (!end->base_ops->test(end->base, request)) {
        if (nccl_failed(end))
            return false;
        if (seconds_now() > limit)
            return nccl_fail(end, "waiting for the id of a team: a rank did not come within %g s",
                             end->seconds_to_come);
        sched_yield();
    }
    return true;
}

/* The first member makes the id and sends it to the others. */
static bool agree_on_id(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n,
                        struct nccl_id *id)
{
    const struct piece_of_memory piece = {id, sizeof *id};
    if (end->given_up)
        return false;
    if (members[0] != end->rank)
        return wait_for(end, end->base_ops->post(end->base, false, members[0], stream, &piece, 1));
    if (!NCCL_CHECK(end, NULL, end->library.get_id(id), "making an id for a team"))
        return false;
    int *requests = memory_zeroed(n, sizeof *requests);
    for (uint32_t i = 1; i < n; i++)
        requests[i] = end->base_ops->post(end->base, true, members[i], stream, &piece, 1);
    bool good = true;
    for (uint32_t i = 1; i < n && good; i++)
        good = wait_for(end, requests[i]);
    free(requests);
    return good;
}

int nccl_queue_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members)
{
    struct nccl_team team = {
        .stream = stream, .n = n_members, .peers = memory_zeroed(n_members, sizeof(int)), .in_order = true};
    bool all = n_members == end->ranks && end->streams[stream].comm;
    for (uint32_t i = 0; i < n_members; i++) {
        team.me = members[i] == end->rank ? i : team.me;
        team.peers[i] = (int)(all ? members[i] : i);
        team.in_order = team.in_order && team.peers[i] == (int)i;
    }
    if (all) {
        team.comm = end->streams[stream].comm;
    } else {
        struct nccl_id id;
        char name[64];
        snprintf(name, sizeof name, "a team in stream '%s'", stream_name(stream));
        if (agree_on_id(end, stream, members, n_members, &id))
            team.comm = nccl_comm_create(end, id, n_members, team.me, name);
    }
    memory_grow(end->teams, end->n_teams, end->team_capacity);
    end->teams[end->n_teams] = team;
    return (int)end->n_teams++;
}

/* ---- calls ---- */

/* A call that becomes a batch. */
struct planning {
    struct transport *end;
    const struct nccl_team *team;
    const struct collective_part *part;
    struct nccl_batch *batch;
    int type; /* of what is summed */
};

static int type_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP64:
        return NCCL_FP64;
    case DTYPE_FP32:
        return NCCL_FP32;
    case DTYPE_BF16:
        return NCCL_BF16;
    case DTYPE_FP16:
        return NCCL_FP16;
    default:
        return -1;
    }
}

static const void *source_of(struct planning *p, const struct share_of_memory *share, uint64_t bytes)
{
    return nccl_source(p->end, p->team->stream, p->batch, share->pieces, share->n_pieces, bytes);
}

static void *target_of(struct planning *p, const struct share_of_memory *share, uint64_t bytes)
{
    return nccl_target(p->end, p->team->stream, p->batch, share->pieces, share->n_pieces, bytes);
}

/* Whether blocks go in one call: the same on all members. */
static bool as_one_call(const struct planning *p)
{
    const uint64_t *bytes = p->part->bytes;
    bool small = bytes[0] <= SMALL_BLOCK_BYTES || p->end->settings.zero_cta;
    for (uint32_t i = 0; i < p->team->n; i++)
        if (bytes[i] != bytes[0])
            return false;
    return bytes[0] && small && p->team->in_order;
}

/* Memory of blocks behind one another. */
static char *run_of(struct planning *p, const struct share_of_memory *shares, bool *as_it_is)
{
    uint32_t n = p->team->n;
    *as_it_is = shares_are_one_run(shares, p->part->bytes, n);
    return *as_it_is ? shares[0].pieces[0].memory
                     : nccl_batch_scratch(p->end, p->team->stream, p->batch, n * p->part->bytes[0]);
}

static void add_copies(struct planning *p, const struct share_of_memory *share, char *run, bool into_run)
{
    for (uint32_t i = 0; i < share->n_pieces; run += share->pieces[i++].bytes) {
        void *memory = share->pieces[i].memory;
        nccl_batch_add(p->batch, (struct nccl_act){.kind = into_run ? NCCL_ACT_COPY : NCCL_ACT_COPY_AFTER,
                                                   .from = into_run ? memory : run,
                                                   .to = into_run ? run : memory,
                                                   .count = share->pieces[i].bytes});
    }
}

static void gather_at_once(struct planning *p)
{
    const struct collective_part *part = p->part;
    uint64_t bytes = part->bytes[0];
    bool as_it_is;
    char *run = run_of(p, part->targets, &as_it_is);
    for (uint32_t i = 0; run && !as_it_is && i < p->team->n; i++)
        add_copies(p, &part->targets[i], run + i * bytes, false);
    nccl_batch_add(p->batch, (struct nccl_act){.kind = NCCL_ACT_ALL_GATHER,
                                               .from = source_of(p, &part->sources[p->team->me], bytes),
                                               .to = run,
                                               .count = bytes,
                                               .type = NCCL_INT8});
}

static void all_gather(struct planning *p)
{
    const struct collective_part *part = p->part;
    if (as_one_call(p)) {
        gather_at_once(p);
        return;
    }
    for (uint32_t i = 0; i < p->team->n; i++) {
        uint64_t bytes = part->bytes[i];
        if (bytes == 0)
            continue;
        void *to = target_of(p, &part->targets[i], bytes);
        nccl_batch_add(p->batch,
                       (struct nccl_act){.kind = NCCL_ACT_BROADCAST,
                                         .from = i == p->team->me ? source_of(p, &part->sources[i], bytes) : to,
                                         .to = to,
                                         .count = bytes,
                                         .type = NCCL_INT8,
                                         .peer = p->team->peers[i]});
    }
}

static void scatter_at_once(struct planning *p)
{
    const struct collective_part *part = p->part;
    uint64_t bytes = part->bytes[0];
    bool as_it_is;
    char *run = run_of(p, part->sources, &as_it_is);
    for (uint32_t i = 0; run && !as_it_is && i < p->team->n; i++) {
        if (part->sources[i].n_pieces)
            add_copies(p, &part->sources[i], run + i * bytes, true);
        else
            nccl_batch_add(p->batch, (struct nccl_act){.kind = NCCL_ACT_CLEAR, .to = run + i * bytes, .count = bytes});
    }
    nccl_batch_add(p->batch, (struct nccl_act){.kind = NCCL_ACT_REDUCE_SCATTER,
                                               .from = run,
                                               .to = target_of(p, &part->targets[p->team->me], bytes),
                                               .count = bytes / dtype_bytes(part->dtype),
                                               .type = p->type,
                                               .fold = NCCL_ADD});
}

static void reduce_scatter(struct planning *p)
{
    const struct collective_part *part = p->part;
    if (as_one_call(p)) {
        scatter_at_once(p);
        return;
    }
    for (uint32_t i = 0; i < p->team->n; i++) {
        uint64_t bytes = part->bytes[i];
        if (bytes == 0)
            continue;
        nccl_batch_add(p->batch,
                       (struct nccl_act){.kind = NCCL_ACT_REDUCE,
                                         .from = source_of(p, &part->sources[i], bytes),
                                         .to = i == p->team->me ? target_of(p, &part->targets[i], bytes) : NULL,
                                         .count = bytes / dtype_bytes(part->dtype),
                                         .type = p->type,
                                         .fold = NCCL_ADD,
                                         .peer = p->team->peers[i]});
    }
}

static void all_to_all(struct planning *p)
{
    const struct collective_part *part = p->part;
    for (uint32_t i = 0; i < p->team->n; i++) {
        const struct share_of_memory *out = &part->sources[i], *in = &part->targets[i];
        struct nccl_act act = {.type = NCCL_INT8, .peer = p->team->peers[i]};
        if (i != p->team->me && (act.count = share_bytes(out)) > 0) {
            act.kind = NCCL_ACT_SEND;
            act.from = source_of(p, out, act.count);
            nccl_batch_add(p->batch, act);
        }
        if (i != p->team->me && (act.count = share_bytes(in)) > 0) {
            act.kind = NCCL_ACT_RECEIVE;
            act.to = target_of(p, in, act.count);
            nccl_batch_add(p->batch, act);
        }
    }
}

static void all_reduce(struct planning *p)
{
    const struct share_of_memory *own = &p->part->targets[p->team->me];
    uint64_t bytes = p->part->bytes[p->team->me];
    if (bytes)
        nccl_batch_add(p->batch, (struct nccl_act){.kind = NCCL_ACT_ALL_REDUCE,
                                                   .from = source_of(p, own, bytes),
                                                   .to = target_of(p, own, bytes),
                                                   .count = bytes / dtype_bytes(p->part->dtype),
                                                   .type = p->type,
                                                   .fold = p->part->largest ? NCCL_LARGEST : NCCL_ADD});
}

int nccl_queue_collective(struct transport *end, int index, const struct collective_part *part)
{
    const struct nccl_team *team = &end->teams[index];
    struct planning p = {
        .end = end, .team = team, .part = part, .batch = nccl_batch_create(team->comm), .type = type_of(part->dtype)};
    int request = nccl_batch_request(end, p.batch);
    if (p.type < 0)
        nccl_fail(end, "NCCL does not add up numbers of %s", dtype_name(part->dtype));
    switch (end->given_up ? CALL_COUNT : part->call) {
    case CALL_ALL_GATHER:
        all_gather(&p);
        break;
    case CALL_REDUCE_SCATTER:
        reduce_scatter(&p);
        break;
    case CALL_ALL_TO_ALL:
        all_to_all(&p);
        break;
    case CALL_ALL_REDUCE:
        all_reduce(&p);
        break;
    case CALL_COUNT:
        break;
    }
    nccl_batch_push(end, team->stream, p.batch);
    return request;
}
