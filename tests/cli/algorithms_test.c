/* Which algorithm here: the list with reasons, the comparison with its order, and that it is the sweep it says it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/algorithms.h"
#include "tests/cli/expect.h"

#define CASE "toy-2 two-owners --set workload.seq_len=64Ki --set schedule.sharding=zigzag"

static void the_list_says_what_applies_and_why_others_do_not(void **state)
{
    (void)state;
    expect("$CPSIM --list algorithms two-owners", 0, "ring              applies\n", NULL);
    expect("$CPSIM --list algorithms two-owners --set schedule.skip=transfer", 0,
           "all-gather        does not apply: algorithm 'all-gather' does not choose what it sends to whom", NULL);
    expect("$CPSIM --list algorithms two-owners --set parallel.cp=4 --set schedule.sharding=contiguous "
           "--set schedule.buffers=1",
           0, "ring              does not apply: ", NULL);
    expect("$CPSIM --list algorithms two-owners --set workload.seq_len=none", 2, "", "'seq_len'");
    expect_misuse("--list algorithms two-owners --set schedule.algorithm=direct",
                  "--set schedule.algorithm=direct has no effect with --list algorithms");
    expect("sed '/^algorithm/d' " CPSIM_SOURCE_DIR "/experiments/two-owners.ini >$DIR/undecided.ini; "
           "$CPSIM --list algorithms $DIR/undecided.ini",
           0, "direct            applies\n", "");
    expect_misuse("--list algorithms toy-2 two-owners", "2 files given, expected one: an experiment");
    expect_misuse("--list devices two-owners", "a file has no effect with --list of anything but algorithms");
    expect_misuse("--list algorithms --set schedule.skip=none", "--set has no effect with --list without");
}

/* Rows are in the order of their times, each algorithm that is listed as applying among them. */
static void the_table_is_best_first(void **state)
{
    (void)state;
    struct outcome table = shell("$CPSIM " CASE " --compare-algorithms");
    assert_int_equal(table.status, 0);
    double before = 0;
    int rows = 0;
    char *line = strstr(table.out, "--\n");
    for (line = line ? line + 3 : NULL; line && *line && *line != '*'; line = strchr(line, '\n') + 1) {
        char name[32], star[8];
        double seconds;
        if (sscanf(line, "%31s %7[*] %lf", name, star, &seconds) != 3)
            assert_int_equal(sscanf(line, "%31s %lf", name, &seconds), 2);
        assert_true((rows == 0) == (strstr(line, " *  ") && strstr(line, " *  ") < strchr(line, '\n')));
        assert_true(seconds >= before);
        before = seconds;
        rows++;
    }
    assert_true(rows >= 3);
    assert_non_null(strstr(table.out, "* the fastest that fits; best first\n"));
    outcome_fini(&table);
}

static void refusals_are_part_of_the_answer(void **state)
{
    (void)state;
    expect("$CPSIM " CASE " --compare-algorithms --set schedule.skip=transfer", 0,
           "\n  all-gather       --set schedule.skip=transfer: algorithm 'all-gather' does not choose", NULL);
    expect("$CPSIM " CASE " --compare-algorithms --set parallel.cp=4", 2, "", "needs 4 GPUs");
}

static void keys_without_effect_are_named_once(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM " CASE " --compare-algorithms --set schedule.buffers=3");
    assert_int_equal(outcome.status, 0);
    char *note = strstr(outcome.err, "'buffers' has no effect with ");
    assert_non_null(note);
    assert_null(strstr(note + 1, "'buffers' has no effect with "));
    assert_non_null(strstr(note, "all-gather"));
    outcome_fini(&outcome);
}

static void the_comparison_is_a_sweep_over_the_algorithm(void **state)
{
    (void)state;
    char *key = algorithms_sweep_key();
    char *text = memory_format("$CPSIM " CASE " --sweep %s --json $DIR/sweep.json --quiet 2>/dev/null;"
                               "$CPSIM " CASE " --compare-algorithms --json $DIR/compared.json --quiet 2>/dev/null;"
                               "cmp $DIR/sweep.json $DIR/compared.json",
                               key);
    expect(text, 0, "", "");
    free(text);
    free(key);
    expect("$CPSIM " CASE " --compare-algorithms --sweep schedule.overlap=yes,no --csv - 2>/dev/null", 0,
           "schedule.algorithm,schedule.overlap,", NULL);
    expect_misuse(CASE " --compare-algorithms --set schedule.algorithm=ring",
                  "'schedule.algorithm' is both swept and set");
    expect_misuse(CASE " --compare-algorithms --plot timeline=a.png",
                  "a comparison of algorithms has no timeline plot, expected algorithms or scaling");
    expect_misuse(CASE " --plot algorithms=a.png", "an algorithms plot needs --compare-algorithms");
    expect_misuse(CASE " --compare-algorithms --trace a.json", "--trace has no effect with --compare-algorithms");
}

static void notes_are_joined_by_key(void **state)
{
    (void)state;
    struct diagnostics notes, joined;
    diagnostics_init(&notes);
    diagnostics_init(&joined);
    diagnostics_add(&notes, "point schedule.algorithm=a: f.ini:3: 'buffers' has no effect with algorithm = a");
    diagnostics_add(&notes, "something else");
    diagnostics_add(&notes, "f.ini:3: 'buffers' has no effect with algorithm = b and kv_block = 0");
    algorithms_join_notes(&notes, &joined);
    assert_int_equal(joined.count, 2);
    assert_string_equal(joined.lines[0], "something else");
    assert_string_equal(joined.lines[1], "f.ini:3: 'buffers' has no effect with a, b");
    diagnostics_fini(&notes);
    diagnostics_fini(&joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_says_what_applies_and_why_others_do_not),
        cmocka_unit_test(the_table_is_best_first),
        cmocka_unit_test(refusals_are_part_of_the_answer),
        cmocka_unit_test(keys_without_effect_are_named_once),
        cmocka_unit_test(the_comparison_is_a_sweep_over_the_algorithm),
        cmocka_unit_test(notes_are_joined_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
