/* --validate: made-up sets whose answers can be worked out by hand, on a device of round numbers; what is wrong with
 * sets; bounds; and --without.
 *
 * The step: two ranks gather K and V, 16 MiB x 8 heads of 128 in bf16, then attend all keys at once. With the toy's 100
 * GB/s and 1 us, 100 TFLOP/s and 1 TB/s that is the transfer, a copy of the rank's own keys (read and written) and the
 * attention, one after the other.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/validated.h"

#define KV_BYTES (32768.0 * 2 * 8 * 128 * 2)
#define FLOP (4 * 32768.0 * 65536 * 8 * 128) /* of a rank */
#define STEP_SECONDS (1e-6 + KV_BYTES / 100e9 + 2 * KV_BYTES / 1e12 + FLOP / 100e12)

static const char experiment[] = "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
                                 "[workload]\nseq_len = 65536\nmask = full\npass = forward\n"
                                 "[parallel]\ncp = 2\n"
                                 "[schedule]\nalgorithm = all-gather\noverlap = no\n";

/* A set of the step above; `published` are more keys of its section. */
static void write_set(const char *folder, const char *name, const char *published, const char *rows)
{
    char *ini = memory_format("[published]\ntitle = the title of %s\ntopology = toy-2\nrows = %s.csv\nsource = made "
                              "up\n%s%s",
                              name, name, published, experiment);
    write_published(folder, name, ini, rows);
}

static void write_links(const char *folder, const char *name, const char *published, const char *rows)
{
    char *ini = memory_format("[published]\ntopology = toy-2\nrows = %s.csv\nsource = made up\nkind = links\n%s", name,
                              published);
    write_published(folder, name, ini, rows);
}

/* ---- attention ---- */

static void every_metric_is_the_same_prediction(void **state)
{
    (void)state;
    char *rows = memory_format("# made up\n"
                               "metric,value,note\n"
                               "step_seconds,%.17g,\n"
                               "forward_seconds,%.17g,\"a note, with a comma\"\n"
                               "iterations_per_second,%.17g,\n"
                               "tflops_per_rank,%.17g,\n"
                               "forward_tflops_per_rank,%.17g,\n",
                               STEP_SECONDS, STEP_SECONDS, 1 / STEP_SECONDS, 1e-12 * FLOP / STEP_SECONDS,
                               1e-12 * FLOP / STEP_SECONDS);
    write_set("metrics", "metrics", "", rows);
    free(rows);
    json_t *json = json_of("$CPSIM --validate $DIR/metrics --json -");
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "cpsim.validation/1");
    assert_string_equal(json_string_value(json_object_get(set_of(json, 0), "title")), "the title of metrics");
    for (size_t i = 0; i < 5; i++) {
        const json_t *row = row_of(json, 0, i);
        assert_number(row, "line", 3.0 + (double)i, 0);
        assert_number(row, "error", 0, 1e-9);
        assert_number(row, "predicted_seconds", STEP_SECONDS, 1e-9 * STEP_SECONDS);
        assert_number(row, "measured_seconds", STEP_SECONDS, 1e-9 * STEP_SECONDS);
        double measured = json_number_value(json_object_get(row, "measured"));
        assert_number(row, "predicted", measured, 1e-9 * measured);
        assert_true(json_is_null(json_object_get(row, "inside"))); /* the toy has no spread */
    }
    assert_string_equal(json_string_value(json_object_get(row_of(json, 0, 1), "note")), "a note, with a comma");
    json_decref(json);
}

/* Rates count what is seen: a causal mask half of all pairs. Backward is 2.5 times forward. */
static void rates_count_as_published_ones_do(void **state)
{
    (void)state;
    write_set("rates", "rates", "",
              "# made up\n"
              "workload.mask,workload.pass,metric,value\n"
              "causal,forward,tflops_per_rank,1\n"
              "full,train,tflops_per_rank,1\n"
              "full,train,forward_tflops_per_rank,1\n"
              "full,train,backward_tflops_per_rank,1\n"
              "full,train,backward_seconds,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/rates --json -");
    static const double share[] = {0.5, 3.5, 1, 2.5}; /* at 1 TFLOP/s it takes as many seconds as it has TFLOP */
    for (size_t i = 0; i < 4; i++)
        assert_number(row_of(json, 0, i), "measured_seconds", share[i] * 1e-12 * FLOP, 1e-9 * FLOP * 1e-12);
    double backward = json_number_value(json_object_get(row_of(json, 0, 4), "predicted"));
    assert_number(row_of(json, 0, 3), "predicted_seconds", backward, 1e-12);
    assert_number(row_of(json, 0, 3), "predicted", 2.5e-12 * FLOP / backward, 1e-6);
    json_decref(json);
}

