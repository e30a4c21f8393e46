/* Sweeps: the same bytes whatever the number of processes, each point as it is alone, and points that cannot run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "tests/cli/command.h"

#define CASE "$CPSIM toy-2 two-owners --set workload.seq_len=64Ki --set schedule.sharding=zigzag"
#define SWEEP CASE " --sweep schedule.algorithm=ring,all-gather,direct --sweep workload.pass=forward,train"

static json_t *sweep_json(const char *text, int status)
{
    struct outcome outcome = shell(text);
    if (outcome.status != status)
        fail_msg("'%s' ended with %d, expected %d: %s", text, outcome.status, status, outcome.err);
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    outcome_fini(&outcome);
    return json;
}

static const json_t *point_of(const json_t *sweep, size_t index)
{
    return json_array_get(json_object_get(sweep, "points"), index);
}

static const char *setting(const json_t *point, const char *key)
{
    return json_string_value(json_object_get(json_object_get(point, "set"), key));
}

static void expect_failure(const char *text, int status, const char *message)
{
    struct outcome outcome = shell(text);
    if (outcome.status != status || !strstr(outcome.err, message))
        fail_msg("'%s' ended with %d, expected %d and '%s': %s", text, outcome.status, status, message, outcome.err);
    outcome_fini(&outcome);
}

static void any_number_of_processes_gives_the_same_bytes(void **state)
{
    (void)state;
    struct outcome one = shell(SWEEP " -j1 --json -"), two = shell(SWEEP " -j2 --json -"),
                   many = shell(SWEEP " -j64 --json -");
    assert_int_equal(one.status, 0);
    assert_string_equal(one.out, two.out);
    assert_string_equal(one.out, many.out);
    outcome_fini(&one);
    outcome_fini(&two);
    outcome_fini(&many);
}

static void points_are_in_order_with_the_first_key_slowest(void **state)
{
    (void)state;
    json_t *sweep = sweep_json(SWEEP " --json -", 0);
    assert_string_equal(json_string_value(json_object_get(sweep, "schema")), "cpsim.sweep/1");
    static const char *const expected[][2] = {{"ring", "forward"},     {"ring", "train"},     {"all-gather", "forward"},
                                              {"all-gather", "train"}, {"direct", "forward"}, {"direct", "train"}};
    assert_int_equal(json_array_size(json_object_get(sweep, "points")), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(setting(point_of(sweep, i), "schedule.algorithm"), expected[i][0]);
        assert_string_equal(setting(point_of(sweep, i), "workload.pass"), expected[i][1]);
    }
    json_decref(sweep);
}

/* Whatever ran before or beside it. */
static void a_point_is_what_it_is_alone(void **state)
{
    (void)state;
    json_t *sweep = sweep_json(SWEEP " -j1 --json -", 0);
    for (size_t i = 0; i < 6; i++) {
        const json_t *point = point_of(sweep, i), *run = json_object_get(point, "run");
        char *alone = memory_format("cpsim() { $CPSIM \"$@\"; }; %s --json -",
                                    json_string_value(json_object_get(run, "command")));
        json_t *single = sweep_json(alone, 0);
        char *left = json_dumps(run, JSON_REAL_PRECISION(17)), *right = json_dumps(single, JSON_REAL_PRECISION(17));
        assert_string_equal(left, right);
        free(left);
        free(right);
        free(alone);
        json_decref(single);
    }
    json_decref(sweep);
}

static void values_with_commas_are_separated_by_semicolons(void **state)
{
    (void)state;
    json_t *sweep = sweep_json("$CPSIM toy-2 two-owners --sweep 'schedule.sharding=2,3; 4,1;contiguous' --json -", 0);
    assert_string_equal(setting(point_of(sweep, 0), "schedule.sharding"), "2,3");
    assert_string_equal(setting(point_of(sweep, 1), "schedule.sharding"), "4,1");
    assert_string_equal(setting(point_of(sweep, 2), "schedule.sharding"), "contiguous");
    json_decref(sweep);
    sweep = sweep_json("$CPSIM toy-2 two-owners --sweep 'schedule.sharding=2,3;' --json -", 0);
    assert_int_equal(json_array_size(json_object_get(sweep, "points")), 1);
    json_decref(sweep);
}

static void a_point_that_cannot_be_is_shown_and_stops_nothing(void **state)
{
    (void)state;
    json_t *sweep = sweep_json(CASE " --sweep parallel.cp=1,4,2 --json -", 0);
    assert_non_null(json_object_get(point_of(sweep, 0), "run"));
    assert_null(json_object_get(point_of(sweep, 1), "run"));
    assert_true(json_array_size(json_object_get(point_of(sweep, 1), "error")) > 0);
    assert_non_null(json_object_get(point_of(sweep, 2), "run"));
    json_decref(sweep);
    struct outcome table = shell(CASE " --sweep parallel.cp=1,4,2");
    assert_int_equal(table.status, 0);
    assert_non_null(strstr(table.out, "no run\n"));
    assert_non_null(strstr(table.err, "point parallel.cp=4: "));
    outcome_fini(&table);
}

