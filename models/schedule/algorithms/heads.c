/* heads.c - one tensor after the other is cut, sent and put together; see heads.h. */
#include "models/schedule/algorithms/heads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/collective.h"

static uint32_t group_size(const struct builder *b)
{
    return b->schedule->sharding.joined;
}

static uint32_t own_number(const struct builder *b)
{
    return sharding_member_of(&b->schedule->sharding, b->rank);
}

/* The query heads that a member works on. */
static struct lanes slice_of(const struct schedule *schedule, uint32_t member)
{
    struct lanes lanes = schedule->lanes;
    lanes.heads /= schedule->sharding.joined;
    lanes.head = member * lanes.heads;
    return lanes;
}

/* ---- one tensor ---- */

/* A tensor on its way between the own rows of all lanes and the joined rows of a slice of them. */
struct trade {
    struct heads *heads;
    const char *name;
    enum tensor tensor;
    uint32_t own, joined;  /* buffers; one of them is the source */
    bool inward;           /* from own rows to joined ones */
    struct slot *by_lanes; /* [member]: own rows, that member's lanes */
    struct slot *by_rows;  /* [member]: that member's rows, own lanes */
};

static bool by_keys(const struct trade *t)
{
    return tensor_goes_by_keys(t->tensor);
}

/* The rows of this tensor that a member owns. */
static struct block rows_of(const struct trade *t, uint32_t member)
{
    const struct schedule *schedule = t->heads->b->schedule;
    uint32_t rank = t->heads->members[member];
    return by_keys(t) ? sharding_keys(&schedule->sharding, rank) : schedule_queries(schedule, rank);
}

static struct block own_block(const struct trade *t)
{
    return rows_of(t, own_number(t->heads->b));
}

static struct block joined_block(const struct trade *t)
{
    const struct builder *b = t->heads->b;
    return by_keys(t) ? circle_keys(&b->circle, b->place) : b->queries;
}

/* A buffer for `block` in `lanes`, or none for no rows. */
static struct slot add_slot(const struct trade *t, const char *way, uint32_t member, enum buffer_role role,
                            struct block block, struct lanes lanes)
{
    struct builder *b = t->heads->b;
    char name[40];
    if (block.count == 0)
        return (struct slot){NO_BUFFER, block};
    snprintf(name, sizeof name, "%s %s %" PRIu32, t->name, way, member);
    enum dtype dtype = (enum dtype)b->program->buffers[t->own].dtype;
    return (struct slot){builder_buffer_block(b, name, t->tensor, dtype, role, block, lanes), block};
}

/* Adds the buffers of all pieces. The own piece is in one buffer, for nobody sends it. */
static struct trade trade_begin(struct heads *heads, const char *name, uint32_t own, uint32_t joined, bool inward)
{
    struct builder *b = heads->b;
    uint32_t members = group_size(b), me = own_number(b);
    struct trade t = {.heads = heads,
                      .name = name,
                      .tensor = (enum tensor)b->program->buffers[own].tensor,
                      .own = own,
                      .joined = joined,
                      .inward = inward,
                      .by_lanes = memory_zeroed(members, sizeof *t.by_lanes),
                      .by_rows = memory_zeroed(members, sizeof *t.by_rows)};
    enum buffer_role lanes_role = inward ? ROLE_WORKSPACE : ROLE_RECEIVED;
    enum buffer_role rows_role = inward ? ROLE_RECEIVED : ROLE_WORKSPACE;
    for (uint32_t i = 0; i < members; i++) {
        t.by_lanes[i] = add_slot(&t, inward ? "to" : "from", i, i == me ? ROLE_WORKSPACE : lanes_role, own_block(&t),
                                 slice_of(b->schedule, i));
        t.by_rows[i] =
            i == me ? t.by_lanes[i]
                    : add_slot(&t, inward ? "from" : "to", i, rows_role, rows_of(&t, i), slice_of(b->schedule, me));
    }
    return t;
}

static void trade_end(struct trade *t)
{
    free(t->by_lanes);
    free(t->by_rows);
}

