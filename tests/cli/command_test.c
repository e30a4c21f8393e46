/* Predicting, checking and walking through events with the built command: results, overrides, and every way to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

/* A training step small enough to be quick, on any of the tests' two ranks. */
#define CASE "$CPSIM toy-2 two-owners --set workload.seq_len=64Ki --set schedule.sharding=zigzag"

/* The same with not a word on standard error: address sanitizers have some to say about SimGrid's stacks. */
#define SILENT_CASE CASE " --engine analytic"

static double step_number(const json_t *run, const char *name)
{
    return json_number_value(json_object_get(json_object_get(run, "step"), name));
}

static void a_prediction_prints_its_table(void **state)
{
    (void)state;
    expect(CASE, 0, "step", NULL);
    struct outcome quiet = shell(CASE " --quiet");
    assert_string_equal(quiet.out, "");
    outcome_fini(&quiet);
}

static void json_on_standard_output_stands_alone(void **state)
{
    (void)state;
    struct outcome silent = shell(SILENT_CASE " --json - >/dev/null");
    assert_string_equal(silent.err, "");
    outcome_fini(&silent);
    json_t *run = json_of(SILENT_CASE " --json -");
    assert_string_equal(json_string_value(json_object_get(run, "schema")), "cpsim.run/1");
    assert_string_equal(json_string_value(json_object_get(run, "command")),
                        "cpsim toy-2 two-owners --set workload.seq_len=64Ki --set schedule.sharding=zigzag "
                        "--engine analytic");
    json_decref(run);
}

static void the_recorded_command_gives_the_same_bytes(void **state)
{
    (void)state;
    struct outcome first = shell(CASE " --set 'level node.bandwidth=50 GB/s' --engine analytic --json -");
    json_t *run = json_loads(first.out, 0, NULL);
    const char *command = json_string_value(json_object_get(run, "command"));
    assert_non_null(strstr(command, "--set 'level node.bandwidth=50 GB/s'"));
    assert_non_null(strstr(command, "--engine analytic"));
    char *again = memory_format("cpsim() { $CPSIM \"$@\"; }; %s --json -", command);
    struct outcome second = shell(again);
    assert_string_equal(first.out, second.out);
    free(again);
    json_decref(run);
    outcome_fini(&first);
    outcome_fini(&second);
}

/* 16 bytes at 1 PB/s take less than the grain of the simulated clock. */
static void messages_below_the_clocks_grain_are_not_found_too_fast(void **state)
{
    (void)state;
    expect("$CPSIM toy-2 two-owners --set 'level node.bandwidth=1 PB/s' --set 'level node.latency=0 s'", 0, "step",
           NULL);
}

static void set_overrides_the_file(void **state)
{
    (void)state;
    json_t *slow = json_of(SILENT_CASE " --set 'level node.bandwidth=1 GB/s' --json -");
    json_t *fast = json_of(SILENT_CASE " --set 'level node.bandwidth=10 GB/s' --json -");
    double ratio = step_number(slow, "communication_seconds") / step_number(fast, "communication_seconds");
    assert_true(ratio > 9 && ratio < 10.1);
    json_decref(slow);
    json_decref(fast);
}

static void overrides_that_go_nowhere_are_errors(void **state)
{
    (void)state;
    expect(CASE " --set world.size=3", 2, "", "--set world.size=3: no such section");
    expect(CASE " --set Model.batch=3", 2, "", "did you mean 'model'?");
    expect(CASE " --set parallel.cpp=3", 2, "", "did you mean 'cp'");
    expect(CASE " --set parallel.cp", 2, "", "--set parallel.cp: not understood, expected section.key=value");
    expect(CASE " --set workload.seq_len=5", 2, "", "'workload.seq_len' is set a second time, expected once");
    struct outcome twice = shell(CASE " --set workload.seq_len=5");
    assert_ptr_equal(strchr(twice.err, '\n'), strrchr(twice.err, '\n')); /* said once */
    outcome_fini(&twice);
    expect("$CPSIM --events two-owners --set 'level node.size=3'", 2, "", "has no effect without a topology");
}

