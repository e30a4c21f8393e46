/* teams.c - sums and gathers among the ranks of a tp group, and among those of dp x cp.
 *
 * Flowing (program.h), a collective is a message to the next member and one from the member before; or, where each node
 * has W of the N members, one of W rings: inside the node a member passes on what W-1 of the rings carry, and out of it
 * what the one ring carries that leaves the node at it. All of it is (N-1)/N of the data, twice that for an all-reduce.
 * Written out, it is a ring of N-1 steps on rows of the buffers, a part of the rows for each member.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/layers/layer_builder.h"

/* ---- who ---- */

static uint32_t number(const struct layer_builder *b, uint32_t rank, uint32_t tp_ahead, uint32_t dp_ahead)
{
    return peer_number(&b->layout, (struct peer_place){rank, tp_ahead, dp_ahead});
}

/* GPU numbers from one index of a dimension to the next. */
static uint64_t stride_of(const struct experiment *experiment, enum parallel_dimension dimension)
{
    uint64_t stride = 1;
    for (int i = 0; experiment->order[i] != dimension; i++)
        stride *= experiment->degree[experiment->order[i]];
    return stride;
}

static bool cp_is_inner(const struct experiment *experiment)
{
    return stride_of(experiment, PARALLEL_CP) <= stride_of(experiment, PARALLEL_DP);
}

/* How many of the dp x cp members, in the order of their GPUs, are in one node: 1 where that says nothing of use. */
static uint32_t members_of_node(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    uint32_t cp = experiment->degree[PARALLEL_CP], dp = experiment->degree[PARALLEL_DP];
    uint64_t stride = stride_of(experiment, cp_is_inner(experiment) ? PARALLEL_CP : PARALLEL_DP);
    uint64_t node = schedule->node_gpus % stride == 0 ? schedule->node_gpus / stride : 0;
    if (node <= 1 || node >= (uint64_t)cp * dp)
        return 1;
    if (!cp_is_inner(experiment)) /* as a ring of the dp members for each of a ring of cp members */
        return dp > 1 && cp > 1 ? dp : 1;
    bool parts_cp = cp % node == 0, joins_dp = node % cp == 0 && dp % (node / cp) == 0;
    return parts_cp || joins_dp ? (uint32_t)node : 1;
}

struct layout layers_layout(const struct schedule *schedule)
{
    const uint32_t *degree = schedule->experiment->degree;
    struct layout layout = {.cp = degree[PARALLEL_CP], .tp = degree[PARALLEL_TP], .dp = degree[PARALLEL_DP]};
    uint32_t node = members_of_node(schedule);
    if (cp_is_inner(schedule->experiment) && node > layout.cp)
        layout.block = node / layout.cp;
    return layout;
}

/* One ring over all, cp innermost (or, with one of the degrees 1, over the other's). */
static struct ring_neighbours one_ring(const struct layer_builder *b)
{
    uint32_t r = b->place.rank, cp = b->layout.cp, dp = b->layout.dp;
    bool last = r + 1 == cp;
    return (struct ring_neighbours){.next = number(b, last ? 0 : r + 1, 0, last && dp > 1 ? 1 : 0),
                                    .previous = number(b, r ? r - 1 : cp - 1, 0, r == 0 && dp > 1 ? dp - 1 : 0)};
}

static void find_rings(struct layer_builder *b)
{
    struct layer_team *team = &b->data;
    uint32_t r = b->place.rank, cp = b->layout.cp, dp = b->layout.dp, w = team->node;
    if (w == 1) {
        team->inside = one_ring(b);
    } else if (!cp_is_inner(b->experiment)) {
        team->inside = (struct ring_neighbours){number(b, r, 0, 1), number(b, r, 0, dp - 1)};
        team->across = (struct ring_neighbours){number(b, (r + 1) % cp, 0, 0), number(b, (r + cp - 1) % cp, 0, 0)};
    } else if (w > cp) {
        uint32_t block = w / cp, blocks = dp / block;
        bool last = r + 1 == cp;
        team->inside = (struct ring_neighbours){number(b, last ? 0 : r + 1, 0, last ? 1 % block : 0),
                                                number(b, r ? r - 1 : cp - 1, 0, r ? 0 : block - 1)};
        team->across = (struct ring_neighbours){number(b, r, 0, block % dp), number(b, r, 0, (blocks - 1) * block)};
    } else {
        uint32_t first = r - r % w;
        team->inside = (struct ring_neighbours){number(b, first + (r + 1 - first) % w, 0, 0),
                                                number(b, first + (r + w - 1 - first) % w, 0, 0)};
        team->across = (struct ring_neighbours){number(b, (r + w) % cp, 0, r + w >= cp && dp > 1 ? 1 : 0),
                                                number(b, (r + cp - w) % cp, 0, r < w && dp > 1 ? dp - 1 : 0)};
    }
}

