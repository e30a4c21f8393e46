/* The lowerings of the collectives, run with numbers in their buffers: every member ends with what the call promises,
 * over teams of every shape, and sends the blocks that the table in collective.h says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/collective.h"
#include "models/schedule/execution.h"

#define RANKS_MAX 16
#define HEADS 8
#define ITEMS 3
#define STREAM STREAM_EXCHANGE

/* One collective among some of the ranks, and the values in the buffers of all. */
struct scene {
    struct experiment experiment;
    struct schedule schedule;
    struct program programs[RANKS_MAX];
    double **values[RANKS_MAX];                                /* [rank][buffer][place * heads * items + lane] */
    uint32_t members[RANKS_MAX], count, members_at[RANKS_MAX]; /* the latter: number of a rank, or RANKS_MAX */
    uint64_t counts[RANKS_MAX];                                /* rows of each rank */
};

static struct scene *scene_make(uint32_t ranks, enum collective_kind kind, uint32_t node, const uint64_t *counts)
{
    struct scene *s = memory_zeroed(1, sizeof *s);
    uint64_t seq_len = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        seq_len += s->counts[rank] = counts ? counts[rank] : 2;
    s->experiment = (struct experiment){.path = (char *)"test",
                                        .model = {.q_heads = HEADS, .kv_heads = HEADS, .head_dim = 4},
                                        .dtype = DTYPE_FP32,
                                        .seq_len = seq_len,
                                        .batch = ITEMS,
                                        .mask = {.kind = MASK_CAUSAL, .seq_len = seq_len},
                                        .degree = {1, ranks, 1},
                                        .sharding = SHARDING_EXPLICIT,
                                        .shard_counts = s->counts,
                                        .overlap = true,
                                        .buffers = 2,
                                        .collective = kind,
                                        .collective_node = node};
    s->schedule = (struct schedule){.experiment = &s->experiment,
                                    .ranks = ranks,
                                    .q_heads = HEADS,
                                    .kv_heads = HEADS,
                                    .lanes = {0, HEADS, 0, ITEMS}};
    sharding_init(&s->schedule.sharding, &s->experiment, 1);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        program_init(&s->programs[rank], rank);
        s->members_at[rank] = RANKS_MAX;
    }
    return s;
}

static void scene_add_member(struct scene *s, uint32_t rank)
{
    s->members_at[rank] = s->count;
    s->members[s->count++] = rank;
}

static void scene_free(struct scene *s)
{
    for (uint32_t rank = 0; rank < s->schedule.ranks; rank++) {
        for (uint32_t i = 0; s->values[rank] && i < s->programs[rank].n_buffers; i++)
            free(s->values[rank][i]);
        free(s->values[rank]);
        program_fini(&s->programs[rank]);
    }
    sharding_fini(&s->schedule.sharding);
    free(s);
}

/* ---- the machine ---- */

static size_t lane_of(const struct buffer *buffer, uint32_t head, uint32_t item)
{
    assert_true(head >= buffer->lanes.head && head < buffer->lanes.head + buffer->lanes.heads);
    assert_true(item >= buffer->lanes.item && item < buffer->lanes.item + buffer->lanes.items);
    return (size_t)(head - buffer->lanes.head) * buffer->lanes.items + (item - buffer->lanes.item);
}

static double *value_at(struct scene *s, uint32_t rank, uint32_t index, uint32_t row, uint32_t head, uint32_t item)
{
    const struct buffer *buffer = &s->programs[rank].buffers[index];
    assert_true(row >= buffer->first && row - buffer->first < buffer->rows);
    return &s->values[rank][index]
                     [(row - buffer->first) * buffer->lanes.heads * buffer->lanes.items + lane_of(buffer, head, item)];
}

/* NaN everywhere: nobody has written yet. */
static void scene_allot(struct scene *s)
{
    for (uint32_t rank = 0; rank < s->schedule.ranks; rank++) {
        const struct program *program = &s->programs[rank];
        s->values[rank] = memory_zeroed(program->n_buffers, sizeof *s->values[rank]);
        for (uint32_t i = 0; i < program->n_buffers; i++) {
            const struct buffer *buffer = &program->buffers[i];
            size_t size = buffer->rows * buffer->lanes.heads * buffer->lanes.items;
            s->values[rank][i] = memory_zeroed(size, sizeof **s->values[rank]);
            for (size_t j = 0; j < size; j++)
                s->values[rank][i][j] = NAN;
        }
    }
}

