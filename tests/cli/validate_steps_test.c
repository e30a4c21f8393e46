/* --validate: sets of whole steps, made up: what rates of tokens and of model FLOPs count, peak memory beside times,
 * its bound, the order of splits, and what is wrong with such sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/validated.h"

#define TOKENS 16384.0
#define HIDDEN 1024.0 /* 8 heads of 128, of queries and of keys */
#define FFN 4096.0
#define VOCAB 32000.0
#define LAYERS 2.0
#define RANKS 2.0

/* Three products for what is seen forward and backward: 2 x 3 FLOPs an element of a matrix and token. */
#define PRODUCTS (6 * TOKENS * (LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN) + HIDDEN * VOCAB))
#define ATTENTION(PAIRS) (3 * 4 * (PAIRS)*HIDDEN * LAYERS)

static const char experiment[] = "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\nlayers = 2\nhidden = 1024\n"
                                 "ffn = 4096\nvocab = 32000\ndtype = bf16\n"
                                 "[workload]\nseq_len = 16384\nmask = causal\npass = train\nscope = model\n"
                                 "[parallel]\ncp = 2\n"
                                 "[schedule]\nalgorithm = all-gather\noverlap = no\n";

/* A set of the step above; `published` are more keys of its section. */
static void write_steps(const char *folder, const char *name, const char *published, const char *rows)
{
    char *ini = memory_format("[published]\ntopology = toy-2\nrows = %s.csv\nsource = made up\nkind = steps\n%s%s",
                              name, published, experiment);
    write_published(folder, name, ini, rows);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* At a rate of 1 the time is what is counted. */
static void rates_count_the_whole_step(void **state)
{
    (void)state;
    write_steps(
        "counted", "counted", "",
        "# made up\n"
        "workload.pass,workload.batch,step.micro_batches,level node.size,parallel.dp,workload.mask,metric,value\n"
        ",,,,,,tokens_per_second_per_rank,1\n"
        ",3,4,,,,tokens_per_second_per_rank,1\n"
        ",,,4,2,,tokens_per_second_per_rank,1\n"
        ",,,,,,model_tflops_per_rank,1\n"
        ",,,,,,unmasked_model_tflops_per_rank,1\n"
        ",,,,,full,model_tflops_per_rank,1\n"
        "forward,,,,,,model_tflops_per_rank,1\n"
        ",3,4,,,,model_tflops_per_rank,1\n"
        ",,,4,2,,model_tflops_per_rank,1\n"
        ",,,,,window:16384,model_tflops_per_rank,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/counted --json -");
    double masked = 1e-12 * (PRODUCTS + ATTENTION(TOKENS * TOKENS / 2)) / RANKS;
    double whole = 1e-12 * (PRODUCTS + ATTENTION(TOKENS * TOKENS)) / RANKS;
    double exact = 1e-12 * (PRODUCTS + ATTENTION(TOKENS * (TOKENS + 1) / 2)) / RANKS; /* of a window, as it is */
    const double counted[] = {TOKENS / RANKS, 12 * TOKENS / RANKS, TOKENS / RANKS, masked, whole,
                              whole,          masked / 3,          12 * masked,    masked, exact};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        assert_number(row_of(json, 0, i), "measured_seconds", counted[i], 1e-9 * counted[i]);
    assert_string_equal(json_string_value(json_object_get(set_of(json, 0), "kind")), "steps");
    assert_number(json_object_get(json, "steps"), "n_rows", 10, 0);
    assert_number(json_object_get(json, "attention"), "n_rows", 0, 0);
    assert_number(json_object_get(json, "all"), "n_rows", 10, 0);
    json_decref(json);
}

/* Each row is the step that its command predicts. */
static void every_metric_is_of_the_same_step(void **state)
{
    (void)state;
    write_steps("metrics", "metrics", "",
                "# made up\nmetric,value\nstep_seconds,1\ntokens_per_second_per_rank,1\nmodel_tflops_per_rank,1\n"
                "peak_gib,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/metrics --json -");
    const char *command = json_string_value(json_object_get(row_of(json, 0, 3), "command"));
    char *text = memory_format("$CPSIM%s --json -", command + strlen("cpsim"));
    json_t *run = json_of(text), *step = json_object_get(run, "step");
    double seconds = number_of(step, "seconds");
    assert_number(row_of(json, 0, 0), "predicted", seconds, 0);
    assert_number(row_of(json, 0, 1), "predicted", TOKENS / RANKS / seconds, 1e-9 * TOKENS / seconds);
    assert_number(row_of(json, 0, 2), "predicted_seconds", seconds, 0);
    assert_number(row_of(json, 0, 3), "predicted", number_of(step, "peak_bytes") / (1 << 30), 1e-12);
    assert_true(json_is_null(json_object_get(row_of(json, 0, 3), "predicted_seconds")));
    assert_true(json_is_null(json_object_get(row_of(json, 0, 3), "measured_seconds")));
    json_decref(run);
    json_decref(json);
    free(text);
}

/* Writes a set with a row of time, off by nothing, and rows of memory whose predictions are `shares` of what is
 * "measured". */
static void write_memory(const char *folder, const char *name, const char *published, double one, double other)
{
    write_steps("predicted", "predicted", "", "# made up\nmetric,value\nstep_seconds,1\npeak_gib,1\n");
    json_t *json = json_of("$CPSIM --validate $DIR/predicted --json -");
    double seconds = number_of(row_of(json, 0, 0), "predicted"), gib = number_of(row_of(json, 0, 1), "predicted");
    json_decref(json);
    char *rows = memory_format("# made up\nmetric,value,note\nstep_seconds,%.17g,\npeak_gib,%.17g,one\n"
                               "peak_gib,%.17g,other\n",
                               seconds, gib / one, gib / other);
    write_steps(folder, name, published, rows);
    free(rows);
}

/* Errors of +5 % and -50 % say nothing of times. */
static void memory_is_summed_up_apart(void **state)
{
    (void)state;
    write_memory("memory", "memory", "", 1.05, 0.5);
    json_t *json = json_of("$CPSIM --validate $DIR/memory --json -");
    const json_t *summary = json_object_get(set_of(json, 0), "summary"), *memory = json_object_get(summary, "memory");
    assert_number(summary, "n_rows", 1, 0);
    assert_number(summary, "median_error", 0, 1e-9);
    assert_number(summary, "worst_error", 0, 1e-9);
    assert_number(summary, "n_pairs", 0, 0);
    assert_number(memory, "n_rows", 2, 0);
    assert_number(memory, "median_error", 0.275, 1e-9);
    assert_number(memory, "worst_error", -0.5, 1e-9);
    assert_number(row_of(json, 0, 1), "error", 0.05, 1e-9);
    assert_true(json_equal(summary, json_object_get(json, "steps")));
    json_decref(json);
    struct outcome outcome = shell("$CPSIM --validate $DIR/memory");
    assert_non_null(strstr(outcome.out, "\nmemory, one "));
    assert_non_null(strstr(outcome.out, " GiB  "));
    assert_non_null(strstr(outcome.out, "\nmemory          2   27.5%  -50.0%  none\n"));
    outcome_fini(&outcome);
    expect("$CPSIM --validate $DIR/memory --quiet --csv - --plot $DIR/memory.png --script $DIR/memory.gp", 0,
           ",peak_gib,", NULL);
    char *script = made_file("memory.gp"), *data = strstr(script, "$data0 << EOD\n");
    assert_non_null(data);
    char *end = strchr(data + strlen("$data0 << EOD\n"), '\n'); /* one point, that of time */
    assert_memory_equal(end, "\nEOD\n", strlen("\nEOD\n"));
    free(script);
}

static void memory_has_a_bound_of_its_own(void **state)
{
    (void)state;
    write_memory("bound", "broken", "median_bound = 0.01\nmemory_bound = 0.27\n", 1.05, 0.5);
    write_memory("bound", "kept", "memory_bound = 0.28\n", 1.05, 0.5);
    write_file("bound", "bounds.ini", "[all steps]\nmedian_bound = 0.2\nmemory_bound = 0.1\n");
    struct outcome outcome = shell("$CPSIM --validate $DIR/bound --engine analytic --json $DIR/bound.json");
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.err,
                        "cpsim: set 'broken': a median error of memory of 27.5 %, worse than its bound of 27 %\n"
                        "cpsim: all steps: a median error of memory of 27.5 %, worse than its bound of 10 %\n");
    assert_non_null(strstr(outcome.out, "\nbroken          2   27.5%  -50.0%  worse: median\n"));
    assert_non_null(strstr(outcome.out, "\nkept            2   27.5%  -50.0%  kept\n"));
    assert_non_null(strstr(outcome.out, "\nall steps       4   27.5%  -50.0%  worse: median\n"));
    outcome_fini(&outcome);
    char *text = made_file("bound.json");
    json_t *json = json_loads(text, 0, NULL);
    const json_t *bounds = json_object_get(set_of(json, 0), "bounds"), *all = json_object_get(json, "steps");
    assert_true(json_is_true(json_object_get(json_object_get(bounds, "median_error"), "kept")));
    assert_true(json_is_false(json_object_get(json_object_get(bounds, "memory_error"), "kept")));
    bounds = json_object_get(all, "bounds");
    assert_true(json_is_false(json_object_get(json_object_get(bounds, "memory_error"), "kept")));
    json_decref(json);
    free(text);
}