static void both_files_errors_are_reported(void **state)
{
    (void)state;
    struct outcome outcome = shell("printf '[cluster]\\ndevice = toy\\ncolour = red\\n' >$DIR/t.ini; printf "
                                   "'[model]\\nq_hats = 1\\n' >$DIR/e.ini; "
                                   "$CPSIM $DIR/t.ini $DIR/e.ini");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.out, "");
    assert_non_null(strstr(outcome.err, "t.ini:3: "));
    assert_non_null(strstr(outcome.err, "e.ini:2: "));
    outcome_fini(&outcome);
}

static void files_of_the_other_kind_are_named(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM ./experiments/two-owners.ini ./topologies/toy-2.ini");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.err,
                        "cpsim: ./topologies/toy-2.ini: this is a topology, expected an experiment\n"
                        "cpsim: ./experiments/two-owners.ini: this is an experiment, expected a topology\n");
    outcome_fini(&outcome);
    expect("$CPSIM toy-2 two-owners --set cluster.device=./experiments/two-owners.ini", 2, "",
           "this is an experiment, expected a device profile");
}

static void missing_files_are_errors(void **state)
{
    (void)state;
    expect("$CPSIM toy-2 nothing-of-that-name", 2, "", "no file 'nothing-of-that-name' and nothing of that name");
    expect("$CPSIM toy2 two-owner", 2, "", "did you mean 'toy-2'? (see cpsim --list topologies)");
    expect("$CPSIM toy-2 ./none.ini", 2, "", "./none.ini");
    expect("$CPSIM toy-2 /tmp", 2, "", "/tmp");
}

static void a_layout_that_does_not_fit_is_bad_input(void **state)
{
    (void)state;
    expect(CASE " --set parallel.cp=4", 2, "", "--set parallel.cp=4: the layout");
}

/* What the files ask for together and cannot have is said at the key that can be changed. */
static void misfits_between_files_are_reported_at_a_key(void **state)
{
    (void)state;
    expect("$CPSIM l20-pcie-8 two-owners", 2, "", "two-owners.ini:14: ");
    expect("$CPSIM l20-pcie-8 two-owners", 2, "", "has no forward rates in dtype 'fp64', only in");
    expect("$CPSIM l20-pcie-8 two-owners --set model.dtype=bf16", 2, "", "two-owners.ini:13: ");
    expect("$CPSIM l20-pcie-8 llama3-8b-64k-pcie --set model.dtype=fp8", 2, "", "cpsim: --set model.dtype=fp8: ");
    expect("$CPSIM l20-pcie-8 llama3-8b-64k-pcie --set cluster.kernel=fa9", 2, "", "--set cluster.kernel=fa9: ");
    expect(CASE " --set cluster.device=toyy", 2, "",
           "--set cluster.device=toyy: no device profile 'toyy', did you mean 'toy'?");
    expect("$CPSIM --check toy-2 --set cluster.device=toyy", 2, "", "did you mean 'toy'?");
    expect(CASE " --set schedule.algorithm=rnig", 2, "", "--set schedule.algorithm=rnig: unknown algorithm 'rnig'");
    expect(CASE " --set schedule.collective=ring", 2, "", "--set schedule.collective=ring: 'collective' has no effect");
}

static void unwritable_results_are_reported(void **state)
{
    (void)state;
    expect(CASE " >/dev/full", 1, NULL, "cannot write to standard output: No space left on device");
    expect(CASE " --quiet --json /dev/full", 1, NULL, "cannot write '/dev/full': No space left on device");
    expect(CASE " --quiet --csv /nowhere/x.csv --trace $DIR/t.json", 1, NULL,
           "cannot write '/nowhere/x.csv': No such file or directory");
    static const char *const others[] = {"--csv", "--trace", "--plot x.png --script"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *text = memory_format(CASE " --quiet %s /dev/full", others[i]);
        expect(text, 1, NULL, "cannot write '/dev/full': No space left on device");
        free(text);
    }
    expect(CASE " --sensitivity >/dev/full", 1, NULL, "cannot write to standard output: No space left on device");
    expect(CASE " --sweep workload.batch=1,2 >/dev/full", 1, NULL,
           "cannot write to standard output: No space left on device");
    assert_true(made_file_exists("t.json")); /* the others are written all the same */
    expect(CASE " --quiet --plot /nowhere/x.png", 1, NULL, "cannot write '/nowhere/x.png': No such file or directory");
    expect(CASE " --quiet --plot - >/dev/full", 1, NULL, "cannot write to standard output");
    expect("$CPSIM --list keys >/dev/full", 1, NULL, "cannot write to standard output");
    expect("$CPSIM --check toy-2 >/dev/full", 1, NULL, "cannot write to standard output");
}

