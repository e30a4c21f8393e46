/* Plot scripts: golden text for tiny cases, and what must hold for any case.
 *
 * The golden scripts are tests/cli/golden/NAME.gp. After a deliberate change, look at what gnuplot makes of the new
 * ones, then run this test once with CPSIM_REGENERATE=1 in the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/algorithms.h"
#include "cli/plot_algorithms.h"
#include "cli/plot_style.h"
#include "tests/cli/expect.h"
#include "tests/predict.h"

static struct plot_target target_of(const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct plot_target target;
    assert_true(plot_target_parse(text, &target, &diag));
    diagnostics_fini(&diag);
    return target;
}

static char *run_script(const struct prediction *prediction, const char *target_text)
{
    struct plot_target target = target_of(target_text);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(plot_script_run(prediction, &target, 80, stream));
    fclose(stream);
    return text;
}

static void predict_ring(struct prediction *prediction, uint32_t cp, const char *pass)
{
    const struct toy toy = {.q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .seq_len = 1024 * cp,
                            .mask = "causal",
                            .pass = pass,
                            .cp = cp,
                            .schedule = "algorithm = ring\nsharding = contiguous\n"};
    assert_int_equal(predict_toy(prediction, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
    free(prediction->topology_name); /* a temporary name */
    prediction->topology_name = memory_text("clusters/toy.ini");
}

static void scripts_of_a_run_are_golden(void **state)
{
    (void)state;
    static const char *const plots[][2] = {{"timeline.gp", "timeline=out.png"},
                                           {"timeline-terminal.gp", "timeline=-"},
                                           {"memory.gp", "memory=out.svg"},
                                           {"time.gp", "time=out.pdf"},
                                           {"time-terminal.gp", "time=-"}};
    struct prediction prediction;
    predict_ring(&prediction, 2, "train");
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++) {
        char *script = run_script(&prediction, plots[i][1]);
        expect_golden(plots[i][0], script);
        free(script);
    }
    prediction_fini(&prediction);
}

/* The sums of a reduce-scatter run beside the compute stream. They are drawn in rank 0's lane 0, where its time adds
 * up, and not in lane 2, that of gradients, whose transfers are too short to be seen here. */
static void sums_beside_the_compute_stream_are_seen_as_computing(void **state)
{
    (void)state;
    const struct toy toy = {.q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .seq_len = 256,
                            .mask = "full",
                            .pass = "train",
                            .cp = 4,
                            .schedule = "algorithm = all-gather\nsharding = contiguous\n"};
    struct prediction prediction;
    assert_int_equal(predict_toy(&prediction, &toy, "1000 TB/s", "0 s"), PREDICTION_DONE);
    char *script = run_script(&prediction, "timeline=-");
    assert_non_null(strstr(script, "pointtype '+'"));
    const char *sums = strstr(script, "$paint1 <<");
    assert_non_null(sums);
    assert_non_null(strstr(sums, " 0\n"));
    assert_null(strstr(sums, " 2\n"));
    free(script);
    prediction_fini(&prediction);
}

/* A sweep as sweep.c makes it, with just what plots look at. */
static json_t *tiny_sweep(const char *points)
{
    char *text = memory_format(
        "{'schema': 'cpsim.sweep/1', 'keys': ['parallel.cp', 'schedule.overlap'], 'points': [%s]}", points);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *sweep = json_loads(text, 0, NULL);
    assert_non_null(sweep);
    free(text);
    return sweep;
}

#define POINT(cp, overlap, seconds)                                                                                    \
    "{'set': {'parallel.cp': '" cp "', 'schedule.overlap': '" overlap "'}, 'run': {"                                   \
    "'topology': {'path': 'clusters/toy.ini'}, 'experiment': {'model': {'name': 'tiny'}, "                             \
    "'workload': {'seq_len': 65536, 'mask': 'causal'}}, 'step': {'seconds': " seconds                                  \
    ", 'exposed_seconds': 0.001, 'tflops_per_rank': 50, 'peak_bytes': 1048576, 'device_bytes': 1073741824, "           \
    "'fits': true}}}"

static char *sweep_script(const json_t *sweep, const char *target_text)
{
    struct plot_target target = target_of(target_text);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(plot_script_sweep(sweep, &target, 80, stream));
    fclose(stream);
    return text;
}

static void scripts_of_a_sweep_are_golden(void **state)
{
    (void)state;
    json_t *sweep = tiny_sweep(POINT("1", "yes", "0.4") "," POINT("1", "no", "0.5") "," POINT(
        "4", "yes", "0.1") ","
                           "{'set': {'parallel.cp': '8', 'schedule.overlap': 'yes'}, 'error': ['too large']}");
    char *file = sweep_script(sweep, "scaling=out.png"), *terminal = sweep_script(sweep, "scaling=-");
    expect_golden("scaling.gp", file);
    expect_golden("scaling-terminal.gp", terminal);
    free(file);
    free(terminal);
    json_decref(sweep);
}