/* Errors of +25, -20, 0, -50 and +100 %. */
static void summaries_are_order_statistics_of_errors_in_time(void **state)
{
    (void)state;
    char *rows =
        memory_format("# made up\nmetric,value,group\n"
                      "step_seconds,%.17g,a\nstep_seconds,%.17g,b\nstep_seconds,%.17g,c\n"
                      "step_seconds,%.17g,d\niterations_per_second,%.17g,e\n",
                      STEP_SECONDS / 1.25, STEP_SECONDS / 0.8, STEP_SECONDS, STEP_SECONDS / 0.5, 2 / STEP_SECONDS);
    write_set("summary", "summary", "", rows);
    free(rows);
    json_t *json = json_of("$CPSIM --validate $DIR/summary --json -");
    const json_t *summary = json_object_get(set_of(json, 0), "summary");
    assert_number(summary, "n_rows", 5, 0);
    assert_number(summary, "median_error", 0.25, 1e-9);
    assert_number(summary, "p90_error", 0.5 + 0.6 * 0.5, 1e-9);
    assert_number(summary, "worst_error", 1, 1e-9);
    assert_number(summary, "bias", 0, 1e-9);
    assert_number(summary, "n_pairs", 0, 0);
    assert_true(json_equal(summary, json_object_get(json, "all")));
    assert_true(json_equal(summary, json_object_get(json, "attention")));
    assert_number(json_object_get(json, "links"), "n_rows", 0, 0);
    json_decref(json);
}

static void rows_are_as_right_as_they_would_be_alone(void **state)
{
    (void)state;
    write_set("alone", "alone", "",
              "# made up\nworkload.seq_len,level node.bandwidth,metric,value\n"
              "4096,,step_seconds,1\n,50 GB/s,step_seconds,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/alone --engine analytic --json -");
    for (size_t i = 0; i < 2; i++) {
        const char *command = json_string_value(json_object_get(row_of(json, 0, i), "command"));
        assert_memory_equal(command, "cpsim toy-2 ", strlen("cpsim toy-2 "));
        char *text = memory_format("$CPSIM%s --json -", command + strlen("cpsim"));
        json_t *run = json_of(text);
        double alone = json_number_value(json_object_get(json_object_get(run, "step"), "seconds"));
        assert_number(row_of(json, 0, i), "predicted", alone, 0);
        json_decref(run);
        free(text);
    }
    json_decref(json);
}

/* ---- transfers ---- */

static void transfers_take_what_their_bytes_take(void **state)
{
    (void)state;
    write_links("links", "links", "",
                "# made up\npattern,ranks,bytes,metric,value\n"
                "ring-shift,2,1000000,seconds,11e-6\n"
                "all-gather,2,2000000,seconds,11e-6\n"
                "all-to-all,2,2000000,seconds,11e-6\n"
                "all-gather,2,2000001,seconds,11.00001e-6\n");
    json_t *json = json_of("$CPSIM --validate $DIR/links --json -");
    for (size_t i = 0; i < 4; i++)
        assert_number(row_of(json, 0, i), "error", 0, 1e-9);
    assert_string_equal(json_string_value(json_object_get(set_of(json, 0), "kind")), "links");
    assert_string_equal(json_string_value(json_object_get(row_of(json, 0, 1), "pattern")), "all-gather");
    assert_number(json_object_get(json, "links"), "n_rows", 4, 0);
    assert_number(json_object_get(json, "attention"), "n_rows", 0, 0);
    json_decref(json);
}

/* More ranks, by a level that a row makes larger: all ports work at once. Sums pass through memory: two operands read,
 * one written. */
static void collectives_are_direct_and_sums_cost_memory(void **state)
{
    (void)state;
    write_links("sums", "sums", "",
                "# made up\nlevel node.size,pattern,ranks,bytes,metric,value\n"
                "4,ring-shift,4,1000000,seconds,11e-6\n"
                "4,all-gather,4,4000000,seconds,31e-6\n"
                "4,reduce-scatter,4,4000000,seconds,40e-6\n"
                ",reduce-scatter,2,2000000,seconds,14e-6\n"
                ",all-reduce,2,2000000,seconds,25e-6\n"
                "4,all-reduce,4,4000000,seconds,75e-6\n");
    json_t *json = json_of("$CPSIM --validate $DIR/sums --json -");
    for (size_t i = 0; i < 6; i++)
        assert_number(row_of(json, 0, i), "error", 0, 1e-6);
    json_decref(json);
}

/* ---- order, intervals ---- */

