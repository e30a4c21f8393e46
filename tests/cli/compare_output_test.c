/* Predicted against measured: table, JSON, CSV and plots. The golden files are renewed as expect.h says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/compare_operations.h"
#include "cli/compare_writers.h"
#include "cli/plots.h"
#include "cli/writers.h"
#include "tests/cli/compared.h"
#include "tests/cli/expect.h"
#include "tests/cli/run_tree.h"
#include "tests/predict.h"

/* ---- writers ---- */

/* Two pairs, one with a spread and one with an interval. */
static void compare_example(struct result *result)
{
    const struct run predicted[] = {{"simulated", "toy.ini", 2, "ring", 0.011,
                                     ", 'forward_seconds': 0.004, 'backward_seconds': 0.007, 'exposed_seconds': 0.001, "
                                     "'peak_bytes': 1048576, 'bytes_sent': 2000, 'seconds_low': 0.009, "
                                     "'seconds_high': 0.0125",
                                     NULL},
                                    {"simulated", "toy.ini", 4, "all-gather", 0.019,
                                     ", 'forward_seconds': 0.007, 'backward_seconds': 0.012, 'exposed_seconds': 0.006, "
                                     "'peak_bytes': 1048576, 'bytes_sent': 6000",
                                     NULL}},
                     measured[] = {{"measured", "here", 2, "ring", 0.01,
                                    ", 'forward_seconds': 0.004, 'backward_seconds': 0.006, 'exposed_seconds': 0.002, "
                                    "'peak_bytes': 1048576, 'bytes_sent': 2000, 'seconds_low': 0.0099, "
                                    "'seconds_high': 0.0105",
                                    NULL},
                                   {"measured", "here", 4, "all-gather", 0.02,
                                    ", 'forward_seconds': 0.008, 'backward_seconds': 0.012, 'exposed_seconds': 0, "
                                    "'peak_bytes': 2097152, 'bytes_sent': 6000",
                                    NULL}};
    const char *const files[] = {write_sweep("p.json", predicted, 2), write_sweep("m.json", measured, 2)};
    compare(result, files, 2);
    assert_true(result->fine);
}

static void the_table_is_golden(void **state)
{
    (void)state;
    struct result result;
    compare_example(&result);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(compare_table_write(&result.comparison, 1, stream));
    fclose(stream);
    expect_golden("compare.txt", text);
    free(text);
    compare_fini(&result);
}

static void json_holds_both_steps_errors_and_summary(void **state)
{
    (void)state;
    struct result result;
    compare_example(&result);
    json_t *json = compare_to_json(&result.comparison);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "cpsim.compare/1");
    const char *settings, *algorithm;
    double predicted, measured, error, median;
    int inside, all, none;
    json_t *nothing;
    json_error_t why;
    if (json_unpack_ex(
            json, &why, 0,
            "{s:[{s:{s:s, s:s}, s:{s:{s:F}}, s:{s:{s:F}}, s:{s:F}, s:b}, {s:{s:o}, s:n}], s:{s:{s:F}, s:{s:i, s:i}}}",
            "pairs", "settings", "cp", &settings, "algorithm", &algorithm, "predicted", "step", "seconds", &predicted,
            "measured", "step", "seconds", &measured, "errors", "seconds", &error, "in_spread", &none, "errors",
            "exposed_seconds", &nothing, "in_interval", "summary", "seconds", "median", &median, "in_interval",
            "inside", &inside, "all", &all) != 0)
        fail_msg("%s", why.text);
    assert_string_equal(settings, "2");
    assert_string_equal(algorithm, "ring");
    expect_near(predicted, 0.011);
    expect_near(measured, 0.01);
    expect_near(error, 0.1);
    assert_true(json_is_null(nothing));
    assert_false(none);
    expect_near(median, 0.075);
    assert_int_equal(inside, 1);
    assert_int_equal(all, 1);
    json_decref(json);
    compare_fini(&result);
}

static void csv_has_a_row_a_pair_with_as_many_fields_as_names(void **state)
{
    (void)state;
    struct result result;
    compare_example(&result);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(compare_csv_write(&result.comparison, stream));
    fclose(stream);
    size_t lines = 0, commas[3] = {0, 0, 0};
    for (const char *c = text; *c; c++) {
        assert_true(lines < 3);
        commas[lines] += *c == ',';
        lines += *c == '\n';
    }
    assert_int_equal(lines, 3);
    assert_int_equal(commas[0], commas[1]);
    assert_int_equal(commas[0], commas[2]);
    assert_memory_equal(text, "pair,cp,algorithm,predicted_run,measured_run,predicted_seconds,", 63);
    free(text);
    compare_fini(&result);
}

static char *script_of(const struct comparison *comparison, const char *target_text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct plot_target target;
    assert_true(plot_target_parse(target_text, &target, &diag));
    diagnostics_fini(&diag);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(plot_script_compare(comparison, &target, 80, stream));
    fclose(stream);
    return text;
}

