/* Schedules run for real on the transport 'local': every kind of them ends with the reference's results, in the memory
 * and with the traffic that were predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <unistd.h>

#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/predicted_peak.h"
#include "tests/hw/scene.h"

/* Under the sanitizers, which make it take half a minute, a third of the random cases, and one type for each where
 * there are two elsewhere. */
#ifdef __SANITIZE_ADDRESS__
#define RANDOM_CASES 70
#define TYPES_APART 2
#else
#define RANDOM_CASES 200
#define TYPES_APART 1
#endif

/* ---- random cases ---- */

struct dice {
    uint64_t state;
};

static uint32_t roll(struct dice *dice, uint32_t sides)
{
    dice->state = dice->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice->state >> 33) % sides;
}

struct random_case {
    struct experiment experiment;
    uint64_t shard_counts[8], document_starts[8];
};

static void choose_sharding(struct random_case *c, struct dice *dice)
{
    struct experiment *e = &c->experiment;
    uint32_t cp = e->degree[PARALLEL_CP];
    static const enum sharding_kind kinds[] = {SHARDING_CONTIGUOUS, SHARDING_ZIGZAG, SHARDING_STRIPED,
                                               SHARDING_EXPLICIT};
    e->sharding = kinds[roll(dice, 4)];
    if (e->sharding == SHARDING_ZIGZAG)
        e->seq_len = 2 * cp * (1 + roll(dice, 5));
    if (e->sharding == SHARDING_EXPLICIT) { /* uneven, and some ranks own nothing */
        e->shard_counts = c->shard_counts;
        e->seq_len = 0;
        for (uint32_t r = 0; r < cp; r++)
            e->seq_len += c->shard_counts[r] = roll(dice, 4) ? roll(dice, 12) : 0;
        if (e->seq_len == 0)
            e->seq_len = c->shard_counts[cp - 1] = 3;
    }
}

static void choose_mask(struct random_case *c, struct dice *dice)
{
    struct experiment *e = &c->experiment;
    e->mask = make_mask((enum mask_kind)roll(dice, 4), e->seq_len, 1 + roll(dice, (uint32_t)e->seq_len));
    if (e->mask.kind != MASK_DOCUMENTS)
        return;
    e->mask.document_starts = c->document_starts;
    uint64_t at = 0;
    while (at < e->seq_len && e->mask.n_documents < 6) {
        at += 1 + roll(dice, (uint32_t)e->seq_len);
        c->document_starts[++e->mask.n_documents] = at < e->seq_len ? at : e->seq_len;
    }
    c->document_starts[e->mask.n_documents] = e->seq_len;
    if (e->sharding != SHARDING_EXPLICIT && roll(dice, 2))
        e->sharding = SHARDING_PER_DOCUMENT;
}

/* A cached prefix before what there is, sometimes before fewer tokens than ranks. */
static void choose_new_tokens(struct random_case *c, struct dice *dice)
{
    struct experiment *e = &c->experiment;
    if (e->train || e->sharding == SHARDING_EXPLICIT || e->mask.kind == MASK_DOCUMENTS || roll(dice, 2))
        return;
    e->new_tokens = e->sharding == SHARDING_ZIGZAG || roll(dice, 2) ? e->seq_len : 1 + roll(dice, 2);
    e->seq_len = e->new_tokens + 1 + roll(dice, 40);
    e->mask.seq_len = e->seq_len;
}

