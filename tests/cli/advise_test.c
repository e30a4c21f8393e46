/* Advice: what it finds is what simulating every candidate finds, whoever does it; what is said of it; what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <signal.h>

#include "cli/advice.h"
#include "cli/quantity.h"
#include "hw/transport.h"
#include "tests/cli/expect.h"

#define MODEL(layers)                                                                                                  \
    "[model]\nq_heads = 16\nkv_heads = 4\nhead_dim = 64\nlayers = " layers                                             \
    "\nhidden = 1024\nffn = 4096\nvocab = 32000\n"
#define STEP "[parallel]\ntp = 1\ncp = 2\ndp = 4\n[schedule]\nalgorithm = ring\nsharding = zigzag\n[step]\nzero = 1\n"
#define WORKLOAD(seq_len, mask) "[workload]\nseq_len = " seq_len "\nscope = model\nmask = " mask "\n"

/* Writes `text` to the test's folder; the path is that of `name` there. */
static void write_file(const char *name, const char *text)
{
    char *path = memory_format("%s/%s", test_folder(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    free(path);
}

static json_t *advice_of(const char *arguments)
{
    char *text = memory_format("$CPSIM %s --advise --json -", arguments);
    json_t *json = json_of(text);
    free(text);
    return json;
}

static double real_of(const json_t *json, const char *key)
{
    assert_non_null(json_object_get(json, key));
    return json_number_value(json_object_get(json, key));
}

static const json_t *best_of(const json_t *advice, size_t place)
{
    const json_t *best = json_array_get(json_object_get(advice, "best"), place);
    assert_non_null(best);
    return best;
}

static void expect_same_best(const json_t *a, const json_t *b)
{
    const json_t *first = json_object_get(a, "best"), *second = json_object_get(b, "best");
    assert_int_equal(json_array_size(first), json_array_size(second));
    for (size_t i = 0; i < json_array_size(first); i++) {
        char *one = json_dumps(json_array_get(first, i), JSON_SORT_KEYS),
             *other = json_dumps(json_array_get(second, i), JSON_SORT_KEYS);
        if (strcmp(one, other) != 0)
            fail_msg("place %zu is %s, expected %s", i + 1, one, other);
        free(one);
        free(other);
    }
}

/* Under the sanitizers fewer candidates, each of which they make take long: without other recomputation, shardings, and
 * with one of two sizes of memory. */
#ifdef __SANITIZE_ADDRESS__
#define FIX_RECOMPUTE " --fix step.recompute"
#define FIX_SHARDING " --fix schedule.sharding"
#define FIRST_SIZE 1
#else
#define FIX_RECOMPUTE
#define FIX_SHARDING
#define FIRST_SIZE 0
#endif

/* The search leaves out most of the candidates, and finds what looking at all of them finds. */
static void advice_equals_exhaustive(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    write_file("full.ini", MODEL("2") WORKLOAD("2Ki", "full") STEP);
    write_file("window.ini", MODEL("2") WORKLOAD("4Ki", "window:512") STEP);
    static const char *const cases[] = {
#ifndef __SANITIZE_ADDRESS__ /* which makes it take minutes */
        "dgx-h100-4 $DIR/small.ini --gpus 8 --fix step.recompute --engine analytic",
        "dgx-h100-4 $DIR/small.ini --gpus 4 --engine analytic",
#endif
        "dgx-h100-4 $DIR/full.ini --gpus 4 --fix step.zero --engine analytic --set workload.batch=2" FIX_RECOMPUTE,
        "dgx-h100-4 $DIR/window.ini --gpus 4 --fix step.recompute --fix step.zero" FIX_SHARDING,
#ifndef __SANITIZE_ADDRESS__
        "dgx-h100-4 $DIR/small.ini --gpus 16 --fix step.recompute --fix step.zero --vary parallel.dp=4 --engine "
        "analytic",
#endif
    };
    double left = 0, all_candidates = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *advice = advice_of(cases[i]);
        char *all = memory_format("%s --exhaustive", cases[i]);
        json_t *exhaustive = advice_of(all);
        expect_same_best(advice, exhaustive);
        assert_int_equal(real_of(exhaustive, "not_looked_at"), 0);
        left += real_of(advice, "not_looked_at");
        all_candidates += real_of(advice, "candidates");
        json_decref(advice);
        json_decref(exhaustive);
        free(all);
    }
#ifndef __SANITIZE_ADDRESS__
    assert_true(left > all_candidates / 2);
#else
    assert_true(left > 0 && left < all_candidates);
#endif
}

/* The memory that a smaller device would have to have decides as it does when all are looked at. */
static void what_fits_decides(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    static const char question[] = "dgx-h100-4 $DIR/small.ini --gpus 4 --fix schedule.algorithm --engine analytic "
                                   "--set 'step.reserve=%s'";
    for (int tight = FIRST_SIZE; tight < 2; tight++) {
        char *text = memory_format(question, tight ? "79.2 GiB" : "78.8 GiB"),
             *all = memory_format("%s --exhaustive", text);
        json_t *advice = advice_of(text), *exhaustive = advice_of(all);
        expect_same_best(advice, exhaustive);
        assert_true(real_of(exhaustive, "does_not_fit") > 0);
        const json_t *best = best_of(advice, 0);
        assert_true(real_of(best, "peak_bytes") + real_of(best, "reserve_bytes") <= real_of(best, "device_bytes"));
        json_decref(advice);
        json_decref(exhaustive);
        free(text);
        free(all);
    }
}

#ifndef __SANITIZE_ADDRESS__

/* Of a model of many layers a few are run. */
static void few_layers_tell_of_all(void **state)
{
    (void)state;
    /* sums of a large head's gradients hide behind many layers */
    write_file("head.ini",
               "[model]\nq_heads = 16\nkv_heads = 4\nhead_dim = 64\nlayers = 24\nhidden = 1024\nffn = 4096\n"
               "vocab = 256000\n" WORKLOAD("4Ki", "causal") STEP);
    write_file("deep.ini", MODEL("12") WORKLOAD("4Ki", "causal") STEP);
    static const char *const settings[] = {
        "",
        "--set step.recompute=full",
        "--set step.zero=3",
        "--set schedule.algorithm=all-gather",
        "--set step.recompute=around --set step.micro_batches=3 --set step.zero=2",
        "--set parallel.tp=2 --set parallel.cp=4 --set parallel.dp=1",
        "head",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int engine = 0; engine < 2; engine++) {
            const char *name = engine ? "simgrid" : "analytic";
            bool head = strcmp(settings[i], "head") == 0;
            const char *file = head ? "head" : "deep", *sets = head ? "--set step.zero=2" : settings[i];
            char *fixed = memory_format("dgx-h100-4 $DIR/%s.ini --gpus 8 --engine %s %s --fix parallel.tp --fix "
                                        "parallel.cp --fix parallel.dp --fix workload.batch --fix schedule.algorithm "
                                        "--fix schedule.sharding --fix step.zero --fix step.recompute --best 1",
                                        file, name, sets);
            json_t *advice = advice_of(fixed);
            const json_t *best = best_of(advice, 0);
            assert_int_equal(json_array_size(json_object_get(advice, "layers_run")), 2);
            char *whole = memory_format("$CPSIM dgx-h100-4 $DIR/%s.ini --engine %s %s --json -", file, name, sets);
            json_t *run = json_of(whole), *step = json_object_get(run, "step");
            double seconds = real_of(step, "seconds");
            if (fabs(real_of(best, "seconds") / seconds - 1) > 2e-3)
                fail_msg("'%s' takes %.9g s, few layers say %.9g s", whole, seconds, real_of(best, "seconds"));
            double most = 0;
            json_t *rank;
            size_t r;
            json_array_foreach(json_object_get(run, "ranks"), r, rank) most = fmax(most, real_of(rank, "peak_bytes"));
            assert_true(real_of(best, "peak_bytes") == most);
            json_decref(advice);
            json_decref(run);
            free(fixed);
            free(whole);
        }
}

/* The command that is told for the best gives its time and memory; keys that have no effect there are taken back. */
static void the_command_of_the_best_can_be_run(void **state)
{
    (void)state;
    write_file(
        "small.ini",
        MODEL("2") WORKLOAD(
            "4Ki", "causal") "[parallel]\ntp = 1\ncp = 2\ndp = 1\n[schedule]\nalgorithm = ring\nsharding = zigzag\n"
                             "buffers = 2\n[step]\nzero = 1\nbucket = 2\n");
    static const char *const questions[] = {
        "dgx-h100-4 $DIR/small.ini --gpus 2 --engine analytic --best 12",
        "dgx-h100-4 $DIR/small.ini --gpus 2 --engine analytic --vary parallel.cp=1 --vary schedule.overlap=yes,no"};
    for (size_t q = 0; q < 2; q++) {
        json_t *advice = advice_of(questions[q]);
        for (size_t i = 0; i < json_array_size(json_object_get(advice, "best")); i++) {
            const json_t *best = best_of(advice, i);
            const char *command = json_string_value(json_object_get(best, "command"));
            assert_memory_equal(command, "cpsim ", 6);
            char *text = memory_format("$CPSIM %s --json -", command + 6);
            json_t *run = json_of(text);
            assert_true(real_of(json_object_get(run, "step"), "seconds") == real_of(best, "seconds"));
            json_decref(run);
            free(text);
        }
        json_decref(advice);
    }
}

/* The parts of what the runner-up takes longer add up. */
static void the_runner_up_lost_by_the_sum_of_its_parts(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    json_t *advice = advice_of("dgx-h100-4 $DIR/small.ini --gpus 8 --engine analytic");
    const json_t *second = json_object_get(advice, "runner_up");
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(second, "longer_by_seconds"), key, value) sum += json_number_value(value);
    double longer = real_of(second, "seconds") - real_of(best_of(advice, 0), "seconds");
    assert_true(fabs(sum - longer) <= 1e-9 * real_of(second, "seconds"));
    json_decref(advice);
    expect("$CPSIM dgx-h100-4 $DIR/small.ini --gpus 8 --engine analytic --advise", 0, "runner-up tp ", NULL);
}

