/* The walk with numbers: every algorithm ends with the reference's results, broken programs do not, and the text says
 * what happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/verify/events.h"
#include "models/input/ini_document.h"
#include "models/schedule/algorithms/algorithm.h"
#include "tests/random_experiment.h"

static struct ini_document nothing_written; /* every key is a default */

/* Five positions, head dim 2: rank 0 owns {0, 1}, rank 1 owns {2, 3, 4}. */
static uint64_t two_and_three[] = {2, 3};

static struct experiment make_case(const char *algorithm)
{
    struct experiment experiment = {
        .path = "test.ini",
        .model = {.q_heads = 1, .kv_heads = 1, .head_dim = 2},
        .dtype = DTYPE_FP64,
        .seq_len = 5,
        .batch = 1,
        .mask = {.kind = MASK_CAUSAL, .seq_len = 5},
        .train = true,
        .degree = {1, 2, 1},
        .sharding = SHARDING_EXPLICIT,
        .shard_counts = two_and_three,
        .buffers = 2,
        .overlap = true,
        .skip = SKIP_COMPUTE,
        .gradient_accumulator = true,
        .document = &nothing_written,
    };
    snprintf(experiment.algorithm, sizeof experiment.algorithm, "%s", algorithm);
    return experiment;
}

/* What one walk gave. */
struct outcome {
    bool refused; /* the algorithm cannot do that */
    bool passed;
    char *text;
    size_t length;
    struct diagnostics diag;
};

static struct outcome walk_programs(const struct schedule *schedule, const struct program *programs)
{
    struct outcome outcome = {0};
    diagnostics_init(&outcome.diag);
    FILE *stream = open_memstream(&outcome.text, &outcome.length);
    assert_non_null(stream);
    outcome.passed = events_print(schedule, programs, stream, &outcome.diag);
    fclose(stream);
    return outcome;
}

/* Builds, lets `damage` (if any) spoil the programs, and walks. */
static struct outcome walk_case(const struct experiment *experiment, void (*damage)(struct program *programs))
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct schedule schedule;
    if (!schedule_init(&schedule, experiment, NULL, &diag)) {
        struct outcome refused = {.refused = true};
        diagnostics_fini(&diag);
        return refused;
    }
    struct program *programs = schedule_build_all(&schedule);
    if (damage)
        damage(programs);
    struct outcome outcome = walk_programs(&schedule, programs);
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
    return outcome;
}

static void outcome_fini(struct outcome *outcome)
{
    free(outcome->text);
    diagnostics_fini(&outcome->diag);
}

/* False: the algorithm refuses. */
static bool expect_pass(const struct experiment *experiment)
{
    struct outcome outcome = walk_case(experiment, NULL);
    bool refused = outcome.refused;
    if (!refused && !outcome.passed) {
        char what[512];
        random_experiment_describe(experiment, what, sizeof what);
        fail_msg("%s: %s", what, outcome.diag.count ? outcome.diag.lines[0] : "no message");
    }
    assert_true(refused || (outcome.diag.count == 0 && !strstr(outcome.text, "nan")));
    outcome_fini(&outcome);
    return !refused;
}

static void every_algorithm_gives_the_reference_on_two_owners(void **state)
{
    (void)state;
    for (size_t a = 0; algorithms[a]; a++) {
        struct experiment experiment = make_case(algorithms[a]->name);
        for (int mask = MASK_FULL; mask <= MASK_WINDOW; mask++) {
            experiment.mask = (struct mask){.kind = (enum mask_kind)mask, .seq_len = 5, .window = 2};
            experiment.train = false;
            expect_pass(&experiment);
            experiment.train = true;
            expect_pass(&experiment);
        }
    }
}