static void make_random_case(struct random_case *c, struct dice *dice)
{
    static const uint32_t heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {5, 5}, {4, 2}, {1, 1}};
    static const uint32_t dims[] = {2, 8, 16, 4}, degrees[] = {1, 2, 3, 4, 5, 8};
    size_t n_algorithms = 0;
    while (algorithms[n_algorithms])
        n_algorithms++;
    memset(c, 0, sizeof *c);
    struct experiment *e = &c->experiment;
    *e = make_experiment(algorithms[roll(dice, (uint32_t)n_algorithms)]->name, degrees[roll(dice, 6)],
                         8 + roll(dice, 60));
    uint32_t shape = roll(dice, 6);
    e->model.q_heads = heads[shape][0];
    e->model.kv_heads = heads[shape][1];
    e->model.head_dim = dims[roll(dice, 4)];
    e->batch = roll(dice, 2) ? 1 : 3;
    e->dtype = roll(dice, 3) ? DTYPE_FP32 : DTYPE_BF16;
    e->train = roll(dice, 4) > 0;
    e->overlap = roll(dice, 3) > 0;
    e->buffers = 2 + roll(dice, 2);
    e->skip = (enum skip_kind)roll(dice, strcmp(e->algorithm, "all-gather") == 0 ? 2 : 3);
    e->split_kv = roll(dice, 2);
    e->gradient_accumulator = roll(dice, 3) > 0;
    e->collective = (enum collective_kind)roll(dice, 2);
    e->collective_node = 1 + roll(dice, 3);
    e->ulysses_degree = roll(dice, 3);
    e->ring_window = roll(dice, 3);
    e->gather_heads = roll(dice, 3);
    choose_sharding(c, dice);
    e->kv_block = roll(dice, 2) ? 0 : 1 + roll(dice, 9);
    choose_mask(c, dice);
    choose_new_tokens(c, dice);
}

/* ---- what must hold for every run ---- */

/* From the operations' own account. */
static struct wire_count scheduled_traffic(const struct program *program)
{
    struct wire_count wire = {0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind == OP_SEND) {
            wire.sent_bytes[op->traffic] += op->bytes;
            wire.sent_messages[op->traffic]++;
        } else if (op->kind == OP_RECEIVE) {
            wire.received_bytes[op->traffic] += op->bytes;
            wire.received_messages[op->traffic]++;
        }
    }
    return wire;
}

static void expect_account(const struct scene *scene)
{
    const struct program *programs = hardware_programs(scene->hardware);
    for (uint32_t r = 0; r < scene->run.n_ranks; r++) {
        struct wire_count wire = scheduled_traffic(&programs[r]);
        assert_memory_equal(&wire, &scene->run.ranks[r].wire, sizeof wire);
        assert_int_equal(scene->run.ranks[r].peak_bytes, predicted_peak(&programs[r]));
    }
}

/* A send ends with its receive, elsewhere; operations of a collective are all posted at once. */
static bool may_overlap(const struct op *before, const struct op *op)
{
    return before->kind == OP_SEND || (op->collective && before->collective == op->collective);
}

/* No operation begins before what it waits for has ended. */
static void expect_order(const struct scene *scene)
{
    const struct timeline *timeline = &scene->run.timeline;
    const struct program *programs = hardware_programs(scene->hardware);
    for (uint32_t r = 0; r < scene->run.n_ranks; r++) {
        const struct ensemble *ensemble = execution_ensemble(hardware_execution(scene->hardware));
        const struct stream_order *order = &ensemble_shape(ensemble, r)->order;
        const struct moment *moments = timeline->moments[r];
        for (uint32_t i = 0; i < programs[r].n_ops; i++) {
            double end = timeline->phase_end[program_phase(&programs[r], i)];
            assert_true(moments[i].begin >= 0 && moments[i].begin <= moments[i].end && moments[i].end <= end);
            for (int s = 0; s < STREAM_COUNT; s++) {
                uint32_t waits = stream_order_waits(order, i, (enum stream)s);
                if (waits && !may_overlap(&programs[r].ops[waits - 1], &programs[r].ops[i]))
                    assert_true(moments[waits - 1].end <= moments[i].begin);
            }
        }
    }
}

static void expect_right(const struct experiment *experiment)
{
    char text[256];
    struct scene scene;
    scene_open(&scene, experiment, NULL, "local");
    for (uint64_t seed = 1; seed <= 2; seed++) { /* the second in memory that was used before */
        scene_step(&scene, RUN_ALL, seed);
        if (!scene.passed)
            fail_msg("%s: %s", scene_describe(experiment, text), scene_message(&scene));
        assert_int_equal(scene.run.verification.kind, CHECK_FULL);
        expect_account(&scene);
        expect_order(&scene);
    }
    scene_close(&scene);
}

static void random_schedules_give_the_reference_with_the_predicted_memory_and_traffic(void **state)
{
    (void)state;
    struct dice dice = {2024};
    for (int i = 0; i < RANDOM_CASES; i++) {
        struct random_case c;
        do
            make_random_case(&c, &dice);
        while (!is_accepted(&c.experiment));
        expect_right(&c.experiment);
    }
}

