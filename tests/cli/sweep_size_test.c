/* Sweeps at size: one file whoever does the points, whatever dies on the way, and however often it is stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "tests/cli/command.h"

#ifdef __SANITIZE_ADDRESS__
#define BATCHES "40"
#define CUTS_APART 3
#else
#define BATCHES "400"
#define CUTS_APART 1
#endif
#define FEW_BATCHES "20"

/* So many batches with two shardings; odd batches are refused with one of them, so that there are points without run.
 */
#define SWEEP                                                                                                          \
    "$CPSIM toy-2 two-owners --engine analytic --set workload.seq_len=64 --quiet "                                     \
    "--sweep workload.batch=$B --sweep 'schedule.sharding=zigzag;striped;40,20' 2>$DIR/messages"

#define MPI_ENVIRONMENT                                                                                                \
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS; "
#define MPIRUN MPI_ENVIRONMENT "timeout 50 mpirun --oversubscribe --quiet "

/* $B, and functions: the first child of process $1, or the second, as soon as it has one; when file $1 has something.
 */
#define PROLOGUE                                                                                                       \
    "B=$(seq -s, " BATCHES "); "                                                                                       \
    "child() { while :; do set -- $1 $(cat /proc/$1/task/$1/children) || return; [ -n \"$2\" ] && break; done; "       \
    "echo $2; }; "                                                                                                     \
    "second() { while :; do set -- $1 $(cat /proc/$1/task/$1/children) || return; [ -n \"$3\" ] && break; done; "      \
    "echo $3; }; "                                                                                                     \
    "wait_for() { until [ -s $1 ]; do :; done; }; "

static bool can_mpirun(void)
{
    struct outcome outcome = shell("mpirun --version && $CPSIM --list transports | grep -q '^mpi '");
    bool can = outcome.status == 0;
    if (!can)
        print_message("skipped: there is no mpirun, or this build has no MPI\n");
    outcome_fini(&outcome);
    return can;
}

static void expect_status(const char *text, int status)
{
    char *whole = memory_format(PROLOGUE "%s", text);
    struct outcome outcome = shell(whole);
    if (outcome.status != status)
        fail_msg("'%s' ended with %d, expected %d:\n%s%s", text, outcome.status, status, outcome.out, outcome.err);
    outcome_fini(&outcome);
    free(whole);
}

static void expect_message(const char *text, int status, const char *message)
{
    struct outcome outcome = shell(text);
    if (outcome.status != status || !strstr(outcome.err, message))
        fail_msg("'%s' ended with %d, expected %d and '%s': %s", text, outcome.status, status, message, outcome.err);
    outcome_fini(&outcome);
}

#define SAME "cmp $DIR/a.json $DIR/all.json && cmp $DIR/a.csv $DIR/all.csv"
#define SAME_FEW "cmp $DIR/a.json $DIR/few.json && cmp $DIR/a.csv $DIR/few.csv"
#define TO_A " --json $DIR/a.json --csv $DIR/a.csv"

/* What all others are held against. */
static int make_files(void **state)
{
    (void)state;
    struct outcome outcome =
        shell(PROLOGUE SWEEP " -j1 --points summary --json $DIR/all.json --csv $DIR/all.csv && " SWEEP
                             " -j1 --json $DIR/full.json && B=$(seq -s, " FEW_BATCHES ") && " SWEEP
                             " --points summary --json $DIR/few.json --csv $DIR/few.csv");
    int status = outcome.status;
    outcome_fini(&outcome);
    return status;
}

