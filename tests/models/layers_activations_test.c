/* What a program of layers keeps from forward to backward is what models/layer/activations.h lists, tensor by tensor:
 * found from the lives of its buffers (lifetimes.h), not from their being declared. So the published formulas that
 * layer_activations_test.c holds that list against hold of programs, but for what these do without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/layer/activations.h"
#include "models/schedule/lifetimes.h"
#include "tests/models/layers_scene.h"

#define ROWS 96 /* of all CP ranks: 32 positions of 3 batch items */

/* Which of the list are one buffer, and its name in a layer's program. */
static const struct {
    const char *name, *parts[2];
} tensors[] = {
    {"norm 0", {"QKV input"}},
    {"Q", {"Q"}},
    {"KV", {"K", "V"}},
    {"O", {"O"}},
    {"LSE", {"LSE"}},
    {"middle 0", {"MLP norm input"}},
    {"MLP norm 0", {"MLP input"}},
    {"up 0", {"gate", "up"}},
    {"down 0", {"down input"}},
};

#define TENSORS (sizeof tensors / sizeof *tensors)

static const char *name_of(const struct buffer *buffer)
{
    return tensor_is_of_layer((enum tensor)buffer->tensor) ? buffer->name : tensor_name((enum tensor)buffer->tensor);
}

/* Bytes of activations that live from the forward into the backward pass: of one name, or (NULL) of all. */
static uint64_t kept_bytes(const struct program *program, const char *name)
{
    struct stream_order order;
    struct lifetimes lifetimes;
    stream_order_init(&order, program);
    lifetimes_init(&lifetimes, &order);
    uint64_t bytes = 0;
    uint32_t backward = lifetimes.phase_begin[PHASE_BACKWARD];
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        const struct buffer *buffer = &program->buffers[b];
        struct life life = lifetimes.lives[b][PHASE_FORWARD];
        if (buffer->role == ROLE_ACTIVATIONS && life.born < backward && life.dies > backward &&
            (!name || strcmp(name_of(buffer), name) == 0))
            bytes += buffer->bytes;
    }
    lifetimes_fini(&lifetimes);
    stream_order_fini(&order);
    return bytes;
}

static uint64_t resident_bytes(const struct program *program, const char *name)
{
    for (uint32_t b = 0; b < program->n_buffers; b++)
        if (program->buffers[b].role == ROLE_RESIDENT && strcmp(program->buffers[b].name, name) == 0)
            return program->buffers[b].bytes;
    return 0;
}

static double listed(const struct activation *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n && name; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].bytes;
    return 0;
}

static void ask(struct layers_scene *s, const char *model, const char *scope, uint32_t cp, uint32_t tp, bool sp,
                int recompute)
{
    static const char *const kinds[] = {"none", "selective", "alternate", "around", "full"}; /* enum recomputation */
    char *workload = memory_format("seq_len = 32\nbatch = 3\nscope = %s", scope);
    char *parallel = memory_format("cp = %u\ntp = %u", cp, tp);
    char *step = memory_format("recompute = %s\n%s", kinds[recompute],
                               tp == 1 ? ""
                               : sp    ? "sequence_parallel = yes"
                                       : "sequence_parallel = no");
    const struct layers_question q = {.model = model, .workload = workload, .parallel = parallel, .step = step};
    layers_ask(s, &q);
    free(workload);
    free(parallel);
    free(step);
}

static size_t list_of(const struct layers_scene *s, uint32_t tp, bool sp, int recompute, struct activation *list)
{
    struct transformer model = s->experiment.model;
    model.dropout = false;
    const struct activation_setting setting = {.rows = ROWS / s->experiment.degree[PARALLEL_CP],
                                               .keys = 32,
                                               .tp = tp,
                                               .sequence_parallel = sp,
                                               .flash = true,
                                               .recomputation = (enum recomputation)recompute,
                                               .dtype = DTYPE_BF16};
    return activations_of_layer(&model, &setting, list);
}

static const char *const models[] = {SMALL_MODEL, SMALL_MODEL "mlp = plain\nnorm = layer\nbias = all\n"};

