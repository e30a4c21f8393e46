/* benchmark.c - see benchmark.h. Rows of one byte an element, one lane, forward only. */
#include "models/schedule/benchmark.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/collective.h"

static const char *const names[BENCHMARK_PATTERNS] = {
    [BENCHMARK_RING_SHIFT] = "ring-shift",         [BENCHMARK_ALL_GATHER] = "all-gather",
    [BENCHMARK_REDUCE_SCATTER] = "reduce-scatter", [BENCHMARK_ALL_TO_ALL] = "all-to-all",
    [BENCHMARK_ALL_REDUCE] = "all-reduce",
};

const char *benchmark_pattern_name(enum benchmark_pattern pattern)
{
    return names[pattern];
}

bool benchmark_pattern_find(const char *name, enum benchmark_pattern *pattern)
{
    for (int p = 0; p < BENCHMARK_PATTERNS; p++) {
        if (strcmp(name, names[p]) != 0)
            continue;
        *pattern = (enum benchmark_pattern)p;
        return true;
    }
    return false;
}

uint64_t benchmark_row_bytes(enum benchmark_pattern pattern, uint32_t ranks, uint64_t bytes)
{
    return pattern == BENCHMARK_RING_SHIFT ? bytes : bytes / ranks + (bytes % ranks != 0);
}

/* A buffer for the rows of a block. */
static struct slot add_slot(struct builder *b, const char *name, enum buffer_role role, struct block block)
{
    return (struct slot){builder_buffer_block(b, name, TENSOR_Q, b->model, role, block, b->lanes), block};
}

/* One for every member, of its row. The caller frees them. */
static struct slot *add_slots(struct builder *b, const char *name)
{
    struct slot *slots = memory_zeroed(b->ranks, sizeof *slots);
    for (uint32_t i = 0; i < b->ranks; i++)
        slots[i] = add_slot(b, name, ROLE_RECEIVED, (struct block){i, 0, 1});
    return slots;
}

static void shift(struct builder *b, struct slot own)
{
    uint32_t ahead = builder_ahead(b, 1), behind = builder_back(b, 1);
    struct slot from = add_slot(b, "received", ROLE_RECEIVED, (struct block){behind, 0, 1});
    uint32_t group = program_new_group(b->program);
    builder_send(b, b->exchange, group, TRAFFIC_OTHER, own.buffer, ahead, own.block);
    builder_receive(b, b->exchange, group, TRAFFIC_OTHER, from.buffer, behind, from.block);
}

static void gather(struct builder *b, const struct team *team, struct slot own)
{
    struct slot *into = add_slots(b, "gathered");
    into[team->me] = own;
    collective_all_gather(b, b->exchange, TRAFFIC_OTHER, team, own, into);
    free(into);
}

static void scatter(struct builder *b, const struct team *team, struct slot own)
{
    struct slot *shares = add_slots(b, "share");
    uint32_t *staging = collective_staging(b, "staging", CALL_REDUCE_SCATTER, team, TENSOR_Q, b->model,
                                           (struct block){b->rank, 0, 1}, b->lanes);
    shares[team->me] = own;
    collective_reduce_scatter(b, b->exchange, TRAFFIC_OTHER, team, shares, NULL, staging);
    free(staging);
    free(shares);
}

static struct piece piece_of(const void *context, uint32_t from, uint32_t to)
{
    (void)to;
    return (struct piece){{from, 0, 1}, *(const struct lanes *)context};
}

static void exchange(struct builder *b, const struct team *team)
{
    const struct pieces pieces = {.of = piece_of, .context = &b->lanes, .tensor = TENSOR_Q, .dtype = b->model};
    struct slot *out = memory_zeroed(team->count, sizeof *out), *in = add_slots(b, "in");
    for (uint32_t i = 0; i < team->count; i++)
        out[i] = add_slot(b, "out", ROLE_RESIDENT, (struct block){b->rank, 0, 1});
    collective_all_to_all(b, b->exchange, TRAFFIC_OTHER, team, out, in, &pieces);
    free(out);
    free(in);
}