/* Where no group is written: other splits of the same GPUs, by other algorithms, but no other lengths; and no memory.
 */
static void splits_are_compared_in_order(void **state)
{
    (void)state;
    write_steps("splits", "splits", "",
                "# made up\nparallel.tp,parallel.cp,schedule.sharding,workload.seq_len,metric,value\n"
                "1,2,,,step_seconds,1\n"
                "2,1,,,step_seconds,2\n"
                "1,2,zigzag,,step_seconds,3\n"
                "1,2,,8192,step_seconds,4\n"
                "1,2,,,peak_gib,1\n"
                "2,1,,,peak_gib,2\n");
    json_t *json = json_of("$CPSIM --validate $DIR/splits --json -");
    assert_number(json_object_get(set_of(json, 0), "summary"), "n_pairs", 3, 0);
    json_decref(json);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    write_steps("wrong", "a", "", "# made up\nmetric,value\nforward_seconds,1\npeak_gb,1\nmodel_tflops_per_rank,0\n");
    write_steps("wrong", "b", "memory_bound = 10 %\n", "# made up\nmetric,value\nstep_seconds,1\n");
    write_file("wrong", "c.ini",
               "[published]\ntopology = toy-2\nrows = c.csv\nsource = made up\nmemory_bound = 0.1\n"
               "[model]\nq_heads = 1\n");
    write_file("wrong", "c.csv", "# made up\nmetric,value\npeak_gib,1\n");
    write_file("wrong", "bounds.ini", "[all attention]\nmemory_bound = 0.1\n");
    struct outcome outcome = shell("cd $DIR && $CPSIM --validate wrong");
    assert_int_equal(outcome.status, 2);
    static const char *const lines[] = {
        "wrong/a.csv:3: 'metric' is 'forward_seconds', expected step_seconds, tokens_per_second_per_rank, "
        "model_tflops_per_rank, unmasked_model_tflops_per_rank or peak_gib",
        "wrong/a.csv:4: 'metric' is 'peak_gb', did you mean 'peak_gib'?",
        "wrong/a.csv:5: 'value' is '0', expected a number above 0",
        "wrong/b.ini:6: 'memory_bound' is '10 %', expected a plain number",
        "wrong/c.ini:5: 'memory_bound' has no effect with kind = attention, expected no such key",
        "wrong/c.csv:3: 'metric' is 'peak_gib', expected ",
        "wrong/bounds.ini:2: unknown key 'memory_bound' in [all attention]",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(outcome.err, lines[i]))
            fail_msg("not said: %s\n--- said:\n%s", lines[i], outcome.err);
    outcome_fini(&outcome);
}

