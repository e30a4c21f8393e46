/* The checker of layers: what the builder makes is proved, for every way to share out and to compute again; and each
 * mistake that it is there for is found, in a program in which just that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/layers_scene.h"

static const char training[] = "seq_len = 48\nscope = model";

static void every_setting_is_proved(void **state)
{
    (void)state;
    static const char *const models[] = {SMALL_MODEL, SMALL_MODEL "mlp = plain\nnorm = layer\nbias = all\n",
                                         SMALL_MODEL "tied_embeddings = yes\npositions = 48\nbias = qkv\n"};
    static const char *const layouts[] = {"cp = 1", "cp = 2", "cp = 1\ntp = 2", "cp = 2\ntp = 2\ndp = 2",
                                          "cp = 1\ndp = 3"};
    static const char *const steps[] = {"zero = 1", "zero = 2\nbucket = 2", "zero = 3", "bucket = 3",
                                        "sequence_parallel = no"};
    static const char *const more[] = {"recompute = none",
                                       "recompute = selective",
                                       "recompute = around",
                                       "recompute = alternate",
                                       "recompute = full\nloss_chunks = 5",
                                       "optimizer = none\nweight_gradients = model"};
    static const char *const scopes[] = {"model", "layer"};
    unsigned proved = 0;
    for (size_t m = 0; m < 3; m++)
        for (size_t l = 0; l < 5; l++)
            for (size_t t = 0; t < 5; t++)
                for (size_t r = 0; r < 6; r++)
                    for (size_t p = 0; p < 4; p++) {
                        char *workload = memory_format("seq_len = 48\nscope = %s\npass = %s", scopes[p % 2],
                                                       p / 2 ? "forward" : "train");
                        char *step = memory_format("%s\n%s", steps[t], more[r]);
                        struct layers_scene s;
                        struct diagnostics diag;
                        diagnostics_init(&diag);
                        const struct layers_question q = {
                            .model = models[m], .workload = workload, .parallel = layouts[l], .step = step};
                        bool accepted = layers_try(&s, &q, &diag);
                        if (accepted) {
                            char *what = memory_format("%s, %s, %s", workload, layouts[l], step);
                            layers_scene_build(&s, 2);
                            layers_expect_proved(&s, what);
                            layers_scene_fini(&s);
                            free(what);
                            proved++;
                        } else if (!strstr(diag.lines[0], "has no effect")) {
                            fail_msg("%s", diag.lines[0]);
                        }
                        diagnostics_fini(&diag);
                        free(workload);
                        free(step);
                    }
    assert_true(proved > 250);
}

/* Between micro-batches gradients that are kept whole wait; others are summed each time. No optimizer runs. */
static void passes_between_sum_what_is_not_kept(void **state)
{
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        struct layers_scene s;
        struct diagnostics diag;
        char step[32];
        snprintf(step, sizeof step, "zero = %d", zero);
        const struct layers_question q = {.workload = training, .parallel = "cp = 2\ntp = 2\ndp = 2", .step = step};
        diagnostics_init(&diag);
        assert_true(layers_try(&s, &q, &diag));
        s.schedule.accumulates = true;
        layers_scene_build(&s, 0);
        layers_expect_proved(&s, step);
        uint32_t sums = 0, norms = 0, optimizers = 0;
        for (uint32_t i = 0; i < s.programs[0].n_ops; i++) {
            const struct op *op = &s.programs[0].ops[i];
            sums += op->kind == OP_SEND && op->traffic == TRAFFIC_WEIGHT_GRADIENT;
            norms += op->kind == OP_SEND && op->traffic == TRAFFIC_TENSOR &&
                     s.programs[0].buffers[*program_reads(&s.programs[0], op)].tensor == TENSOR_WEIGHT_GRADIENT;
            optimizers += op->kind == OP_OPTIMIZE;
        }
        assert_int_equal(sums, zero < 2 ? 0 : zero == 2 ? 5 : 4); /* three layers; both ends, of FSDP together */
        assert_int_equal(norms, zero < 2 ? 0 : 4);                /* of three layers, and the last */
        assert_int_equal(optimizers, 0);
        layers_scene_fini(&s);
        diagnostics_fini(&diag);
    }
}

/* ---- mistakes ---- */