static struct block block_of(const struct scene *s, uint32_t rank, const struct op *op, uint32_t buffer)
{
    return op_block_for(op, (enum tensor)s->programs[rank].buffers[buffer].tensor);
}

static void move(struct scene *s, uint32_t from_rank, uint32_t source, uint32_t to_rank, uint32_t target,
                 const struct op *op, bool adds)
{
    struct block block = block_of(s, from_rank, op, source);
    bool takes_larger = op->kind == OP_RAISE;
    for (uint32_t row = block.first; row < block.first + block.count; row++) {
        for (uint32_t head = op->lanes.head; head < op->lanes.head + op->lanes.heads; head++) {
            for (uint32_t item = op->lanes.item; item < op->lanes.item + op->lanes.items; item++) {
                double value = *value_at(s, from_rank, source, row, head, item);
                double *place = value_at(s, to_rank, target, row, head, item);
                assert_true(value == value); /* not NaN */
                assert_true(!adds || *place == *place);
                *place = !adds ? value : takes_larger ? fmax(*place, value) : *place + value;
            }
        }
    }
}

static void apply(struct scene *s, const struct execution *execution, struct activity activity)
{
    const struct program *program = &s->programs[activity.instance];
    const struct op *op = &program->ops[activity.op];
    assert_int_equal(op->collective, 1);
    if (op->kind == OP_SEND) {
        struct activity end = execution_receive_of(execution, activity);
        const struct program *other = &s->programs[end.instance];
        const struct op *receive = &other->ops[end.op];
        uint32_t source = *program_reads(program, op), target = *program_writes(other, receive);
        struct block sent = block_of(s, activity.instance, op, source);
        struct block received = block_of(s, end.instance, receive, target);
        assert_int_equal(op->bytes, receive->bytes);
        assert_true(sent.owner == received.owner && sent.first == received.first && sent.count == received.count);
        assert_true(lanes_equal(op->lanes, receive->lanes));
        move(s, activity.instance, source, end.instance, target, op, false);
        return;
    }
    assert_true(op->kind == OP_CAST || op->kind == OP_ACCUMULATE || op->kind == OP_RAISE);
    assert_int_equal(op->n_reads, op->kind == OP_CAST ? 1 : 2);
    uint32_t target = *program_writes(program, op);
    move(s, activity.instance, *program_reads(program, op), activity.instance, target, op, op->kind != OP_CAST);
}

static void scene_run(struct scene *s)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    for (uint32_t rank = 0; rank < s->schedule.ranks; rank++) {
        program_end_phase(&s->programs[rank], PHASE_FORWARD);
        assert_int_equal(s->programs[rank].n_collectives, s->members_at[rank] < RANKS_MAX);
    }
    struct execution *execution = execution_create(s->programs, s->schedule.ranks, 1, &diag);
    struct activity activity;
    while (execution && execution_next(execution, &activity)) {
        apply(s, execution, activity);
        execution_finish(execution, activity);
    }
    if (execution && !execution_done(execution))
        execution_explain(execution, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_int_equal(diag.count, 0);
    execution_destroy(execution);
    diagnostics_fini(&diag);
}

/* Bytes that `rank` sends to ranks of its own node, or to others. */
static uint64_t sent(const struct scene *s, uint32_t rank, bool inside, uint64_t *messages)
{
    uint32_t node = s->experiment.collective_node ? s->experiment.collective_node : RANKS_MAX;
    uint64_t bytes = 0;
    *messages = 0;
    for (uint32_t i = 0; i < s->programs[rank].n_ops; i++) {
        const struct op *op = &s->programs[rank].ops[i];
        if (op->kind == OP_SEND && (op->peer / node == rank / node) == inside) {
            bytes += op->bytes;
            ++*messages;
        }
    }
    return bytes;
}