static void a_sweep_without_any_run_is_bad_input(void **state)
{
    (void)state;
    struct outcome outcome = shell(CASE " --sweep parallel.cp=4,8 --json $DIR/none.json --plot $DIR/none.png");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.out, "");
    assert_false(made_file_exists("none.json"));
    assert_false(made_file_exists("none.png"));
    outcome_fini(&outcome);
}

static void messages_of_all_points_are_said_once(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM toy-2 nothing --sweep parallel.cp=1,2,4");
    assert_int_equal(outcome.status, 2);
    const char *first = strstr(outcome.err, "no file 'nothing'");
    assert_non_null(first);
    assert_null(strstr(first + 1, "no file 'nothing'"));
    outcome_fini(&outcome);
}

static void bad_sweeps_are_misuse(void **state)
{
    (void)state;
    expect_failure(CASE " --sweep parallel.cp", 2, "sweep 'parallel.cp', expected section.key=v1,v2,...");
    expect_failure(CASE " --sweep cp=1,2", 2, "sweep 'cp=1,2', expected section.key");
    expect_failure(CASE " --sweep parallel.cp=1,,2", 2, "has an empty value");
    expect_failure(CASE " --sweep parallel.cp=", 2, "has an empty value");
    expect_failure(CASE " --sweep parallel.cp=1,2,1", 2, "has the value '1' twice");
    expect_failure(CASE " --sweep parallel.cp=1 --sweep parallel.cp=2", 2, "'parallel.cp' is swept twice");
    expect_failure(CASE " --sweep workload.seq_len=1,2", 2, "'workload.seq_len' is both swept and set");
    expect_failure(CASE " --sweep parallel.cpp=1,2", 2, "did you mean 'cp'");
}

static void a_key_without_effect_at_every_point_is_an_error(void **state)
{
    (void)state;
    expect_failure(CASE " --set schedule.algorithm=all-gather --set schedule.buffers=3 --sweep parallel.cp=1,2", 2,
                   "no effect");
    expect_failure(CASE " --set schedule.buffers=3 --sweep schedule.algorithm=ring,all-gather", 0,
                   "note: point schedule.algorithm=all-gather: ");
}

/* Twenty points of this are not done before the first is interrupted. */
#ifdef __SANITIZE_ADDRESS__
#define MANY_SECONDS "--set parallel.cp=16 --set workload.seq_len=1Mi "
#else
#define MANY_SECONDS "--set parallel.cp=32 --set workload.seq_len=4Mi "
#endif

static void an_interrupt_ends_the_sweep_and_its_children(void **state)
{
    (void)state;
    /* It is under way as soon as it has written anything. */
    struct outcome outcome =
        shell("$CPSIM gb200-nvl72 llama3-8b-1m " MANY_SECONDS
              "--set schedule.kv_block=4Ki -j1 --quiet --json $DIR/stopped.json "
              "--sweep workload.batch=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20 & "
              "while ! [ -s $DIR/stopped.json ] && kill -0 $!; do sleep 0.02; done; kill -INT $!; wait $!");
    assert_int_equal(outcome.status, 130);
    assert_non_null(strstr(outcome.err, "stopped by signal 2 (Interrupt) after "));
    outcome_fini(&outcome);
    outcome = shell("cat $DIR/stopped.json");
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_true(json_is_false(json_object_get(json, "complete")));
    json_decref(json);
    outcome_fini(&outcome);
}

static void scaling_plots_draw_with_any_number_of_points(void **state)
{
    (void)state;
    static const char *const sweeps[] = {
        "--sweep parallel.cp=1,2",
        "--sweep parallel.cp=2",
        "--sweep schedule.algorithm=ring",
        "--sweep schedule.algorithm=ring,direct --sweep parallel.cp=1,2",
        "--sweep 'level node.bandwidth=1 GB/s, 20 GB/s,100 GB/s' --sweep schedule.overlap=yes,no",
        "--sweep parallel.cp=1,4,2 --sweep schedule.overlap=yes,no",
    };
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        char *text = memory_format(CASE " %s --quiet --plot $DIR/s.png --plot - && " CASE
                                        " %s --quiet --plot $DIR/s.svg --script $DIR/s.gp && "
                                        "exec 2>&1 && gnuplot -d $DIR/s.gp",
                                   sweeps[i], sweeps[i]);
        struct outcome outcome = shell(text);
        assert_int_equal(outcome.status, 0);
        assert_non_null(strstr(outcome.out, "Step time"));
        assert_null(strstr(outcome.out, "arning"));
        assert_true(made_file_exists("s.svg"));
        outcome_fini(&outcome);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_gives_the_same_bytes),
        cmocka_unit_test(points_are_in_order_with_the_first_key_slowest),
        cmocka_unit_test(a_point_is_what_it_is_alone),
        cmocka_unit_test(values_with_commas_are_separated_by_semicolons),
        cmocka_unit_test(a_point_that_cannot_be_is_shown_and_stops_nothing),
        cmocka_unit_test(a_sweep_without_any_run_is_bad_input),
        cmocka_unit_test(messages_of_all_points_are_said_once),
        cmocka_unit_test(bad_sweeps_are_misuse),
        cmocka_unit_test(a_key_without_effect_at_every_point_is_an_error),
        cmocka_unit_test(an_interrupt_ends_the_sweep_and_its_children),
        cmocka_unit_test(scaling_plots_draw_with_any_number_of_points),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_test_folder();
    return failed;
}