/* ---- how good, how much ---- */

/* The largest error, and the tolerance of its tensor. */
static double worst_error(const struct experiment *experiment, double *tolerance)
{
    struct scene scene;
    double worst = 0;
    scene_open(&scene, experiment, NULL, "local");
    scene_step(&scene, RUN_ALL, 7);
    if (!scene.passed)
        fail_msg("%s", scene_message(&scene));
    for (int t = 0; t < OUTPUT_ATTENTION_COUNT; t++)
        if (t != OUTPUT_LSE && scene.run.verification.tensors[t].max_error >= worst) {
            worst = scene.run.verification.tensors[t].max_error;
            *tolerance = scene.run.verification.tensors[t].tolerance;
        }
    scene_close(&scene);
    return worst;
}

/* But for what is summed in bf16, where the tolerance does too. */
static void errors_do_not_grow_with_ranks(void **state)
{
    (void)state;
    const uint32_t degrees[] = {1, 2, 3, 8};
    for (size_t a = 0; algorithms[a]; a++) {
        for (int narrow = (int)a % TYPES_APART; narrow < 2; narrow += TYPES_APART) {
            double first = 0, expected = 0, runs = 0;
            for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
                struct experiment experiment = make_experiment_for(algorithms[a], degrees[i], 192);
                experiment.model.head_dim = 32;
                experiment.dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
                if (!is_accepted(&experiment))
                    continue;
                double tolerance = 0, error = worst_error(&experiment, &tolerance);
                if (i < 2 || runs == 0) { /* two ranks round partial results, one does not */
                    first = fmax(first, error);
                    expected = fmax(expected, tolerance);
                }
                assert_true(error > 0 && error <= 2 * first * fmax(1, tolerance / expected));
                runs++;
            }
            assert_true(runs > 1);
        }
    }
}

static void long_problems_are_checked_on_samples(void **state)
{
    (void)state;
    for (int mask = MASK_FULL; mask <= MASK_WINDOW; mask++) {
        for (int narrow = mask % TYPES_APART; narrow < 2; narrow += TYPES_APART) {
            struct experiment experiment = make_experiment(mask == MASK_CAUSAL ? "direct" : "ring", 3, 3100);
            experiment.mask = make_mask((enum mask_kind)mask, 3100, 700);
            experiment.sharding = mask == MASK_CAUSAL ? SHARDING_STRIPED : SHARDING_CONTIGUOUS;
            experiment.batch = 2;
            experiment.dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
            struct scene scene;
            scene_open(&scene, &experiment, NULL, "local");
            assert_true(verify_is_sampled(&scene.schedule));
            scene_step(&scene, RUN_ALL, 3);
            if (!scene.passed)
                fail_msg("mask %d: %s", mask, scene_message(&scene));
            assert_int_equal(scene.run.verification.kind, CHECK_SAMPLED);
            for (int t = 0; t < OUTPUT_ATTENTION_COUNT; t++)
                assert_true(scene.run.verification.tensors[t].values > 0);
            scene_close(&scene);
        }
    }
}

/* A query that sees itself alone has gradients of 0, in both ways of checking, but for rounding. */
static void gradients_that_vanish_are_right_on_samples_too(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow += TYPES_APART) {
        struct experiment experiment = make_experiment("ring", 3, 3100);
        experiment.mask = make_mask(MASK_WINDOW, 3100, 1);
        experiment.dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
        struct scene scene;
        scene_open(&scene, &experiment, NULL, "local");
        scene_step(&scene, RUN_ALL, 5);
        if (!scene.passed)
            fail_msg("%s: %s", dtype_name(experiment.dtype), scene_message(&scene));
        assert_int_equal(scene.run.verification.kind, CHECK_SAMPLED);
        scene_close(&scene);
    }
}

/* ---- few new tokens ---- */

