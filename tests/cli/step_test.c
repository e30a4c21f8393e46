/* What comes out of a run of whole layers, by the command: numbers against sums of their own, micro-batches against
 * runs of their parts, the longest sequence against the runs on both sides of it, and who refuses layers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "models/layer/flops.h"
#include "models/layer/parameters.h"
#include "tests/cli/command.h"

/* A small model on toy devices: all rates are round. */
static const char files[] =
    "cat > $DIR/c.ini <<'E'\n[cluster]\ndevice = toy\n[level node]\nsize = 8\nkind = switch\nbandwidth = 100 GB/s\n"
    "latency = 1 us\nE\n"
    "cat > $DIR/x.ini <<'E'\n[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 64\nlayers = 3\nhidden = 512\nffn = 1024\n"
    "vocab = 1000\ndtype = bf16\n[workload]\nscope = model\nseq_len = 4096\nbatch = 2\nmask = causal\npass = train\n"
    "[parallel]\ncp = 2\ntp = 2\ndp = 2\n[schedule]\nalgorithm = ring\nsharding = zigzag\n[step]\nzero = 1\n"
    "reserve = 1 GiB\nE\n";

static struct outcome run(const char *arguments)
{
    const char *engine = strstr(arguments, "--engine") ? "" : "--engine analytic ";
    char *text = memory_format("%s$CPSIM $DIR/c.ini $DIR/x.ini %s%s", files, engine, arguments);
    struct outcome outcome = shell(text);
    free(text);
    return outcome;
}

static json_t *json_of(const char *arguments)
{
    char *text = memory_format("--json - %s", arguments);
    struct outcome outcome = run(text);
    free(text);
    if (outcome.status != 0)
        print_message("%s", outcome.err);
    assert_int_equal(outcome.status, 0);
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    outcome_fini(&outcome);
    return json;
}

static double number(const json_t *json, const char *object, const char *key)
{
    const json_t *value = json_object_get(object ? json_object_get(json, object) : json, key);
    if (!json_is_number(value))
        fail_msg("no number %s.%s", object ? object : "", key);
    return json_number_value(value);
}

static double sum_of(const json_t *object)
{
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) sum += json_number_value(value);
    return sum;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

static const struct transformer small = {.q_heads = 8,
                                         .kv_heads = 4,
                                         .head_dim = 64,
                                         .layers = 3,
                                         .hidden = 512,
                                         .ffn = 1024,
                                         .vocab = 1000,
                                         .mlp = MLP_GATED,
                                         .norm = NORM_RMS};

static const char *const settings[] = {
    "",
    "--set step.zero=3 --set step.recompute=full",
    "--set step.recompute=selective --set step.sequence_parallel=no",
    "--set step.recompute=around --set step.loss_chunks=3 --set step.zero=2",
    "--set schedule.algorithm=all-gather --set step.optimizer=none",
    "--set workload.mask=full --set parallel.tp=1 --set step.weight_gradients=model",
};

static void kinds_and_parts_add_up_on_every_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        json_t *json = json_of(settings[i]), *step = json_object_get(json, "step"), *rank;
        assert_true(sum_of(json_object_get(step, "exposed_by_kind")) == number(step, NULL, "exposed_seconds"));
        size_t r;
        json_array_foreach(json_object_get(json, "ranks"), r, rank)
        {
            double parts =
                sum_of(json_object_get(rank, "compute_by_part")) - number(rank, "compute_by_part", "recomputed");
            assert_near(parts, number(rank, NULL, "compute_seconds"));
            assert_true(sum_of(json_object_get(rank, "exposed_by_kind")) == number(rank, NULL, "exposed_seconds"));
            assert_true(sum_of(json_object_get(rank, "sent_bytes_by_kind")) == number(rank, NULL, "bytes_sent"));
            assert_int_equal(json_object_size(json_object_get(rank, "sent_bytes_by_kind")), 7);
            /* Weights travel as bf16, also out of the optimizer's fp32. */
            double weights = number(rank, "sent_bytes_by_kind", "weights");
            assert_true(weights == 2 * number(rank, "sent_elements_by_kind", "weights"));
            assert_true(weights == 2 * number(rank, "received_elements_by_kind", "weights"));
            assert_true(sum_of(json_object_get(rank, "peak_bytes_by_role")) == number(rank, NULL, "peak_bytes"));
        }
        assert_true((number(step, "compute_by_part", "recomputed") > 0) == (strstr(settings[i], "recompute") != NULL));
        json_decref(json);
    }
}