/* A layout copy between `whole` and all pieces that there are. */
static void copy(const struct trade *t, enum op_kind kind, uint32_t whole, const struct slot *pieces,
                 struct block block, struct lanes lanes, bool to_pieces)
{
    struct builder *b = t->heads->b;
    uint32_t n = 0, *list = memory_zeroed(group_size(b), sizeof *list);
    for (uint32_t i = 0; i < group_size(b); i++)
        if (pieces[i].buffer != NO_BUFFER)
            list[n++] = pieces[i].buffer;
    const uint32_t *reads = to_pieces ? &whole : list, *writes = to_pieces ? list : &whole;
    uint32_t n_reads = to_pieces ? 1 : n, n_writes = to_pieces ? n : 1;
    if (n > 0)
        (by_keys(t) ? builder_on_keys : builder_on_queries)(b, kind, STREAM_COMPUTE, block, lanes, reads, n_reads,
                                                            writes, n_writes);
    free(list);
}

static void copy_own(const struct trade *t, enum op_kind kind)
{
    copy(t, kind, t->own, t->by_lanes, own_block(t), t->heads->lanes, kind == OP_SPLIT_LANES);
}

static void copy_joined(const struct trade *t, enum op_kind kind)
{
    copy(t, kind, t->joined, t->by_rows, joined_block(t), t->heads->b->lanes, kind == OP_SPLIT_ROWS);
}

static struct piece piece_of(const void *context, uint32_t from, uint32_t to)
{
    const struct trade *t = context;
    return (struct piece){rows_of(t, t->inward ? from : to), slice_of(t->heads->b->schedule, t->inward ? to : from)};
}

static void exchange(const struct trade *t, enum traffic traffic, const struct slot *out, const struct slot *in)
{
    struct builder *b = t->heads->b;
    struct team team = {t->heads->members, group_size(b), own_number(b)};
    struct pieces pieces = {piece_of, t, t->tensor, (enum dtype)b->program->buffers[t->own].dtype};
    collective_all_to_all(b, b->exchange, traffic, &team, out, in, &pieces);
}

static void send_inward(const struct trade *t, enum traffic traffic)
{
    copy_own(t, OP_SPLIT_LANES);
    exchange(t, traffic, t->by_lanes, t->by_rows);
}

static void send_outward(const struct trade *t, enum traffic traffic)
{
    copy_joined(t, OP_SPLIT_ROWS);
    exchange(t, traffic, t->by_rows, t->by_lanes);
}

static void arrive_inward(struct trade *t)
{
    copy_joined(t, OP_JOIN_ROWS);
    trade_end(t);
}

static void arrive_outward(struct trade *t)
{
    copy_own(t, OP_JOIN_LANES);
    trade_end(t);
}

/* ---- phases ---- */

static uint32_t joined_buffer(struct builder *b, const char *name, uint32_t own)
{
    struct buffer like = b->program->buffers[own];
    bool keys = tensor_goes_by_keys((enum tensor)like.tensor);
    struct block block = keys ? circle_keys(&b->circle, b->place) : b->queries;
    bool summed = like.tensor == TENSOR_DQ || like.tensor == TENSOR_DKV; /* block by block: rows stay in their places */
    enum buffer_role role = summed ? ROLE_ACCUMULATOR : ROLE_WORKSPACE;
    return builder_buffer_block(b, name, (enum tensor)like.tensor, (enum dtype)like.dtype, role, block, b->lanes);
}

void heads_enter(struct heads *heads, struct builder *b)
{
    const struct schedule *schedule = b->schedule;
    *heads = (struct heads){.b = b};
    if (group_size(b) == 1)
        return;
    *heads = (struct heads){.b = b,
                            .members = memory_zeroed(group_size(b), sizeof *heads->members),
                            .lanes = b->lanes,
                            .o = b->o,
                            .lse = b->lse,
                            .d_o = b->d_o,
                            .dq = b->dq,
                            .dkv = b->dkv};
    uint32_t group = sharding_group_of(&schedule->sharding, b->rank), q = b->q, kv = b->kv;
    for (uint32_t i = 0; i < group_size(b); i++)
        heads->members[i] = sharding_group_rank(&schedule->sharding, group, i);
    b->circle = circle_of_groups(schedule, b->rank);
    b->place = group;
    b->queries = circle_queries(&b->circle, group);
    b->lanes = slice_of(schedule, own_number(b));
    b->q = joined_buffer(b, "joined q", q);
    b->kv = joined_buffer(b, "joined kv", kv);
    b->o = joined_buffer(b, "joined o", b->o);
    b->lse = joined_buffer(b, "joined lse", b->lse);
    if (schedule->experiment->train) {
        b->d_o = joined_buffer(b, "joined do", b->d_o);
        b->dq = joined_buffer(b, "joined dq", b->dq);
        b->dkv = joined_buffer(b, "joined dkv", b->dkv);
    }
    struct trade queries = trade_begin(heads, "q", q, b->q, true), keys = trade_begin(heads, "kv", kv, b->kv, true);
    send_inward(&queries, TRAFFIC_OTHER);
    send_inward(&keys, TRAFFIC_FORWARD_KV);
    arrive_inward(&queries);
    arrive_inward(&keys);
}

