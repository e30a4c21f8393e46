/* Elasticities: shares of a step that is a sum, both sides of a kink, -1 altogether; and what --sensitivity writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "cli/sensitivity.h"
#include "tests/cli/expect.h"
#include "tests/cli/sensitivity_of.h"

/* Ranks of 1,024 rows with as many query as KV heads, 8 of 64: a block's attention takes 21.47483648 us on the toy
 * device, its keys and values are 2 MiB in bf16. */
#define RANKS 4
#define BLOCK_SECONDS 21.47483648e-6
#define BLOCK_BYTES 2097152.0
#define MESSAGE_LATENCY 2e-6

static void run(struct sensitivity *sensitivity, const char *bandwidth, const char *latency, const char *schedule,
                mechanism_set without, const struct engine_ops *engine)
{
    const struct toy toy = {8, 8, 64, 1024 * RANKS, "full", "forward", RANKS, schedule};
    sensitivity_of(sensitivity, toy_cluster(RANKS, bandwidth, latency), toy_experiment(&toy), without, engine);
}

static const struct sensitivity_row *row_of(const struct sensitivity *sensitivity, const char *name)
{
    for (size_t i = 0; i < sensitivity->n_rows; i++)
        if (strcmp(sensitivity->rows[i].constant->name, name) == 0)
            return &sensitivity->rows[i];
    fail_msg("there is no constant '%s'", name);
    return NULL;
}

static void expect_slope(const struct sensitivity *sensitivity, const char *name, double expected)
{
    const struct sensitivity_row *row = row_of(sensitivity, name);
    if (fabs(row->elasticity.both - expected) > 1e-4 || row->kink || !row->has_effect)
        fail_msg("elasticity to %s is %g%s, expected %g", name, row->elasticity.both, row->kink ? ", a kink" : "",
                 expected);
}

/* Nothing overlaps, so the step is a sum, and the elasticity to each constant the share of its term. */
static void of_a_sum_they_are_the_terms_shares(void **state)
{
    (void)state;
    static const struct engine_ops *const both[] = {&engine_analytic, &engine_simgrid};
    for (int e = 0; e < 2; e++) {
        struct sensitivity sensitivity;
        run(&sensitivity, "100 GB/s", "2 us", "algorithm = ring\noverlap = no", 0, both[e]);
        double seconds = sensitivity.seconds, messages = RANKS - 1;
        expect_slope(&sensitivity, "attention linear forward any.rates", -RANKS * BLOCK_SECONDS / seconds);
        expect_slope(&sensitivity, "level node.bandwidth", -messages * BLOCK_BYTES / 100e9 / seconds);
        expect_slope(&sensitivity, "level node.latency", messages * MESSAGE_LATENCY / seconds);
        double merges = seconds - RANKS * BLOCK_SECONDS - messages * (BLOCK_BYTES / 100e9 + MESSAGE_LATENCY);
        assert_true(merges > 0.01 * seconds);
        expect_slope(&sensitivity, "device.memory_bandwidth", -merges / seconds);
        assert_true(fabs(sensitivity.sum + 1) < 1e-4);
        assert_true(fabs(sensitivity.all.both + 1) < 1e-6);
        assert_int_equal(sensitivity.n_effects, 4);
        sensitivity_fini(&sensitivity);
    }
}

static void expect_kink(const struct sensitivity *sensitivity, const char *name, double lowered, double raised)
{
    const struct elasticity *slope = &row_of(sensitivity, name)->elasticity;
    assert_true(row_of(sensitivity, name)->kink);
    if (fabs(slope->lowered - lowered) > 0.01 || fabs(slope->raised - raised) > 0.01)
        fail_msg("slopes to %s are %g and %g, expected %g and %g", name, slope->lowered, slope->raised, lowered,
                 raised);
}

/* A block's message takes exactly as long as its attention, behind which it moves: whichever becomes slower makes the
 * P - 1 steps with a message longer; the attention that no message moves beside is one of P. */