void layer_teams_init(struct layer_builder *b)
{
    uint32_t cp = b->layout.cp, tp = b->layout.tp, dp = b->layout.dp;
    b->tensor = (struct layer_team){.count = tp, .members = memory_zeroed(tp, sizeof(uint32_t)), .node = 1};
    b->data = (struct layer_team){.count = cp * dp,
                                  .me = b->place.rank,
                                  .members = memory_zeroed((size_t)cp * dp, sizeof(uint32_t)),
                                  .node = members_of_node(b->schedule)};
    for (uint32_t i = 0; i < tp; i++)
        b->tensor.members[i] = number(b, b->place.rank, i, 0);
    b->tensor.inside = (struct ring_neighbours){b->tensor.members[tp > 1 ? 1 : 0], b->tensor.members[tp - 1]};
    for (uint32_t i = 0; i < cp * dp; i++)
        b->data.members[i] = number(b, i % cp, 0, i / cp);
    find_rings(b);
}

void layer_teams_fini(struct layer_builder *b)
{
    free(b->tensor.members);
    free(b->data.members);
}

/* ---- flowing ---- */

static void add_message(struct layer_builder *b, enum op_kind kind, struct op op, uint32_t peer, uint64_t bytes,
                        struct buffer_list buffers)
{
    bool sends = kind == OP_SEND;
    op.kind = (uint8_t)kind;
    op.peer = peer;
    op.bytes = bytes;
    program_add_op(b->program, op, sends ? buffers.items : NULL, sends ? buffers.count : 0,
                   sends ? NULL : buffers.items, sends ? 0 : buffers.count);
}

static void exchange(struct layer_builder *b, struct op op, struct ring_neighbours ring, uint64_t bytes,
                     struct buffer_list reads, struct buffer_list writes)
{
    add_message(b, OP_SEND, op, ring.next, bytes, reads);
    add_message(b, OP_RECEIVE, op, ring.previous, bytes, writes);
}

static void flow(struct layer_builder *b, struct layer_team *team, enum collective_call call, enum stream stream,
                 enum traffic traffic, uint64_t bytes, struct buffer_list reads, struct buffer_list writes)
{
    uint64_t part = (bytes + team->count - 1) / team->count;
    uint64_t sent = part * (team->count - 1) * (call == CALL_ALL_REDUCE ? 2 : 1);
    uint64_t across = team->node > 1 ? (sent + team->node - 1) / team->node : 0;
    program_begin_flow(b->program, call, stream, team->count, team->me, team->members, &team->list);
    const struct op op = {.stream = (uint8_t)stream,
                          .traffic = (uint8_t)traffic,
                          .part = PART_ALL,
                          .group = program_new_group(b->program)};
    exchange(b, op, team->inside, sent - across, reads, writes);
    if (across)
        exchange(b, op, team->across, across, reads, writes);
    program_end_collective(b->program);
}

void layer_flow(struct layer_builder *b, enum collective_call call, enum stream stream, enum traffic traffic,
                uint64_t bytes, struct buffer_list reads, struct buffer_list writes)
{
    flow(b, &b->data, call, stream, traffic, bytes, reads, writes);
}

/* ---- written out ---- */

/* A ring under way: of member `me` of `count`, on parts of the rows of a buffer. */
struct written {
    struct layer_builder *b;
    enum stream stream;
    enum traffic traffic;
    const struct layer_team *team;
    uint32_t me;
    uint64_t rows;
};

static struct block part_of(const struct written *w, uint32_t member)
{
    uint64_t n = w->team->count, first = w->rows * member / n, end = w->rows * (member + 1) / n;
    return (struct block){.owner = 0, .first = (uint32_t)first, .count = (uint32_t)(end - first)};
}

static uint32_t back(const struct written *w, uint32_t steps)
{
    return (w->me + 2 * w->team->count - steps) % w->team->count;
}

static void add_part(const struct written *w, enum op_kind kind, uint32_t group, uint32_t peer, uint32_t buffer,
                     struct block rows, struct block place)
{
    const struct buffer *of = &w->b->program->buffers[buffer];
    if (rows.count == 0)
        return;
    const struct op op = {
        .stream = (uint8_t)w->stream, .traffic = (uint8_t)w->traffic, .part = PART_ALL, .group = group, .q = place};
    add_message(w->b, kind, op, peer, rows.count * (of->bytes / of->rows), LIST(buffer));
}

/* A part of one buffer is added to that of another, or copied to it. `rows` are those of the target. */
static void add_local(const struct written *w, enum op_kind kind, uint32_t target, uint32_t source, struct block rows)
{
    if (rows.count == 0)
        return;
    const struct layer_work work = {.rows = rows.count, .columns = w->b->program->buffers[target].columns};
    const struct op op = {
        .kind = (uint8_t)kind, .stream = (uint8_t)w->stream, .q = rows, .work = program_add_work(w->b->program, work)};
    const uint32_t reads[] = {source, target};
    program_add_op(w->b->program, op, reads, kind == OP_ACCUMULATE ? 2 : 1, &target, 1);
}

