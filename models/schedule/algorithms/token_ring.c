/* token_ring.c - TokenRing: K and V stay, queries travel one way, and each result goes straight home the other way.
 *
 * Step i: rank r holds queries of rank r + i, attends its own K and V with them, and meanwhile passes them on to r - 1.
 * The partial result of step i leaves for its owner, i ranks ahead, one step later, in a stream of its own, and is
 * merged there: in a full mesh the two use links in opposite directions. There is no backward pass.
 *
 * Only rows with something still to see travel, and only rows that were computed return. With zigzag sharding and the
 * causal mask, a rank that owns chunks r and 2P-1-r is seen whole by the ranks before it and with its second half by
 * those behind it. With Q, L the bytes of a shard's queries and of its LSE, rank r > 0 sends P-r whole and r-1 half Q,
 * rank 0 halves only; results, (P-1-r) whole and r half (Q + L). Otherwise (P-1) Q and (P-1) (Q + L). Source:
 * ACA-Lab-SJTU/token-ring.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"

struct token_ring {
    struct builder *b;
    const struct block *travels;
    uint32_t queries[2], leaving[2], arriving[2]; /* step i's: [i % 2] */
};

/* The queries of `owner` that are held `steps` places on. */
static struct block travelling(const struct token_ring *t, uint32_t owner, uint32_t steps)
{
    return t->travels[(size_t)owner * t->b->ranks + steps];
}

/* The queries of `owner` that `place` computes with, and its keys that they see. False: nothing. */
static bool meet(const struct token_ring *t, uint32_t owner, uint32_t place, struct block *queries, struct block *keys)
{
    *queries = circle_queries(&t->b->circle, owner);
    *keys = circle_keys(&t->b->circle, place);
    return circle_cut(&t->b->circle, queries, keys);
}

/* Round `step` of the queries: passes on those of the step before and receives this step's. */
static void pass_on(struct token_ring *t, uint32_t step)
{
    struct builder *b = t->b;
    uint32_t group = program_new_group(b->program), held = step == 1 ? b->q : t->queries[(step - 1) % 2];
    struct block leaves = travelling(t, builder_ahead(b, step - 1), step),
                 arrives = travelling(t, builder_ahead(b, step), step);
    if (leaves.count)
        builder_send(b, b->exchange, group, TRAFFIC_OTHER, held, builder_back(b, 1), leaves);
    if (arrives.count)
        builder_receive(b, b->exchange, group, TRAFFIC_OTHER, t->queries[step % 2], builder_ahead(b, 1), arrives);
}

/* The results of `step` leave for their owner, and this rank's own come from where they were computed. */
static void return_results(struct token_ring *t, uint32_t step)
{
    struct builder *b = t->b;
    uint32_t group = program_new_group(b->program);
    struct block rows, keys;
    if (meet(t, builder_ahead(b, step), b->place, &rows, &keys))
        builder_send(b, b->returns, group, TRAFFIC_OTHER, t->leaving[step % 2], builder_ahead(b, step), rows);
    if (meet(t, b->place, builder_back(b, step), &rows, &keys))
        builder_receive(b, b->returns, group, TRAFFIC_OTHER, t->arriving[step % 2], builder_back(b, step), rows);
}

static void merge(struct token_ring *t, uint32_t step)
{
    struct builder *b = t->b;
    struct block rows, keys;
    if (meet(t, b->place, builder_back(b, step), &rows, &keys))
        builder_on_queries(b, OP_MERGE, STREAM_COMPUTE, rows, b->lanes, (uint32_t[]){t->arriving[step % 2], b->state},
                           2, &b->state, 1);
}

static void attend(struct token_ring *t, uint32_t step)
{
    struct builder *b = t->b;
    if (step == 0) {
        builder_attend(b, circle_keys(&b->circle, b->place), &b->kv, 1);
        return;
    }
    struct attention a = {
        .lanes = b->lanes, .stream = STREAM_COMPUTE, .q_buffer = t->queries[step % 2], .kv = &b->kv, .n_kv = 1};
    if (meet(t, builder_ahead(b, step), b->place, &a.q, &a.k))
        builder_add_attend(b, &a, &t->leaving[step % 2], 1);
}

/* The range that holds the query rows of every place: behind an uneven cached prefix they start at different ones. */
static struct block rows_of_any(const struct token_ring *t)
{
    struct block any = {0, 0, 0};
    for (uint32_t place = 0; place < t->b->ranks; place++)
        any = block_cover(any, circle_queries(&t->b->circle, place));
    return any;
}

static void add_buffers(struct token_ring *t)
{
    static const char *const queries[] = {"q 0", "q 1"}, *const leaving[] = {"leaving 0", "leaving 1"},
                             *const arriving[] = {"arriving 0", "arriving 1"};
    struct builder *b = t->b;
    struct block any = rows_of_any(t);
    for (uint32_t i = 0; i < 2 && b->ranks > 1; i++) {
        t->queries[i] = builder_buffer_block(b, queries[i], TENSOR_Q, b->model, ROLE_RECEIVED, any, b->lanes);
        t->leaving[i] = builder_buffer_block(b, leaving[i], TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, any, b->lanes);
        t->arriving[i] =
            builder_buffer_block(b, arriving[i], TENSOR_PARTIAL, b->output, ROLE_WORKSPACE, b->queries, b->lanes);
    }
}

/* The rows of each place's queries that are held i places on, [place * places + i]: one run with all that are computed
 * there or further on; all rows where an invisible block is received nevertheless (skip = compute). */
static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    uint32_t places = circle.places;
    struct block *travels = memory_zeroed((size_t)places * places, sizeof *travels);
    for (uint32_t place = 0; place < places; place++) {
        struct block run = {place, 0, 0};
        for (uint32_t i = places - 1; i > 0; i--) {
            struct block queries = circle_queries(&circle, place),
                         keys = circle_keys(&circle, circle_back(&circle, place, i));
            if (queries.count && circle_needs(&circle, place, keys)) {
                circle_cut(&circle, &queries, &keys);
                run = block_cover(run, queries);
            }
            travels[(size_t)place * places + i] = run;
        }
    }
    return travels;
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct token_ring t = {.b = &b, .travels = schedule->algorithm_data};
    uint32_t results = 0;
    for (uint32_t place = 0; place < b.ranks; place++)
        results += circle_attends(&b.circle, b.queries, circle_keys(&b.circle, place));
    builder_begin(&b, PHASE_FORWARD, results);
    add_buffers(&t);
    for (uint32_t step = 0; step <= b.ranks; step++) {
        if (step + 1 < b.ranks)
            pass_on(&t, step + 1);
        if (step > 1)
            return_results(&t, step - 1);
        if (step < b.ranks)
            attend(&t, step);
        if (step > 1)
            merge(&t, step - 1);
    }
    builder_end(&b, PHASE_FORWARD);
    program_end_phase(program, PHASE_FORWARD);
}

const struct algorithm_ops algorithm_token_ring = {
    .name = "token-ring",
    .summary = "K and V stay; queries go round one way, each result straight home the other; forward only",
    .constraint = "pass = forward",
    .uses = USES_SKIP_TRANSFER | USES_OVERLAP,
    .can = CAN_PREFILL,
    .turns = TURNS,
    .moves_queries = true,
    .prepare = prepare,
    .build = build,
};