static void expect_new_tokens(const char *algorithm, uint64_t new_tokens, uint32_t batch, uint64_t seq_len,
                              enum check_kind kind)
{
    for (int narrow = (int)(batch % TYPES_APART); narrow < 2; narrow += TYPES_APART) {
        struct experiment experiment = make_experiment(algorithm, 4, seq_len);
        char text[256];
        struct scene scene;
        experiment.train = false;
        experiment.new_tokens = new_tokens;
        experiment.batch = batch;
        experiment.dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
        scene_open(&scene, &experiment, NULL, "local");
        scene_step(&scene, RUN_ALL, 4);
        if (!scene.passed)
            fail_msg("%s: %s", scene_describe(&experiment, text), scene_message(&scene));
        const struct verification *found = &scene.run.verification;
        assert_int_equal(found->kind, kind);
        if (kind == CHECK_FULL) { /* every query of every item once, whoever has it */
            uint64_t lanes = new_tokens * batch * experiment.model.q_heads;
            assert_int_equal(found->tensors[OUTPUT_LSE].values, lanes);
            assert_int_equal(found->tensors[OUTPUT_O].values, lanes * experiment.model.head_dim);
        }
        expect_account(&scene);
        scene_close(&scene);
    }
}

static void new_tokens_attend_a_cached_prefix(void **state)
{
    (void)state;
    const char *const names[] = {"ring", "direct", "all-gather"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        expect_new_tokens(names[i], 8, 1, 40, CHECK_FULL);
        expect_new_tokens(names[i], 5, 3, 41, CHECK_FULL); /* uneven */
    }
    expect_new_tokens("ring", 600, 1, 60000, CHECK_SAMPLED);
}

static void decoding_deals_out_batch_items(void **state)
{
    (void)state;
    const char *const names[] = {"ring", "direct", "all-gather"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        expect_new_tokens(names[i], 1, 6, 40, CHECK_FULL);
        expect_new_tokens(names[i], 3, 4, 43, CHECK_FULL);
        expect_new_tokens(names[i], 1, 2, 40, CHECK_FULL); /* some ranks have no query */
    }
    expect_new_tokens("ring", 1, 6, 70000, CHECK_SAMPLED);
}

/* ---- modes ---- */

static void computing_alone_and_messages_alone_run_to_the_end(void **state)
{
    (void)state;
    for (size_t a = 0; algorithms[a]; a++) {
        for (int overlap = 0; overlap < 2; overlap++) {
            struct experiment experiment = make_experiment_for(algorithms[a], 4, 64);
            experiment.overlap = overlap;
            experiment.kv_block = 7;
            assert_true(is_accepted(&experiment));
            struct scene scene;
            scene_open(&scene, &experiment, NULL, "local");
            const struct program *programs = hardware_programs(scene.hardware);

            scene_step(&scene, RUN_COMPUTE, 1);
            assert_true(scene.passed);
            assert_int_equal(scene.run.verification.kind, CHECK_NONE);
            struct wire_count nothing = {0};
            assert_memory_equal(&scene.run.ranks[1].wire, &nothing, sizeof nothing);

            scene_step(&scene, RUN_MESSAGES, 1);
            assert_true(scene.passed);
            expect_account(&scene);
            double computing = 0;
            for (uint32_t i = 0; i < programs[1].n_ops; i++)
                if (!op_is_message(&programs[1].ops[i]))
                    computing += scene.run.timeline.moments[1][i].end - scene.run.timeline.moments[1][i].begin;
            assert_true(computing < 1e-3);

            scene_step(&scene, RUN_ALL, 1); /* in what the others have left */
            if (!scene.passed)
                fail_msg("%s", scene_message(&scene));
            scene_close(&scene);
        }
    }
}

/* ---- refusals and failures ---- */

static void expect_refusal(const struct experiment *experiment, const char *transport, const char *message)
{
    struct scene scene;
    scene_open(&scene, experiment, NULL, transport);
    assert_false(scene.opened);
    assert_true(hardware_speaks(scene.hardware));
    assert_string_equal(scene_message(&scene), message);
    scene_close(&scene);
}

static void what_cannot_run_is_refused_with_what_could(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 16);
    experiment.dtype = DTYPE_FP16;
    expect_refusal(&experiment, "local", "backend 'cpu' cannot run dtype 'fp16', expected fp32 or bf16");
    experiment.dtype = DTYPE_FP64;
    expect_refusal(&experiment, "local", "backend 'cpu' cannot run dtype 'fp64', expected fp32 or bf16");
    experiment.dtype = DTYPE_BF16;
    experiment.model.head_dim = 3;
    expect_refusal(&experiment, "local", "backend 'cpu' cannot run bf16 with head_dim = 3, expected an even one");
    experiment.dtype = DTYPE_FP32;
    struct scene scene;
    scene_open(&scene, &experiment, NULL, "pigeons");
    assert_false(scene.opened);
    assert_non_null(strstr(scene_message(&scene), "there is no transport 'pigeons', expected one of: local"));
    scene_close(&scene);
    assert_int_equal(setenv("OMPI_COMM_WORLD_SIZE", "4", 1), 0);
    expect_refusal(&experiment, "local",
                   "transport 'local' runs all 2 ranks in one process, but 4 processes were started");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