/* A sum of as many rows as there are ranks. */
static void reduce(struct builder *b, const struct team *team)
{
    struct block rows = {0, 0, b->ranks};
    struct slot sum = add_slot(b, "sum", ROLE_ACCUMULATOR, rows);
    uint32_t *staging = collective_staging(b, "staging", CALL_ALL_REDUCE, team, TENSOR_Q, b->model, rows, b->lanes);
    collective_all_reduce(b, b->exchange, TRAFFIC_OTHER, team, sum, staging);
    free(staging);
}

static void build(const struct schedule *schedule, enum benchmark_pattern pattern, uint32_t rank,
                  struct program *program)
{
    struct builder builder;
    program_init(program, rank);
    builder_init(&builder, schedule, program);
    struct team team = team_of_all(&builder);
    struct slot own = {builder.q, {rank, 0, 1}};
    switch (pattern) {
    case BENCHMARK_RING_SHIFT:
        shift(&builder, own);
        break;
    case BENCHMARK_ALL_GATHER:
        gather(&builder, &team, own);
        break;
    case BENCHMARK_REDUCE_SCATTER:
        scatter(&builder, &team, own);
        break;
    case BENCHMARK_ALL_TO_ALL:
        exchange(&builder, &team);
        break;
    case BENCHMARK_ALL_REDUCE:
        reduce(&builder, &team);
        break;
    case BENCHMARK_PATTERNS:
        break;
    }
    program_end_phase(program, PHASE_FORWARD);
    team_fini(&team);
    program_trim(program);
}

/* What the builder looks at: one row a rank, one head, one byte an element. Everybody at once, as the library does it;
 * but a sum for all goes round a ring, which is what its bytes are counted by: to send all of it to everybody would be
 * P / 2 times as much. */
static struct experiment experiment_of(enum benchmark_pattern pattern, uint32_t ranks, uint64_t row_bytes)
{
    return (struct experiment){
        .model = {.name = "transfers", .q_heads = 1, .kv_heads = 1, .head_dim = (uint32_t)row_bytes},
        .dtype = DTYPE_FP8,
        .seq_len = ranks,
        .batch = 1,
        .mask = {.kind = MASK_FULL, .seq_len = ranks},
        .degree = {[PARALLEL_TP] = 1, [PARALLEL_CP] = ranks, [PARALLEL_DP] = 1},
        .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP},
        .sharding = SHARDING_CONTIGUOUS,
        .overlap = true,
        .buffers = 1,
        .collective = pattern == BENCHMARK_ALL_REDUCE ? COLLECTIVE_RING : COLLECTIVE_DIRECT,
    };
}

void benchmark_init(struct benchmark *benchmark, enum benchmark_pattern pattern, uint32_t ranks, uint64_t bytes)
{
    uint64_t row_bytes = benchmark_row_bytes(pattern, ranks, bytes);
    assert(ranks >= 2 && ranks <= BENCHMARK_RANKS_MAX && row_bytes >= 1 && row_bytes <= BENCHMARK_ROW_BYTES_MAX);
    *benchmark = (struct benchmark){.experiment = experiment_of(pattern, ranks, row_bytes)};
    struct schedule *schedule = &benchmark->schedule;
    *schedule = (struct schedule){
        .experiment = &benchmark->experiment,
        .algorithm = &algorithm_all_gather, /* for what the builder asks of it */
        .queries = QUERIES_BY_ROW,
        .ranks = ranks,
        .q_heads = 1,
        .kv_heads = 1,
        .lanes = {0, 1, 0, 1},
    };
    sharding_init(&schedule->sharding, &benchmark->experiment, 1);
    benchmark->programs = memory_zeroed(ranks, sizeof *benchmark->programs);
    for (uint32_t rank = 0; rank < ranks; rank++)
        build(schedule, pattern, rank, &benchmark->programs[rank]);
}

void benchmark_fini(struct benchmark *benchmark)
{
    schedule_free_programs(&benchmark->schedule, benchmark->programs);
    sharding_fini(&benchmark->schedule.sharding);
}