/* What the ranks executed, counted operation by operation, is what models/layer counts from shapes alone. */
static void executed_flops_are_those_of_the_model(void **state)
{
    (void)state;
    static const enum recomputation recomputed[] = {RECOMPUTE_NONE,   RECOMPUTE_FULL, RECOMPUTE_SELECTIVE,
                                                    RECOMPUTE_AROUND, RECOMPUTE_NONE, RECOMPUTE_NONE};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        json_t *json = json_of(settings[i]), *step = json_object_get(json, "step");
        double replicas = 2, tokens = 2 * 4096, pairs = i == 5 ? 4096.0 * 4096 : 4096.0 * 4097 / 2;
        assert_true(number(step, NULL, "visible_pairs") == pairs); /* of one layer */
        struct step_flops flops = flops_of_step(&small, tokens, 2 * pairs, recomputed[i], true);
        /* The last product of a layer is no operand of its backward pass, and so not done again. */
        bool again = recomputed[i] == RECOMPUTE_FULL || recomputed[i] == RECOMPUTE_AROUND;
        double spared = again ? 2 * tokens * small.layers * small.hidden * small.ffn : 0;
        assert_near(number(step, NULL, "flops"), replicas * (flops_of_hardware(&flops) - spared));
        double gpus = i == 5 ? 4 : 8, seconds = number(step, NULL, "seconds");
        assert_near(number(step, NULL, "tokens_per_second_per_gpu"), replicas * tokens / gpus / seconds);
        assert_near(number(step, NULL, "model_tflops_per_gpu"),
                    replicas * flops_of_model(&flops) / gpus / seconds / 1e12);
        struct parameters parameters = parameters_of_model(&small);
        assert_true(number(step, NULL, "parameters") == (double)parameters_total(&parameters));
        json_decref(json);
    }
}

static void a_layer_alone_and_a_forward_pass_count_what_they_do(void **state)
{
    (void)state;
    struct transformer one = small;
    one.layers = 1;
    struct step_flops flops = flops_of_step(&one, 2 * 4096, 4096.0 * 4097, RECOMPUTE_NONE, true);
    flops.forward.of[MODEL_HEAD] = flops.backward.of[MODEL_HEAD] = 0;
    json_t *json = json_of("--set workload.scope=layer");
    assert_near(number(json, "step", "flops"), 2 * flops_of_hardware(&flops));
    json_decref(json);
    flops = flops_of_step(&small, 2 * 4096, 4096.0 * 4097, RECOMPUTE_NONE, true);
    json = json_of("--set workload.pass=forward --set step.zero=0");
    assert_near(number(json, "step", "flops"), 2 * flops_total(&flops.forward));
    json_decref(json);
}

static void memory_says_what_and_when_and_the_reserve_counts(void **state)
{
    (void)state;
    json_t *json = json_of(""), *memory = json_object_get(json, "memory");
    double peak = number(memory, NULL, "peak_bytes"), roles = 0;
    static const char *const names[] = {"resident", "received",  "accumulators", "workspace",
                                        "weights",  "gradients", "optimizer",    "activations"};
    for (size_t i = 0; i < 8; i++)
        roles += number(memory, NULL, names[i]);
    assert_true(roles == peak && peak == number(json, "step", "peak_bytes"));
    /* bf16 weights of half the model (norms whole), fp32 gradients, 12 bytes of Adam over 4 ranks */
    assert_true(number(memory, NULL, "gradients") == 2 * number(memory, NULL, "weights"));
    assert_near(number(memory, NULL, "optimizer"), 12 * number(memory, NULL, "weights") / 2 / 4);
    assert_true(number(memory, NULL, "reserve") == 1073741824);
    assert_true(number(memory, NULL, "spare_bytes") == 100e9 - peak - 1073741824);
    assert_true(json_is_true(json_object_get(json_object_get(json, "step"), "fits")));
    json_decref(json);
    json = json_of("--set 'step.reserve=99.9 GB'");
    assert_true(json_is_false(json_object_get(json_object_get(json, "step"), "fits")));
    json_decref(json);
}