/* The n-th operation that fits; `stream` or `form` -1: any. */
static uint32_t find(const struct program *program, enum op_kind kind, int stream, int form, uint32_t layer,
                     uint32_t nth)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        bool fits = op->kind == kind && (stream < 0 || op->stream == stream);
        if (fits && op_is_of_layer(op))
            fits = program_work(program, op)->layer == layer && (form < 0 || program_work(program, op)->form == form);
        if (fits && nth-- == 0)
            return i;
    }
    fail_msg("no such %s", op_kind_name(kind));
    return 0;
}

/* An operation does nothing any more. */
static void forget(struct program *program, uint32_t op)
{
    for (int p = 0; p < PHASE_COUNT; p++)
        program->phase_end[p] -= op < program->phase_end[p];
    for (uint32_t c = 0; c < program->n_collectives; c++) {
        program->collectives[c].first_op -= op < program->collectives[c].first_op;
        program->collectives[c].end_op -= op < program->collectives[c].end_op;
    }
    program->n_ops--;
    memmove(program->ops + op, program->ops + op + 1, (program->n_ops - op) * sizeof *program->ops);
}

static void forget_collective(struct program *program, uint32_t op)
{
    uint32_t n = program->collectives[program->ops[op].collective - 1].end_op - op;
    while (n-- > 0)
        forget(program, op);
}

static uint32_t *accessed(struct program *program, uint32_t op, uint32_t nth)
{
    return &program->accesses[program->ops[op].access + nth];
}

static struct layer_work *work(struct program *program, uint32_t op)
{
    return &program->works[program->ops[op].work];
}

static void drop_first_norm(struct program *p)
{
    forget(p, find(p, OP_NORM, -1, -1, 0, 0));
}

static void drop_product_back(struct program *p)
{
    forget(p, find(p, OP_PRODUCT, -1, PRODUCT_OUTPUT, 1, 1));
}

static void drop_weight_gradient(struct program *p)
{
    forget(p, find(p, OP_PRODUCT, -1, PRODUCT_WEIGHT_GRADIENT, 1, 2));
}

static void drop_input_gradient(struct program *p)
{
    forget(p, find(p, OP_PRODUCT, -1, PRODUCT_INPUT_GRADIENT, 2, 0));
}

static void change_depth(struct program *p)
{
    work(p, find(p, OP_PRODUCT, -1, PRODUCT_OUTPUT, 0, 0))->depth++;
}

static void change_rows(struct program *p)
{
    work(p, find(p, OP_PRODUCT, -1, PRODUCT_OUTPUT, 1, 3))->rows--;
}

static void change_columns(struct program *p)
{
    work(p, find(p, OP_PRODUCT, -1, PRODUCT_WEIGHT_GRADIENT, 1, 3))->columns++;
}

static void change_norm(struct program *p)
{
    work(p, find(p, OP_NORM_BACKWARD, -1, -1, 1, 0))->rows *= 2;
}

static void change_activation(struct program *p)
{
    work(p, find(p, OP_ACTIVATE, -1, -1, 1, 0))->columns *= 2;
}

/* Layers 0 and 2 share buffers of gathered weights: without the gather, 0 reads those of 2 backward. */
static void drop_gather(struct program *p)
{
    uint32_t op = p->phase_end[PHASE_FORWARD];
    while (p->ops[op].traffic != TRAFFIC_WEIGHTS || p->ops[op].kind != OP_SEND)
        op++;
    for (uint32_t later = op; later < p->n_ops; later++) /* the last */
        if (p->ops[later].traffic == TRAFFIC_WEIGHTS && p->ops[later].kind == OP_SEND)
            op = later;
    forget_collective(p, op);
}

static void drop_sum(struct program *p)
{
    forget_collective(p, find(p, OP_SEND, STREAM_REDUCTION, -1, 0, 1));
}

/* The sum of a layer's gradients comes before the last of them is there. */
static void sum_early(struct program *p)
{
    uint32_t sum = find(p, OP_SEND, STREAM_REDUCTION, -1, 0, 1), last = find(p, OP_NORM_BACKWARD, -1, -1, 2, 1);
    assert_true(last < sum);
    struct op norm = p->ops[last];
    memmove(p->ops + last, p->ops + last + 1, (sum + 1 - last) * sizeof *p->ops);
    p->ops[sum + 1] = norm;
    for (uint32_t c = 0; c < p->n_collectives; c++)
        if (p->collectives[c].first_op > last && p->collectives[c].first_op <= sum) {
            p->collectives[c].first_op--;
            p->collectives[c].end_op--;
        }
}

