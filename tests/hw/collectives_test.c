/* Collectives as calls of a transport: what 'local' makes of them; counts that fit 32 bits; schedules that end with the
 * same results, traffic and memory as with the messages that are simulated. MPI's own are in mpi_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <limits.h>
#include <pthread.h>

#include "hw/hardware.h"
#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/collective_cases.h"
#include "tests/hw/scene.h"

/* ---- the transport ---- */

/* Under the sanitizers a third of the calls, and fewer random experiments of each algorithm and type. */
#ifdef __SANITIZE_ADDRESS__
#define CALLS 100
#define CASES 5
#else
#define CALLS 300
#define CASES 12
#endif

struct rank {
    struct transport *end;
    uint32_t rank, ranks;
    bool good;
    pthread_t thread;
};

static void *run_rank(void *context)
{
    struct rank *me = context;
    me->good = run_cases(&transport_local, me->end, me->rank, me->ranks, CALLS);
    return NULL;
}

static void local_calls_bring_what_members_expect(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 5; ranks++) {
        struct transport *ends[TEAM_MAX];
        struct rank threads[TEAM_MAX] = {0};
        uint32_t n_ends, first;
        assert_true(transport_local.open(ranks, NULL, ends, &n_ends, &first, NULL));
        for (uint32_t r = 0; r < ranks; r++) {
            threads[r] = (struct rank){.end = ends[r], .rank = r, .ranks = ranks};
            assert_int_equal(pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]), 0);
        }
        for (uint32_t r = 0; r < ranks; r++)
            pthread_join(threads[r].thread, NULL);
        for (uint32_t r = 0; r < ranks; r++)
            assert_true(threads[r].good);
        transport_local.close(ends, n_ends);
    }
}

/* A call that not everybody has posted is dropped with the transport; nothing leaks. */
static void a_call_left_half_way_ends_with_the_transport(void **state)
{
    (void)state;
    struct transport *ends[2];
    uint32_t n_ends, first;
    float numbers[2] = {1, 2};
    assert_true(transport_local.open(2, NULL, ends, &n_ends, &first, NULL));
    int team = transport_local.open_team(ends[0], STREAM_EXCHANGE, (uint32_t[]){0, 1}, 2);
    assert_int_equal(transport_local.open_team(ends[1], STREAM_EXCHANGE, (uint32_t[]){0, 1}, 2), team);
    assert_int_not_equal(transport_local.open_team(ends[1], STREAM_GRADIENT, (uint32_t[]){0, 1}, 2), team);
    const struct share_of_memory shares[2] = {{{{numbers, sizeof numbers}}, 1}};
    const uint64_t bytes[] = {sizeof numbers, sizeof numbers};
    const struct collective_part part = {
        .call = CALL_ALL_REDUCE, .sources = shares, .targets = shares, .bytes = bytes, .dtype = DTYPE_FP32};
    int request = transport_local.post_collective(ends[0], team, &part);
    assert_false(transport_local.test(ends[0], request));
    transport_local.close(ends, n_ends);
}

/* ---- counts of 32 bits; no memory is touched ---- */

static void blocks_beyond_2_gib_are_counted_in_units(void **state)
{
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30;
    int counts[3], offsets[3];
    struct unit_layout layout = {.counts = counts, .offsets = offsets};
    const uint64_t large[] = {3 * gib, 5 * gib, 40 * gib};
    assert_true(unit_layout_packed(&layout, large, 3));
    assert_true(layout.unit == gib && counts[2] == 40 && offsets[2] == 8);
    const uint64_t odd[] = {3 * gib + 64, 0, 5 * gib + 256};
    assert_true(unit_layout_packed(&layout, odd, 3));
    assert_true(layout.unit == 64 && counts[1] == 0 && (uint64_t)offsets[2] * 64 == odd[0]);
    const uint64_t hopeless[] = {3 * gib + 1, 2, 4};
    assert_false(unit_layout_packed(&layout, hopeless, 3));

    char *low = (char *)(uintptr_t)0x10000; /* an address only */
    struct share_of_memory targets[3] = {{{{low + 4 * gib, 3 * gib + 64}}, 1}, {.n_pieces = 0}, {{{low, odd[2]}}, 1}};
    assert_true(unit_layout_placed(&layout, targets, odd, 3));
    assert_true(layout.base == low && layout.unit == 64 && (uint64_t)offsets[0] * 64 == 4 * gib && offsets[2] == 0);
    targets[0].pieces[0].memory = low + 4 * gib + 3; /* then only bytes are left as a unit */
    assert_false(unit_layout_placed(&layout, targets, odd, 3));
    targets[0].n_pieces = 2;
    assert_false(unit_layout_placed(&layout, targets, odd, 3));
    for (uint32_t n = 1; n < 70000; n += 977)
        assert_true(sum_chunk_numbers(n) >= 1 && sum_chunk_numbers(n) * n <= INT_MAX);
}

