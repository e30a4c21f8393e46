/* Whole steps by the command: what recomputation and the loss leave in memory, against the lists of tensors that are
 * counted apart (models/layer/activations.h); and tp groups that span nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/layer/activations.h"
#include "tests/cli/validated.h"

#define TOKENS 2048
#define LAYERS 4
#define VOCAB 64000 /* so many that memory is highest at the loss */

static const char experiment[] = "[model]\nq_heads = 8\nkv_heads = 2\nhead_dim = 64\nlayers = 4\nhidden = 512\n"
                                 "ffn = 2048\nvocab = 64000\ndtype = bf16\n"
                                 "[workload]\nseq_len = 2048\nmask = causal\npass = train\nscope = model\n"
                                 "[parallel]\ncp = 1\n"
                                 "[schedule]\nalgorithm = ring\n";

static const struct transformer model = {
    .q_heads = 8, .kv_heads = 2, .head_dim = 64, .layers = LAYERS, .hidden = 512, .ffn = 2048, .vocab = VOCAB};

static double step_number(const char *topology, const char *options, const char *key)
{
    char *text = memory_format("$CPSIM %s $DIR/steps/step.ini %s --json -", topology, options);
    json_t *run = json_of(text);
    const json_t *value = json_object_get(json_object_get(run, "step"), key);
    assert_true(json_is_number(value));
    double number = json_number_value(value);
    json_decref(run);
    free(text);
    return number;
}

static double kept(enum recomputation recomputation)
{
    const struct activation_setting setting = {
        .rows = TOKENS, .keys = TOKENS, .tp = 1, .flash = true, .recomputation = recomputation, .dtype = DTYPE_BF16};
    struct activation list[ACTIVATIONS_MAX];
    return LAYERS * activations_total(list, activations_of_layer(&model, &setting, list));
}

static void recomputation_spares_what_it_makes_again(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum recomputation recomputation;
    } ways[] = {{"alternate", RECOMPUTE_ALTERNATE}, {"around", RECOMPUTE_AROUND}, {"full", RECOMPUTE_FULL}};
    double none = step_number("toy-2", "", "peak_bytes");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *option = memory_format("--set step.recompute=%s", ways[i].word);
        double spared = none - step_number("toy-2", option, "peak_bytes");
        double expected = kept(RECOMPUTE_NONE) - kept(ways[i].recomputation);
        if (spared != expected)
            fail_msg("%s spares %.0f bytes, expected %.0f", ways[i].word, spared, expected);
        free(option);
    }
}

/* Logits and their gradient in 2 bytes, and three results of 4 at once; fused, one of 4. What else grows with the
 * tokens is little beside that. */
static void an_eager_loss_has_each_operators_result(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        double bytes; /* of a logit */
    } losses[] = {{"fused", 4}, {"eager", 14}};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char *once = memory_format("--set step.recompute=full --set step.loss=%s", losses[i].word);
        char *twice = memory_format("%s --set workload.seq_len=%d", once, 2 * TOKENS);
        double more = step_number("toy-2", twice, "peak_bytes") - step_number("toy-2", once, "peak_bytes");
        double logits = losses[i].bytes * TOKENS * VOCAB;
        if (!(more >= logits && more < logits + 0.03 * 4 * TOKENS * VOCAB))
            fail_msg("%s: %.0f bytes more, expected %.0f", losses[i].word, more, logits);
        free(once);
        free(twice);
    }
}

static void a_loss_that_cannot_be_eager_is_refused(void **state)
{
    (void)state;
    expect("$CPSIM toy-2 $DIR/steps/step.ini --set step.loss=eager --set step.loss_chunks=2", 2, NULL,
           "--set step.loss=eager: 'loss' = eager has the logits of all rows, expected fused, or loss_chunks = 1");
    expect("$CPSIM toy-2 $DIR/steps/step.ini --set step.loss=eager --set parallel.tp=2", 2, NULL,
           "--set step.loss=eager: 'loss' = eager has the logits of the whole vocabulary, expected fused, or tp = 1");
    expect("$CPSIM toy-2 $DIR/steps/step.ini --set step.loss=eager --set workload.scope=layer", 2, NULL,
           "'loss' has no effect with scope = layer, expected no such key");
    expect("$CPSIM toy-2 $DIR/steps/step.ini --set step.loss=eagre", 2, NULL,
           "'loss' is 'eagre', did you mean 'eager'?");
}

/* A thousand bytes more of each element, by the toy's 1 TB/s: two norms a layer and the last, the MLP's inner rows, Q
 * and K (ten heads of 64). */
static void an_implementation_passes_over_layers_in_its_own_way(void **state)
{
    (void)state;
    static const struct {
        const char *step;
        double elements; /* of a token */
    } steps[] = {{"norm", (2 * LAYERS + 1) * 512}, {"activate", LAYERS * 2048}, {"rotate", LAYERS * 10 * 64}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double seconds[2];
        for (int more = 0; more < 2; more++) {
            char *text = memory_format("[implementation]\nname = own\nsource = made up\n[steps]\n%s = 1 kernels, %d "
                                       "B/element, 0 B/row\nsource = made up\n",
                                       steps[i].step, 1000 + 1000 * more);
            write_file("steps", "own.ini", text);
            free(text);
            seconds[more] = step_number(
                "toy-2", "--set workload.pass=forward --set schedule.implementation=$DIR/steps/own.ini", "seconds");
        }
        double expected = 1000 * TOKENS * steps[i].elements / 1e12, more = seconds[1] - seconds[0];
        if (!(fabs(more - expected) <= 1e-9 * expected))
            fail_msg("%s: %.17g s more, expected %.17g", steps[i].step, more, expected);
    }
}

/* The network between nodes is all that takes time: two rings, one out of each GPU of a node, have half a ring's bytes
 * each. */
static void a_tp_group_leaves_its_node_by_every_gpu(void **state)
{
    (void)state;
    static const char levels[] = "[cluster]\ndevice = toy\n[level node]\nsize = %d\nkind = switch\nbandwidth = 1 PB/s\n"
                                 "latency = 0 s\n[level cluster]\nsize = %d\nkind = switch\nattach = rail\n"
                                 "bandwidth = 1 GB/s\nlatency = 0 s\n";
    char *pairs = memory_format(levels, 2, 2), *single = memory_format(levels, 1, 4);
    write_file("steps", "pairs.ini", pairs);
    write_file("steps", "single.ini", single);
    free(pairs);
    free(single);
    double two =
        step_number("$DIR/steps/pairs.ini", "--set parallel.tp=2 --set model.kv_heads=4", "communication_seconds");
    double of_two =
        step_number("$DIR/steps/pairs.ini", "--set parallel.tp=4 --set model.kv_heads=4", "communication_seconds");
    double of_one =
        step_number("$DIR/steps/single.ini", "--set parallel.tp=4 --set model.kv_heads=4", "communication_seconds");
    assert_true(two < 1e-3 * of_two); /* inside a node */
    assert_true(of_two > 0.499 * of_one && of_two < 0.501 * of_one);
}

static int end(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

static int begin(void **state)
{
    (void)state;
    write_file("steps", "step.ini", experiment);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_spares_what_it_makes_again),
        cmocka_unit_test(an_eager_loss_has_each_operators_result),
        cmocka_unit_test(a_loss_that_cannot_be_eager_is_refused),
        cmocka_unit_test(an_implementation_passes_over_layers_in_its_own_way),
        cmocka_unit_test(a_tp_group_leaves_its_node_by_every_gpu),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