/* A pipe that nobody reads from any more: its reader is gone before the command begins. */
#define NO_READER "mkfifo $DIR/pipe; exec 3<>$DIR/pipe 4>$DIR/pipe 3<&-; rm $DIR/pipe; "

static void files_are_written_before_standard_output(void **state)
{
    (void)state;
    expect(NO_READER SILENT_CASE " --csv $DIR/p.csv --plot $DIR/p.png --plot - --sweep 'workload.batch=1,2' >&4", 1, "",
           "cannot write to standard output: Broken pipe");
    assert_true(made_file_exists("p.csv"));
    assert_true(made_file_exists("p.png"));
}

/* Of all that may go there. */
static void a_closed_pipe_is_told(void **state)
{
    (void)state;
    static const char *const results[] = {"",
                                          "--json - --quiet",
                                          "--csv - --quiet",
                                          "--trace - --quiet",
                                          "--plot - --quiet",
                                          "--sensitivity",
                                          "--sweep workload.batch=1,2 --json - --quiet"};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        char *text = memory_format(NO_READER SILENT_CASE " %s >&4", results[i]);
        expect(text, 1, NULL, "cannot write to standard output: Broken pipe");
        free(text);
    }
    expect(NO_READER "$CPSIM --list keys >&4", 1, NULL, "cannot write to standard output");
}

/* A limit on sizes is a disk that gets full: gnuplot does not notice. */
static void a_full_disk_leaves_no_part_of_a_result(void **state)
{
    (void)state;
    expect("cd $DIR && mkdir full && cd full && echo old >o.json && ulimit -f 4; " SILENT_CASE
           " --operations --quiet --set workload.batch=8 --set schedule.kv_block=64 --json o.json --trace n.json "
           "--plot p.png --plot q.svg --plot memory=r.pdf; "
           "S=$?; cat o.json; ls -A | tr '\n' ' '; exit $S",
           1, "old\no.json ", "cannot write 'o.json': File too large");
    expect("cd $DIR/full && ulimit -f 4; " SILENT_CASE " --quiet --plot p.png", 1, "",
           "gnuplot did not write all of 'p.png'");
}

/* Nothing that is opened later may take the closed one's place: gnuplot would wait for itself, a table land in a file.
 */
static void closed_standard_streams_get_nobody_elses_text(void **state)
{
    (void)state;
    expect("timeout 60 " SILENT_CASE " --quiet --plot $DIR/x.png <&- >&-", 0, "", "");
    expect("timeout 60 " SILENT_CASE " --quiet --plot $DIR/x.png <&- 2>&-", 0, "", "");
    expect(SILENT_CASE " --json $DIR/x.json >&-", 1, NULL, "cannot write to standard output: Bad file descriptor");
    expect(SILENT_CASE " --json $DIR/x.json --set model.foo=1 <&- >&- 2>&-", 2, "", "");
    struct outcome outcome = shell(SILENT_CASE " --json - && cmp $DIR/x.json $DIR/stdout");
    assert_int_equal(outcome.status, 0);
    outcome_fini(&outcome);
}