/* ---- teams ---- */

static const struct tensor_shape {
    const char *name;
    uint32_t ranks, node;               /* collective = hierarchical:node; other lowerings do not look */
    uint32_t members[RANKS_MAX], count; /* count 0: all */
} shapes[] = {
    {"two", 2, 1, {0}, 0},
    {"odd", 7, 7, {0}, 0},
    {"even nodes", 12, 4, {0}, 0},
    {"nodes of two", 6, 2, {0}, 0},
    {"nodes of one", 5, 1, {0}, 0},
    {"inside one node", 16, 8, {8, 9, 11, 14}, 4},
    {"one of each node", 12, 3, {1, 4, 7, 10}, 4},
    {"strided", 16, 8, {1, 3, 5, 7, 9, 11, 13, 15}, 8},
    {"uneven nodes", 12, 4, {0, 1, 2, 3, 5, 8, 9, 10}, 8},
    {"a lone rank and a full node", 8, 4, {2, 4, 5, 6, 7}, 5},
    {"out of order", 8, 2, {6, 0, 3, 7, 1}, 5},
    {"one", 3, 1, {1}, 1},
};

static struct scene *scene_of(const struct tensor_shape *shape, enum collective_kind kind, const uint64_t *counts)
{
    struct scene *s = scene_make(shape->ranks, kind, kind == COLLECTIVE_HIERARCHICAL ? shape->node : 0, counts);
    for (uint32_t i = 0; i < (shape->count ? shape->count : shape->ranks); i++)
        scene_add_member(s, shape->count ? shape->members[i] : i);
    return s;
}

/* A value that says where it comes from; whole numbers, so that sums are exact. */
static double mark(uint32_t from, uint32_t to, uint32_t row, uint32_t head, uint32_t item)
{
    return (((from * 17.0 + to) * 64 + row) * HEADS + head) * ITEMS + item + 1;
}

static struct block own_rows(const struct scene *s, uint32_t rank)
{
    return sharding_keys(&s->schedule.sharding, rank);
}

#define FOR_EACH_LANE(head, item, lanes)                                                                               \
    for (uint32_t head = (lanes).head; head < (lanes).head + (lanes).heads; head++)                                    \
        for (uint32_t item = (lanes).item; item < (lanes).item + (lanes).items; item++)

static struct builder builder_for(struct scene *s, uint32_t rank)
{
    struct builder b;
    builder_init(&b, &s->schedule, &s->programs[rank]);
    return b;
}

/* Calls `test` for every lowering and team. */
static void for_each_team(void (*test)(const struct tensor_shape *shape, enum collective_kind kind))
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = COLLECTIVE_RING; kind <= COLLECTIVE_HIERARCHICAL; kind++)
            test(&shapes[i], (enum collective_kind)kind);
}

/* ---- all-gather ---- */

static void gather_one(const struct tensor_shape *shape, enum collective_kind kind)
{
    static const uint64_t counts[RANKS_MAX] = {3, 1, 0, 2, 4, 1, 2, 0, 5, 2, 1, 3, 0, 1, 2, 2}; /* some have nothing */
    struct scene *s = scene_of(shape, kind, counts);
    struct slot into[RANKS_MAX][RANKS_MAX];
    uint32_t own[RANKS_MAX];
    for (uint32_t me = 0; me < s->count; me++) {
        uint32_t rank = s->members[me];
        struct builder b = builder_for(s, rank);
        own[me] = b.kv;
        for (uint32_t i = 0; i < s->count; i++) {
            struct block rows = own_rows(s, s->members[i]);
            into[me][i] = (struct slot){rows.count ? builder_buffer_block(&b, "into", TENSOR_KV, DTYPE_FP32,
                                                                          ROLE_RECEIVED, rows, s->schedule.lanes)
                                                   : NO_BUFFER,
                                        rows};
        }
        struct team team = {s->members, s->count, me};
        collective_all_gather(&b, STREAM, TRAFFIC_FORWARD_KV, &team, (struct slot){b.kv, own_rows(s, rank)}, into[me]);
    }
    scene_allot(s);
    for (uint32_t me = 0; me < s->count; me++)
        for (uint32_t row = 0; row < own_rows(s, s->members[me]).count; row++)
            FOR_EACH_LANE(head, item, s->schedule.lanes)
    *value_at(s, s->members[me], own[me], row, head, item) = mark(me, 0, row, head, item);
    scene_run(s);
    for (uint32_t me = 0; me < s->count; me++)
        for (uint32_t i = 0; i < s->count; i++)
            for (uint32_t row = 0; row < into[me][i].block.count; row++)
                FOR_EACH_LANE(head, item, s->schedule.lanes)
    assert_true(*value_at(s, s->members[me], into[me][i].buffer, row, head, item) == mark(i, 0, row, head, item));
    scene_free(s);
}