static void a_layers_program_keeps_the_listed_tensors(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (uint32_t cp = 1; cp <= 2; cp++)
            for (uint32_t tp = 1; tp <= 4; tp *= 2)
                for (int sp = 0; sp < 2; sp++)
                    for (int recompute = 0; recompute < 5; recompute++) {
                        struct layers_scene s;
                        ask(&s, models[m], "layer", cp, tp, sp, recompute);
                        struct activation list[ACTIVATIONS_MAX];
                        size_t n = list_of(&s, tp, sp, recompute, list);
                        const struct program *program = &s.programs[cp - 1];
                        double input = listed(list, n, "layer input");
                        assert_true(input == (double)resident_bytes(program, "x"));
                        /* Where products alternate, V and gate alone are kept in buffers of their own. */
                        for (size_t t = 0; t < TENSORS && recompute != RECOMPUTE_ALTERNATE; t++) {
                            double expected =
                                listed(list, n, tensors[t].parts[0]) + listed(list, n, tensors[t].parts[1]);
                            double found = (double)kept_bytes(program, tensors[t].name);
                            if (found != expected)
                                fail_msg("%s of cp %u, tp %u, sp %d, recompute %d: %g bytes kept, expected %g",
                                         tensors[t].name, cp, tp, sp, recompute, found, expected);
                        }
                        double total = activations_total(list, n) - input; /* resident in a layer's program */
                        if ((double)kept_bytes(program, NULL) != total)
                            fail_msg("cp %u, tp %u, sp %d, recompute %d: %g bytes kept, expected %g", cp, tp, sp,
                                     recompute, (double)kept_bytes(program, NULL), total);
                        layers_scene_fini(&s);
                    }
}

/* Of a model: that for each layer, whose input is the result of the one before; and of the head its input, the norm of
 * it and the logits in fp32, or, where these go by chunks, the gradient of the norm. */
static void a_models_program_keeps_that_for_each_layer(void **state)
{
    (void)state;
    for (uint32_t tp = 1; tp <= 2; tp++)
        for (int sp = 0; sp < 2; sp++)
            for (int recompute = 0; recompute < 5; recompute++) {
                struct layers_scene s;
                ask(&s, SMALL_MODEL, "model", 2, tp, sp, recompute);
                struct activation list[ACTIVATIONS_MAX];
                size_t n = list_of(&s, tp, sp, recompute, list);
                double rows = ROWS / 2, row = rows / (sp ? tp : 1) * 40 * 2, logits = rows * (72.0 / tp) * 4;
                double expected = 3 * activations_total(list, n) + 2 * row + logits;
                double found = (double)kept_bytes(&s.programs[1], NULL);
                if (found != expected)
                    fail_msg("tp %u, sp %d, recompute %d: %g bytes kept, expected %g", tp, sp, recompute, found,
                             expected);
                layers_scene_fini(&s);
            }
}

/* Korthikanti et al. 2022, table 2, of that paper's layer: s b h (10 + 24/t + 5 a s/(h t)), with sequence parallelism
 * (34 + 5 a s/h)/t of it. What 5 a s/h stands for, scores, their softmax and its dropout, a flash kernel does not keep:
 * 4 a/h in its place for the LSE (fp32, one a row and head). Two masks of dropout, a byte an element each, are not in
 * programs: 2 of the 10. */
static void programs_keep_the_published_bytes(void **state)
{
    (void)state;
    static const char paper[] =
        "q_heads = 8\nkv_heads = 8\nhead_dim = 8\nhidden = 64\nffn = 256\nvocab = 72\nlayers = 2\n"
        "mlp = plain\nnorm = layer\nbias = all\ndropout = yes\ndtype = bf16\n";
    double sbh = ROWS * 64.0, lse = ROWS * 8 * 4.0;
    for (uint32_t t = 1; t <= 8; t *= 2)
        for (int sp = 0; sp < 2; sp++) {
            struct layers_scene s;
            ask(&s, paper, "layer", 1, t, sp, RECOMPUTE_NONE);
            double whole = sp ? 34 * sbh / t : 10 * sbh + 24 * sbh / t, parted = sp ? t : 1;
            double input = 2 * sbh / parted; /* resident here */
            double found = (double)kept_bytes(&s.programs[0], NULL) + input;
            assert_true(found == whole - 2 * sbh / parted + lse / t);
            layers_scene_fini(&s);
            ask(&s, paper, "layer", 1, t, sp, RECOMPUTE_SELECTIVE); /* less 5 a s/h, so no LSE either */
            assert_true((double)kept_bytes(&s.programs[0], NULL) + input == whole - 2 * sbh / parted);
            layers_scene_fini(&s);
            ask(&s, paper, "model", 1, t, sp, RECOMPUTE_FULL); /* 2 s b h a layer */
            double head = 2 * input + ROWS * (72.0 / t) * 4;
            assert_true((double)kept_bytes(&s.programs[0], NULL) == 2 * input + head);
            layers_scene_fini(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layers_program_keeps_the_listed_tensors),
        cmocka_unit_test(a_models_program_keeps_that_for_each_layer),
        cmocka_unit_test(programs_keep_the_published_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