/* Every member's part of `buffer`, its own being there, to every member. */
static void gather_parts(const struct written *w, uint32_t buffer)
{
    for (uint32_t step = 0; step + 1 < w->team->count; step++) {
        struct block out = part_of(w, back(w, step)), in = part_of(w, back(w, step + 1));
        uint32_t group = program_new_group(w->b->program);
        add_part(w, OP_SEND, group, w->team->inside.next, buffer, out, out);
        add_part(w, OP_RECEIVE, group, w->team->inside.previous, buffer, in, in);
    }
}

/* The own part of `buffer` becomes the sum of all members'; the others are spoilt. */
static void sum_parts(const struct written *w, uint32_t buffer)
{
    const struct buffer *of = &w->b->program->buffers[buffer];
    uint64_t most = (w->rows + w->team->count - 1) / w->team->count;
    uint32_t staging = layer_buffer(w->b, "staging", UINT32_MAX, (enum tensor)of->tensor, (enum dtype)of->dtype,
                                    ROLE_WORKSPACE, most, of->columns);
    for (uint32_t step = 0; step + 1 < w->team->count; step++) {
        struct block out = part_of(w, back(w, step + 1)), in = part_of(w, back(w, step + 2));
        uint32_t group = program_new_group(w->b->program);
        add_part(w, OP_SEND, group, w->team->inside.next, buffer, out, out);
        add_part(w, OP_RECEIVE, group, w->team->inside.previous, staging, in,
                 (struct block){.first = 0, .count = in.count});
        add_local(w, OP_ACCUMULATE, buffer, staging, in);
    }
}

static struct written written(struct layer_builder *b, bool of_tensor, uint32_t buffer)
{
    return (struct written){.b = b,
                            .stream = of_tensor ? STREAM_TENSOR : STREAM_REDUCTION,
                            .traffic = of_tensor ? TRAFFIC_TENSOR : TRAFFIC_WEIGHT_GRADIENT,
                            .team = of_tensor ? &b->tensor : &b->data,
                            .me = of_tensor ? b->place.tp_index : b->place.dp_index * b->layout.cp + b->place.rank,
                            .rows = b->program->buffers[buffer].rows};
}

void layer_sum_data(struct layer_builder *b, uint32_t buffer)
{
    const struct written w = written(b, false, buffer);
    sum_parts(&w, buffer);
    gather_parts(&w, buffer);
}

/* ---- of activations, among tp ranks ---- */

static uint64_t bytes_of(const struct layer_builder *b, uint32_t buffer)
{
    return b->program->buffers[buffer].bytes;
}

uint32_t layer_gather_rows(struct layer_builder *b, const char *name, uint32_t layer, uint32_t part)
{
    if (!b->splits_rows)
        return part;
    uint32_t all = layer_hidden(b, name, layer, b->tokens);
    if (b->written_out) {
        const struct written w = written(b, true, all);
        add_local(&w, OP_CAST, all, part, part_of(&w, w.me));
        gather_parts(&w, all);
    } else {
        flow(b, &b->tensor, CALL_ALL_GATHER, STREAM_TENSOR, TRAFFIC_TENSOR, bytes_of(b, all), LIST(part), LIST(all));
    }
    return all;
}

uint32_t layer_sum_rows(struct layer_builder *b, const char *name, uint32_t layer, uint32_t partial)
{
    if (b->layout.tp == 1)
        return partial;
    if (!b->splits_rows) {
        layer_sum_tensor(b, LIST(partial));
        return partial;
    }
    uint32_t own = layer_hidden(b, name, layer, b->rows);
    if (b->written_out) {
        const struct written w = written(b, true, partial);
        sum_parts(&w, partial);
        /* The rows of the source: the target has just these. */
        add_local(&w, OP_CAST, own, partial, part_of(&w, w.me));
    } else {
        flow(b, &b->tensor, CALL_REDUCE_SCATTER, STREAM_TENSOR, TRAFFIC_TENSOR, bytes_of(b, partial), LIST(partial),
             LIST(own));
    }
    return own;
}

void layer_sum_tensor(struct layer_builder *b, struct buffer_list buffers)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < buffers.count; i++) {
        bytes += bytes_of(b, buffers.items[i]);
        if (!b->written_out)
            continue;
        const struct written w = written(b, true, buffers.items[i]);
        sum_parts(&w, buffers.items[i]);
        gather_parts(&w, buffers.items[i]);
    }
    if (!b->written_out)
        flow(b, &b->tensor, CALL_ALL_REDUCE, STREAM_TENSOR, TRAFFIC_TENSOR, bytes, buffers, buffers);
}