static void a_step_of_micro_batches_is_its_passes_one_after_the_other(void **state)
{
    (void)state;
    for (int engine = 0; engine < 2; engine++) {
        const char *with = engine ? "" : "--engine simgrid ";
        char *text = memory_format("%s--set step.micro_batches=5", with);
        json_t *one = json_of(with), *five = json_of(text);
        free(text);
        double pass = number(five, "step", "accumulating_pass_seconds"), last = number(one, "step", "seconds");
        assert_true(pass < last); /* it has no gradients to sum, no optimizer */
        assert_near(number(five, "step", "seconds"), 4 * pass + last);
        assert_near(number(five, "step", "compute_seconds") + number(five, "step", "exposed_seconds") +
                        number(five, "step", "idle_seconds"),
                    number(five, "step", "seconds"));
        assert_near(number(five, "step", "flops"), 5 * number(one, "step", "flops"));
        assert_near(number(five, "step", "tokens"), 5 * number(one, "step", "tokens"));
        assert_near(number(five, "step", "tokens_per_second_per_gpu"),
                    number(five, "step", "tokens") / 8 / number(five, "step", "seconds"));
        assert_near(number(five, "step", "model_tflops_per_gpu") * number(five, "step", "seconds"),
                    5 * number(one, "step", "model_tflops_per_gpu") * number(one, "step", "seconds"));
        assert_true(number(five, "step", "peak_bytes") == number(one, "step", "peak_bytes"));
        const json_t *rank = json_array_get(json_object_get(five, "ranks"), 0),
                     *its = json_array_get(json_object_get(one, "ranks"), 0);
        /* Gradients of the norms, which tp ranks have by their own rows, are summed once: 7 norms of 512, in fp32, on
         * two ranks, each of which sends as much as it has. */
        double norms = 7 * 512 * 4;
        assert_near(number(rank, "sent_bytes_by_kind", "tensor"),
                    5 * (number(its, "sent_bytes_by_kind", "tensor") - norms) + norms);
        assert_near(number(rank, "sent_bytes_by_kind", "weight_gradient"),
                    number(its, "sent_bytes_by_kind", "weight_gradient"));
        json_decref(one);
        json_decref(five);
    }
}

static void the_longest_fits_and_the_next_does_not(void **state)
{
    (void)state;
    struct outcome outcome = shell("true");
    outcome_fini(&outcome);
    char *text = memory_format("%s$CPSIM --longest $DIR/c.ini $DIR/x.ini --set 'step.reserve=99.5 GB' --json -", files);
    outcome = shell(text);
    free(text);
    assert_int_equal(outcome.status, 0);
    json_t *json = json_loads(outcome.out, 0, NULL);
    outcome_fini(&outcome);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "cpsim.longest/1");
    double fits = number(json, "fits", "seq_len"), next = number(json, "next", "seq_len");
    assert_true(next == fits + 8 && fits > 8);
    for (int too_long = 0; too_long < 2; too_long++) {
        text = memory_format("--set 'step.reserve=99.5 GB' --set workload.seq_len=%.0f", too_long ? next : fits);
        json_t *ran = json_of(text);
        free(text);
        assert_true(number(ran, "step", "peak_bytes") == number(json, too_long ? "next" : "fits", "peak_bytes"));
        assert_int_equal(json_is_true(json_object_get(json_object_get(ran, "step"), "fits")), !too_long);
        json_decref(ran);
    }
    json_decref(json);
}