static void sum_twice(struct program *p)
{
    uint32_t one = find(p, OP_SEND, STREAM_REDUCTION, -1, 0, 1), other = find(p, OP_SEND, STREAM_REDUCTION, -1, 0, 2);
    p->ops[other].access = p->ops[one].access;
    p->ops[other + 1].access = p->ops[one + 1].access;
}

static void change_sent_bytes(struct program *p)
{
    p->ops[find(p, OP_SEND, STREAM_REDUCTION, -1, 0, 1)].bytes += 8;
}

/* Right for its own program, not for the other end's. */
static void change_both_bytes(struct program *p)
{
    uint32_t op = find(p, OP_SEND, STREAM_EXCHANGE, -1, 0, 0);
    p->ops[op].bytes += 8;
}

static void drop_tensor_sum(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].traffic == TRAFFIC_TENSOR && p->ops[i].kind == OP_SEND &&
            p->buffers[*program_reads(p, &p->ops[i])].tensor == TENSOR_WEIGHT_GRADIENT) {
            forget_collective(p, i);
            return;
        }
}

static void drop_row_gather(struct program *p)
{
    forget_collective(p, find(p, OP_SEND, STREAM_TENSOR, -1, 0, 1));
}

static void drop_optimizer(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_OPTIMIZE)
            forget(p, i--);
}

static void forget_one_gradient(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_OPTIMIZE)
            *accessed(p, i, 0) = *accessed(p, i, 1);
}

static void drop_new_weights(struct program *p)
{
    for (uint32_t i = p->n_ops; i-- > 0;)
        if (p->ops[i].traffic == TRAFFIC_WEIGHTS && p->ops[i].kind == OP_SEND) {
            forget_collective(p, i);
            return;
        }
}

/* The second of two contributions (the tied head's, then the embedding's) begins anew. */
static void overwrite_gradient(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_EMBED_BACKWARD) {
            p->ops[i].access++;
            p->ops[i].n_reads--;
            *accessed(p, i, 0) = p->accesses[p->ops[i].access - 1];
        }
}

static const struct {
    void (*mistake)(struct program *program);
    const char *step, *model, *words;
} mistakes[] = {
    {drop_first_norm, NULL, NULL, "which nobody wrote"},
    {drop_product_back, NULL, NULL, "which nobody wrote"},
    {drop_weight_gradient, NULL, NULL, "products for gradients of weights, expected"},
    {drop_input_gradient, NULL, NULL, "which nobody wrote"},
    {change_depth, NULL, NULL, "inputs of its matrix"},
    {change_rows, NULL, NULL, "rows where buffer"},
    {change_columns, NULL, NULL, "columns where buffer"},
    {change_norm, NULL, NULL, "rows, expected"},
    {change_activation, NULL, NULL, "works on"},
    {drop_gather, "zero = 3", NULL, "which was gathered for layer 2"},
    {drop_sum, NULL, NULL, "gradients of layer 2 are summed over dp x cp, expected 6"},
    {sum_early, NULL, NULL, "has nothing new in it"},
    {sum_twice, NULL, NULL, "is summed already"},
    {sum_twice, "zero = 2", NULL, "is summed already"},
    {change_sent_bytes, NULL, NULL, "bytes, expected"},
    {change_both_bytes, NULL, NULL, "meets a receive of"},
    {drop_tensor_sum, NULL, NULL, "summed 0 times over tp"},
    {drop_row_gather, NULL, NULL, "which nobody wrote"},
    {drop_optimizer, NULL, NULL, "the optimizer runs 0 times"},
    {forget_one_gradient, NULL, NULL, "does not read gradient"},
    {forget_one_gradient, "zero = 2", NULL, "does not read gradient"},
    {drop_new_weights, "zero = 1", NULL, "is not gathered"},
    {overwrite_gradient, NULL, SMALL_MODEL "tied_embeddings = yes\n", "overwrites"},
};