#define ALGORITHM(name, seconds, exposed, near, far, fits)                                                             \
    "{'set': {'schedule.algorithm': '" name "'}, 'run': {'topology': {'path': 'clusters/toy.ini'}, "                   \
    "'experiment': {'model': {'name': 'tiny'}, 'workload': {'seq_len': 65536, 'mask': 'causal'}}, "                    \
    "'ranks': [{}, {}], 'links': [{'class': 'node', 'bytes': " near "}, {'class': 'cluster', 'bytes': " far "}], "     \
    "'step': {'seconds': " seconds ", 'compute_seconds': 0.05, 'exposed_seconds': " exposed ", 'idle_seconds': 0.01, " \
    "'peak_bytes': 805306368, 'device_bytes': 1073741824, 'fits': " fits "}}}"

/* Best first, what does not fit behind, what did not run left out. */
static void scripts_of_a_comparison_of_algorithms_are_golden(void **state)
{
    (void)state;
    json_t *sweep = tiny_sweep(ALGORITHM("huge", "0.05", "0", "1e9", "0", "false") "," ALGORITHM(
        "slow", "0.3", "0.24", "1e9", "3e9",
        "true") "," ALGORITHM("quick", "0.1", "0.04", "2e9", "5e8",
                              "true") ","
                                      "{'set': {'schedule.algorithm': 'none'}, 'error': ['does not apply']}");
    json_object_set_new(sweep, "keys", json_pack("[s]", "schedule.algorithm"));
    size_t *order = algorithms_order(sweep);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(order[i], ((const size_t[]){2, 1, 0, 3})[i]);
    free(order);
    static const char *const plots[][2] = {{"algorithms.gp", "algorithms=out.png"},
                                           {"algorithms-terminal.gp", "algorithms=-"}};
    for (size_t i = 0; i < 2; i++) {
        struct plot_target target = target_of(plots[i][1]);
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);
        assert_true(plot_script_algorithms(sweep, &target, 80, stream));
        fclose(stream);
        expect_golden(plots[i][0], text);
        free(text);
    }
    json_decref(sweep);
}

static void a_sweep_without_points_has_no_script(void **state)
{
    (void)state;
    json_t *sweep = tiny_sweep("{'set': {'parallel.cp': '8', 'schedule.overlap': 'yes'}, 'error': ['too large']}");
    struct plot_target target = target_of("scaling=out.png");
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_false(plot_script_sweep(sweep, &target, 80, stream));
    fclose(stream);
    assert_string_equal(text, "");
    free(text);
    json_decref(sweep);
}

static void names_are_never_commands(void **state)
{
    (void)state;
    struct prediction prediction;
    predict_ring(&prediction, 2, "forward");
    snprintf(prediction.experiment.model.name, sizeof prediction.experiment.model.name, "a'b`touch x`\n\"c\\");
    char *script = run_script(&prediction, "timeline=it's.png");
    assert_non_null(strstr(script, "set output 'it''s.png'\n"));
    assert_non_null(strstr(script, "set label 1 'a''b`touch x`?\"c\\ "));
    free(script);
    prediction_fini(&prediction);
}

/* Length of the data blocks of a script, in lines. */
static size_t lines_of(const char *script)
{
    size_t lines = 0;
    for (; *script; script++)
        lines += *script == '\n';
    return lines;
}

static void many_ranks_are_sampled_with_the_critical_one_among_them(void **state)
{
    (void)state;
    struct prediction prediction;
    predict_ring(&prediction, 40, "train");
    prediction.report.critical_rank = 39;
    char *script = run_script(&prediction, "timeline=out.png");
    assert_non_null(strstr(script, "16 of 40 ranks shown"));
    assert_non_null(strstr(script, "'rank 0' "));
    assert_non_null(strstr(script, "'rank 39' "));
    assert_null(strstr(script, "'rank 1' "));
    free(script);
    char *bars = run_script(&prediction, "time=out.png");
    assert_non_null(strstr(bars, "\n39 ")); /* bars have room for all */
    free(bars);
    prediction_fini(&prediction);
}