/* ---- schedules ---- */

struct result {
    bool opened, passed;
    struct hardware_run run;
    char how[16];
};

static void run_schedule(const struct schedule *schedule, enum collective_mode collectives, enum run_mode mode,
                         struct result *result, struct diagnostics *diag)
{
    const struct hardware_settings settings = {
        .schedule = schedule, .transport = "local", .collectives = collectives, .stall_seconds = 60};
    const struct hardware_step step = {.mode = mode, .seed = 3, .verify = mode == RUN_ALL};
    struct hardware *hardware;
    *result = (struct result){.opened = hardware_open(&hardware, &settings, diag)};
    if (result->opened) {
        result->passed = hardware_run(hardware, &step, &result->run, diag);
        snprintf(result->how, sizeof result->how, "%s", hardware_collectives(hardware));
    }
    hardware_close(hardware);
}

/* The moments of each collective: messages from the post to the finish, sums at the finish. */
static void expect_moments(const struct schedule *schedule, const struct hardware_run *run)
{
    struct program *programs = schedule_build_all(schedule);
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        for (uint32_t c = 0; c < programs[r].n_collectives; c++) {
            const struct collective *collective = &programs[r].collectives[c];
            for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
                const struct moment *moment = &run->timeline.moments[r][i];
                assert_true(moment->begin >= 0 && moment->begin <= moment->end);
                if (!op_is_message(&programs[r].ops[i]))
                    assert_true(moment->begin == moment->end);
            }
        }
    }
    schedule_free_programs(schedule, programs);
}

static bool has_collectives(const struct schedule *schedule)
{
    struct program *programs = schedule_build_all(schedule);
    bool has = false;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        for (uint32_t c = 0; c < programs[r].n_collectives; c++)
            has = has || programs[r].collectives[c].end_op > programs[r].collectives[c].first_op;
    schedule_free_programs(schedule, programs);
    return has;
}

/* Whether the experiment is legal and has collectives; then it has been run in both ways. */
static bool run_both_ways(const struct experiment *experiment, const char *what)
{
    struct schedule schedule;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool runs = schedule_init(&schedule, experiment, NULL, &diag);
    if (runs && (runs = has_collectives(&schedule))) {
        struct result calls, messages, parts;
        run_schedule(&schedule, COLLECTIVES_DEFAULT, RUN_ALL, &calls, &diag);
        if (!calls.opened || !calls.passed)
            fail_msg("%s: %s", what, diag.count ? diag.lines[0] : "no message");
        assert_string_equal(calls.how, "library");
        expect_moments(&schedule, &calls.run);
        run_schedule(&schedule, COLLECTIVES_MESSAGES, RUN_ALL, &messages, &diag);
        if (!messages.opened || !messages.passed)
            fail_msg("%s, as messages: %s", what, diag.count ? diag.lines[0] : "no message");
        assert_string_equal(messages.how, "messages");
        for (uint32_t r = 0; r < schedule.ranks; r++) {
            assert_memory_equal(&calls.run.ranks[r].wire, &messages.run.ranks[r].wire, sizeof(struct wire_count));
            assert_true(calls.run.ranks[r].peak_bytes == messages.run.ranks[r].peak_bytes);
        }
        hardware_run_fini(&calls.run);
        hardware_run_fini(&messages.run);
        for (int mode = RUN_COMPUTE; mode <= RUN_MESSAGES; mode++) {
            run_schedule(&schedule, COLLECTIVES_LIBRARY, (enum run_mode)mode, &parts, &diag);
            assert_true(parts.passed);
            hardware_run_fini(&parts.run);
        }
    }
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
    return runs;
}

static void schedules_with_collectives_run_in_both_ways(void **state)
{
    (void)state;
    unsigned in_all = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            const struct random_bounds bounds = {
                .ranks_max = 7, .rows_max = 8, .dtype = narrow ? DTYPE_BF16 : DTYPE_FP32};
            struct dice dice = {.state = a + 100};
            unsigned ran = 0;
            for (unsigned tried = 0; tried < 400 && ran < CASES && (tried < 60 || ran); tried++) {
                char what[512];
                struct experiment experiment = random_experiment(&dice, algorithms[a]->name, &bounds);
                random_experiment_describe(&experiment, what, sizeof what);
                ran += run_both_ways(&experiment, what);
                random_experiment_fini(&experiment);
            }
            in_all += ran;
        }
    }
    assert_true(in_all > 4 * CASES);
}