/* A set of steps is of whole models, one of attention of attention. */
static void the_scope_is_that_of_the_kind(void **state)
{
    (void)state;
    write_steps("scope", "scope", "",
                "# made up\nworkload.scope,metric,value\nattention,step_seconds,1\nlayer,step_seconds,1\n");
    expect("$CPSIM --validate $DIR/scope", 2, NULL,
           "scope.csv:3: --set workload.scope=attention: 'scope' of a set with kind = steps, expected scope = model");
    expect("$CPSIM --validate $DIR/scope", 2, NULL,
           "scope.csv:4: --set workload.scope=layer: 'scope' of a set with kind = steps, expected scope = model");
    char *ini = memory_format("[published]\ntopology = toy-2\nrows = scope.csv\nsource = made up\n%s", experiment);
    write_file("scope", "scope.ini", ini);
    free(ini);
    write_file("scope", "scope.csv", "# made up\nmetric,value\nstep_seconds,1\nstep_seconds,2\n");
    expect("cd $DIR/scope && $CPSIM --validate scope.ini", 2, NULL,
           "scope.ini:18: 'scope' of a set with kind = attention, expected kind = steps, or no such key");
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
        cmocka_unit_test(rates_count_the_whole_step),    cmocka_unit_test(every_metric_is_of_the_same_step),
        cmocka_unit_test(memory_is_summed_up_apart),     cmocka_unit_test(memory_has_a_bound_of_its_own),
        cmocka_unit_test(splits_are_compared_in_order),  cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_scope_is_that_of_the_kind),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