static void between_two_bottlenecks_there_is_a_kink(void **state)
{
    (void)state;
    struct sensitivity sensitivity;
    mechanism_set without = (mechanism_set)1 << MECHANISM_STEPS;
    run(&sensitivity, "97656250000 B/s", "0 s", "algorithm = ring", without, &engine_analytic);
    assert_true(fabs(sensitivity.seconds - RANKS * BLOCK_SECONDS) < 1e-12);
    expect_kink(&sensitivity, "level node.bandwidth", -(RANKS - 1.0) / RANKS, 0);
    expect_kink(&sensitivity, "attention linear forward any.rates", -1, -1.0 / RANKS);
    assert_true(fabs(sensitivity.sum + 1) < 0.01);
    assert_true(fabs(sensitivity.all.both + 1) < 1e-9); /* of all at once there is none */
    assert_false(row_of(&sensitivity, "device.memory_bandwidth")->has_effect);
    sensitivity_fini(&sensitivity);
}

#ifndef __SANITIZE_ADDRESS__
#define ALGORITHMS_TRIED 5
#define QUICK_ENGINE
#else
#define ALGORITHMS_TRIED 2
#define QUICK_ENGINE " --engine analytic" /* sums are by both engines there, too */
#endif

/* Every constant with a dimension of time is among them, or the machine that is faster in all of them would not be as
 * much faster: on a cluster with channels, protocols, curves and a host that takes its time. */
static void a_machine_faster_in_everything_is_as_much_faster(void **state)
{
    (void)state;
    static const char *const settings[ALGORITHMS_TRIED] = {
        "--set workload.seq_len=4Ki --set schedule.implementation=ring-flash-attention-eager" QUICK_ENGINE,
        "--set schedule.algorithm=all-gather" QUICK_ENGINE,
#ifndef __SANITIZE_ADDRESS__
        "--set schedule.algorithm=ulysses --set parallel.cp=8 --engine analytic",
        "--set schedule.algorithm=usp --set schedule.implementation=yunchang",
        "--set schedule.algorithm=double-ring --set 'level cluster.attach=node' --set 'level cluster.curve=1 MiB: 20 "
        "GB/s, 8 MiB: 45 GB/s'",
#endif
    };
    for (int i = 0; i < ALGORITHMS_TRIED; i++) {
        char *text =
            memory_format("printf '[model]\\npreset = llama3-8b\\n[workload]\\nseq_len = 64Ki\\n[parallel]\\ncp = "
                          "16\\n[schedule]\\nsharding = zigzag\\nalgorithm = ring\\n' > $DIR/e.ini; "
                          "$CPSIM dgx-h100-4 $DIR/e.ini %s --sensitivity --json -",
                          settings[i]);
        json_t *json = json_of(text);
        double all = json_number_value(json_object_get(json, "all_at_once"));
        double sum = json_number_value(json_object_get(json, "sum"));
        if (fabs(all + 1) > 1e-5 || fabs(sum + 1) > 0.01)
            fail_msg("%s: all at once %g, sum %g", text, all, sum);
        json_decref(json);
        free(text);
    }
}

#define ASKED "$CPSIM dgx-h100-4 llama3-8b-1m --sensitivity --engine analytic --set parallel.cp=8 "

static void the_table_names_what_counts_and_what_does_not(void **state)
{
    (void)state;
    struct outcome outcome = shell(ASKED "--without launch");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    assert_non_null(strstr(outcome.out, "raised and lowered by 2 %"));
    const char *first = strstr(outcome.out, "attention fa3 backward 128.rates  601 TFLOP/s"),
               *second = strstr(outcome.out, "attention fa3 forward 128.rates   701 TFLOP/s"),
               *none = strstr(outcome.out, "no effect in this run:");
    assert_true(first && second && none && first < second && second < none);
    assert_non_null(strstr(outcome.out, "no message crosses level cluster: none of its keys")); /* of eight ranks */
    assert_null(strstr(outcome.out, "level cluster.bandwidth"));
    assert_non_null(strstr(none, "device.launch"));
    assert_non_null(strstr(outcome.out, "sum over rates less sum over times -1.0000"));
    outcome_fini(&outcome);
}