static void all_gather_gives_every_block_to_everyone(void **state)
{
    (void)state;
    for_each_team(gather_one);
}

/* ---- reduce-scatter ---- */

/* Whether member `from` has a share of member `to`'s sum. */
static bool has_share(uint32_t variant, uint32_t from, uint32_t to)
{
    if (variant == 0)
        return true;
    return variant == 1 ? from % 3 != 1 : (from * 7 + to * 5 + from * to) % 3 != 0;
}

static void scatter_variant(const struct tensor_shape *shape, enum collective_kind kind, uint32_t variant)
{
    static const uint64_t counts[RANKS_MAX] = {3, 1, 2, 2, 4, 1, 2, 3, 5, 2, 1, 3, 0, 1, 2, 2};
    struct scene *s = scene_of(shape, kind, counts);
    struct slot shares[RANKS_MAX][RANKS_MAX];
    bool has[RANKS_MAX * RANKS_MAX];
    for (uint32_t i = 0; i < s->count * s->count; i++)
        has[i] = has_share(variant, i / s->count, i % s->count);
    for (uint32_t me = 0; me < s->count; me++) {
        struct builder b = builder_for(s, s->members[me]);
        for (uint32_t i = 0; i < s->count; i++) {
            struct block rows = own_rows(s, s->members[i]);
            shares[me][i] = (struct slot){rows.count ? builder_buffer_block(&b, "share", TENSOR_DKV, DTYPE_FP32,
                                                                            ROLE_ACCUMULATOR, rows, s->schedule.lanes)
                                                     : NO_BUFFER,
                                          rows};
        }
        struct team team = {s->members, s->count, me};
        uint32_t *staging = collective_staging(&b, "in", CALL_REDUCE_SCATTER, &team, TENSOR_DKV, DTYPE_FP32,
                                               (struct block){0, 0, 5}, s->schedule.lanes);
        collective_reduce_scatter(&b, STREAM, TRAFFIC_GRADIENT, &team, shares[me], variant ? has : NULL, staging);
        free(staging);
    }
    scene_allot(s);
    for (uint32_t me = 0; me < s->count; me++)
        for (uint32_t i = 0; i < s->count; i++)
            for (uint32_t row = 0; row < shares[me][i].block.count && has[me * s->count + i]; row++)
                FOR_EACH_LANE(head, item, s->schedule.lanes)
    *value_at(s, s->members[me], shares[me][i].buffer, row, head, item) = mark(me, i, row, head, item);
    scene_run(s);
    for (uint32_t me = 0; me < s->count; me++) {
        for (uint32_t row = 0; row < shares[me][me].block.count; row++) {
            FOR_EACH_LANE(head, item, s->schedule.lanes)
            {
                double sum = 0, held = *value_at(s, s->members[me], shares[me][me].buffer, row, head, item);
                for (uint32_t i = 0; i < s->count; i++)
                    sum += has[i * s->count + me] ? mark(i, me, row, head, item) : 0;
                if (sum > 0)
                    assert_true(held == sum);
                else
                    assert_true(held != held); /* NaN: nobody has a share: nothing is sent */
            }
        }
    }
    scene_free(s);
}

static void scatter_one(const struct tensor_shape *shape, enum collective_kind kind)
{
    for (uint32_t variant = 0; variant < 3; variant++)
        scatter_variant(shape, kind, variant);
}