/* A device must have the reserve too, as a run's table says. */
static void memory_is_that_of_a_run(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    static const char layout[] = "dgx-h100-4 $DIR/small.ini --set step.reserve='70 GiB' --engine analytic";
    char *text = memory_format("$CPSIM %s --json -", layout);
    json_t *run = json_of(text);
    double bytes = real_of(json_object_get(run, "step"), "peak_bytes") + 70 * 1073741824.0;
    char *memory = memory_format("   %s  %s", text_of_number(bytes / 1073741824).text,
                                 text_of_number((double)(80 - bytes / 1073741824)).text);
    json_decref(run);
    free(text);
    text = memory_format("$CPSIM %s --gpus 8 --advise --fix parallel.tp --fix parallel.cp --fix schedule.algorithm "
                         "--fix schedule.sharding --fix step.zero --vary step.recompute=none",
                         layout);
    expect(text, 0, memory, NULL);
    free(text);
    free(memory);
}

/* However long the names of what is compared are. */
static void the_plots_list_has_room(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    expect("$CPSIM dgx-h100-4 $DIR/small.ini --gpus 8 --engine analytic --advise --fix step.zero --vary "
           "step.weight_gradients=fp32 --vary schedule.kv_messages=2 --vary step.loss_chunks=4 --vary step.bucket=2 "
           "--quiet --script $DIR/list.gp --plot x.png",
           0, NULL, NULL);
    expect("grep \"^set label [2-9][0-9] \" $DIR/list.gp | awk -F \"'\" 'length($2) > 72 { n++ } END { print n + 0 }'",
           0, "0\n", NULL);
    expect("cat $DIR/list.gp", 0, "kv_messages 2, ...'", NULL);
}

