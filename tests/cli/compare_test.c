/* Predicted against measured: which runs are paired, every number, what is said about bad files, and bad usage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/compare_writers.h"
#include "tests/cli/compared.h"
#include "tests/cli/expect.h"

/* ---- numbers ---- */

static void errors_are_predicted_over_measured_minus_one(void **state)
{
    (void)state;
    const struct run predicted = {.kind = "simulated",
                                  .topology = "t",
                                  .cp = 2,
                                  .algorithm = "ring",
                                  .seconds = 3,
                                  .step = ", 'forward_seconds': 1, 'backward_seconds': 2, 'exposed_seconds': 0.5, "
                                          "'peak_bytes': 90, 'bytes_sent': 64"},
                     measured = {.kind = "measured",
                                 .topology = "here",
                                 .cp = 2,
                                 .algorithm = "ring",
                                 .seconds = 2,
                                 .step = ", 'forward_seconds': 0.8, 'backward_seconds': 1.2, 'exposed_seconds': 0.25, "
                                         "'peak_bytes': 100, 'bytes_sent': 64"};
    struct result result;
    compare_two(&result, &measured, &predicted); /* whatever the order of the files */
    assert_true(result.fine);
    assert_int_equal(result.comparison.n_pairs, 1);
    expect_near(error_of(&result, 0, COMPARE_STEP), 0.5);
    expect_near(error_of(&result, 0, COMPARE_FORWARD), 0.25);
    expect_near(error_of(&result, 0, COMPARE_BACKWARD), 2 / 1.2 - 1);
    expect_near(error_of(&result, 0, COMPARE_EXPOSED), 1);
    expect_near(error_of(&result, 0, COMPARE_EXPOSED_SHARE), 0.125);
    expect_near(error_of(&result, 0, COMPARE_MEMORY), -0.1);
    expect_near(error_of(&result, 0, COMPARE_BYTES), 0);
    assert_string_equal(result.comparison.subject_name, "predicted");
    compare_fini(&result);
}

static void what_is_not_there_has_no_error(void **state)
{
    (void)state;
    const struct run predicted = {.kind = "simulated",
                                  .topology = "t",
                                  .cp = 1,
                                  .algorithm = "ring",
                                  .seconds = 3,
                                  .step = ", 'backward_seconds': 0, 'bytes_sent': 0, 'exposed_seconds': 1, "
                                          "'peak_bytes': null"},
                     measured = {.kind = "measured",
                                 .topology = "here",
                                 .cp = 1,
                                 .algorithm = "ring",
                                 .seconds = 2,
                                 .step = ", 'backward_seconds': 0, 'bytes_sent': 0, 'exposed_seconds': 0, "
                                         "'peak_bytes': 100"};
    struct result result;
    compare_two(&result, &predicted, &measured);
    assert_true(result.fine);
    assert_true(isnan(error_of(&result, 0, COMPARE_FORWARD)));  /* neither recorded it */
    assert_true(isnan(error_of(&result, 0, COMPARE_BACKWARD))); /* neither has one */
    assert_true(isnan(error_of(&result, 0, COMPARE_EXPOSED)));  /* against nothing */
    expect_near(error_of(&result, 0, COMPARE_EXPOSED_SHARE), 0.5);
    assert_true(isnan(error_of(&result, 0, COMPARE_MEMORY)));
    expect_near(error_of(&result, 0, COMPARE_BYTES), 0); /* nothing sent, as predicted */
    assert_int_equal(result.comparison.summaries[COMPARE_BACKWARD].count, 0);
    assert_int_equal(result.comparison.summaries[COMPARE_BYTES].count, 1);
    compare_fini(&result);
}