static void reduce_scatter_leaves_each_its_sum_of_the_shares_that_there_are(void **state)
{
    (void)state;
    for_each_team(scatter_one);
}

/* ---- all-to-all ---- */

/* Rows of the sender in lanes of the target, as heads are traded for rows; some pairs have nothing. */
static struct piece trade(const void *context, uint32_t from, uint32_t to)
{
    const struct scene *s = context;
    struct piece piece = {own_rows(s, s->members[from]), {to % HEADS, 1, 0, ITEMS}};
    if ((from + 2 * to) % 5 == 4)
        piece.block.count = 0;
    return piece;
}

/* Rows of the target in lanes of the sender: the way back. */
static struct piece trade_back(const void *context, uint32_t from, uint32_t to)
{
    const struct scene *s = context;
    return (struct piece){own_rows(s, s->members[to]), {0, HEADS, from % ITEMS, 1}};
}

static void exchange_with(const struct tensor_shape *shape, enum collective_kind kind,
                          struct piece (*of)(const void *context, uint32_t from, uint32_t to))
{
    static const uint64_t counts[RANKS_MAX] = {3, 1, 0, 2, 4, 1, 2, 3, 5, 2, 1, 3, 0, 1, 2, 2};
    struct scene *s = scene_of(shape, kind, counts);
    struct slot out[RANKS_MAX][RANKS_MAX], in[RANKS_MAX][RANKS_MAX];
    for (uint32_t me = 0; me < s->count; me++) {
        struct builder b = builder_for(s, s->members[me]);
        for (uint32_t i = 0; i < s->count; i++) {
            out[me][i] = in[me][i] = (struct slot){.buffer = NO_BUFFER};
            for (int way = 0; way < 2 && i != me; way++) {
                struct piece piece = way ? of(s, i, me) : of(s, me, i);
                if (piece.block.count)
                    (way ? in : out)[me][i] =
                        (struct slot){builder_buffer_block(&b, way ? "in" : "out", TENSOR_Q, DTYPE_FP32, ROLE_RECEIVED,
                                                           piece.block, piece.lanes),
                                      piece.block};
            }
        }
        struct team team = {s->members, s->count, me};
        struct pieces pieces = {of, s, TENSOR_Q, DTYPE_FP32};
        collective_all_to_all(&b, STREAM, TRAFFIC_OTHER, &team, out[me], in[me], &pieces);
    }
    scene_allot(s);
    for (uint32_t me = 0; me < s->count; me++) {
        for (uint32_t i = 0; i < s->count; i++) {
            struct block rows = out[me][i].block;
            for (uint32_t row = rows.first; row < rows.first + rows.count; row++)
                FOR_EACH_LANE(head, item, of(s, me, i).lanes)
            *value_at(s, s->members[me], out[me][i].buffer, row, head, item) = mark(me, i, row, head, item);
        }
    }
    scene_run(s);
    for (uint32_t me = 0; me < s->count; me++) {
        for (uint32_t i = 0; i < s->count; i++) {
            struct block rows = in[me][i].block;
            for (uint32_t row = rows.first; row < rows.first + rows.count; row++)
                FOR_EACH_LANE(head, item, of(s, i, me).lanes)
            assert_true(*value_at(s, s->members[me], in[me][i].buffer, row, head, item) ==
                        mark(i, me, row, head, item));
        }
    }
    scene_free(s);
}

static void exchange_one(const struct tensor_shape *shape, enum collective_kind kind)
{
    exchange_with(shape, kind, trade);
    exchange_with(shape, kind, trade_back);
}

static void all_to_all_delivers_every_piece(void **state)
{
    (void)state;
    for_each_team(exchange_one);
}

/* ---- all-reduce ---- */

/* Shapes of what is summed: cut by heads, by items, by rows, and fewer of all than ranks. */
static const struct {
    struct lanes lanes;
    uint32_t first, rows;
} sums[] = {{{0, HEADS, 0, ITEMS}, 1, 2}, {{2, 1, 0, ITEMS}, 0, 1}, {{0, 1, 1, 1}, 1, 19}, {{3, 2, 2, 1}, 0, 1}};