static void the_longest_says_when_none_fits_or_lengths_cannot_be_tried(void **state)
{
    (void)state;
    char *text = memory_format("%s$CPSIM --longest $DIR/c.ini $DIR/x.ini --set 'step.reserve=99.99 GB'; echo $?\n"
                               "$CPSIM --longest $DIR/c.ini $DIR/x.ini --set workload.mask=documents:4096; echo $?\n"
                               "$CPSIM --longest $DIR/c.ini $DIR/x.ini --set workload.seq_len=64 --trace t; echo $?",
                               files);
    struct outcome outcome = shell(text);
    free(text);
    assert_non_null(strstr(outcome.out, "longest   none fits the device's"));
    assert_non_null(strstr(outcome.out, "next      8 tokens take"));
    assert_non_null(strstr(outcome.out, "\n1\n2\n2\n"));
    assert_non_null(strstr(outcome.err, "cpsim: no length fits the device's memory\n"));
    assert_non_null(strstr(outcome.err, "'mask' lists documents of one seq_len, expected another mask with --longest"));
    assert_non_null(strstr(outcome.err, "--trace has no effect with --longest"));
    outcome_fini(&outcome);
}

static size_t count_fields(const char *line)
{
    size_t count = 1;
    for (; *line && *line != '\n'; line++)
        count += *line == ',';
    return count;
}

static void rows_have_the_fields_of_their_header(void **state)
{
    (void)state;
    struct outcome outcome = run("--csv -");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, ",sent_weight_gradient_bytes,"));
    assert_non_null(strstr(outcome.out, ",peak_activations_bytes,exposed_cp_seconds,"));
    assert_int_equal(count_fields(outcome.out), count_fields(strchr(outcome.out, '\n') + 1));
    outcome_fini(&outcome);
    outcome = run("--csv - --sweep workload.scope=attention,model --set step.zero=0");
    outcome_fini(&outcome);
    outcome = run("--csv - --sweep step.micro_batches=1,3");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, ",mfu,hfu,"));
    const char *second = strchr(outcome.out, '\n') + 1;
    assert_int_equal(count_fields(outcome.out), count_fields(second));
    assert_int_equal(count_fields(outcome.out), count_fields(strchr(second, '\n') + 1));
    outcome_fini(&outcome);
}

/* Without the JSON, in which all ranks stand, few of them are looked at. */
static void rows_alone_are_those_of_whole_runs(void **state)
{
    (void)state;
    struct outcome alone = run("--csv - --sweep step.micro_batches=1,3 --sweep step.recompute=none,full --quiet");
    struct outcome whole = run("--csv - --sweep step.micro_batches=1,3 --sweep step.recompute=none,full --quiet "
                               "--json $DIR/whole.json");
    assert_int_equal(alone.status, 0);
    assert_string_equal(alone.out, whole.out);
    outcome_fini(&alone);
    outcome_fini(&whole);
}

static void the_table_says_what_people_compare_steps_by(void **state)
{
    (void)state;
    /* of a device that states its peak */
    char *text =
        memory_format("%s$CPSIM $DIR/c.ini $DIR/x.ini --set cluster.device=h100-sxm --set step.micro_batches=2", files);
    struct outcome outcome = shell(text);
    free(text);
    assert_int_equal(outcome.status, 0);
    static const char *const lines[] = {
        "model     custom: 3 layers, hidden 512, MLP 1,024, vocabulary 1,000; 8 query heads",
        "workload  4,096 tokens, batch 2 x 2 micro-batches, causal mask, a whole training step\n",
        "step      products in bf16, sequence parallel, nothing recomputed, gradients in fp32; optimizer states shared "
        "by "
        "dp x cp (zero 1); Adam\n",
        "passes    1 x ",
        " tokens/s per GPU; the model's products and attention at ",
        "use       MFU ",
        "computing attention ",
        "exposed   CP ",
        "of which  weights ",
        " + reserve 1.000 GiB\n",
        "peak      ",
        "DP: weight gradients",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(outcome.out, lines[i]))
            fail_msg("no '%s' in:\n%s", lines[i], outcome.out);
    outcome_fini(&outcome);
}