static void every_algorithm_gives_the_reference_for_every_sharding_mask_and_skip(void **state)
{
    (void)state;
    uint64_t starts[] = {0, 4, 5, 12, 24};
    const struct mask masks[] = {
        {.kind = MASK_FULL, .seq_len = 24},
        {.kind = MASK_CAUSAL, .seq_len = 24},
        {.kind = MASK_WINDOW, .seq_len = 24, .window = 5},
        {.kind = MASK_DOCUMENTS, .seq_len = 24, .document_starts = starts, .n_documents = 4},
    };
    const uint32_t degrees[] = {1, 2, 3, 4};
    for (size_t a = 0; algorithms[a]; a++) {
        for (int variant = 0; variant < 4 * 4 * 3 * 6; variant += 11) {
            struct experiment experiment = make_case(algorithms[a]->name);
            experiment.model = (struct transformer){.q_heads = 4, .kv_heads = 2, .head_dim = 2};
            experiment.seq_len = 24;
            experiment.shard_counts = NULL;
            experiment.mask = masks[variant % 4];
            experiment.degree[PARALLEL_CP] = degrees[variant / 4 % 4];
            experiment.sharding = (enum sharding_kind)(variant / 16 % 3);
            experiment.kv_block = (uint64_t)(variant / 48 % 2) * 3;
            experiment.skip = (enum skip_kind)(variant / 96);
            experiment.split_kv = variant % 3 == 0;
            experiment.overlap = variant % 7 != 0;
            experiment.buffers = 2 + (uint32_t)variant % 3;
            experiment.collective = variant % 2 ? COLLECTIVE_DIRECT : COLLECTIVE_RING;
            expect_pass(&experiment);
        }
    }
}

static void ranks_that_own_nothing_disturb_nobody(void **state)
{
    (void)state;
    for (size_t a = 0; algorithms[a]; a++) {
        struct experiment experiment = make_case(algorithms[a]->name);
        experiment.shard_counts = (uint64_t[]){0, 5};
        expect_pass(&experiment);
        experiment.shard_counts = (uint64_t[]){5, 0};
        expect_pass(&experiment);
        experiment.degree[PARALLEL_CP] = 4;
        experiment.shard_counts = (uint64_t[]){1, 0, 4, 0};
        experiment.kv_block = 3;
        expect_pass(&experiment);
        for (int kind = SHARDING_CONTIGUOUS; kind <= SHARDING_STRIPED; kind += SHARDING_STRIPED - SHARDING_CONTIGUOUS) {
            experiment.sharding = (enum sharding_kind)kind;
            experiment.degree[PARALLEL_CP] = 7;
            expect_pass(&experiment);
        }
    }
}

/* Of each algorithm so many; what it refuses does not count. */
static void every_algorithm_gives_the_reference_at_random(void **state)
{
    (void)state;
    const struct random_bounds bounds = {.ranks_max = 6, .rows_max = 5, .dtype = DTYPE_FP64};
    for (size_t a = 0; algorithms[a]; a++) {
        struct dice dice = {.state = a + 1};
        unsigned ran = 0;
        for (unsigned tried = 0; ran < 25 && tried < 3000; tried++) {
            struct experiment experiment = random_experiment(&dice, algorithms[a]->name, &bounds);
            ran += experiment.seq_len <= EVENTS_SEQ_LEN_MAX && expect_pass(&experiment);
            random_experiment_fini(&experiment);
        }
        assert_true(ran >= 15);
    }
}

static void assert_contains(const struct outcome *outcome, const char *text)
{
    if (!strstr(outcome->text, text))
        fail_msg("'%s' is not in:\n%s", text, outcome->text);
}