static void plots_are_drawn_in_every_format(void **state)
{
    (void)state;
    expect(CASE " --quiet --plot $DIR/a.png --plot time=$DIR/b.svg --plot memory=$DIR/c.pdf", 0, "", NULL);
    char *png = made_file("a.png"), *svg = made_file("b.svg"), *pdf = made_file("c.pdf");
    assert_memory_equal(png, "\x89PNG", 4);
    assert_non_null(strstr(svg, "<svg"));
    assert_memory_equal(pdf, "%PDF", 4);
    free(png);
    free(svg);
    free(pdf);
    struct outcome terminal = shell(SILENT_CASE " --quiet --plot - --plot time=- --plot memory=-");
    assert_int_equal(terminal.status, 0);
    assert_string_equal(terminal.err, "");
    assert_non_null(strstr(terminal.out, "rank 1 "));
    outcome_fini(&terminal);
}

static void plots_draw_without_a_word_from_gnuplot(void **state)
{
    (void)state;
    struct outcome outcome = shell(SILENT_CASE " --quiet --script $DIR/all.gp --plot $DIR/a.png --plot time=$DIR/b.svg "
                                               "--plot memory=$DIR/c.pdf && gnuplot -d $DIR/all.gp");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    assert_string_equal(outcome.out, "");
    outcome_fini(&outcome);
}

static void a_script_is_kept_instead_of_drawing(void **state)
{
    (void)state;
    expect(CASE " --script - --plot $DIR/never.png", 0, "set output", NULL);
    assert_false(made_file_exists("never.png"));
}

/* What stands before a run with a gnuplot that is the shell script `body`. */
static char *with_gnuplot(const char *body, const char *text)
{
    return memory_format("mkdir -p $DIR/bin; printf '#!/bin/sh\\n%s\\n' >$DIR/bin/gnuplot; chmod +x $DIR/bin/gnuplot; "
                         "PATH=$DIR/bin:$PATH; rm -f $DIR/r.json; %s",
                         body, text);
}

static void expect_failed_plot(const char *gnuplot, const char *message)
{
    char *text = with_gnuplot(gnuplot, CASE " --json $DIR/r.json --plot $DIR/x.png");
    expect(text, 1, "step", message); /* the table is there */
    assert_true(made_file_exists("r.json"));
    assert_false(made_file_exists("x.png"));
    free(text);
}

static void a_missing_or_dying_gnuplot_is_a_message_behind_the_results(void **state)
{
    (void)state;
    expect("rm -f $DIR/r.json; PATH=/nowhere; " CASE " --json $DIR/r.json --plot $DIR/x.png", 1, "step",
           "gnuplot is not installed");
    assert_true(made_file_exists("r.json"));
    assert_false(made_file_exists("x.png"));
    expect_failed_plot("exit 3", "gnuplot failed with status 3");
    expect_failed_plot("echo broken terminal >&2; exit 1", "gnuplot failed with status 1 while drawing");
    expect_failed_plot("echo broken terminal >&2; exit 1", "broken terminal");
    expect_failed_plot("kill -9 $$", "gnuplot was ended by signal 9");
    expect_failed_plot("cat >/dev/null", "gnuplot did not write");
}

static void checks_say_what_each_file_is(void **state)
{
    (void)state;
    expect("$CPSIM --check toy-2", 0, "toy-2: topology, ok: 2 x toy", "");
    expect("$CPSIM --check two-owners", 0, "two-owners: experiment, ok: custom fp64, 5 tokens", "");
    expect("$CPSIM --check two-owners", 0, "cp 2, direct, explicit shards\n", "");
    expect("$CPSIM --check two-owners --set workload.mask=documents:2,3 --set schedule.sharding=per-document", 0,
           "cp 2, direct, zigzag per document\n", "");
    expect("$CPSIM --check h100-sxm", 0, "h100-sxm: device profile, ok: ", "");
    expect("$CPSIM --check llama3-8b", 0, "llama3-8b: transformer, ok: 32 query heads", "");
    expect("$CPSIM --check toy-2 two-owners", 0, "toy-2 with two-owners: combination, ok: 1 CP group of 2 ranks", "");
    expect("$CPSIM --check toy-2 llama3-8b-1m", 2, "llama3-8b-1m: experiment, ok", "32");
    expect("$CPSIM --check toy-2 two-owners --set workload.seq_len=6", 2, NULL, "sharding");
    expect("$CPSIM --check toy-2 --set workload.seq_len=6", 2, NULL, "addresses none of the files given");
    expect("sed s/kv_heads.*/kv_heads=7/ models/transformers/llama3-8b.ini >$DIR/t.ini; $CPSIM --check $DIR/t.ini", 2,
           "", "'kv_heads' = 7 does not divide q_heads = 32");
    expect("printf '[a]\\nb = c\\n' >$DIR/x.ini; $CPSIM --check $DIR/x.ini", 2, "", "none of its sections is known");
}