/* Errors of -40, +10, -20, +30 % in this order. */
static void quantiles_are_interpolated_and_the_worst_is_signed(void **state)
{
    (void)state;
    static const double errors[] = {-0.4, 0.1, -0.2, 0.3};
    struct run predicted[4], measured[4];
    for (int i = 0; i < 4; i++) {
        predicted[i] = (struct run){"simulated", "t", 2 + i, "ring", 1 + errors[i], NULL, NULL};
        measured[i] = (struct run){"measured", "here", 2 + i, "ring", 1, NULL, NULL};
    }
    const char *const files[] = {write_sweep("p.json", predicted, 4), write_sweep("m.json", measured, 4)};
    struct result result;
    compare(&result, files, 2);
    assert_true(result.fine);
    const struct compare_summary *step = &result.comparison.summaries[COMPARE_STEP];
    assert_int_equal(step->count, 4);
    expect_near(step->median, 0.25);       /* of 10, 20, 30, 40 */
    expect_near(step->percentile90, 0.37); /* position 2.7 */
    expect_near(step->worst, -0.4);
    assert_int_equal(step->worst_pair, 0);
    expect_near(step->bias, -0.05); /* of -40, -20, 10, 30 */
    static const size_t order[] = {0, 3, 2, 1};
    assert_memory_equal(result.comparison.by_error, order, sizeof order);
    compare_fini(&result);
}

static void intervals_are_read_in_each_of_their_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {", 'seconds_low': 1.5, 'seconds_high': 2.5", ", 'interval_seconds': [1.5, 2.5]",
                                        ", 'spread_seconds': 0.5"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (int outside = 0; outside < 2; outside++) {
            const struct run predicted = {"simulated", "t", 2, "ring", outside ? 2.6 : 2.5, NULL, NULL},
                             measured = {"measured", "here", 2, "ring", 2, forms[i], NULL};
            struct result result;
            compare_two(&result, &predicted, &measured);
            assert_true(result.fine);
            const struct comparison *comparison = &result.comparison;
            assert_int_equal(comparison->pairs[0].in_spread, outside ? VERDICT_OUTSIDE : VERDICT_INSIDE);
            assert_int_equal(comparison->pairs[0].in_interval, VERDICT_NONE);
            assert_int_equal(comparison->in_spread.all, 1);
            assert_int_equal(comparison->in_spread.inside, !outside);
            assert_int_equal(comparison->in_interval.all, 0);
            compare_fini(&result);
        }
    }
    const struct run predicted = {"simulated", "t", 2, "ring", 4, forms[0], NULL},
                     measured = {"measured", "here", 2, "ring", 2, NULL, NULL};
    struct result result;
    compare_two(&result, &predicted, &measured);
    assert_int_equal(result.comparison.pairs[0].in_interval, VERDICT_INSIDE);
    assert_int_equal(result.comparison.in_interval.inside, 1);
    compare_fini(&result);
}

/* ---- pairing ---- */

static void names_and_topologies_do_not_keep_runs_apart(void **state)
{
    (void)state;
    const struct run predicted[] = {{"simulated", "fast", 2, "ring", 1, NULL, NULL},
                                    {"simulated", "slow", 2, "ring", 3, NULL, NULL},
                                    {"simulated", "fast", 4, "ring", 1, NULL, NULL}},
                     measured[] = {{"measured", "here", 2, "ring", 2, NULL, NULL},
                                   {"measured", "here", 2, "ring", 2.5, NULL, NULL},
                                   {"measured", "here", 2, "all-gather", 2.5, NULL, NULL}};
    const char *const files[] = {write_sweep("p.json", predicted, 3), write_sweep("m.json", measured, 3)};
    struct result result;
    compare(&result, files, 2);
    assert_true(result.fine);
    const struct comparison *comparison = &result.comparison;
    assert_int_equal(comparison->n_pairs, 4);
    static const double seconds[][2] = {{1, 2}, {3, 2}, {1, 2.5}, {3, 2.5}};
    for (size_t i = 0; i < 4; i++) {
        expect_near(comparison->pairs[i].subject->seconds, seconds[i][0]);
        expect_near(comparison->pairs[i].reference->seconds, seconds[i][1]);
    }
    assert_int_equal(comparison->n_columns, 2); /* two measurements of one experiment on each of two topologies */
    assert_string_equal(comparison->columns[0].name, "topology");
    assert_string_equal(comparison->pairs[1].cells[0], "slow");
    assert_string_equal(comparison->columns[1].name, "measurement");
    assert_non_null(strstr(comparison->pairs[2].cells[1], "m.json point 2"));
    assert_int_equal(comparison->n_unpaired, 2);
    assert_true(said(&result.notes, "p.json': 1 run has no measured run of its experiment: point 3; nearest is"));
    assert_true(said(&result.notes, "which has parallel.cp = 2, not 4"));
    assert_true(said(&result.notes, "m.json': 1 run has no predicted run of its experiment: point 3; nearest is"));
    compare_fini(&result);
}