/* Whoever does it, and however often. */
static void advice_does_not_depend_on_workers(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    static const char *const ways[] = {"$CPSIM", "$CPSIM -j 3", "$CPSIM -j 1"};
    char *texts[3];
    for (size_t i = 0; i < 3; i++) {
        char *text = memory_format("%s dgx-h100-4 $DIR/small.ini --gpus 4 --advise --json - --csv $DIR/points%zu.csv",
                                   ways[i], i);
        struct outcome outcome = shell(text);
        assert_int_equal(outcome.status, 0);
        texts[i] = memory_text(outcome.out);
        outcome_fini(&outcome);
        free(text);
        assert_string_equal(texts[i], texts[0]);
    }
    expect("cmp $DIR/points0.csv $DIR/points2.csv", 0, NULL, NULL);
    for (size_t i = 0; i < 3; i++)
        free(texts[i]);
}

/* OpenMPI itself leaks, which address sanitizers would make a failure. */
#define MPIRUN                                                                                                         \
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS; timeout 100 "       \
    "mpirun --oversubscribe --quiet -n 2 "

static void advice_is_the_same_under_mpirun(void **state)
{
    (void)state;
    struct outcome there = shell("mpirun --version");
    bool can = there.status == 0 && transport_find("mpi");
    outcome_fini(&there);
    if (!can) {
        print_message("skipped: there is no mpirun, or this build has no MPI\n");
        skip();
    }
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    static const char question[] = "$CPSIM dgx-h100-4 $DIR/small.ini --gpus 4 --engine analytic --advise --json -";
    char *text = memory_format(MPIRUN "%s", question);
    struct outcome alone = shell(question), together = shell(text);
    assert_int_equal(together.status, 0);
    assert_string_equal(together.out, alone.out);
    outcome_fini(&alone);
    outcome_fini(&together);
    free(text);
    text = memory_format(MPIRUN "%s --vary step.zeros=1", question);
    together = shell(text);
    assert_int_equal(together.status, 2);
    const char *said = strstr(together.err, "expected a key of an experiment");
    assert_non_null(said);
    assert_null(strstr(said + 1, "expected a key of an experiment")); /* by one process */
    outcome_fini(&together);
    free(text);
}

