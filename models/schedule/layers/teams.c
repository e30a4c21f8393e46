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

/* How many CP ranks and dp indices of the dp x cp members each node has; 1 and 1 where that says nothing of use. Of the
 * dimensions of a layout, those inside fill a node, one may be divided among nodes, and those outside are in other
 * nodes. */
struct node_share {
    uint32_t cp, dp;
    uint32_t tp; /* likewise of the tp members, whatever those of dp x cp are */
};

static struct node_share share_of_node(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    uint32_t inside[PARALLEL_DIMENSIONS] = {0};
    uint64_t node = schedule->node_gpus;
    for (int i = 0; i < PARALLEL_DIMENSIONS && node > 0; i++) {
        uint32_t degree = experiment->degree[experiment->order[i]];
        if (node % degree != 0 && degree % node != 0)
            return (struct node_share){1, 1, 1};
        inside[experiment->order[i]] = node % degree == 0 ? degree : (uint32_t)node;
        node = node % degree == 0 ? node / degree : 1;
    }
    struct node_share share = {inside[PARALLEL_CP], inside[PARALLEL_DP], inside[PARALLEL_TP]};
    bool all = share.cp == experiment->degree[PARALLEL_CP] && share.dp == experiment->degree[PARALLEL_DP];
    return node == 0 ? (struct node_share){1, 1, 1} : all ? (struct node_share){1, 1, share.tp} : share;
}

struct layout layers_layout(const struct schedule *schedule)
{
    const uint32_t *degree = schedule->experiment->degree;
    struct layout layout = {.cp = degree[PARALLEL_CP], .tp = degree[PARALLEL_TP], .dp = degree[PARALLEL_DP]};
    struct node_share share = share_of_node(schedule);
    layout.block = share.dp > 1 ? share.dp : 0;
    layout.tp_block = share.tp > 1 && share.tp < layout.tp ? share.tp : 0;
    return layout;
}

/* The CP rank at an index in the order of GPUs. (Written out, parts of rows go by rank: so do the rings.) */
static uint32_t rank_at(const struct layer_builder *b, uint32_t index)
{
    const uint32_t *indices = b->written_out ? NULL : b->schedule->index_of_rank;
    uint32_t rank = index;
    for (uint32_t r = 0; indices && r < b->layout.cp; r++)
        if (indices[r] == index)
            rank = r;
    return rank;
}

/* Inside a node a ring goes by CP index, and from the last to the first of the next dp index. Across nodes each member
 * goes to the one at its place in the next node: of the next CP indices, and from the last to the first of the next dp
 * indices. (The same program runs for every dp index, so a step between dp indices can be where a CP index ends, but
 * not the reverse; the order of nodes does not matter.) */
static void find_rings(struct layer_builder *b)
{
    struct node_share share = b->written_out ? (struct node_share){1, 1, 1} : share_of_node(b->schedule);
    const uint32_t *indices = b->written_out ? NULL : b->schedule->index_of_rank;
    uint32_t cp = b->layout.cp, dp = b->layout.dp, at = indices ? indices[b->place.rank] : b->place.rank;
    uint32_t first = at - at % share.cp, last = first + share.cp - 1;
    bool turns = share.dp > 1, leaves = dp > share.dp;
    b->data.node = share.cp * share.dp;
    const struct ring_neighbours inside = {
        .next = number(b, rank_at(b, at < last ? at + 1 : first), 0, at == last && turns ? 1 : 0),
        .previous = number(b, rank_at(b, at > first ? at - 1 : last), 0, at == first && turns ? share.dp - 1 : 0)};
    const struct ring_neighbours across = {
        .next = number(b, rank_at(b, (at + share.cp) % cp), 0, at + share.cp >= cp && leaves ? share.dp : 0),
        .previous = number(b, rank_at(b, (at + cp - share.cp) % cp), 0, at < share.cp && leaves ? dp - share.dp : 0)};
    b->data.inside = b->data.node > 1 ? inside : across;
    b->data.across = across;
}

void layer_teams_init(struct layer_builder *b)
{
    uint32_t cp = b->layout.cp, tp = b->layout.tp, dp = b->layout.dp;
    uint32_t share = share_of_node(b->schedule).tp, node = share > 1 && share < tp ? share : 1;
    b->tensor = (struct layer_team){.count = tp, .members = memory_zeroed(tp, sizeof(uint32_t)), .node = node};
    b->data = (struct layer_team){
        .count = cp * dp, .me = b->place.rank, .members = memory_zeroed((size_t)cp * dp, sizeof(uint32_t))};
    for (uint32_t i = 0; i < tp; i++)
        b->tensor.members[i] = number(b, b->place.rank, i, 0);
    uint32_t inside = node > 1 ? node : tp; /* of the ring inside */
    b->tensor.inside = (struct ring_neighbours){b->tensor.members[1 % inside], b->tensor.members[inside - 1]};
    b->tensor.across = (struct ring_neighbours){b->tensor.members[inside % tp], b->tensor.members[tp - inside]};
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

void layer_sum_norms(struct layer_builder *b, struct buffer_list gradients)
{
    if (b->splits_rows && !layer_gradients_wait(b))
        layer_sum_tensor(b, gradients);
}