/* 2 MB take 21 us as a message and 11 us as a gather. */
static void rows_of_one_setting_are_compared_in_order(void **state)
{
    (void)state;
    write_links("order", "order", "",
                "# made up\npattern,ranks,bytes,metric,value\n"
                "ring-shift,2,2000000,seconds,20e-6\n"
                "all-gather,2,2000000,seconds,12e-6\n"
                "all-to-all,2,2000000,seconds,12.5e-6\n" /* within 5 % of the gather: no pair */
                "ring-shift,2,4000000,seconds,1e-6\n"
                "all-gather,2,4000000,seconds,2e-6\n");
    json_t *json = json_of("$CPSIM --validate $DIR/order/order.ini --json -");
    const json_t *summary = json_object_get(set_of(json, 0), "summary");
    assert_number(summary, "n_pairs", 3, 0);
    assert_number(summary, "n_pairs_in_order", 2, 0);
    assert_number(summary, "order", 2.0 / 3, 1e-12);
    json_decref(json);
    expect("$CPSIM --validate $DIR/order", 0, "2 of 3", NULL);
}

/* What an algorithm is compared with differs in [schedule] and nothing else. */
static void the_setting_is_all_but_the_schedule(void **state)
{
    (void)state;
    write_set("setting", "setting", "",
              "# made up\nschedule.algorithm,workload.seq_len,metric,value\n"
              "all-gather,4096,step_seconds,1\nring,4096,step_seconds,2\nring,8192,step_seconds,4\n"
              "ring,4096,iterations_per_second,4\n");
    json_t *json = json_of("$CPSIM --validate $DIR/setting --json -");
    assert_number(json_object_get(set_of(json, 0), "summary"), "n_pairs", 1, 0);
    json_decref(json);
}

/* Equal predictions are no order. */
static void a_written_group_stands_and_ties_are_wrong(void **state)
{
    (void)state;
    write_set("group", "group", "",
              "# made up\nworkload.batch,metric,value,group\n"
              "1,step_seconds,1,g\n2,step_seconds,2,g\n1,step_seconds,3,g\n4,step_seconds,1,other\n");
    json_t *json = json_of("$CPSIM --validate $DIR/group --json -");
    const json_t *summary = json_object_get(set_of(json, 0), "summary");
    assert_number(summary, "n_pairs", 3, 0);
    assert_number(summary, "n_pairs_in_order", 1, 0);
    json_decref(json);
}

/* Message times that vary by 10 %: 11 us is 10 to 12.1 us. */
static void measurements_are_inside_the_interval_or_not(void **state)
{
    (void)state;
    write_links("interval", "interval", "uncertainty = 0.05\n",
                "# made up\nlevel node.spread,pattern,ranks,bytes,metric,value,uncertainty\n"
                "0.1,ring-shift,2,1000000,seconds,12e-6,0\n"
                "0.1,ring-shift,2,1000000,seconds,12.5e-6,0\n"
                "0.1,ring-shift,2,1000000,seconds,12.5e-6,\n" /* the set's: from 11.9 us */
                "0.1,ring-shift,2,1000000,seconds,9.9e-6,0.02\n"
                "0.1,ring-shift,2,1000000,seconds,9.9e-6,0.005\n"
                ",ring-shift,2,1000000,seconds,11e-6,0\n");
    json_t *json = json_of("$CPSIM --validate $DIR/interval --json -");
    static const bool inside[] = {true, false, true, true, false};
    for (size_t i = 0; i < 5; i++) {
        assert_number(row_of(json, 0, i), "predicted_low", 10e-6, 1e-12);
        assert_number(row_of(json, 0, i), "predicted_high", 12.1e-6, 1e-12);
        assert_int_equal(json_is_true(json_object_get(row_of(json, 0, i), "inside")), inside[i]);
    }
    const json_t *summary = json_object_get(set_of(json, 0), "summary");
    assert_number(summary, "n_with_interval", 5, 0);
    assert_number(summary, "n_inside", 3, 0);
    assert_number(summary, "coverage", 0.6, 1e-12);
    json_decref(json);
    expect("$CPSIM --validate $DIR/interval", 0, "10.00 us - 12.10 us  yes", NULL);
}

/* A message, all-gathers by either protocol, an all-to-all; then without what is said of the smaller ones. */
static void messages_and_collectives_vary_apart(void **state)
{
    (void)state;
    write_links("classes", "classes", "",
                "# made up\nlevel node.channels,level node.channel_bandwidth,level node.collectives,level node.spread,"
                "level node.collectives_spread,level node.small_collectives_spread,pattern,ranks,bytes,metric,value\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0.5,2,ring-shift,2,1000000,seconds,1\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0.5,2,all-gather,2,1000,seconds,1\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0.5,2,all-gather,2,1000000,seconds,1\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0.5,2,all-to-all,2,1000000,seconds,1\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0.5,0,all-gather,2,1000,seconds,1\n"
                "32,100 GB/s,\"2 us: 1 GB/s, 10 us: 50 GB/s\",0.1,0,0,all-gather,2,1000,seconds,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/classes --json -");
    static const double spread[] = {0.1, 2, 0.5, 0.5, 0.5, 0.1};
    for (size_t i = 0; i < sizeof spread / sizeof *spread; i++) {
        double middle = json_number_value(json_object_get(row_of(json, 0, i), "predicted"));
        assert_number(row_of(json, 0, i), "predicted_high", middle * (1 + spread[i]), 1e-9 * middle);
        assert_number(row_of(json, 0, i), "predicted_low", middle / (1 + spread[i]), 1e-9 * middle);
    }
    json_decref(json);
}