#endif

static void attention_alone_is_advised_on_too(void **state)
{
    (void)state;
    write_file("attention.ini",
               "[model]\nq_heads = 16\nkv_heads = 4\nhead_dim = 64\n[workload]\nseq_len = 16Ki\nbatch = 2\n"
               "[parallel]\ncp = 4\n[schedule]\nalgorithm = ring\nsharding = zigzag\n");
    static const char question[] = "dgx-h100-4 $DIR/attention.ini --gpus 4 --engine analytic";
    json_t *advice = advice_of(question),
           *exhaustive = advice_of("dgx-h100-4 $DIR/attention.ini --gpus 4 --engine analytic --exhaustive");
    expect_same_best(advice, exhaustive);
    assert_null(json_object_get(json_object_get(best_of(advice, 0), "set"), "step.zero"));
    json_decref(advice);
    json_decref(exhaustive);
}

static void when_nothing_fits_it_says_by_how_much(void **state)
{
    (void)state;
    write_file("large.ini", MODEL("2") WORKLOAD("1Mi", "causal") STEP);
    const char *text = "$CPSIM dgx-h100-4 $DIR/large.ini --gpus 1 --advise --set parallel.dp=1 --set parallel.cp=1 "
                       "--set step.zero= --set step.reserve='70 GiB' --engine analytic";
    expect(text, 1, "none of the candidates fits. Those that need least:", NULL);
    expect(text, 1, "GiB too much", "cpsim: no candidate fits the devices' memory\n");
    expect(text, 1, "the first of them has room for sequences of ", NULL);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    static const char *const bad[][2] = {
        {"--vary step.zero", "--vary 'step.zero', expected a key of an experiment, section.key=v1,v2,..."},
        {"--vary step.zeros=1", "expected a key of an experiment"},
        {"--vary step.zero=", "--vary 'step.zero=' has an empty value"},
        {"--vary workload.seq_len=1Ki,2Ki", "--vary workload.seq_len: what is asked and not how it is done"},
        {"--vary model.layers=1,2", "--vary model.layers: what is asked"},
        {"--vary step.zero=1,1", "has the value '1' twice"},
        {"--vary step.zero=1 --vary step.zero=2", "--vary step.zero is given twice"},
        {"--vary parallel.cp=two", "'two', expected a count from 1 on"},
        {"--vary schedule.algorithm=rings", "no algorithm 'rings'"},
        {"--fix step.zeros", "--fix step.zeros: no key that is varied, did you mean 'step.zero'?"},
        {"--fix step.zero --vary step.zero=1", "--fix step.zero: the key is given twice"},
        {"--gpus 33", "--gpus 33 of a cluster of 32, expected at most these"},
        {"--gpus 0", "--gpus '0', expected a whole number from 1"},
        {"--best 0", "--best '0', expected a whole number from 1 to 1000"},
        {"--gpus 7", "no layout of 7 GPUs is possible for steps of 4 sequences"},
        {"--gpus 8 --vary step.recompute=some --vary parallel.cp=2", "none of the"},
        {"--gpus 8 --vary parallel.cp=2,3", "--vary parallel.cp: no candidate has '3'"},
        {"--gpus 32 --vary parallel.tp=16,32", "--vary parallel.tp: no candidate has '32'"},
        {"--gpus 4 --vary schedule.algorithm=ring,tree-decode", "no candidate has 'tree-decode'"},
        {"--explain", "exclude each other"},
        {"--trace x", "--trace has no effect with --advise"},
        {"--sweep step.zero=1,2", "--sweep has no effect with --advise"},
        {"--plot time=x.png", "an advice has no time plot, expected pareto"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = memory_format("dgx-h100-4 $DIR/small.ini --advise %s", bad[i][0]);
        expect_misuse(text, bad[i][1]);
        free(text);
    }
    static const char *const alone[] = {"--vary step.zero=1", "--fix step.zero", "--gpus 4", "--best 3",
                                        "--exhaustive"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        char *text = memory_format("toy-2 two-owners %s", alone[i]);
        expect_misuse(text, "has no effect without --advise");
        free(text);
    }
    expect_misuse("toy-2 two-owners --plot pareto=x.png", "a pareto plot needs --advise");
}

/* ---- interrupts ---- */

struct interrupt {
    size_t calls, at;
};

static void interrupt_at(void *context, double share)
{
    struct interrupt *interrupt = context;
    (void)share;
    if (++interrupt->calls == interrupt->at)
        kill(getpid(), SIGINT);
}

static void an_interrupt_leaves_the_best_so_far(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    char *path = memory_format("%s/small.ini", test_folder());
    static const size_t moments[] = {1, 30};
    for (size_t i = 0; i < 2; i++) {
        struct interrupt interrupt = {0, moments[i]};
        const struct question question = {.topology_path = "dgx-h100-4",
                                          .experiment_path = path,
                                          .engine = engine_find("analytic"),
                                          .progress = interrupt_at,
                                          .progress_context = &interrupt};
        const struct advice_settings settings = {.wish = {.gpus = 8}, .jobs = 1, .best = 3};
        struct advice advice;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_int_equal(advice_run(&advice, &question, &settings, &diag), PREDICTION_DONE);
        assert_int_equal(advice.signal, SIGINT);
        assert_true(advice.n_best > 0 && advice.n_tried == 0);
        assert_non_null(strstr(diag.lines[0], "stopped by signal 2"));
        json_t *json = advice_to_json(&advice);
        assert_true(json_is_false(json_object_get(json, "complete")));
        json_decref(json);
        advice_fini(&advice);
        diagnostics_fini(&diag);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    free(path);
}

static void the_plot_has_every_timed_candidate_and_a_frontier(void **state)
{
    (void)state;
    write_file("small.ini", MODEL("2") WORKLOAD("4Ki", "causal") STEP);
    expect("$CPSIM dgx-h100-4 $DIR/small.ini --gpus 4 --engine analytic --advise --quiet --plot $DIR/p.png --script "
           "$DIR/p.gp && grep -c 'frontier' $DIR/p.gp && grep 'Nobody is faster with less memory' $DIR/p.gp",
           0, "Nobody", NULL);
    expect("$CPSIM dgx-h100-4 $DIR/small.ini --gpus 4 --engine analytic --advise --quiet --plot -", 0, "memory (",
           NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_equals_exhaustive),
        cmocka_unit_test(what_fits_decides),
#ifndef __SANITIZE_ADDRESS__ /* of which each asks for many more runs of the same code: minutes */
        cmocka_unit_test(few_layers_tell_of_all),
        cmocka_unit_test(the_command_of_the_best_can_be_run),
        cmocka_unit_test(the_runner_up_lost_by_the_sum_of_its_parts),
        cmocka_unit_test(memory_is_that_of_a_run),
        cmocka_unit_test(the_plots_list_has_room),
        cmocka_unit_test(advice_does_not_depend_on_workers),
        cmocka_unit_test(advice_is_the_same_under_mpirun),
#endif
        cmocka_unit_test(attention_alone_is_advised_on_too),
        cmocka_unit_test(when_nothing_fits_it_says_by_how_much),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(an_interrupt_leaves_the_best_so_far),
        cmocka_unit_test(the_plot_has_every_timed_candidate_and_a_frontier),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