static void every_mistake_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct layers_scene s;
        const struct layers_question q = {.model = mistakes[i].model,
                                          .workload = training,
                                          .parallel = "cp = 2\ntp = 2\ndp = 2",
                                          .step = mistakes[i].step};
        struct diagnostics diag;
        layers_ask(&s, &q);
        diagnostics_init(&diag);
        assert_true(layers_prove(&s.schedule, s.programs, &diag));
        mistakes[i].mistake(&s.programs[1]);
        bool proved = layers_prove(&s.schedule, s.programs, &diag), said = false;
        for (size_t line = 0; line < diag.count; line++)
            said |= strstr(diag.lines[line], mistakes[i].words) && strstr(diag.lines[line], "rank 1");
        if (proved || !said) {
            diagnostics_print(&diag, stderr, "  ");
            fail_msg("mistake %zu: no line says '%s'", i, mistakes[i].words);
        }
        diagnostics_fini(&diag);
        layers_scene_fini(&s);
    }
}

/* ---- what cannot be built ---- */

static void what_cannot_be_built_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct layers_question q;
        const char *words;
    } cases[] = {
        {{.workload = "seq_len = 48\nscope = model",
          .parallel = "cp = 1\ntp = 4",
          .model =
              "q_heads = 8\nkv_heads = 4\nhead_dim = 6\nhidden = 40\nffn = 58\nvocab = 72\nlayers = 3\ndtype = bf16\n"},
         "does not divide ffn = 58"},
        {{.workload = "seq_len = 50\nscope = layer", .parallel = "cp = 2\ntp = 2"}, "does not divide the 25 rows"},
        {{.workload = "seq_len = 48\nscope = model\nnew_tokens = 8\npass = forward", .parallel = "cp = 2"},
         "no layers around it"},
        {{.workload = "seq_len = 48\nscope = model",
          .parallel = "cp = 2",
          .model = "q_heads = 8\nkv_heads = 4\nhead_dim = 6\ndtype = bf16\n"},
         "without layers, hidden, ffn or vocab"},
        {{.workload = "seq_len = 48\nscope = model\npass = forward", .parallel = "cp = 2", .step = "zero = 1"},
         "no effect with pass = forward"},
        {{.workload = "seq_len = 48\nscope = model\npass = forward", .parallel = "cp = 2", .step = "zero = 2"},
         "no effect with pass = forward"},
        {{.workload = "seq_len = 48\nscope = model", .parallel = "cp = 1", .step = "zero = 3"},
         "no effect with cp = 1 and dp = 1"},
        {{.workload = "seq_len = 48\nscope = model",
          .parallel = "cp = 2",
          .step = "weight_gradients = model",
          .model =
              "q_heads = 8\nkv_heads = 4\nhead_dim = 6\nhidden = 40\nffn = 56\nvocab = 72\nlayers = 3\ndtype = fp32\n"},
         "no effect with a dtype in which sums are made"},
        {{.workload = "seq_len = 65536\nscope = model", .parallel = "cp = 2048", .model = "preset = llama3-405b"},
         "fewer ranks, or scope = layer"},
        {{.workload = "seq_len = 48\nscope = model",
          .parallel = "cp = 1\ndp = 2",
          .model =
              "q_heads = 8\nkv_heads = 4\nhead_dim = 6\nhidden = 40\nffn = 56\nvocab = 72\nlayers = 10922\ndtype = "
              "bf16\n"},
         "layers, expected at most 10921"},
        {{.workload = "seq_len = 48\nscope = model", .parallel = "cp = 2", .step = "bucket = 4"}, "of a model of 3"},
        {{.workload = "seq_len = 2Gi\nbatch = 65536\nscope = model\npass = forward",
          .parallel = "cp = 1\ntp = 8",
          .model = "q_heads = 8\nkv_heads = 8\nhead_dim = 1\nhidden = 16777216\nffn = 16777216\nvocab = "
                   "16777216\nlayers = 64\ndtype = bf16\n"},
         "more bytes than 63 bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        layers_expect_refused(&cases[i].q, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_is_proved),
        cmocka_unit_test(passes_between_sum_what_is_not_kept),
        cmocka_unit_test(every_mistake_is_found),
        cmocka_unit_test(what_cannot_be_built_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