/* ---- bounds ---- */

#define LATE_ROWS                                                                                                      \
    "# made up\npattern,ranks,bytes,metric,value\n"                                                                    \
    "ring-shift,2,1000000,seconds,10e-6\n"                                                                             \
    "all-gather,2,1000000,seconds,10.8e-6\n" /* 11 and 6 us: +10 %, -44 %, and in the wrong order */

static void a_broken_bound_is_a_failure_that_says_which(void **state)
{
    (void)state;
    write_links("broken", "median", "median_bound = 0.2\np90_bound = 0.5\norder_bound = 0\n", LATE_ROWS);
    write_links("broken", "order", "median_bound = 0.3\np90_bound = 0.4\norder_bound = 0.85\n", LATE_ROWS);
    write_links("broken", "fine", "median_bound = 0.28\np90_bound = 0.42\n", LATE_ROWS);
    struct outcome outcome = shell("$CPSIM --validate $DIR/broken --engine analytic --json $DIR/broken.json");
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.err,
                        "cpsim: set 'median': a median error of 27.2 %, worse than its bound of 20 %\n"
                        "cpsim: set 'order': a 90th percentile of 41.0 %, worse than its bound of 40 %\n"
                        "cpsim: set 'order': 0 of 1 pairs in the right order, fewer than its bound of 85 %\n");
    assert_non_null(strstr(outcome.out, "worse: 90th, order"));
    assert_non_null(strstr(outcome.out, "kept"));
    outcome_fini(&outcome);
    char *text = made_file("broken.json");
    json_t *json = json_loads(text, 0, NULL);
    const json_t *bounds = json_object_get(set_of(json, 2), "bounds"); /* by name: fine, median, order */
    assert_true(json_is_true(json_object_get(json_object_get(bounds, "median_error"), "kept")));
    assert_true(json_is_false(json_object_get(json_object_get(bounds, "order"), "kept")));
    assert_number(json_object_get(bounds, "p90_error"), "limit", 0.4, 0);
    json_decref(json);
    free(text);
}

/* Bounds of what all sets do together stand in a file of their own. */
static void all_sets_together_have_bounds_too(void **state)
{
    (void)state;
    write_links("together", "late", "", LATE_ROWS);
    write_file("together", "bounds.ini",
               "[all attention]\nmedian_bound = 0\n[all transfers]\nmedian_bound = 0.2\np90_bound = 0.5\n"
               "order_bound = 0.5\n");
    struct outcome outcome = shell("$CPSIM --validate $DIR/together --engine analytic --json $DIR/together.json");
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.err, "cpsim: all transfers: a median error of 27.2 %, worse than its bound of 20 %\n"
                                     "cpsim: all transfers: 0 of 1 pairs in the right order, fewer than its bound of "
                                     "50 %\n");
    outcome_fini(&outcome);
    char *text = made_file("together.json");
    json_t *json = json_loads(text, 0, NULL);
    const json_t *bounds = json_object_get(json_object_get(json, "links"), "bounds");
    assert_true(json_is_false(json_object_get(json_object_get(bounds, "median_error"), "kept")));
    assert_true(json_is_true(json_object_get(json_object_get(bounds, "p90_error"), "kept")));
    json_decref(json);
    free(text);
    expect("$CPSIM --validate $DIR/together/late.ini", 0, NULL, NULL);
    expect("$CPSIM --check $DIR/together/bounds.ini", 0, "file of bounds, ok", NULL);
    expect("$CPSIM --validate $DIR/together --quiet --csv $DIR/together/bounds.ini", 2, NULL,
           "--csv would overwrite '");
    write_file("together", "bounds.ini", "[all transfers]\nmedian_bond = 0.2\n");
    expect("$CPSIM --validate $DIR/together", 2, NULL,
           "bounds.ini:2: unknown key 'median_bond' in [all transfers], did you mean 'median_bound'?");
}

