/* layout_programs.h - for tests: random programs whose messages leave their groups, in a random layout on a random
 * cluster: exchanges with ranks that are so and so far ahead in cp, tp and dp, and collectives that flow over tp or
 * over dp x cp, over both phases.
 */
#ifndef CPSIM_TESTS_SIM_LAYOUT_PROGRAMS_H
#define CPSIM_TESTS_SIM_LAYOUT_PROGRAMS_H

#include "tests/models/plain_buffer.h"
#include "tests/sim/random_pair.h"

#define ITEMS_MAX 12
#define BUFFERS 4

/* What all ranks do together. */
struct item {
    enum { ITEM_KERNEL, ITEM_EXCHANGE, ITEM_PAIRS, ITEM_OVER_TP, ITEM_OVER_DP_CP, ITEM_KINDS } kind;
    uint32_t cp_ahead, tp_ahead, dp_ahead; /* of whom one sends to */
    enum collective_call call;
    enum stream stream;
    uint32_t from, to; /* buffers */
    uint64_t bytes;
};

struct plot {
    struct layout layout;
    struct item items[PHASE_COUNT][ITEMS_MAX];
    uint32_t n_items[PHASE_COUNT];
    bool uniform; /* but for their rank, all ranks of a group do the same */
};

static inline struct item random_item(struct dice *dice, const struct layout *layout, bool uniform)
{
    static const enum stream streams[] = {STREAM_EXCHANGE, STREAM_TENSOR, STREAM_REDUCTION};
    static const enum collective_call calls[] = {CALL_ALL_GATHER, CALL_REDUCE_SCATTER, CALL_ALL_REDUCE};
    struct item item = {.kind = dice_below(dice, ITEM_KINDS)};
    if (uniform && (item.kind == ITEM_PAIRS || item.kind == ITEM_OVER_DP_CP))
        item.kind = ITEM_EXCHANGE;
    item.stream = item.kind == ITEM_KERNEL ? STREAM_COMPUTE : streams[dice_below(dice, 3)];
    item.call = calls[dice_below(dice, 3)];
    item.cp_ahead = dice_below(dice, layout->cp);
    item.tp_ahead = dice_below(dice, layout->tp);
    item.dp_ahead = dice_below(dice, layout->dp);
    item.from = dice_below(dice, BUFFERS);
    item.to = (item.from + 1 + dice_below(dice, BUFFERS - 1)) % BUFFERS;
    item.bytes = 1 + dice_below(dice, 1U << (4 + dice_below(dice, 18)));
    return item;
}

static inline struct plot random_plot(struct dice *dice, const struct layout *layout, bool uniform)
{
    struct plot plot = {.layout = *layout, .uniform = uniform};
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        for (uint32_t n = dice_below(dice, ITEMS_MAX); plot.n_items[phase] < n;)
            plot.items[phase][plot.n_items[phase]++] = random_item(dice, layout, uniform);
    return plot;
}

/* To one peer and from one, posted together: each gets what it sends. */
static inline void add_shift(struct program *program, const struct item *item, uint32_t to, uint32_t from)
{
    struct op op = {
        .stream = (uint8_t)item->stream, .part = PART_ALL, .group = program_new_group(program), .bytes = item->bytes};
    op.kind = OP_SEND;
    op.peer = to;
    program_add_op(program, op, &item->from, 1, NULL, 0);
    op.kind = OP_RECEIVE;
    op.peer = from;
    program_add_op(program, op, NULL, 0, &item->to, 1);
}

static inline void add_exchange(struct program *program, const struct layout *layout, const struct item *item,
                                uint32_t rank, uint32_t ahead, uint32_t behind)
{
    struct peer_place to = {ahead, item->tp_ahead, item->dp_ahead};
    struct peer_place from = {behind, (layout->tp - item->tp_ahead) % layout->tp,
                              (layout->dp - item->dp_ahead) % layout->dp};
    uint32_t number = peer_number(layout, to);
    if (number != rank && ahead < layout->cp)
        add_shift(program, item, number, peer_number(layout, from));
}