/* Backends that fail on rank 1. */
static struct compute *open_and_remember(const struct schedule *schedule, uint32_t rank,
                                         const struct compute_settings *settings, struct diagnostics *diag)
{
    struct compute **pair = memory_zeroed(2, sizeof *pair);
    pair[0] = compute_cpu.open(schedule, rank, settings, diag);
    pair[1] = rank == 1 ? pair[0] : NULL;
    return (struct compute *)pair;
}

static struct compute *inner(struct compute *compute)
{
    return ((struct compute **)compute)[0];
}

static bool is_rank_1(struct compute *compute)
{
    return ((struct compute **)compute)[1] != NULL;
}

static void close_pair(struct compute *compute)
{
    compute_cpu.close(inner(compute));
    free(compute);
}

static void *allocate_little(struct compute *compute, uint64_t bytes)
{
    return is_rank_1(compute) && bytes > 6000 ? NULL : compute_cpu.allocate(inner(compute), bytes);
}

static void run_late(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                     const struct between_tiles *between_tiles)
{
    if (is_rank_1(compute) && program->ops[op].kind == OP_ATTEND_BACKWARD)
        usleep(2000000);
    compute_cpu.run(inner(compute), program, op, memory, between_tiles);
}

static void a_rank_without_memory_ends_the_run_by_name(void **state)
{
    (void)state;
    struct compute_ops little = compute_cpu;
    little.open = open_and_remember;
    little.close = close_pair;
    little.allocate = allocate_little;
    little.run = run_late;
    struct experiment experiment = make_experiment("ring", 4, 128); /* 32 rows: Q 4 KiB, dKV part 4 KiB, state 5 KiB */
    experiment.model.head_dim = 12;
    struct scene scene;
    scene_open(&scene, &experiment, &little, "local");
    assert_true(scene.opened);
    scene_step(&scene, RUN_ALL, 1);
    assert_false(scene.passed);
    assert_int_equal(scene.diag.count, 1);
    assert_non_null(strstr(scene_message(&scene), "rank 1: no memory for buffer '"));
    scene_close(&scene);
}

static void a_rank_that_waits_too_long_says_for_what(void **state)
{
    (void)state;
    struct compute_ops late = compute_cpu;
    late.open = open_and_remember;
    late.close = close_pair;
    late.run = run_late;
    struct experiment experiment = make_experiment("ring", 2, 16);
    struct scene scene = {0};
    diagnostics_init(&scene.diag);
    assert_true(schedule_init(&scene.schedule, &experiment, NULL, &scene.diag));
    const struct hardware_settings settings = {
        .schedule = &scene.schedule, .compute = &late, .transport = "local", .stall_seconds = 0.3};
    scene.opened = hardware_open(&scene.hardware, &settings, &scene.diag);
    scene_step(&scene, RUN_ALL, 1);
    assert_false(scene.passed);
    assert_non_null(strstr(scene_message(&scene), "rank 0: waited 0.3 s for '"));
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_do_not_grow_with_ranks),
        cmocka_unit_test(long_problems_are_checked_on_samples),
        cmocka_unit_test(gradients_that_vanish_are_right_on_samples_too),
        cmocka_unit_test(new_tokens_attend_a_cached_prefix),
        cmocka_unit_test(decoding_deals_out_batch_items),
        cmocka_unit_test(computing_alone_and_messages_alone_run_to_the_end),
        cmocka_unit_test(what_cannot_run_is_refused_with_what_could),
        cmocka_unit_test(a_rank_without_memory_ends_the_run_by_name),
        cmocka_unit_test(a_rank_that_waits_too_long_says_for_what),
        cmocka_unit_test(random_schedules_give_the_reference_with_the_predicted_memory_and_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