static void reduce_variant(const struct tensor_shape *shape, enum collective_kind kind, enum tensor tensor,
                           size_t variant)
{
    static const uint64_t counts[RANKS_MAX] = {20, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct scene *s = scene_of(shape, kind, counts);
    struct block rows = {0, sums[variant].first, sums[variant].rows};
    struct lanes lanes = sums[variant].lanes;
    uint32_t slot[RANKS_MAX];
    for (uint32_t me = 0; me < s->count; me++) {
        struct builder b = builder_for(s, s->members[me]);
        struct team team = {s->members, s->count, me};
        slot[me] = builder_buffer_block(&b, "sum", tensor, DTYPE_FP32, ROLE_ACCUMULATOR, rows, lanes);
        uint32_t *staging = collective_staging(&b, "in", CALL_ALL_REDUCE, &team, tensor, DTYPE_FP32, rows, lanes);
        collective_all_reduce(&b, STREAM, TRAFFIC_OTHER, &team, (struct slot){slot[me], rows}, staging);
        free(staging);
    }
    scene_allot(s);
    for (uint32_t me = 0; me < s->count; me++)
        for (uint32_t row = rows.first; row < rows.first + rows.count; row++)
            FOR_EACH_LANE(head, item, lanes)
    *value_at(s, s->members[me], slot[me], row, head, item) = 0.1 * mark(me, me, row, head, item);
    scene_run(s);
    for (uint32_t row = rows.first; row < rows.first + rows.count; row++) {
        FOR_EACH_LANE(head, item, lanes)
        {
            double sum = 0, largest = 0, first = *value_at(s, s->members[0], slot[0], row, head, item);
            for (uint32_t i = 0; i < s->count; i++) {
                double share = 0.1 * mark(i, i, row, head, item);
                sum += share;
                largest = fmax(largest, share);
                assert_true(*value_at(s, s->members[i], slot[i], row, head, item) == first); /* to the bit */
            }
            assert_true(fabs(first - (tensor == TENSOR_TOP ? largest : sum)) <= 1e-12 * sum);
        }
    }
    scene_free(s);
}

static void reduce_one(const struct tensor_shape *shape, enum collective_kind kind)
{
    for (size_t variant = 0; variant < sizeof sums / sizeof *sums; variant++) {
        reduce_variant(shape, kind, TENSOR_TOP, variant);
        reduce_variant(shape, kind, TENSOR_NUMERATOR, variant);
    }
}

static void all_reduce_leaves_the_same_bits_everywhere(void **state)
{
    (void)state;
    for_each_team(reduce_one);
}

/* ---- bytes ---- */

struct expected {
    uint64_t between, inside;                   /* blocks of one member */
    uint64_t messages_between, messages_inside; /* 0: not said */
};

/* Builds one collective of `p` ranks on blocks of two rows, all lanes; of an all-reduce, of p blocks. */
static struct scene *bytes_scene(enum collective_call call, uint32_t p, enum collective_kind kind, uint32_t node)
{
    struct scene *s = scene_make(p, kind, kind == COLLECTIVE_HIERARCHICAL ? node : 0, NULL);
    for (uint32_t rank = 0; rank < p; rank++)
        scene_add_member(s, rank);
    for (uint32_t me = 0; me < p; me++) {
        struct builder b = builder_for(s, me);
        struct team team = {s->members, p, me};
        struct slot slots[RANKS_MAX];
        for (uint32_t i = 0; i < p; i++) {
            struct block rows = own_rows(s, i);
            slots[i] = (struct slot){builder_buffer_block(&b, "slot", TENSOR_NUMERATOR, DTYPE_FP32, ROLE_ACCUMULATOR,
                                                          rows, (struct lanes){0, HEADS, 0, 1}),
                                     rows};
        }
        struct block whole = {0, 0, 2};
        struct lanes lanes = {0, HEADS, 0, 1};
        uint32_t *staging = collective_staging(&b, "in", call, &team, TENSOR_NUMERATOR, DTYPE_FP32, whole, lanes);
        if (call == CALL_ALL_GATHER)
            collective_all_gather(&b, STREAM, TRAFFIC_OTHER, &team, slots[me], slots);
        else if (call == CALL_REDUCE_SCATTER)
            collective_reduce_scatter(&b, STREAM, TRAFFIC_OTHER, &team, slots, NULL, staging);
        else if (call == CALL_ALL_REDUCE)
            collective_all_reduce(&b, STREAM, TRAFFIC_OTHER, &team, slots[0], staging);
        free(staging);
    }
    return s;
}

/* Two rows of HEADS heads of 4 in fp32. */
#define BLOCK_BYTES (2 * HEADS * 4 * 4)

static void expect_sent(const struct scene *s, struct expected expected, uint64_t block)
{
    for (uint32_t rank = 0; rank < s->schedule.ranks; rank++) {
        uint64_t messages;
        assert_int_equal(sent(s, rank, false, &messages), expected.between * block);
        if (expected.messages_between)
            assert_int_equal(messages, expected.messages_between);
        assert_int_equal(sent(s, rank, true, &messages), expected.inside * block);
        if (expected.messages_inside)
            assert_int_equal(messages, expected.messages_inside);
    }
}

/* Shapes P = nodes * w of the closed forms of collective.h. */
static void ranks_send_the_blocks_of_the_closed_forms(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= RANKS_MAX; p++) {
        for (int call = CALL_ALL_GATHER; call <= CALL_REDUCE_SCATTER; call++) {
            for (int kind = COLLECTIVE_RING; kind <= COLLECTIVE_DIRECT; kind++) {
                struct scene *s = bytes_scene((enum collective_call)call, p, (enum collective_kind)kind, 0);
                expect_sent(s, (struct expected){0, p - 1, 0, p - 1}, BLOCK_BYTES);
                scene_free(s);
            }
            for (uint32_t w = 1; w <= p; w++) {
                if (p % w)
                    continue;
                struct scene *s = bytes_scene((enum collective_call)call, p, COLLECTIVE_HIERARCHICAL, w);
                expect_sent(s, (struct expected){p / w - 1, (w - 1) * (p / w), p / w - 1, (w - 1) * (p / w)},
                            BLOCK_BYTES);
                scene_free(s);
            }
        }
    }
}