/* Flows round a ring of members, from one neighbour to the other. */
static inline void add_flowing(struct program *program, const struct item *item, const uint32_t *members, uint32_t n,
                               uint32_t me, uint32_t to, uint32_t from)
{
    if (n == 1)
        return;
    program_begin_collective(program, item->call, item->stream, n, me, members, members, members);
    program->collectives[program->n_collectives - 1].flowing = true;
    add_shift(program, item, to, from);
    program_end_collective(program);
}

static inline void add_over_tp(struct program *program, const struct layout *layout, const struct item *item,
                               uint32_t rank)
{
    uint32_t *members = memory_zeroed(layout->tp, sizeof *members);
    for (uint32_t t = 0; t < layout->tp; t++)
        members[t] = peer_number(layout, (struct peer_place){rank, t, 0});
    add_flowing(program, item, members, layout->tp, 0, members[1 % layout->tp], members[layout->tp - 1]);
    free(members);
}

/* Member d * cp + r is rank r of the replica d ahead. */
static inline void add_over_dp_cp(struct program *program, const struct layout *layout, const struct item *item,
                                  uint32_t rank)
{
    uint32_t n = layout->cp * layout->dp, *members = memory_zeroed(n, sizeof *members);
    for (uint32_t w = 0; w < n; w++)
        members[w] = peer_number(layout, (struct peer_place){w % layout->cp, 0, w / layout->cp});
    add_flowing(program, item, members, n, rank, members[(rank + 1) % n], members[(rank + n - 1) % n]);
    free(members);
}

static inline void add_item(struct program *program, const struct layout *layout, const struct item *item,
                            uint32_t rank)
{
    uint32_t cp = layout->cp;
    switch (item->kind) {
    case ITEM_KERNEL:
        program_add_op(program, (struct op){.kind = OP_CAST, .q = {.owner = rank, .count = 16}, .lanes = {0, 1, 0, 1}},
                       &item->from, 1, &item->to, 1);
        break;
    case ITEM_EXCHANGE:
        add_exchange(program, layout, item, rank, (rank + item->cp_ahead) % cp, (rank + cp - item->cp_ahead) % cp);
        break;
    case ITEM_PAIRS:
        add_exchange(program, layout, item, rank, rank ^ 1, rank ^ 1);
        break;
    case ITEM_OVER_TP:
        add_over_tp(program, layout, item, rank);
        break;
    default:
        add_over_dp_cp(program, layout, item, rank);
    }
}

static inline void make_programs(struct pair *pair, const struct plot *plot)
{
    uint32_t ranks = plot->layout.cp;
    pair->programs = memory_zeroed(ranks, sizeof *pair->programs);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct program *program = &pair->programs[rank];
        program_init(program, rank);
        for (uint64_t b = 0; b < BUFFERS; b++)
            plain_buffer(program, (struct lanes){0, 1, 0, 1}, "b", TENSOR_Q, DTYPE_BF16, ROLE_WORKSPACE, 16,
                         100000 * (b + 1));
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            for (uint32_t i = 0; i < plot->n_items[phase]; i++)
                add_item(program, &plot->layout, &plot->items[phase][i], rank);
            program_end_phase(program, (enum phase)phase);
        }
    }
    pair->period = plot->uniform ? 1 : ranks;
}

/* True if the experiment was accepted and every message has a way. */
static inline bool random_layout_pair(struct dice *dice, struct pair *pair, bool *uniform)
{
    bool even = draw_experiment(dice, "ring", 9, pair), accepted;
    if (!draw_schedule(pair))
        return false;
    const struct experiment *e = &pair->experiment;
    const struct layout layout = {
        .cp = e->degree[PARALLEL_CP], .tp = e->degree[PARALLEL_TP], .dp = e->degree[PARALLEL_DP]};
    *uniform = dice_chance(dice, 2);
    struct plot plot = random_plot(dice, &layout, *uniform);
    make_programs(pair, &plot);
    find_machine(dice, pair, even);
    accepted = pair_fold(pair);
    if (!accepted)
        pair_fini(pair);
    return accepted;
}

static inline bool leaves_groups(const struct pair *pair)
{
    for (uint32_t i = 0; i < pair->whole.n_shapes; i++) {
        const struct messages *messages = &pair->whole.shapes[i].messages;
        if (messages->n_peers && messages->peers[messages->n_peers - 1] >= pair->whole.ranks)
            return true;
    }
    return false;
}

#endif