static void checks_say_everything_once(void **state)
{
    (void)state;
    struct outcome outcome = shell("printf '[model]\nfoo\n' >$DIR/x.ini; cd $DIR; $CPSIM --check x.ini");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.err,
                        "cpsim: x.ini:2: 'foo' is neither a section nor a key, expected [section] or key = value\n");
    outcome_fini(&outcome);
}

static void pipes_are_read_once_or_refused(void **state)
{
    (void)state;
    expect("cat experiments/two-owners.ini | $CPSIM toy-2 /dev/stdin", 0, "5 tokens", NULL);
    expect("cat experiments/two-owners.ini | $CPSIM --check /dev/stdin", 2, "",
           "/dev/stdin: a pipe, which can be read only once, expected a file");
    expect("cat experiments/two-owners.ini | $CPSIM toy-2 /dev/stdin --sweep workload.batch=1,2", 2, "",
           "/dev/stdin: a pipe, which only one point of the sweep could read, expected a file");
}

static void every_shipped_file_passes_the_check(void **state)
{
    (void)state;
    expect("$CPSIM --check topologies/*.ini", 0, NULL, "");
    expect("$CPSIM --check experiments/*.ini", 0, NULL, "");
    expect("$CPSIM --check models/devices/*.ini models/transformers/*.ini", 0, NULL, "");
}

static void events_walk_through_the_small_case(void **state)
{
    (void)state;
    expect("$CPSIM --events two-owners", 0, "rank 1 owns positions 2-4", "");
    expect("$CPSIM --events toy-2 two-owners", 0, "rank 1 owns positions 2-4", "");
    expect("$CPSIM --events llama3-8b-1m", 2, "", "'seq_len' is 1048576, expected at most 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prediction_prints_its_table),
        cmocka_unit_test(json_on_standard_output_stands_alone),
        cmocka_unit_test(the_recorded_command_gives_the_same_bytes),
        cmocka_unit_test(messages_below_the_clocks_grain_are_not_found_too_fast),
        cmocka_unit_test(set_overrides_the_file),
        cmocka_unit_test(overrides_that_go_nowhere_are_errors),
        cmocka_unit_test(both_files_errors_are_reported),
        cmocka_unit_test(files_of_the_other_kind_are_named),
        cmocka_unit_test(missing_files_are_errors),
        cmocka_unit_test(a_layout_that_does_not_fit_is_bad_input),
        cmocka_unit_test(misfits_between_files_are_reported_at_a_key),
        cmocka_unit_test(unwritable_results_are_reported),
        cmocka_unit_test(files_are_written_before_standard_output),
        cmocka_unit_test(a_closed_pipe_is_told),
        cmocka_unit_test(a_full_disk_leaves_no_part_of_a_result),
        cmocka_unit_test(closed_standard_streams_get_nobody_elses_text),
        cmocka_unit_test(plots_are_drawn_in_every_format),
        cmocka_unit_test(plots_draw_without_a_word_from_gnuplot),
        cmocka_unit_test(a_script_is_kept_instead_of_drawing),
        cmocka_unit_test(a_missing_or_dying_gnuplot_is_a_message_behind_the_results),
        cmocka_unit_test(checks_say_what_each_file_is),
        cmocka_unit_test(checks_say_everything_once),
        cmocka_unit_test(pipes_are_read_once_or_refused),
        cmocka_unit_test(every_shipped_file_passes_the_check),
        cmocka_unit_test(events_walk_through_the_small_case),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_test_folder();
    return failed;
}