void heads_fini(struct heads *heads)
{
    free(heads->members);
}

void heads_leave(struct heads *heads)
{
    struct builder *b = heads->b;
    if (!heads->members)
        return;
    struct trade o = trade_begin(heads, "o", heads->o, b->o, false);
    struct trade lse = trade_begin(heads, "lse", heads->lse, b->lse, false);
    send_outward(&o, TRAFFIC_OTHER);
    send_outward(&lse, TRAFFIC_OTHER);
    arrive_outward(&o);
    arrive_outward(&lse);
}

void heads_enter_backward(struct heads *heads)
{
    if (!heads->members)
        return;
    struct trade t = trade_begin(heads, "do", heads->d_o, heads->b->d_o, true);
    send_inward(&t, TRAFFIC_OTHER);
    arrive_inward(&t);
}

void heads_leave_backward(struct heads *heads)
{
    struct builder *b = heads->b;
    if (!heads->members)
        return;
    struct trade dq = trade_begin(heads, "dq", heads->dq, b->dq, false);
    struct trade dkv = trade_begin(heads, "dkv", heads->dkv, b->dkv, false);
    send_outward(&dq, TRAFFIC_GRADIENT);
    send_outward(&dkv, TRAFFIC_GRADIENT);
    arrive_outward(&dq);
    arrive_outward(&dkv);
}

/* ---- which degrees are legal ---- */

bool heads_divide(const struct schedule *schedule, uint32_t degree)
{
    return degree > 0 && schedule->q_heads % degree == 0 &&
           (schedule->kv_heads % degree == 0 || degree % schedule->kv_heads == 0);
}

uint32_t heads_joined(const struct schedule *schedule, uint32_t degree)
{
    return heads_divide(schedule, degree) ? degree : 1;
}

uint32_t heads_degree(const struct schedule *schedule)
{
    uint32_t degree = schedule->kv_heads;
    while (schedule->kv_heads % degree || schedule->ranks % degree)
        degree--;
    return degree;
}

/* Legal degrees on both sides of `degree`, as text; where any may be, those that divide cp only, or all. */
static void nearest(const struct schedule *schedule, uint32_t degree, bool divides_cp, char *text, size_t size)
{
    uint32_t most = schedule->q_heads, below, above;
    for (below = degree < most ? degree : most; below > 1; below--)
        if (heads_divide(schedule, below) && !(divides_cp && schedule->ranks % below))
            break;
    for (above = degree; above <= most; above++)
        if (heads_divide(schedule, above) && !(divides_cp && schedule->ranks % above))
            break;
    if (above <= most)
        snprintf(text, size, "%" PRIu32 " or %" PRIu32, below, above);
    else
        snprintf(text, size, "%" PRIu32, below);
}

bool heads_check(const struct schedule *schedule, uint32_t degree, const char *section, const char *key,
                 struct diagnostics *diag)
{
    bool is_cp = strcmp(key, "cp") == 0;
    char expected[48];
    if (heads_divide(schedule, degree) && schedule->ranks % degree == 0)
        return true;
    nearest(schedule, degree, !is_cp, expected, sizeof expected);
    if (schedule->ranks % degree)
        return experiment_complain(schedule->experiment, section, key, diag,
                                   "algorithm '%s': '%s' = %" PRIu32 " does not divide cp = %" PRIu32
                                   ", nearest that fits the heads too: %s",
                                   schedule->algorithm->name, key, degree, schedule->ranks, expected);
    return experiment_complain(schedule->experiment, section, key, diag,
                               "algorithm '%s': '%s' = %" PRIu32 " ranks cannot share out %" PRIu32
                               " query and %" PRIu32
                               " KV heads (of one tp rank): it must divide the query heads, and divide the KV heads or "
                               "be a multiple of them, nearest: %s",
                               schedule->algorithm->name, key, degree, schedule->q_heads, schedule->kv_heads, expected);
}

const char *heads_no_effect(const struct schedule *schedule, uint32_t joined, enum algorithm_key key)
{
    if (key == USES_COLLECTIVE && joined == 1)
        return "where nobody exchanges heads";
    if (key == USES_INNER && (joined == 1 || joined == schedule->ranks))
        return "where groups or rings are of one rank";
    return NULL;
}