/* It is shown, and that is all. */
static void a_doubtful_set_does_not_count(void **state)
{
    (void)state;
    write_links("doubtful", "good", "median_bound = 0.28\n", LATE_ROWS);
    write_links("doubtful", "odd", "median_bound = 0.01\norder_bound = 1\ndoubtful = it says 1 and 2\n",
                "# made up\npattern,ranks,bytes,metric,value\nring-shift,2,1000000,seconds,10\n");
    struct outcome outcome = shell("$CPSIM --validate $DIR/doubtful --engine analytic --json $DIR/doubtful.json");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    assert_non_null(strstr(outcome.out, "\nDoubtful, and left out of 'all': odd: it says 1 and 2\n"));
    outcome_fini(&outcome);
    char *text = made_file("doubtful.json");
    json_t *json = json_loads(text, 0, NULL);
    assert_number(json_object_get(set_of(json, 1), "summary"), "n_rows", 1, 0);
    assert_string_equal(json_string_value(json_object_get(set_of(json, 1), "doubtful")), "it says 1 and 2");
    assert_null(json_object_get(set_of(json, 0), "doubtful"));
    assert_number(json_object_get(json, "all"), "n_rows", 2, 0);
    assert_number(json_object_get(json, "links"), "n_rows", 2, 0);
    json_decref(json);
    free(text);
}

/* ---- what is wrong ---- */

static void all_that_is_wrong_is_said_at_once(void **state)
{
    (void)state;
    write_set("wrong", "a", "median_bound = 10 %\nkind = atention\ntopolgy = x\n", "# made up\nmetric,value\n");
    write_set("wrong", "b", "",
              "metric,valeu,schedule.sharding,speed,value\n"
              "step_seconds,1,zigzag,1,1\n");
    write_set("wrong", "c", "",
              "# made up\nmetric,value,uncertainty\n"
              "step_second,1,\n"
              "seconds,1,\n"
              "step_seconds,0,\n"
              "step_seconds,1,2\n"
              "step_seconds,1\n"
              "\n"
              "step_seconds,\"1,\n");
    write_set("wrong", "d", "", "# made up\nmetric,value\n");
    write_set("wrong", "e", "rows = none.csv\n", "");
    write_links("wrong", "f", "[model]\nq_heads = 1\n",
                "# made up\npattern,ranks,bytes,metric,value\n"
                "ring-shifts,2,1,seconds,1\n"
                "all-gather,1,1,seconds,1\n"
                "all-gather,2,0,seconds,1\n"
                "ring-shift,2,8Gi,seconds,1\n"
                "all-gather,2,1,step_seconds,1\n");
    write_links("wrong", "g", "", "# made up\nranks,bytes,model.q_heads,metric,value\n");
    write_file("wrong", "h.ini", experiment);
    write_set("wrong", "i", "", "# made up\nmetric,value\nstep_\033[31mseconds,1\nstep_seconds,\xe9\n");
    struct outcome outcome = shell("cd $DIR && $CPSIM --validate wrong");
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.out, "");
    static const char *const lines[] = {
        "wrong/a.ini:6: 'median_bound' is '10 %', expected a plain number",
        "wrong/a.ini:7: 'kind' is 'atention', did you mean 'attention'?",
        "wrong/a.ini:8: unknown key 'topolgy' in [published], did you mean 'topology'?",
        "wrong/b.csv:1: no comment (#), expected one that says where the rows are from",
        "wrong/b.csv:1: unknown column 'valeu', did you mean 'value'?",
        "wrong/b.csv:1: unknown column 'speed', expected metric, value, uncertainty, group, note, or section.key of "
        "the "
        "experiment or the topology",
        "wrong/c.csv:3: 'metric' is 'step_second', did you mean 'step_seconds'?",
        "wrong/c.csv:4: 'metric' is 'seconds', ",
        "wrong/c.csv:5: 'value' is '0', expected a number above 0",
        "wrong/c.csv:6: 'uncertainty' is '2', expected a share from 0 to 1",
        "wrong/c.csv:7: 2 fields, expected 3 as in the header (quote what contains a comma)",
        "wrong/c.csv:8: an empty line",
        "wrong/c.csv:9: a quote without its end",
        "wrong/d.csv: no rows, expected a header and at least one",
        "wrong/e.ini:6: ", /* rows twice */
        "wrong/f.ini:6: section [model] has no effect with kind = links",
        "wrong/f.csv:3: 'pattern' is 'ring-shifts', did you mean 'ring-shift'?",
        "wrong/f.csv:4: 'ranks' is '1', expected a whole number from 2 to 4096",
        "wrong/f.csv:5: 'bytes' is '0', expected a whole number above 0",
        "wrong/f.csv:6: 'bytes' is '8Gi', expected less than 4 GiB from one rank to another",
        "wrong/f.csv:7: 'metric' is 'step_seconds', did you mean 'seconds'?",
        "wrong/g.csv:2: no column 'pattern', expected one",
        "wrong/g.csv:2: unknown column 'model.q_heads', expected ",
        "wrong/h.ini: no section [published], expected one",
        "wrong/i.csv:3: the line holds a control character, expected text",
        "wrong/i.csv:4: the line holds a byte that is not UTF-8, expected text",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(outcome.err, lines[i]))
            fail_msg("not said: %s\n--- said:\n%s", lines[i], outcome.err);
    outcome_fini(&outcome);
    expect("$CPSIM --validate $DIR/nowhere", 2, NULL, "nowhere': No such file");
    expect("mkdir -p $DIR/nothing && $CPSIM --validate $DIR/nothing", 2, NULL, "holds no published set");
}