static void only_what_varies_is_a_column(void **state)
{
    (void)state;
    const struct run predicted[] = {{"simulated", "t", 2, "ring", 1, NULL, NULL},
                                    {"simulated", "t", 4, "all-gather", 3, NULL, NULL}},
                     measured[] = {{"measured", "here", 2, "ring", 2, NULL, NULL},
                                   {"measured", "here", 4, "all-gather", 2.5, NULL, NULL}};
    const char *const files[] = {write_sweep("m.json", measured, 2), write_sweep("p.json", predicted, 2)};
    struct result result;
    compare(&result, files, 2);
    assert_int_equal(result.comparison.n_columns, 2);
    assert_string_equal(result.comparison.columns[0].name, "cp");
    assert_true(result.comparison.columns[0].number);
    assert_string_equal(result.comparison.columns[1].name, "algorithm");
    assert_false(result.comparison.columns[1].number);
    assert_string_equal(result.comparison.pairs[1].cells[0], "4");
    assert_string_equal(result.comparison.title,
                        "Predicted against measured: simulated, 65,536 tokens, causal, train, on t");
    assert_int_equal(result.notes.count, 0);
    compare_fini(&result);
}

static void no_pair_at_all_is_an_error(void **state)
{
    (void)state;
    const struct run predicted = {"simulated", "t", 2, "ring", 1, NULL, NULL},
                     measured = {"measured", "here", 4, "ring", 2, NULL, NULL};
    struct result result;
    compare_two(&result, &predicted, &measured);
    assert_false(result.fine);
    assert_true(said(&result.diag, "no two runs of one experiment, of the 2 runs in 2 files"));
    assert_true(said(&result.notes, "a.json': no measured run of its experiment; nearest is"));
    compare_fini(&result);
}

static void runs_of_one_kind_are_held_against_the_first_file(void **state)
{
    (void)state;
    const struct run first = {"simulated", "t", 2, "ring", 2, NULL, NULL},
                     second = {"simulated", "u", 2, "all-gather", 3, NULL, NULL};
    struct result result;
    compare_two(&result, &first, &second);
    assert_true(result.fine); /* a run each: the user has paired them */
    const struct comparison *comparison = &result.comparison;
    assert_int_equal(comparison->n_pairs, 1);
    assert_string_equal(comparison->subject_name, "other");
    expect_near(error_of(&result, 0, COMPARE_STEP), 0.5);
    assert_int_equal(comparison->n_columns, 2);
    assert_string_equal(comparison->pairs[0].cells[0], "all-gather vs ring");
    assert_string_equal(comparison->pairs[0].cells[1], "u vs t");
    compare_fini(&result);

    const struct run many[] = {second, first};
    const char *const files[] = {write_run("a.json", &first), write_sweep("b.json", many, 2)};
    compare(&result, files, 2);
    assert_true(result.fine); /* of a sweep only what is of the same experiment */
    assert_int_equal(result.comparison.n_pairs, 1);
    expect_near(error_of(&result, 0, COMPARE_STEP), 0);
    compare_fini(&result);
}