/* The data is cut into HEADS parts where the ranks are so many: 2 (P-1) / P of it in a ring, each rank its data to each
 * other directly; by nodes, a W-th of it to each other node and 2 (W-1) / W inside. */
static void an_all_reduce_sends_the_parts_of_the_closed_forms(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= HEADS; p *= 2) {
        struct scene *s = bytes_scene(CALL_ALL_REDUCE, p, COLLECTIVE_RING, 0);
        expect_sent(s, (struct expected){0, 2 * (p - 1), 0, 2 * (p - 1)}, BLOCK_BYTES / p);
        scene_free(s);
        s = bytes_scene(CALL_ALL_REDUCE, p, COLLECTIVE_DIRECT, 0);
        expect_sent(s, (struct expected){0, p - 1, 0, p - 1}, BLOCK_BYTES);
        scene_free(s);
        for (uint32_t w = 1; w <= p; w *= 2) {
            s = bytes_scene(CALL_ALL_REDUCE, p, COLLECTIVE_HIERARCHICAL, w);
            expect_sent(s, (struct expected){p / w - 1, 2 * (w - 1), p / w - 1, 2 * (w - 1)}, BLOCK_BYTES / w);
            scene_free(s);
        }
    }
    struct scene *s = bytes_scene(CALL_ALL_REDUCE, 16, COLLECTIVE_RING, 0); /* 8 heads and 1 item for 16 ranks */
    for (uint32_t rank = 0; rank < 16; rank++) {
        uint64_t messages, bytes = sent(s, rank, true, &messages);
        assert_int_equal(bytes, messages * BLOCK_BYTES / HEADS);
        assert_true(messages == 15 || messages == 14 || messages == 16); /* empty parts do not travel */
    }
    scene_free(s);
}

static struct piece one_row(const void *context, uint32_t from, uint32_t to)
{
    (void)to;
    const struct scene *s = context;
    return (struct piece){own_rows(s, s->members[from]), {0, HEADS, 0, 1}};
}