static void json_and_csv_have_a_row_a_constant(void **state)
{
    (void)state;
    json_t *json = json_of(ASKED "--json - --csv $DIR/s.csv");
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "cpsim.sensitivity/1");
    assert_non_null(strstr(json_string_value(json_object_get(json, "command")), "--sensitivity"));
    assert_true(json_number_value(json_object_get(json, "seconds")) > 0);
    const json_t *rows = json_object_get(json, "constants");
    size_t i;
    json_t *row;
    double steepest = INFINITY;
    json_array_foreach(rows, i, row)
    {
        double slope = fabs(json_number_value(json_object_get(row, "elasticity")));
        assert_true(slope <= steepest);
        steepest = slope;
        bool changed = json_number_value(json_object_get(row, "raised_seconds")) !=
                       json_number_value(json_object_get(row, "lowered_seconds"));
        assert_int_equal(changed, json_is_true(json_object_get(row, "has_effect")));
        assert_true(json_number_value(json_object_get(row, "value")) > 0);
    }
    char *csv = made_file("s.csv");
    size_t lines = 0;
    for (const char *c = csv; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, json_array_size(rows) + 1);
    assert_memory_equal(csv, "constant,kind,value,unit,", 25);
    free(csv);
    json_decref(json);
}

static double slope_of(const json_t *json, const char *name, const char *kind)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(json, "constants"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "constant")), name) == 0) {
            assert_string_equal(json_string_value(json_object_get(row, "kind")), kind);
            return json_number_value(json_object_get(row, "elasticity"));
        }
    }
    return NAN;
}

/* Nine tenths of the bandwidth, or of it nine tenths: one does what the other does, and one is summed up. A share at
 * its most cannot be raised. */
static void shares_have_no_part_in_the_sum(void **state)
{
    (void)state;
    json_t *json = json_of(ASKED "--json -");
    double bandwidth = slope_of(json, "device.memory_bandwidth", "rate");
    assert_true(bandwidth < 0);
    assert_true(fabs(slope_of(json, "device.memory_efficiency", "share") - bandwidth) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(json, "sum")) + 1) < 1e-3);
    json_decref(json);
    json = json_of("$CPSIM toy-2 two-owners --sensitivity --json -");
    assert_true(isnan(slope_of(json, "device.memory_efficiency", "share")));
    json_decref(json);
}

static void the_result_is_the_same_whatever_runs_at_once(void **state)
{
    (void)state;
    struct outcome one = shell(ASKED "-j 1 --json -"), many = shell(ASKED "-j 7 --json -");
    assert_int_equal(one.status, 0);
    assert_string_equal(one.out, many.out);
    outcome_fini(&one);
    outcome_fini(&many);
}

static void a_tornado_is_drawn(void **state)
{
    (void)state;
    expect(ASKED "--plot $DIR/s.svg --plot - --script - | grep -c boxxyerror", 0, "2", "");
    expect(ASKED "--plot $DIR/s.svg --quiet && grep -c 'attention fa3 backward 128.rates' $DIR/s.svg", 0, NULL, "");
    expect(ASKED "--plot -", 0, "change of the step (%)", "");
}

static void misuse_is_told(void **state)
{
    (void)state;
    expect_misuse("--sensitivity toy-2", "1 file given, expected two: a topology and an experiment");
    expect_misuse("toy-2 two-owners --sensitivity --trace x", "--trace has no effect with --sensitivity");
    expect_misuse("toy-2 two-owners --sensitivity --details", "--details has no effect with --sensitivity");
    expect_misuse("toy-2 two-owners --sensitivity --operations --json -", "--operations has no effect with");
    expect_misuse("toy-2 two-owners --sensitivity --sweep parallel.cp=1,2", "--sweep has no effect with --sensitivity");
    expect_misuse("toy-2 two-owners --sensitivity --compare-algorithms", "exclude each other");
    expect_misuse("toy-2 two-owners --sensitivity --plot memory=x.png", "a sensitivity has no memory plot");
    expect_misuse("toy-2 two-owners --plot tornado=x.png", "a tornado plot needs --sensitivity");
    expect_misuse("toy-2 two-owners --sensitivity --seed 1", "--seed has no effect without --hw");
    expect_misuse("toy-2 llama3-8b-1m --sensitivity", "needs 32 GPUs, but topology");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_sum_they_are_the_terms_shares),
        cmocka_unit_test(between_two_bottlenecks_there_is_a_kink),
        cmocka_unit_test(a_machine_faster_in_everything_is_as_much_faster),
        cmocka_unit_test(the_table_names_what_counts_and_what_does_not),
        cmocka_unit_test(json_and_csv_have_a_row_a_constant),
        cmocka_unit_test(shares_have_no_part_in_the_sum),
        cmocka_unit_test(the_result_is_the_same_whatever_runs_at_once),
        cmocka_unit_test(a_tornado_is_drawn),
        cmocka_unit_test(misuse_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