static void the_text_names_blocks_owners_bytes_and_keys_seen(void **state)
{
    (void)state;
    struct experiment experiment = make_case("direct");
    struct outcome outcome = walk_case(&experiment, NULL);
    assert_true(outcome.passed);
    assert_contains(&outcome, "rank 0 owns positions 0-1\nrank 1 owns positions 2-4\n");
    assert_contains(&outcome, "rank 0 sends K,V of positions 0-1 to rank 1 (64 bytes)\n"); /* 2 rows x 2 x 2 x 8 */
    assert_contains(&outcome, "rank 1 attends K,V of rank 1, positions 2-4\n");
    assert_contains(&outcome, "]  2-3\n"); /* what position 3 sees of rank 1's own block */
    /* m, l and a / l over all five keys, computed apart from the inputs that the text shows. */
    assert_contains(&outcome, "rank 1 attends K,V of rank 0, positions 0-1\n"
                              "     query  head          m          l  a / l                  sees keys\n"
                              "         2     0   0.019074   2.952069  [-0.218440  0.074393]  0-1\n"
                              "         3     0   0.103119   3.669018  [ 0.043153 -0.001060]  0-1\n"
                              "         4     0   0.262782   4.125115  [ 0.074847  0.064959]  0-1\n");
    assert_contains(&outcome, "rank 1 attends backward K,V of rank 0, positions 0-1, for queries 2-4\n");
    assert_contains(&outcome, "rank 1 returns dK,dV of positions 0-1 to rank 0 (64 bytes)\n");
    assert_contains(&outcome, "rank 0 adds dK,dV of positions 0-1 to 'dkv sum'\n");
    assert_contains(&outcome, "results beside the full reference\n");
    assert_contains(&outcome, "  largest difference of dV: ");
    outcome_fini(&outcome);
}

static void the_text_names_lanes_layout_copies_and_collectives(void **state)
{
    (void)state;
    struct experiment experiment = make_case("ulysses");
    experiment.sharding = SHARDING_CONTIGUOUS; /* {0, 1, 2}, {3, 4} */
    experiment.model = (struct transformer){.q_heads = 2, .kv_heads = 1, .head_dim = 2};
    struct outcome outcome = walk_case(&experiment, NULL);
    assert_true(outcome.passed);
    assert_contains(&outcome, "rank 0 splits Q of positions 0-2 into 'q to 0' (head 0), 'q to 1' (head 1)\n");
    assert_contains(&outcome, "rank 0 begins the all-to-all of K,V of ranks 0,1\n");
    assert_contains(&outcome, "rank 1 sends Q of positions 3-4, head 0 to rank 0 (32 bytes)\n"); /* 2 rows x 2 x 8 */
    assert_contains(&outcome,
                    "rank 0 joins Q of positions 0-4, head 0 from 'q to 0' (rank 0: positions 0-2), 'q from 1' "
                    "(rank 1: positions 3-4)\n");
    assert_contains(&outcome, "rank 1 attends K,V of group 0, positions 0-4, head 1\n");
    outcome_fini(&outcome);

    experiment = make_case("tree-decode");
    experiment.sharding = SHARDING_CONTIGUOUS;
    experiment.train = false;
    experiment.new_tokens = 1;
    experiment.batch = 2;
    outcome = walk_case(&experiment, NULL);
    assert_true(outcome.passed);
    assert_contains(&outcome, "the first 4 cached, batch 2, ");
    assert_contains(&outcome, "rank 1 owns positions 2-3, queries of positions 4\n");
    assert_contains(&outcome, "rank 0 takes top = m + ln l of queries 4\n     query  item  head  top\n");
    assert_contains(&outcome, "rank 1 begins the all-reduce of denominator of ranks 0,1\n");
    assert_contains(&outcome, "rank 1 ends with all of them, too\n  largest difference of O: ");
    outcome_fini(&outcome);
}

static void the_shipped_case_is_the_one_tested_here(void **state)
{
    (void)state;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct experiment shipped, here = make_case("direct");
    if (!experiment_read(&shipped, CPSIM_SOURCE_DIR "/experiments/two-owners.ini", NULL, 0, &diag))
        fail_msg("%s", diag.lines[0]);
    struct outcome expected = walk_case(&here, NULL), outcome = walk_case(&shipped, NULL);
    assert_true(outcome.passed);
    assert_string_equal(outcome.text, expected.text);
    outcome_fini(&outcome);
    outcome_fini(&expected);
    experiment_fini(&shipped);
    diagnostics_fini(&diag);
}

static void the_text_is_the_same_every_time(void **state)
{
    (void)state;
    struct experiment experiment = make_case("ring");
    struct outcome first = walk_case(&experiment, NULL), second = walk_case(&experiment, NULL);
    assert_string_equal(first.text, second.text);
    outcome_fini(&first);
    outcome_fini(&second);
}