static void an_all_to_all_relays_inside_the_node_only(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 12; p++) {
        for (uint32_t w = 0; w <= p; w++) { /* 0: ring and direct */
            if (w && p % w)
                continue;
            for (int kind = COLLECTIVE_RING; kind <= COLLECTIVE_HIERARCHICAL; kind++) {
                if ((kind == COLLECTIVE_HIERARCHICAL) != (w > 0))
                    continue;
                struct scene *s = scene_make(p, (enum collective_kind)kind, w, NULL);
                for (uint32_t rank = 0; rank < p; rank++)
                    scene_add_member(s, rank);
                for (uint32_t me = 0; me < p; me++) {
                    struct builder b = builder_for(s, me);
                    struct team team = {s->members, p, me};
                    struct slot out[RANKS_MAX], in[RANKS_MAX];
                    struct lanes lanes = {0, HEADS, 0, 1};
                    for (uint32_t i = 0; i < p; i++) {
                        out[i].block = own_rows(s, me);
                        in[i].block = own_rows(s, i);
                        out[i].buffer =
                            builder_buffer_block(&b, "out", TENSOR_Q, DTYPE_FP32, ROLE_WORKSPACE, out[i].block, lanes);
                        in[i].buffer =
                            builder_buffer_block(&b, "in", TENSOR_Q, DTYPE_FP32, ROLE_RECEIVED, in[i].block, lanes);
                    }
                    struct pieces pieces = {one_row, s, TENSOR_Q, DTYPE_FP32};
                    collective_all_to_all(&b, STREAM, TRAFFIC_OTHER, &team, out, in, &pieces);
                    assert_int_equal(s->programs[me].n_groups, kind == COLLECTIVE_HIERARCHICAL ? 2
                                                               : kind == COLLECTIVE_RING       ? (p > 1 ? p - 1 : 1)
                                                                                               : 1);
                }
                struct expected expected = {0, p - 1, 0, p - 1};
                if (w)
                    expected = (struct expected){p - w, (w - 1) * (p / w), p - w, (w - 1) * (p / w)};
                expect_sent(s, expected, BLOCK_BYTES);
                scene_free(s);
            }
        }
    }
}

/* Where shares of a sum wait: one buffer in a ring, one per other member directly; by nodes, one per other node or one
 * for each sum that a rank brings together. */
static void shares_of_a_sum_wait_in_few_buffers(void **state)
{
    (void)state;
    static const struct {
        enum collective_kind kind;
        uint32_t node, buffers;
    } cases[] = {{COLLECTIVE_RING, 0, 1},
                 {COLLECTIVE_DIRECT, 0, 11},
                 {COLLECTIVE_HIERARCHICAL, 4, 3},
                 {COLLECTIVE_HIERARCHICAL, 1, 11},
                 {COLLECTIVE_HIERARCHICAL, 12, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *s = scene_make(12, cases[i].kind, cases[i].node, NULL);
        for (uint32_t rank = 0; rank < 12; rank++)
            scene_add_member(s, rank);
        struct builder b = builder_for(s, 5);
        uint32_t before = s->programs[5].n_buffers;
        struct team team = {s->members, 12, 5};
        free(collective_staging(&b, "in", CALL_REDUCE_SCATTER, &team, TENSOR_DKV, DTYPE_FP32, (struct block){0, 0, 2},
                                s->schedule.lanes));
        assert_int_equal(s->programs[5].n_buffers - before, cases[i].buffers);
        scene_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_gather_gives_every_block_to_everyone),
        cmocka_unit_test(reduce_scatter_leaves_each_its_sum_of_the_shares_that_there_are),
        cmocka_unit_test(all_to_all_delivers_every_piece),
        cmocka_unit_test(all_reduce_leaves_the_same_bits_everywhere),
        cmocka_unit_test(ranks_send_the_blocks_of_the_closed_forms),
        cmocka_unit_test(an_all_reduce_sends_the_parts_of_the_closed_forms),
        cmocka_unit_test(an_all_to_all_relays_inside_the_node_only),
        cmocka_unit_test(shares_of_a_sum_wait_in_few_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