static void hundreds_of_runs_are_paired(void **state)
{
    (void)state;
    enum { N = 600 };
    static struct run predicted[N], measured[N];
    for (int i = 0; i < N; i++) {
        predicted[i] = (struct run){"simulated", "t", 1 + i, "ring", 1 + i, NULL, NULL};
        measured[N - 1 - i] = (struct run){"measured", "here", 1 + i, "ring", 1 + i, NULL, NULL};
    }
    measured[0].seconds *= 2; /* cp = N */
    const char *const files[] = {write_sweep("p.json", predicted, N), write_sweep("m.json", measured, N)};
    struct result result;
    compare(&result, files, 2);
    assert_true(result.fine);
    assert_int_equal(result.comparison.n_pairs, N);
    for (size_t i = 1; i < N; i++)
        expect_near(error_of(&result, i, COMPARE_STEP), 0);
    expect_near(result.comparison.summaries[COMPARE_STEP].worst, -0.5);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(compare_table_write(&result.comparison, 0, stream));
    fclose(stream);
    assert_non_null(strstr(text, "(the 20 largest errors; 580 more pairs not shown)"));
    free(text);
    compare_fini(&result);
}

/* ---- bad files ---- */

static void expect_complaint(const char *text, const char *complaint)
{
    const struct run other = {"measured", "here", 2, "ring", 2, NULL, NULL};
    char *quoted = with_double_quotes(memory_text(text));
    const char *const files[] = {write_run("good.json", &other), write_file("bad.json", quoted)};
    struct result result;
    compare(&result, files, 2);
    assert_false(result.fine);
    assert_true(said(&result.diag, complaint));
    compare_fini(&result);
    free(quoted);
}

#define RUN(step) "{'schema': 'cpsim.run/1', 'kind': 'simulated', 'experiment': {'a': {'b': 1}}, 'step': " step "}"