static int clean_up(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

static json_t *made_json(const char *name)
{
    char *text = made_file(name);
    json_t *json = json_loads(text, 0, NULL);
    free(text);
    return json;
}

static void any_number_of_workers_gives_the_same_files(void **state)
{
    (void)state;
    expect_status(SWEEP " -j2 --points summary" TO_A " && " SAME, 0);
#ifndef __SANITIZE_ADDRESS__
    expect_status(SWEEP " -j4 --points summary" TO_A " && " SAME, 0);
#endif
    expect_status(SWEEP " -j3 --json - | cmp - $DIR/full.json", 0);
    expect_status(SWEEP " -j3 --csv - | cmp - $DIR/all.csv", 0);
}

/* Numbers, but for the ranks', are those of full runs. */
static void a_summary_has_the_step_and_the_links(void **state)
{
    (void)state;
    json_t *summaries = made_json("all.json"), *full = made_json("full.json");
    assert_string_equal(json_string_value(json_object_get(summaries, "runs")), "summary");
    size_t i;
    json_t *point;
    json_array_foreach(json_object_get(summaries, "points"), i, point)
    {
        const json_t *whole = json_array_get(json_object_get(full, "points"), i);
        const json_t *run = json_object_get(point, "run"), *whole_run = json_object_get(whole, "run");
        assert_true(json_equal(json_object_get(point, "set"), json_object_get(whole, "set")));
        assert_true(!run == !whole_run);
        if (!run) {
            assert_true(json_equal(point, whole));
            continue;
        }
        assert_true(json_equal(json_object_get(run, "step"), json_object_get(whole_run, "step")));
        assert_true(json_equal(json_object_get(run, "links"), json_object_get(whole_run, "links")));
        assert_int_equal(json_integer_value(json_object_get(run, "n_ranks")),
                         json_array_size(json_object_get(whole_run, "ranks")));
    }
    json_decref(summaries);
    json_decref(full);
}

static void a_worker_that_is_killed_changes_nothing(void **state)
{
    (void)state;
    expect_status(
        SWEEP " -j2 --points summary" TO_A " & P=$!; kill -9 $(child $P); K=$?; wait $P && test $K = 0 && " SAME, 0);
    expect_status(
        SWEEP " -j1 --points summary" TO_A " & P=$!; kill -9 $(child $P); K=$?; wait $P && test $K = 0 && " SAME, 0);
}

/* Stops a sweep of full runs by `signal` as soon as it has written something; then goes on with it. */
static void stop_and_go_on(const char *signal, int status)
{
    char *stop = memory_format("rm -f $DIR/a.*; " SWEEP " -j2 --json $DIR/a.json --csv $DIR/a.csv & P=$!; "
                               "wait_for $DIR/a.json; kill -%s $P; wait $P",
                               signal);
    expect_status(stop, status);
    free(stop);
    if (strcmp(signal, "KILL") != 0) {
        json_t *json = made_json("a.json"), *full = made_json("full.json");
        assert_true(json_is_false(json_object_get(json, "complete")));
        size_t done = json_array_size(json_object_get(json, "points"));
        assert_true(done > 0 && done < json_array_size(json_object_get(full, "points")));
        char *messages = made_file("messages"), *expected = memory_format("after %zu of ", done);
        assert_non_null(strstr(messages, "cpsim: stopped by signal "));
        assert_non_null(strstr(messages, expected));
        free(expected);
        free(messages);
        json_decref(json);
        json_decref(full);
    }
    expect_status(SWEEP " -j2 --json $DIR/a.json --csv $DIR/a.csv --resume && cmp $DIR/a.json $DIR/full.json && "
                        "cmp $DIR/a.csv $DIR/all.csv",
                  0);
}

static void a_sweep_that_was_stopped_goes_on(void **state)
{
    (void)state;
    stop_and_go_on("INT", 130);
#ifndef __SANITIZE_ADDRESS__ /* like INT */
    stop_and_go_on("TERM", 143);
#endif
    stop_and_go_on("KILL", 137);
}

/* Wherever that is (under the sanitizers at one of three places): in the beginning, between points, inside one, in what
 * ends the file. */
static void a_file_that_was_cut_goes_on(void **state)
{
    (void)state;
    char *all = made_file("few.json");
    size_t length = strlen(all), cuts[24] = {0, 1, 40, length - 1, length - 2, length - 3, length - 5, length - 7},
           n = 8;
    const char *first = strstr(all, "\n    },\n"), *second = first ? strstr(first + 1, "\n    },\n") : NULL;
    assert_non_null(second);
    for (size_t i = 0; i < 8; i++)
        cuts[n++] = (size_t)(second - all) + i;
    while (n < 24)
        cuts[n] = cuts[n - 1] + length / 10, n++;
    free(all);
    for (size_t i = 0; i < n; i += CUTS_APART) {
        if (cuts[i] > length)
            break;
        char *text = memory_format("B=$(seq -s, " FEW_BATCHES
                                   "); head -c %zu $DIR/few.json >$DIR/a.json; rm -f $DIR/a.csv; " SWEEP
                                   " --points summary --resume" TO_A " && " SAME_FEW,
                                   cuts[i]);
        expect_status(text, 0);
        free(text);
    }
    expect_status("B=$(seq -s, " FEW_BATCHES
                  "); head -c 20000 $DIR/few.json >$DIR/a.json; head -c 5000 /dev/zero >>$DIR/a.json; " SWEEP
                  " --points summary --resume" TO_A " && " SAME_FEW " && grep -q 'a.json: cut short' $DIR/messages",
                  0);
}

/* Points may be missing in the middle: of an interrupted sweep those that were not back yet. */
static void points_that_are_missing_are_done(void **state)
{
    (void)state;
    json_t *all = made_json("all.json"), *points = json_object_get(all, "points");
    size_t count = json_array_size(points);
    for (size_t i = count; i-- > 0;)
        if (i % 10 == 7 || i == count - 1)
            json_array_remove(points, i);
    char *path = memory_format("%s/a.json", test_folder());
    json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    free(path);
    json_decref(all);
    expect_status(SWEEP " --points summary --resume" TO_A " && " SAME, 0);
}

/* The table comes from points of the file and new ones alike. */
static void a_resumed_sweep_has_the_same_table_and_plot(void **state)
{
    (void)state;
    static const char *const wishes[] = {"", " --points summary"};
    for (size_t i = 0; i < 2; i++) {
        char *text =
            memory_format("A=\"$CPSIM toy-2 two-owners --engine analytic --sweep parallel.cp=1,2,4 --sweep "
                          "workload.batch=1,2,3%s --json\"; "
                          "$A $DIR/t.json --plot $DIR/t.svg --script $DIR/t.gp >$DIR/t.txt 2>$DIR/t.err; "
                          "head -c 9000 $DIR/t.json >$DIR/u.json; "
                          "$A $DIR/u.json --plot $DIR/t.svg --script $DIR/u.gp --resume >$DIR/u.txt 2>$DIR/u.err; "
                          "cmp $DIR/t.txt $DIR/u.txt && cmp $DIR/t.gp $DIR/u.gp && cmp $DIR/t.json $DIR/u.json && "
                          "$A $DIR/u.json --plot $DIR/t.svg --script $DIR/u.gp --resume >$DIR/u.txt 2>$DIR/u.err; "
                          "cmp $DIR/t.txt $DIR/u.txt && cmp $DIR/t.gp $DIR/u.gp && cmp $DIR/t.json $DIR/u.json",
                          wishes[i]);
        expect_status(text, 0);
        free(text);
    }
}

#define SMALL "$CPSIM toy-2 two-owners --engine analytic --quiet"
#define BATCH " --sweep workload.batch=1,2,3"

static void what_cannot_be_resumed_is_bad_input(void **state)
{
    (void)state;
    expect_message(SMALL BATCH " --resume", 2, "--resume needs --json FILE");
    expect_message(SMALL BATCH " --json - --resume", 2, "--resume needs --json FILE");
    expect_message(SMALL " --json $DIR/r.json --resume", 2, "--resume has no effect without --sweep");
    expect_message(SMALL BATCH " --json $DIR/nothing.json --resume", 2, "nothing.json': No such file or directory");
    assert_false(made_file_exists("nothing.json"));
    expect_message(SMALL BATCH " --json $DIR --resume", 2, "not a regular file");
    expect_message(SMALL BATCH " --json $DIR/r.json && cp $DIR/r.json $DIR/s.json && " SMALL
                               " --sweep workload.batch=1,2 --json $DIR/r.json --resume",
                   2,
                   "r.json: answers another question: 'cpsim toy-2 two-owners --engine analytic --sweep "
                   "workload.batch=1,2,3', expected 'cpsim toy-2 two-owners --engine analytic --sweep "
                   "workload.batch=1,2'");
    expect_message(SMALL BATCH " --set schedule.overlap=no --json $DIR/r.json --resume", 2, "answers another question");
    expect_message(SMALL BATCH " --points summary --json $DIR/r.json --resume", 2,
                   "r.json: has other --points: 'full', expected 'summary'");
    expect_message("sed -i 's/\"cpsim_version\": \"/&x/' $DIR/r.json; " SMALL BATCH " --json $DIR/r.json --resume", 2,
                   "r.json: is of another version: 'x");
    expect_message("echo '{\"schema\": \"cpsim.run/1\"}' >$DIR/q.json; " SMALL BATCH " --json $DIR/q.json --resume", 2,
                   "q.json: not a sweep as cpsim writes it");
    expect_message("sed 's/^ *//' $DIR/s.json >$DIR/q.json; " SMALL BATCH " --json $DIR/q.json --resume", 2,
                   "q.json: not a sweep as cpsim writes it");
    expect_status(
        "cp $DIR/s.json $DIR/r.json; " SMALL BATCH " --json $DIR/r.json --resume && cmp $DIR/r.json $DIR/s.json", 0);
}

/* The names are the same, what is in the files is not. */
static void a_sweep_whose_files_have_changed_is_not_resumed(void **state)
{
    (void)state;
    expect_message("cp topologies/toy-2.ini $DIR/mine.ini; A=\"$CPSIM $DIR/mine.ini two-owners --engine analytic "
                   "--quiet" BATCH
                   " --json $DIR/c.json\"; $A && sed -i 's/^latency = .*/latency = 1 ms/' $DIR/mine.ini "
                   "&& $A --resume",
                   2, "c.json: point workload.batch=1 comes out otherwise now");
}

static void misuse_of_points_is_told(void **state)
{
    (void)state;
    expect_message(SMALL BATCH " --points some --json $DIR/x.json", 2, "--points 'some', expected full or summary");
    expect_message(SMALL BATCH " --points summary", 2, "--points has no effect without --json");
    expect_message(SMALL " --points summary --json $DIR/x.json", 2, "--points has no effect without --sweep");
    expect_message(SMALL BATCH " --points summary --json $DIR/x.json && $CPSIM --compare $DIR/x.json $DIR/s.json", 2,
                   "its runs are summaries (--points summary), expected full ones");
}

static void a_file_that_cannot_be_written_ends_the_sweep(void **state)
{
    (void)state;
    expect_message(SMALL BATCH " --json /dev/full --csv $DIR/f.csv", 1, "cannot write '/dev/full': No space left");
    expect_message(SMALL BATCH " --csv /dev/full --json $DIR/f.json", 1, "cannot write '/dev/full': No space left");
    expect_message(SMALL BATCH " --json $DIR/no/folder.json", 1, "folder.json': No such file or directory");
    expect_message(SMALL BATCH " --csv - >/dev/full", 1, "cannot write to standard output: No space left");
    expect_message("(" SMALL BATCH " --csv - --json $DIR/f.json; echo $? >&2) | :", 0, "");
    expect_message("exec 9>$DIR/f.json; flock 9; " SMALL BATCH " --json $DIR/f.json", 1,
                   "f.json': another sweep is writing it");
}

static void under_mpirun_the_file_is_the_same(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    expect_status(MPIRUN "-n 2 " SWEEP " --points summary" TO_A "; " SAME, 0);
    expect_status(MPIRUN "-n 3 " SWEEP " --json - | cmp - $DIR/full.json", 0);
    expect_status(MPIRUN "-n 2 " SWEEP " --points summary" TO_A
                         " & P=$!; kill -9 $(child $(child $(child $P))); K=$?; wait $P && test $K = 0 && " SAME,
                  0);
}

static void under_mpirun_a_sweep_survives_its_processes(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    /* Open MPI ends all processes when one dies: what was computed is kept. */
    expect_status("rm -f $DIR/a.*; " MPIRUN "-n 2 " SWEEP TO_A
                  " & P=$!; wait_for $DIR/a.json; kill -9 $(second $(child $P)); "
                  "wait $P",
                  137);
    json_t *json = made_json("a.json");
    assert_true(json_array_size(json_object_get(json, "points")) > 0);
    json_decref(json);
    expect_status(MPIRUN "-n 2 " SWEEP " --resume" TO_A "; cmp $DIR/a.json $DIR/full.json", 0);
    expect_status("rm -f $DIR/a.*; " MPIRUN "--enable-recovery -n 2 " SWEEP " --points summary" TO_A
                  " & P=$!; wait_for $DIR/a.json; kill -9 $(second $(child $P)) && wait $P; " SAME,
                  0);
}

static void under_mpirun_one_process_speaks(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    struct outcome outcome = shell(MPIRUN "-n 2 " SMALL BATCH " --resume");
    assert_int_equal(outcome.status, 2);
    const char *message = strstr(outcome.err, "cpsim: --resume needs");
    assert_non_null(message);
    assert_null(strstr(message + 1, "cpsim: --resume needs"));
    outcome_fini(&outcome);
    expect_message(MPIRUN "-n 1 " SMALL BATCH " : -n 1 " SMALL BATCH ",4", 2,
                   "cpsim: process 1 was asked another question than process 0");
    outcome = shell(MPIRUN "-n 2 $CPSIM toy-2 two-owners --engine analytic" BATCH);
    assert_int_equal(outcome.status, 0);
    const char *table = strstr(outcome.out, "* the fastest that fits");
    assert_non_null(table);
    assert_null(strstr(table + 1, "* the fastest that fits"));
    outcome_fini(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers_gives_the_same_files),
        cmocka_unit_test(a_summary_has_the_step_and_the_links),
        cmocka_unit_test(a_worker_that_is_killed_changes_nothing),
        cmocka_unit_test(a_sweep_that_was_stopped_goes_on),
        cmocka_unit_test(a_file_that_was_cut_goes_on),
        cmocka_unit_test(points_that_are_missing_are_done),
        cmocka_unit_test(a_resumed_sweep_has_the_same_table_and_plot),
        cmocka_unit_test(what_cannot_be_resumed_is_bad_input),
        cmocka_unit_test(a_sweep_whose_files_have_changed_is_not_resumed),
        cmocka_unit_test(misuse_of_points_is_told),
        cmocka_unit_test(a_file_that_cannot_be_written_ends_the_sweep),
        cmocka_unit_test(under_mpirun_the_file_is_the_same),
        cmocka_unit_test(under_mpirun_a_sweep_survives_its_processes),
        cmocka_unit_test(under_mpirun_one_process_speaks),
    };
    return cmocka_run_group_tests(tests, make_files, clean_up);
}