/* A row that cannot be predicted: its line, and what a command line would have been told. */
static void bad_rows_are_said_where_they_stand(void **state)
{
    (void)state;
    write_set("rows", "rows", "",
              "# made up\nschedule.sharding,parallel.cp,metric,value\n"
              "zigzig,,step_seconds,1\n"
              ",3,step_seconds,1\n"
              ",4,step_seconds,1\n"
              ",4,step_seconds,1\n"
              ",,backward_seconds,1\n");
    struct outcome outcome = shell("$CPSIM --validate $DIR/rows");
    assert_int_equal(outcome.status, 2);
    static const char *const lines[] = {
        "rows.csv:3: --set schedule.sharding=zigzig: 'sharding' is 'zigzig', expected ",
        "rows.csv:4: --set parallel.cp=3: the layout tp 1 x cp 3 x dp 1 needs 3 GPUs",
        "rows.csv:5: and 1 more rows: --set parallel.cp=4: ",
        "rows.csv:7: 'metric' is 'backward_seconds' with pass = forward, expected pass = train",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(outcome.err, lines[i]))
            fail_msg("not said: %s\n--- said:\n%s", lines[i], outcome.err);
    outcome_fini(&outcome);
    char *ini = memory_format("[published]\ntopology = toy-3\nrows = rows.csv\nsource = made up\n%s", experiment);
    write_file("rows", "rows.ini", ini);
    free(ini);
    write_file("rows", "rows.csv", "# made up\nmetric,value\nstep_seconds,1\nstep_seconds,2\n");
    expect("$CPSIM --validate $DIR/rows", 2, NULL, "cpsim: no file 'toy-3' and nothing of that name among the shipped");
}

/* Rows differ in what they use; what none of them uses is a mistake. */
static void a_key_without_effect_in_any_row_is_an_error(void **state)
{
    (void)state;
    write_set("useless", "useless", "",
              "# made up\nschedule.algorithm,schedule.buffers,metric,value\n"
              "ring,3,step_seconds,1\nall-gather,3,step_seconds,1\n");
    expect("$CPSIM --validate $DIR/useless", 0, NULL, NULL);
    write_set("useless", "useless", "",
              "# made up\nschedule.buffers,metric,value\n3,step_seconds,1\n3,step_seconds,2\n");
    expect("$CPSIM --validate $DIR/useless", 2, NULL, "'buffers' has no effect with algorithm = all-gather");
}

static void options_that_do_nothing_are_refused(void **state)
{
    (void)state;
    expect_misuse("--validate", "0 files given, expected one: a folder of published sets, or one set");
    expect_misuse("--validate a b", "2 files given, expected one");
    expect_misuse("--validate a --set workload.seq_len=1", "--set has no effect with --validate");
    expect_misuse("--validate a --sweep workload.seq_len=1,2", "--sweep has no effect with --validate");
    expect_misuse("--validate a --trace x", "--trace has no effect with --validate");
    expect_misuse("--validate a --operations", "--operations has no effect with --validate");
    expect_misuse("--validate a --plot memory=x.png", "a validation has no memory plot, expected scatter");
    expect_misuse("--validate a --check", "exclude each other");
    expect_misuse("--without slowdon toy-2 two-owners",
                  "no mechanism 'slowdon', did you mean 'slowdown'? (see cpsim --list mechanisms)");
    expect_misuse("--without slowdown --without slowdown toy-2 two-owners", "--without slowdown is given twice");
    expect_misuse("--without slowdown --check two-owners", "--without has no effect with --check");
    expect_misuse("--without slowdown --list keys", "--without has no effect with --list");
    expect_misuse("--without slowdown --events two-owners", "--without has no effect with --events");
    expect_misuse("--without slowdown --hw two-owners", "--without has no effect with --hw");
    expect_misuse("--without slowdown --compare a.json b.json", "--without has no effect with --compare");
}

/* ---- --without ---- */

static double seconds_of(const char *text)
{
    json_t *run = json_of(text);
    double seconds = json_number_value(json_object_get(json_object_get(run, "step"), "seconds"));
    json_decref(run);
    return seconds;
}