static struct op *find_op(struct program *program, enum op_kind kind, enum tensor written, uint32_t reads)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        struct op *op = &program->ops[i];
        if (op->kind == kind && op->n_reads == reads && op->n_writes > 0 &&
            program->buffers[*program_writes(program, op)].tensor == written)
            return op;
    }
    fail_msg("the program has no such operation");
    return NULL;
}

/* Rank 0 puts what comes back in place of its own sum: reads are (source, target), then the write (target). */
static void lose_own_gradient(struct program *programs)
{
    find_op(&programs[0], OP_ACCUMULATE, TENSOR_DKV, 2)->n_reads = 1;
}

static void finish_one_row_only(struct program *programs)
{
    find_op(&programs[1], OP_FINISH, TENSOR_O, 1)->q.count = 1;
}

static void attend_own_block_in_place_of_the_other(struct program *programs)
{
    find_op(&programs[1], OP_ATTEND, TENSOR_PARTIAL, 2)->k = (struct block){0, 0, 2};
}

static void expect_failure(void (*damage)(struct program *programs), const char *start)
{
    struct experiment experiment = make_case("direct");
    struct outcome outcome = walk_case(&experiment, damage);
    assert_false(outcome.passed);
    assert_true(outcome.diag.count > 0);
    if (strncmp(outcome.diag.lines[0], start, strlen(start)) != 0)
        fail_msg("'%s' does not begin with '%s'", outcome.diag.lines[0], start);
    outcome_fini(&outcome);
}

static void a_lost_gradient_a_missing_row_and_a_wrong_block_are_named(void **state)
{
    (void)state;
    expect_failure(lose_own_gradient, "dK of position ");
    expect_failure(finish_one_row_only,
                   "rank 1: 'delta into delta: queries of rank 1, rows 0-2' reads rows that buffer 'o' does not hold");
    expect_failure(attend_own_block_in_place_of_the_other,
                   "rank 1: 'attend into partial: queries of rank 1, rows 0-2, keys of rank 0, rows 0-1' reads rows "
                   "that buffer 'kv' does not hold");
}

static void a_case_too_large_to_print_is_refused_with_every_limit(void **state)
{
    (void)state;
    struct experiment experiment = make_case("direct");
    experiment.sharding = SHARDING_CONTIGUOUS;
    experiment.seq_len = experiment.mask.seq_len = 65;
    experiment.degree[PARALLEL_CP] = 65;
    experiment.batch = 9;
    experiment.model.head_dim = 9;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct schedule schedule;
    assert_true(schedule_init(&schedule, &experiment, NULL, &diag));
    assert_false(events_check(&schedule, &diag));
    const char *const expected[] = {
        "--events prints every row: 'seq_len' is 65, expected at most 64",
        "--events prints every rank: 'cp' is 65, expected at most 64",
        "--events prints every item: 'batch' is 9, expected at most 8",
        "--events prints every number: 'q_heads' x 'head_dim' is 9 a rank, expected at most 8",
    };
    assert_int_equal(diag.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(diag.lines[i], expected[i]);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_gives_the_reference_on_two_owners),
        cmocka_unit_test(every_algorithm_gives_the_reference_for_every_sharding_mask_and_skip),
        cmocka_unit_test(ranks_that_own_nothing_disturb_nobody),
        cmocka_unit_test(every_algorithm_gives_the_reference_at_random),
        cmocka_unit_test(the_text_names_blocks_owners_bytes_and_keys_seen),
        cmocka_unit_test(the_text_names_lanes_layout_copies_and_collectives),
        cmocka_unit_test(the_shipped_case_is_the_one_tested_here),
        cmocka_unit_test(the_text_is_the_same_every_time),
        cmocka_unit_test(a_lost_gradient_a_missing_row_and_a_wrong_block_are_named),
        cmocka_unit_test(a_case_too_large_to_print_is_refused_with_every_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