static void scripts_of_a_comparison_are_golden(void **state)
{
    (void)state;
    static const char *const plots[][2] = {{"scatter.gp", "scatter=out.png"},
                                           {"scatter-terminal.gp", "scatter=-"},
                                           {"phases.gp", "phases=out.svg"},
                                           {"phases-terminal.gp", "phases=-"}};
    struct result result;
    compare_example(&result);
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++) {
        char *script = script_of(&result.comparison, plots[i][1]);
        expect_golden(plots[i][0], script);
        free(script);
    }
    compare_fini(&result);
}

/* ---- timelines ---- */

/* Both from one simulation, the second half as fast. */
static void compare_timelines(struct result *result)
{
    const struct toy toy = {.q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .seq_len = 2048,
                            .mask = "causal",
                            .pass = "train",
                            .cp = 2,
                            .schedule = "algorithm = ring\nsharding = contiguous\n"};
    const char *files[2];
    for (int measured = 0; measured < 2; measured++) {
        struct prediction prediction;
        assert_int_equal(predict_toy(&prediction, &toy, measured ? "50 GB/s" : "100 GB/s", "1 us"), PREDICTION_DONE);
        free(prediction.topology_name); /* a temporary name */
        prediction.topology_name = memory_text("clusters/toy.ini");
        json_t *json = run_tree(&prediction, true);
        if (measured)
            json_object_set_new(json, "kind", json_string("measured"));
        const json_t *operations = json_object_get(json, "operations");
        assert_int_equal(json_array_size(operations), prediction.programs[0].n_ops + prediction.programs[1].n_ops);
        char *text = json_dumps(json, JSON_REAL_PRECISION(17));
        files[measured] = write_file(measured ? "m.json" : "p.json", text);
        free(text);
        json_decref(json);
        prediction_fini(&prediction);
    }
    compare(result, files, 2);
    assert_true(result->fine);
}

static void scripts_of_timelines_are_golden(void **state)
{
    (void)state;
    struct result result;
    compare_timelines(&result);
    assert_true(compare_check_timelines(&result.comparison, &result.diag));
    char *file = script_of(&result.comparison, "timelines=out.png"),
         *terminal = script_of(&result.comparison, "timelines=-");
    expect_golden("timelines.gp", file);
    expect_golden("timelines-terminal.gp", terminal);
    free(file);
    free(terminal);
    compare_fini(&result);
}

static void operations_are_read_back_as_they_were_written(void **state)
{
    (void)state;
    struct result result;
    compare_timelines(&result);
    const struct compared_run *run = result.comparison.pairs[0].subject;
    struct operations operations;
    assert_true(operations_init(&operations, run, &result.diag));
    size_t attends = 0, kv = 0, gradients = 0;
    for (size_t i = 0; i < operations.count; i++) {
        attends += operations.items[i].class == OPERATION_ATTENTION;
        kv += operations.items[i].class == OPERATION_KV;
        gradients += operations.items[i].class == OPERATION_GRADIENT;
        assert_true(i == 0 || operations.items[i].rank >= operations.items[i - 1].rank);
    }
    assert_int_equal(attends, 6);   /* causal, contiguous: three blocks to attend, forward and backward */
    assert_int_equal(kv, 8);        /* 2 ranks, forward and replay, send and receive */
    assert_int_equal(gradients, 8); /* both ring steps return gradients */
    expect_near(operations.end, run->seconds);
    operations_fini(&operations);
    compare_fini(&result);
}

static void timelines_need_one_pair_with_operations(void **state)
{
    (void)state;
    struct result result;
    compare_example(&result);
    assert_false(compare_check_timelines(&result.comparison, &result.diag));
    assert_true(said(&result.diag, "timelines are drawn of one pair, here are 2"));
    compare_fini(&result);
    static const struct {
        const char *operations, *message;
    } cases[] = {
        {NULL, "b.json' holds no operations, which timelines are drawn from: write its --json together with "
               "--operations"},
        {", 'operations': []", "b.json' holds no operations"},
        {", 'operations': [{'rank': 0, 'kind': 'attend', 'begin': 2, 'end': 1}]", "b.json': operation 1 is not {rank,"},
        {", 'operations': [{'rank': -1, 'kind': 'attend', 'begin': 0, 'end': 1}]", "b.json': operation 1 is not"},
        {", 'operations': [7]", "b.json': operation 1 is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct run predicted = {"simulated",
                                      "t",
                                      2,
                                      "ring",
                                      1,
                                      NULL,
                                      ", 'operations': [{'rank': 0, 'kind': 'attend', 'begin': 0, 'end': 1}]"},
                         measured = {"measured", "here", 2, "ring", 2, NULL, cases[i].operations};
        compare_two(&result, &predicted, &measured);
        assert_true(result.fine);
        assert_false(compare_check_timelines(&result.comparison, &result.diag));
        assert_int_equal(result.diag.count, 1);
        assert_true(said(&result.diag, cases[i].message));
        compare_fini(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_golden),
        cmocka_unit_test(json_holds_both_steps_errors_and_summary),
        cmocka_unit_test(csv_has_a_row_a_pair_with_as_many_fields_as_names),
        cmocka_unit_test(scripts_of_a_comparison_are_golden),
        cmocka_unit_test(scripts_of_timelines_are_golden),
        cmocka_unit_test(operations_are_read_back_as_they_were_written),
        cmocka_unit_test(timelines_need_one_pair_with_operations),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