#define SLOWED "$CPSIM $DIR/slowed/topology.ini $DIR/slowed/experiment.ini"

static void a_mechanism_left_out_does_not_count(void **state)
{
    (void)state;
    expect("mkdir -p $DIR/slowed && cd " CPSIM_SOURCE_DIR " && sed 's/^launch .*/&\\ntransfer_slowdown = 0.5/' "
           "models/devices/toy.ini > $DIR/slowed/device.ini && sed \"s#= toy#= $DIR/slowed/device.ini#\" "
           "topologies/toy-2.ini > $DIR/slowed/topology.ini",
           0, NULL, NULL);
    char *ini = memory_format("%s\n", experiment), *ring = strstr(ini, "all-gather\noverlap = no");
    assert_non_null(ring);
    memcpy(ring, "ring\n;                ", strlen("all-gather\noverlap = no"));
    write_file("slowed", "experiment.ini", ini);
    free(ini);
    double plain = seconds_of("$CPSIM toy-2 $DIR/slowed/experiment.ini --json -"),
           slowed = seconds_of(SLOWED " --json -"), without = seconds_of(SLOWED " --without slowdown --json -");
    assert_true(slowed > 1.005 * plain);
    assert_true(fabs(without - plain) <= 1e-12 * plain);
    assert_true(fabs(seconds_of(SLOWED " --without slowdown --engine analytic --json -") - plain) <= 1e-9 * plain);

    json_t *run = json_of(SLOWED " --without waves --without slowdown --json -");
    const char *command = json_string_value(json_object_get(run, "command"));
    assert_non_null(strstr(command, " --without waves --without slowdown"));
    char *names = json_dumps(json_object_get(json_object_get(run, "engine"), "without"), JSON_COMPACT);
    assert_string_equal(names, "[\"waves\",\"slowdown\"]");
    free(names);
    json_decref(run);
    expect("$CPSIM --list mechanisms", 0, "\nslowdown ", NULL);

    json_t *sweep = json_of(SLOWED " --without slowdown --sweep workload.pass=forward --json -");
    const json_t *point = json_object_get(json_array_get(json_object_get(sweep, "points"), 0), "run");
    assert_number(json_object_get(point, "step"), "seconds", without, 0);
    json_decref(sweep);
}

/* The topology is a path from the set's folder. */
static void a_validation_leaves_it_out_too(void **state)
{
    (void)state;
    char *ini =
        memory_format("[published]\ntopology = ../topology.ini\nrows = slowed.csv\nsource = made up\n%s", experiment);
    write_file("slowed/only", "slowed.ini", ini);
    write_file("slowed/only", "slowed.csv",
               "# made up\nschedule.algorithm,schedule.overlap,metric,value\nring,yes,step_seconds,1\n");
    free(ini);
    json_t *json = json_of("$CPSIM --validate $DIR/slowed/only --json - --without slowdown");
    double without = seconds_of(SLOWED " --without slowdown --json -"), slowed = seconds_of(SLOWED " --json -");
    assert_number(row_of(json, 0, 0), "predicted", without, 1e-12);
    assert_non_null(strstr(json_string_value(json_object_get(json, "command")), " --without slowdown"));
    json_decref(json);
    json = json_of("$CPSIM --validate $DIR/slowed/only --json -");
    assert_number(row_of(json, 0, 0), "predicted", slowed, 1e-12);
    json_decref(json);
}

/* ---- results ---- */

static void any_number_of_processes_gives_the_same_bytes(void **state)
{
    (void)state;
    write_links("jobs", "links", "", LATE_ROWS);
    write_set("jobs", "steps", "", "# made up\nworkload.seq_len,metric,value\n4096,step_seconds,1\n,step_seconds,1\n");
    struct outcome one = shell("$CPSIM --validate $DIR/jobs -j1 --json -"),
                   many = shell("$CPSIM --validate $DIR/jobs -j7 --json -");
    assert_int_equal(one.status, 0);
    assert_string_equal(one.out, many.out);
    outcome_fini(&one);
    outcome_fini(&many);
}

static void many_rows_are_shown_by_their_worst(void **state)
{
    (void)state;
    char *rows = memory_text("# made up\npattern,ranks,bytes,metric,value\n");
    for (int i = 1; i <= 41; i++) {
        char *longer = memory_format("%sring-shift,2,%d000000,seconds,%de-5\n", rows, i, i);
        free(rows);
        rows = longer;
    }
    write_links("many", "many", "", rows);
    free(rows);
#define MANY "$CPSIM --validate $DIR/many --engine analytic"
    expect(MANY " --quiet", 0, "", NULL);
    struct outcome few = shell(MANY), all = shell(MANY " --details");
#undef MANY
    assert_non_null(strstr(few.out, "The 12 largest of 41 errors (--details: all rows)"));
    assert_non_null(strstr(few.out, "+10.0%"));
    assert_null(strstr(few.out, "41 MB"));
    assert_non_null(strstr(all.out, "41 MB"));
    outcome_fini(&few);
    outcome_fini(&all);
}