static void traces_name_parts_and_layers(void **state)
{
    (void)state;
    struct outcome outcome = run("--trace -");
    assert_int_equal(outcome.status, 0);
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    static const char *const names[] = {"\"MLP up L2\"", "\"QKV dW L0\"",        "\"attend k1 L1\"",
                                        "\"head\"",      "\"norm-backward L0\"", "\"optimize\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strstr(outcome.out, names[i]))
            fail_msg("no event %s", names[i]);
    json_decref(json);
    outcome_fini(&outcome);
}

static void plots_have_all_kinds_of_a_step(void **state)
{
    (void)state;
    struct outcome outcome = run("--script - --plot memory=m.png --plot time=t.png --plot l.png "
                                 "--set step.micro_batches=2");
    assert_int_equal(outcome.status, 0);
    static const char *const names[] = {
        "'weights'",     "'gradients of weights'", "'optimizer'",       "'activations'",
        "'reserve'",     "'matrix products'",      "'exposed: CP'",     "'exposed: TP'",
        "'exposed: DP'", "'transfer for TP'",      "'transfer for DP'", "the last micro-batch shown"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strstr(outcome.out, names[i]))
            fail_msg("no %s in the scripts", names[i]);
    outcome_fini(&outcome);
}

static void timelines_of_micro_batches_are_not_compared(void **state)
{
    (void)state;
    char *text =
        memory_format("%s$CPSIM $DIR/c.ini $DIR/x.ini --set step.micro_batches=2 --operations --quiet "
                      "--json $DIR/a.json; $CPSIM $DIR/c.ini $DIR/x.ini --set step.micro_batches=2 --operations "
                      "--quiet --engine analytic --json $DIR/b.json\n"
                      "$CPSIM --compare $DIR/a.json $DIR/b.json --plot timelines=$DIR/t.png; echo $?\n"
                      "$CPSIM --compare $DIR/a.json $DIR/b.json --quiet; echo $?",
                      files);
    struct outcome outcome = shell(text);
    free(text);
    assert_string_equal(outcome.out, "2\n0\n");
    assert_non_null(strstr(outcome.err, "timelines are drawn of runs with micro_batches = 1"));
    outcome_fini(&outcome);
}

static void modes_of_attention_alone_refuse_layers(void **state)
{
    (void)state;
    char *text = memory_format("%s$CPSIM --events $DIR/x.ini; echo $?\n"
                               "$CPSIM --explain $DIR/c.ini $DIR/x.ini --set step.micro_batches=2; echo $?",
                               files);
    struct outcome outcome = shell(text);
    free(text);
    assert_string_equal(outcome.out, "2\n2\n");
    assert_non_null(strstr(outcome.err, "x.ini:11: --events executes attention alone, expected scope = attention"));
    assert_non_null(
        strstr(outcome.err, "--explain explains one forward and backward pass, expected micro_batches = 1"));
    outcome_fini(&outcome);
}

static void sensitivities_of_a_step_sum_to_one_and_products_are_among_them(void **state)
{
    (void)state;
    json_t *json = json_of("--sensitivity --set step.micro_batches=2");
    assert_near(number(json, NULL, "sum"), number(json, NULL, "sum"));
    assert_true(fabs(number(json, NULL, "sum") + 1) < 0.01);
    char *text = json_dumps(json, 0);
    assert_non_null(strstr(text, "product any.rates"));
    free(text);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_parts_add_up_on_every_rank),
        cmocka_unit_test(executed_flops_are_those_of_the_model),
        cmocka_unit_test(a_layer_alone_and_a_forward_pass_count_what_they_do),
        cmocka_unit_test(memory_says_what_and_when_and_the_reserve_counts),
        cmocka_unit_test(a_step_of_micro_batches_is_its_passes_one_after_the_other),
        cmocka_unit_test(the_longest_fits_and_the_next_does_not),
        cmocka_unit_test(the_longest_says_when_none_fits_or_lengths_cannot_be_tried),
        cmocka_unit_test(rows_have_the_fields_of_their_header),
        cmocka_unit_test(rows_alone_are_those_of_whole_runs),
        cmocka_unit_test(the_table_says_what_people_compare_steps_by),
        cmocka_unit_test(traces_name_parts_and_layers),
        cmocka_unit_test(plots_have_all_kinds_of_a_step),
        cmocka_unit_test(timelines_of_micro_batches_are_not_compared),
        cmocka_unit_test(modes_of_attention_alone_refuse_layers),
        cmocka_unit_test(sensitivities_of_a_step_sum_to_one_and_products_are_among_them),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