/* Ranks that own nothing compute nothing: what they pass on of a sum, in buffers of their own, is not their share. */
static void ranks_without_a_share_add_nothing(void **state)
{
    (void)state;
    unsigned ran = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        for (int kind = COLLECTIVE_RING; kind <= COLLECTIVE_HIERARCHICAL; kind++) {
            struct experiment experiment = make_experiment_for(algorithms[a], 6, 3);
            experiment.collective = (enum collective_kind)kind;
            experiment.collective_node = 2;
            ran += (algorithms[a]->can & CAN_TRAIN) && run_both_ways(&experiment, algorithms[a]->name);
        }
    }
    assert_true(ran >= 3);
}

/* ---- what cannot be a call ---- */

/* The programs of an all-gather on two ranks, spoilt on rank 1. */
static void expect_no_plan(void (*spoil)(struct program *program), const char *message)
{
    struct experiment experiment = make_experiment("all-gather", 2, 16);
    struct schedule schedule;
    struct collective_plan plan;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, &experiment, NULL, &diag));
    struct program *programs = schedule_build_all(&schedule);
    assert_true(collective_plan_init(&plan, &schedule, programs, &diag));
    assert_false(collective_plan_is_empty(&plan));
    collective_plan_fini(&plan);
    spoil(&programs[1]);
    assert_false(collective_plan_init(&plan, &schedule, programs, &diag));
    assert_true(diag.count > 0);
    assert_string_equal(diag.lines[0], message);
    collective_plan_fini(&plan);
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void call_another(struct program *program)
{
    program->collectives[0].call = CALL_ALL_REDUCE;
}

static void give_nothing(struct program *program)
{
    program->lists[program->collectives[0].sources + 1] = NO_BUFFER;
}

static void members_that_do_not_agree_are_named(void **state)
{
    (void)state;
    expect_no_plan(call_another, "rank 1: the all-reduce that begins at operation 0 is another call on rank 0");
    expect_no_plan(give_nothing,
                   "rank 0: the all-gather that begins at operation 0 does not carry what is expected by rank 1");
}

/* What arrives is converted in another stream and sent on: no call does that. */
static void a_collective_interleaved_with_other_work_is_no_call(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 16);
    struct schedule schedule;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, &experiment, NULL, &diag));
    struct program program;
    program_init(&program, 0);
    const struct buffer buffer = {.tensor = TENSOR_Q, .dtype = DTYPE_FP32, .rows = 8, .lanes = schedule.lanes};
    uint32_t arriving = program_add_buffer(&program, "arriving", buffer);
    uint32_t leaving = program_add_buffer(&program, "leaving", buffer);
    struct op op = {.kind = OP_RECEIVE, .stream = STREAM_EXCHANGE, .q = {1, 0, 8}, .lanes = schedule.lanes, .peer = 1};
    program_add_op(&program, op, NULL, 0, &arriving, 1);
    op.kind = OP_CAST;
    op.stream = STREAM_COMPUTE;
    program_add_op(&program, op, &arriving, 1, &leaving, 1);
    op.kind = OP_SEND;
    op.stream = STREAM_EXCHANGE;
    program_add_op(&program, op, &leaving, 1, NULL, 0);
    program_end_phase(&program, PHASE_FORWARD);
    const uint32_t members[] = {0, 1}, nothing[] = {NO_BUFFER, NO_BUFFER};
    program_begin_collective(&program, CALL_ALL_TO_ALL, STREAM_EXCHANGE, 2, 0, members, nothing, nothing);
    program_end_collective(&program);
    program.collectives[0].first_op = 0;
    struct collective_plan plan = {.schedule = &schedule,
                                   .programs = &program,
                                   .calls = (struct planned_call *[]){&(struct planned_call){.team = 0}}};
    struct stream_order order;
    stream_order_init(&order, &program);
    assert_null(rank_calls_create(&plan, 0, &order, &diag));
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(diag.lines[0], "rank 0: the all-to-all that begins at operation 0 cannot be one call: 'send "
                                          "leaving to rank 1"));
    stream_order_fini(&order);
    program_fini(&program);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_calls_bring_what_members_expect),
        cmocka_unit_test(a_call_left_half_way_ends_with_the_transport),
        cmocka_unit_test(blocks_beyond_2_gib_are_counted_in_units),
        cmocka_unit_test(schedules_with_collectives_run_in_both_ways),
        cmocka_unit_test(ranks_without_a_share_add_nothing),
        cmocka_unit_test(members_that_do_not_agree_are_named),
        cmocka_unit_test(a_collective_interleaved_with_other_work_is_no_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