static void rows_and_plot_can_be_had_as_files(void **state)
{
    (void)state;
    write_links("files", "files", "uncertainty = 0.1\n",
                "# made up\npattern,ranks,bytes,metric,value\n"
                "ring-shift,2,1000000,seconds,10e-6\n");
    expect("$CPSIM --validate $DIR/files --quiet --csv $DIR/files.csv --plot $DIR/files.png --script $DIR/files.gp", 0,
           "", NULL);
    char *csv = made_file("files.csv"), *script = made_file("files.gp");
    assert_non_null(strstr(csv, "set,line,row,group,metric,measured,uncertainty,predicted,"));
    assert_non_null(
        strstr(csv, "\nfiles,3,\"ring-shift, 2 ranks, 1 MB\",\"seconds, ranks=2, bytes=1000000\",seconds,"));
    assert_non_null(strstr(script, "set xrange ["));
    assert_non_null(strstr(script, "title '10.0 %  files'"));
    assert_non_null(strstr(script, "\n10 9.09090909 11 11 11 11\n")); /* us */
    free(csv);
    free(script);
    expect("$CPSIM --validate $DIR/files --quiet --json $DIR/files/../files/files.csv", 2, NULL,
           "--json would overwrite '");
    expect("$CPSIM --validate $DIR/files/files.ini --quiet --csv $DIR/files/files.ini", 2, NULL,
           "--csv would overwrite '");
}

/* ---- the files ---- */

static void check_reads_sets(void **state)
{
    (void)state;
    write_links("checked", "links", "", LATE_ROWS);
    expect("$CPSIM --check $DIR/checked/links.ini", 0, "published set, ok: 2 rows, measured on toy-2", NULL);
    write_set("checked", "steps", "", "# made up\nmetric,value\nstep_seconds,1\n");
    expect("$CPSIM --check $DIR/checked/steps.ini", 0, "steps.ini: experiment, ok", NULL);
    expect("$CPSIM toy-2 $DIR/checked/steps.ini", 0, NULL, NULL);
    expect("$CPSIM toy-2 $DIR/checked/steps.ini --set published.title=x", 2, NULL,
           "published.title=x: no such section");
    write_set("checked", "steps", "", "# made up\nmetric,value\nstep_second,1\n");
    expect("$CPSIM --check $DIR/checked/steps.ini", 2, NULL, "steps.csv:3: 'metric' is 'step_second'");
}

static void the_shipped_sets_are_well_formed(void **state)
{
    (void)state;
    expect("$CPSIM --check " CPSIM_SOURCE_DIR "/experiments/published/*.ini", 0, "published set, ok", "");
}

static int end(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_is_the_same_prediction),
        cmocka_unit_test(rates_count_as_published_ones_do),
        cmocka_unit_test(summaries_are_order_statistics_of_errors_in_time),
        cmocka_unit_test(rows_are_as_right_as_they_would_be_alone),
        cmocka_unit_test(transfers_take_what_their_bytes_take),
        cmocka_unit_test(collectives_are_direct_and_sums_cost_memory),
        cmocka_unit_test(rows_of_one_setting_are_compared_in_order),
        cmocka_unit_test(the_setting_is_all_but_the_schedule),
        cmocka_unit_test(a_written_group_stands_and_ties_are_wrong),
        cmocka_unit_test(measurements_are_inside_the_interval_or_not),
        cmocka_unit_test(messages_and_collectives_vary_apart),
        cmocka_unit_test(a_broken_bound_is_a_failure_that_says_which),
        cmocka_unit_test(all_sets_together_have_bounds_too),
        cmocka_unit_test(a_doubtful_set_does_not_count),
        cmocka_unit_test(all_that_is_wrong_is_said_at_once),
        cmocka_unit_test(bad_rows_are_said_where_they_stand),
        cmocka_unit_test(a_key_without_effect_in_any_row_is_an_error),
        cmocka_unit_test(options_that_do_nothing_are_refused),
        cmocka_unit_test(a_mechanism_left_out_does_not_count),
        cmocka_unit_test(a_validation_leaves_it_out_too),
        cmocka_unit_test(any_number_of_processes_gives_the_same_bytes),
        cmocka_unit_test(many_rows_are_shown_by_their_worst),
        cmocka_unit_test(rows_and_plot_can_be_had_as_files),
        cmocka_unit_test(check_reads_sets),
        cmocka_unit_test(the_shipped_sets_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