static void bad_files_are_named_with_what_is_wrong(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{'schema': 'cpsim.run/1',\n\n ]", "bad.json:3: not JSON: "},
        {"", "bad.json:1: not JSON: "},
        {"[1]", "no 'schema', expected cpsim.run/1 or cpsim.sweep/1"},
        {"{'schema': 'cpsim.run/2'}", "schema 'cpsim.run/2', expected cpsim.run/1 or cpsim.sweep/1"},
        {"{'schema': 'cpsim.compare/1'}", "schema 'cpsim.compare/1'"},
        {"{'schema': 'cpsim.sweep/1'}", "a sweep without 'points'"},
        {"{'schema': 'cpsim.sweep/1', 'points': [{}]}", "point 1: neither 'run' nor 'error'"},
        {"{'schema': 'cpsim.sweep/1', 'points': [{'error': ['x']}, {'run': {}}]}", "point 2: no 'step'"},
        {"{'schema': 'cpsim.run/1'}", "'kind' is neither 'simulated' nor 'measured'"},
        {"{'schema': 'cpsim.run/1', 'experiment': {'a': {'b': [1]}}}", "no 'experiment' of the form"},
        {RUN("{}"), "'step.seconds' is missing"},
        {RUN("{'seconds': 0}"), "'step.seconds' is not a number above 0"},
        {RUN("{'seconds': '1'}"), "'step.seconds' is not a number above 0"},
        {RUN("{'seconds': 1, 'peak_bytes': -1}"), "'step.peak_bytes' is not a number of 0 or more"},
        {RUN("{'seconds': 1, 'seconds_low': 1}"), "'step.seconds_high' is missing beside the other"},
        {RUN("{'seconds': 1, 'interval_seconds': [1]}"), "'step.interval_seconds' is not [low, high]"},
        {RUN("{'seconds': 1, 'interval_seconds': [2, 1]}"), "begins below 0 or after its end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_complaint(cases[i][0], cases[i][1]);
}

static void all_problems_of_all_files_are_reported(void **state)
{
    (void)state;
    const char *const files[] = {write_file("a.json", "{"), "/nowhere/b.json", test_folder()};
    struct result result;
    compare(&result, files, 3);
    assert_false(result.fine);
    assert_int_equal(result.diag.count, 3);
    assert_true(said(&result.diag, "cannot read '/nowhere/b.json': No such file or directory"));
    assert_true(said(&result.diag, "': Is a directory"));
    compare_fini(&result);
}

static void a_failed_verification_is_noted(void **state)
{
    (void)state;
    const struct run predicted = {"simulated", "t", 2, "ring", 1, NULL, NULL},
                     measured = {"measured", "here", 2, "ring", 2, NULL, ", 'verification': {'passed': false}"};
    struct result result;
    compare_two(&result, &predicted, &measured);
    assert_true(result.fine);
    assert_true(said(&result.notes, "b.json' failed its verification"));
    compare_fini(&result);
}

/* ---- the command ---- */

static void misuse_is_refused(void **state)
{
    (void)state;
    expect_misuse("--compare", "0 files given, expected two or more runs (JSON)");
    expect_misuse("--compare a.json", "1 file given");
    expect_misuse("--compare a.json a.json", "'a.json' is given twice");
    expect_misuse("--compare a.json b.json --set a.b=c", "--set has no effect with --compare");
    expect_misuse("--compare a.json b.json --sweep a.b=c", "--sweep has no effect with --compare");
    expect_misuse("--compare a.json b.json --trace x", "--trace has no effect with --compare");
    expect_misuse("--compare a.json b.json --jobs 2", "--jobs has no effect with --compare");
    expect_misuse("--compare a.json b.json --engine analytic", "--engine has no effect with --compare");
    expect_misuse("--compare a.json b.json --operations --json x", "--operations has no effect with --compare");
    expect_misuse("--compare a.json b.json --json a.json", "--json would overwrite 'a.json', which is read");
    expect_misuse("--compare a.json b.json --plot time=x.png", "a comparison has no time plot, expected scatter");
    expect_misuse("--compare a.json b.json --check", "exclude each other");
    expect_misuse("toy-2 two-owners --plot scatter=x.png", "a scatter plot needs --compare");
    expect_misuse("toy-2 two-owners --operations", "--operations has no effect without --json");
    expect_misuse("toy-2 two-owners --sweep parallel.cp=1,2 --plot phases=-", "a sweep has no phases plot");
    expect_misuse("toy-2 two-owners --sweep parallel.cp=1,2 --operations --json x", "no effect with --sweep");
    expect_misuse("--compare /nowhere/a.json /nowhere/b.json", "cannot read '/nowhere/b.json'");
}

static void the_command_compares_what_it_has_written(void **state)
{
    (void)state;
    struct outcome outcome =
        shell("cd \"$DIR\" && $CPSIM toy-2 two-owners --quiet --json one.json --operations && "
              "sed 's/\"simulated\"/\"measured\"/' one.json > two.json && "
              "$CPSIM --compare one.json two.json --csv compared.csv --plot timelines=compared.svg --plot phases=-");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, "Predicted against measured"));
    assert_true(made_file_exists("compared.csv"));
    assert_true(made_file_exists("compared.svg"));
    outcome_fini(&outcome);
    outcome = shell("cd \"$DIR\" && sed 's/\"cp\": 2/\"cp\": 3/' two.json > three.json && "
                    "$CPSIM --compare one.json three.json --json none.json");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.out, "");
    assert_non_null(strstr(outcome.err, "no two runs of one experiment"));
    assert_false(made_file_exists("none.json"));
    outcome_fini(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_predicted_over_measured_minus_one),
        cmocka_unit_test(what_is_not_there_has_no_error),
        cmocka_unit_test(quantiles_are_interpolated_and_the_worst_is_signed),
        cmocka_unit_test(intervals_are_read_in_each_of_their_forms),
        cmocka_unit_test(names_and_topologies_do_not_keep_runs_apart),
        cmocka_unit_test(only_what_varies_is_a_column),
        cmocka_unit_test(no_pair_at_all_is_an_error),
        cmocka_unit_test(runs_of_one_kind_are_held_against_the_first_file),
        cmocka_unit_test(hundreds_of_runs_are_paired),
        cmocka_unit_test(bad_files_are_named_with_what_is_wrong),
        cmocka_unit_test(all_problems_of_all_files_are_reported),
        cmocka_unit_test(a_failed_verification_is_noted),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(the_command_compares_what_it_has_written),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