static void a_lane_is_never_longer_than_its_pixels(void **state)
{
    (void)state;
    const struct toy toy = {.q_heads = 1,
                            .kv_heads = 1,
                            .head_dim = 64,
                            .seq_len = 1 << 16,
                            .mask = "full",
                            .pass = "forward",
                            .cp = 2,
                            .schedule = "algorithm = ring\nkv_block = 16\n"};
    struct prediction prediction;
    assert_int_equal(predict_toy(&prediction, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
    assert_true(prediction.programs[0].n_ops > 8000);
    char *script = run_script(&prediction, "timeline=out.png");
    assert_true(lines_of(script) < 2 * 2 * 1464 + 100); /* two ranks of two lanes */
    free(script);
    prediction_fini(&prediction);
}

/* What the plot shows as exposed must be what the tables say. */
static void exposed_boxes_add_up_to_the_reported_seconds(void **state)
{
    (void)state;
    struct prediction prediction;
    predict_ring(&prediction, 4, "train");
    char *script = run_script(&prediction, "timeline=out.png");
    double scale = strstr(script, "(ms)") ? 1e-3 : 1e-6, drawn = 0, reported = 0;
    const char *line = strstr(script, "$paint2 << EOD\n");
    assert_non_null(line);
    for (line = strchr(line, '\n') + 1; strncmp(line, "EOD", 3) != 0; line = strchr(line, '\n') + 1) {
        double begin, end;
        assert_int_equal(sscanf(line, "%lf %lf", &begin, &end), 2);
        drawn += (end - begin) * scale;
    }
    for (uint32_t i = 0; i < prediction.report.n_ranks; i++)
        reported += prediction.report.ranks[i].exposed_seconds;
    assert_true(reported > 0 && drawn > reported * (1 - 1e-4) && drawn < reported * (1 + 1e-4));
    free(script);
    prediction_fini(&prediction);
}

static void ticks_are_round_and_share_their_decimals(void **state)
{
    (void)state;
    static const struct {
        double maximum;
        const char *script;
    } cases[] = {
        {2.9, "set ytics 0,0.5\nset format y '%.1f'\n"},   {1, "set ytics 0,0.2\nset format y '%.1f'\n"},
        {81, "set ytics 0,20\nset format y '%.0f'\n"},     {0.02, "set ytics 0,0.005\nset format y '%.3f'\n"},
        {7900, "set ytics 0,1000\nset format y '%.0f'\n"}, {9, "set ytics 0,2\nset format y '%.0f'\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);
        plot_ticks(stream, 'y', cases[i].maximum, 8);
        fclose(stream);
        assert_string_equal(text, cases[i].script);
        free(text);
    }
}

static void targets_are_told_by_ending_and_kind(void **state)
{
    (void)state;
    struct plot_target target = target_of("memory=a/b=c.svg");
    assert_int_equal(target.kind, PLOT_MEMORY);
    assert_true(target.kind_given);
    assert_string_equal(target.path, "a/b=c.svg");
    target = target_of("./time=3.png");
    assert_false(target.kind_given);
    assert_string_equal(target.path, "./time=3.png");
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(plot_target_parse("x.jpg", &target, &diag));
    assert_false(plot_target_parse(".png", &target, &diag));
    assert_false(plot_target_parse("pie=x.png", &target, &diag));
    assert_false(plot_target_parse("time=", &target, &diag));
    assert_int_equal(diag.count, 4);
    for (int kind = 0; kind < PLOT_KINDS; kind++) /* the third says which there are */
        assert_non_null(strstr(diag.lines[2], plot_kind_name((enum plot_kind)kind)));
    diagnostics_fini(&diag);
}

/* Characters are on average 0.7 of their font's size wide. */
static void long_titles_fit_the_width(void **state)
{
    (void)state;
    const struct plot_target target = {.path = "x.png"};
    static const char *const lines[] = {"set label 1 ", "set label 2 "};
    for (int n = 1; n < 160; n += 10) {
        char title[200], *script = NULL;
        memset(title, 'm', (size_t)n);
        title[n] = '\0';
        size_t size = 0;
        FILE *stream = open_memstream(&script, &size);
        plot_titles(stream, &target, (struct plot_area){1400, 500}, title, title);
        fclose(stream);
        for (int i = 0; i < 2; i++) {
            const char *font = strstr(strstr(script, lines[i]), "font ',");
            int points = atoi(font + strlen("font ',"));
            assert_in_range(points, 7, i ? 13 : 17);
            assert_true(0.7 * points * n <= 0.96 * 1400);
            assert_true(n > 90 || points == (i ? 13 : 17));
        }
        free(script);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_of_a_run_are_golden),
        cmocka_unit_test(sums_beside_the_compute_stream_are_seen_as_computing),
        cmocka_unit_test(scripts_of_a_sweep_are_golden),
        cmocka_unit_test(scripts_of_a_comparison_of_algorithms_are_golden),
        cmocka_unit_test(a_sweep_without_points_has_no_script),
        cmocka_unit_test(names_are_never_commands),
        cmocka_unit_test(many_ranks_are_sampled_with_the_critical_one_among_them),
        cmocka_unit_test(a_lane_is_never_longer_than_its_pixels),
        cmocka_unit_test(exposed_boxes_add_up_to_the_reported_seconds),
        cmocka_unit_test(ticks_are_round_and_share_their_decimals),
        cmocka_unit_test(targets_are_told_by_ending_and_kind),
        cmocka_unit_test(long_titles_fit_the_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
