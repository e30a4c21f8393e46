/* Programs of layers against closed forms that know no program: parameters (models/layer/parameters.h), FLOPs
 * (flops.h), and the bytes that tp and dp x cp ranks send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "models/layer/flops.h"
#include "models/layer/parameters.h"
#include "tests/models/layers_scene.h"
#include "tests/models/program_sums.h"

static const char *const shipped[] = {"gpt3-175b",     "llama2-7b",     "llama3-405b", "llama3-70b",
                                      "llama3-8b",     "megatron-175b", "megatron-1t", "megatron-22b",
                                      "megatron-530b", "mistral-7b",    "qwen2.5-72b", "qwen2.5-7b"};

#define SHIPPED (sizeof shipped / sizeof *shipped)

/* ---- parameters ---- */

/* What every tp rank has whole: norms, biases behind products whose rows are parted, positions. And rows of a
 * vocabulary that tp does not divide, with which the table is filled up. */
static uint64_t parameters_more_than_once(const struct transformer *model, uint32_t tp)
{
    uint64_t norm = (uint64_t)model->hidden * (model->norm == NORM_LAYER ? 2 : 1);
    uint64_t layer = 2 * norm + (model->bias == BIAS_ALL ? 2 * (uint64_t)model->hidden : 0);
    uint64_t whole = layer * model->layers + norm + (uint64_t)model->positions * model->hidden;
    uint64_t filled = (tp - model->vocab % tp) % tp * (uint64_t)model->hidden * (model->tied_embeddings ? 1 : 2);
    return (tp - 1) * whole + filled;
}

static uint64_t elements_of(const struct program *program, enum tensor tensor)
{
    uint64_t elements = 0;
    for (uint32_t b = 0; b < program->n_buffers; b++)
        if (program->buffers[b].tensor == tensor && program->buffers[b].kept)
            elements += program->buffers[b].rows * program->buffers[b].columns;
    return elements;
}

static void ranks_have_the_models_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHIPPED; i++)
        for (uint32_t tp = 1; tp <= 8; tp *= 2) {
            struct layers_scene s;
            char *model = memory_format("preset = %s", shipped[i]), *parallel = memory_format("cp = 1\ntp = %u", tp);
            struct diagnostics diag;
            diagnostics_init(&diag);
            const struct layers_question q = {
                .model = model, .workload = "seq_len = 64\nscope = model", .parallel = parallel};
            if (layers_try(&s, &q, &diag)) {
                layers_scene_build(&s, 0);
                struct parameters parameters = parameters_of_model(&s.experiment.model);
                uint64_t all = parameters_total(&parameters) + parameters_more_than_once(&s.experiment.model, tp);
                assert_int_equal(tp * elements_of(&s.programs[0], TENSOR_WEIGHT), all);
                assert_int_equal(tp * elements_of(&s.programs[0], TENSOR_WEIGHT_GRADIENT), all);
                assert_int_equal(tp * elements_of(&s.programs[0], TENSOR_OPTIMIZER), 3 * all);
                layers_scene_fini(&s);
            } else {
                assert_non_null(strstr(diag.lines[0], "tp"));
            }
            diagnostics_fini(&diag);
            free(model);
            free(parallel);
        }
}

/* Each of N ranks has a part of what is shared out: of all, so that at most N - 1 elements of each piece are filler. */
static void shares_are_parts_of_all(void **state)
{
    (void)state;
    for (int zero = 0; zero <= 3; zero++) {
        struct layers_scene s;
        char *step = memory_format("zero = %d\nbucket = %d", zero, 2);
        const struct layers_question q = {.workload = "seq_len = 60\nscope = model",
                                          .parallel = "cp = 5\ntp = 2\ndp = 2",
                                          .step = zero < 3 ? step : "zero = 3"};
        layers_ask(&s, &q);
        struct parameters parameters = parameters_of_model(&s.experiment.model);
        uint64_t all = (parameters_total(&parameters) + parameters_more_than_once(&s.experiment.model, 2)) / 2, n = 10;
        uint64_t optimizer = elements_of(&s.programs[3], TENSOR_OPTIMIZER) / 3;
        uint64_t gradients = elements_of(&s.programs[3], TENSOR_WEIGHT_GRADIENT);
        uint64_t weights = elements_of(&s.programs[3], TENSOR_WEIGHT);
        assert_int_equal(optimizer, zero >= 1 ? (all + n - 1) / n : all);
        if (zero < 2)
            assert_int_equal(gradients, all);
        else
            assert_true(gradients >= (all + n - 1) / n && gradients <= all / n + 5);
        assert_int_equal(weights, zero < 3 ? all : 0);
        uint32_t gathered = 0; /* of two layers at a time; and of the ends */
        for (uint32_t b = 0; b < s.programs[3].n_buffers; b++)
            gathered += s.programs[3].buffers[b].tensor == TENSOR_WEIGHT && !s.programs[3].buffers[b].kept;
        assert_int_equal(gathered, zero < 3 ? 0 : 2 * LAYER_WEIGHTS + 3);
        layers_scene_fini(&s);
        free(step);
    }
}

/* ---- FLOPs ---- */

struct counted {
    double forward, backward;
};

/* Of all ranks; attention's backward operations make the scores once more. */
static struct counted count_flops(const struct layers_scene *s)
{
    struct counted counted = {0, 0};
    double dim = s->experiment.model.head_dim;
    for (uint32_t rank = 0; rank < s->schedule.ranks; rank++) {
        const struct program *program = &s->programs[rank];
        for (uint32_t i = 0; i < program->n_ops; i++) {
            const struct op *op = &program->ops[i];
            double flops = 0;
            if (op->kind == OP_PRODUCT) {
                const struct layer_work *work = program_work(program, op);
                flops = 2.0 * (double)work->rows * (double)work->columns * (double)work->depth;
            } else if (op_is_attention(op)) {
                flops = (op->kind == OP_ATTEND ? 4 : 10) * (double)op->pairs * op->lanes.heads * op->lanes.items * dim;
            }
            *(program_phase(program, i) == PHASE_FORWARD ? &counted.forward : &counted.backward) += flops;
        }
    }
    counted.forward *= s->experiment.degree[PARALLEL_TP];
    counted.backward *= s->experiment.degree[PARALLEL_TP];
    return counted;
}

static void expect_flops(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * expected))
        fail_msg("%.17g FLOPs, expected %.17g", found, expected);
}

/* flops.h has the whole forward pass of a layer computed again. A program leaves out the MLP's product down: nobody
 * reads its result, which the layer behind has kept. */
static void programs_take_the_models_flops(void **state)
{
    (void)state;
    static const char *const kinds[] = {"none", "selective", "alternate", "around", "full"}; /* enum recomputation */
    static const char *const layouts[] = {"cp = 1", "cp = 4\ntp = 2", "cp = 2\ntp = 4"};
    static const char *const models[] = {"preset = llama3-8b", "preset = megatron-22b", SMALL_MODEL};
    for (int kind = 0; kind < 5; kind++)
        for (size_t l = 0; l < 3; l++)
            for (size_t m = 0; m < 3; m++)
                for (int chunks = 1; chunks <= 3; chunks += 2) {
                    char *step = memory_format("recompute = %s\nloss_chunks = %d", kinds[kind], chunks);
                    struct layers_scene s;
                    const struct layers_question q = {.model = models[m],
                                                      .workload = "seq_len = 64\nbatch = 3\nscope = model",
                                                      .parallel = layouts[l],
                                                      .step = step};
                    layers_ask(&s, &q);
                    const struct transformer *model = &s.experiment.model;
                    double tokens = 64 * 3, pairs = 3 * 64 * 65 / 2.0;
                    struct step_flops flops = flops_of_step(model, tokens, pairs, (enum recomputation)kind, true);
                    double spared =
                        kind >= RECOMPUTE_AROUND ? 2 * tokens * model->hidden * model->ffn * model->layers : 0;
                    struct counted counted = count_flops(&s);
                    double head =
                        4 * tokens * model->hidden * model->vocab; /* both gradients, already in the forward */
                    double moved = chunks > 1 ? head : 0;
                    expect_flops(counted.forward, flops_total(&flops.forward) + moved);
                    expect_flops(counted.backward,
                                 flops_total(&flops.backward) + flops_total(&flops.recomputed) - spared - moved);
                    layers_scene_fini(&s);
                    free(step);
                }
}

/* ---- bytes ---- */

static void ask(struct layers_scene *s, const char *workload, const char *parallel, const char *step)
{
    const struct layers_question q = {.workload = workload, .parallel = parallel, .step = step};
    layers_ask(s, &q);
}

/* An all-reduce is a reduce-scatter and an all-gather: forward, tp ranks send the same with sequence parallelism and
 * without, 4 (t - 1)/t tokens x hidden a layer. Backward SP sends half as much again: what was gathered is not kept
 * but gathered once more; and norms' gradients are summed. */
static void sequence_parallelism_sends_as_much_forward(void **state)
{
    (void)state;
    for (uint32_t t = 2; t <= 4; t *= 2) {
        char *parallel = memory_format("cp = 2\ntp = %u", t);
        struct layers_scene with;
        ask(&with, "seq_len = 48\nscope = layer", parallel, NULL);
        struct layers_scene without;
        ask(&without, "seq_len = 48\nscope = layer", parallel, "sequence_parallel = no");
        uint64_t whole = 24 * 40 * 2, part = whole * (t - 1) / t;
        struct sent a = sent_by(&with.programs[1]), b = sent_by(&without.programs[1]);
        assert_int_equal(a.bytes[PHASE_FORWARD][TRAFFIC_TENSOR], 4 * part);
        assert_int_equal(b.bytes[PHASE_FORWARD][TRAFFIC_TENSOR], 4 * part);
        assert_int_equal(b.bytes[PHASE_BACKWARD][TRAFFIC_TENSOR], 4 * part);
        uint64_t norms = 2 * (t - 1) * (2 * 40 * 4 / t); /* fp32 */
        assert_int_equal(a.bytes[PHASE_BACKWARD][TRAFFIC_TENSOR], 6 * part + norms);
        layers_scene_fini(&with);
        layers_scene_fini(&without);
        free(parallel);
    }
}

/* Elements of the parts that are gathered or summed in one go, on one of two tp ranks: layers; embedding; last norm and
 * head. Of the small model: no biases, RMS norms, heads 8 and 4 of 6, hidden 40, ffn 56, vocabulary 72. */
#define LAYER_ELEMENTS (2 * 40 + 40 * (48 + 2 * 24) / 2 + 48 * 40 / 2 + 3 * 40 * 56 / 2)
#define EMBEDDING_ELEMENTS (72 / 2 * 40)
#define HEAD_ELEMENTS (40 + 72 / 2 * 40)

/* What a ring of N sends of so many bytes. */
static uint64_t ring(uint64_t bytes, uint64_t n)
{
    return (bytes + n - 1) / n * (n - 1);
}

/* Per rank. Gradients in fp32, weights in bf16. All-reduce: 2 (N-1)/N; zero 1 and 2: a reduce-scatter of the gradients
 * and a gather of the weights; zero 3: two gathers of each layer, one of each end, and the reduce-scatter. */
static void data_parallel_ranks_send_what_sharing_out_takes(void **state)
{
    (void)state;
    static const struct {
        const char *parallel;
        uint64_t n;
    } layouts[] = {
        {"cp = 4\ntp = 2", 4}, {"cp = 1\ntp = 2\ndp = 4", 4}, {"cp = 3\ntp = 2\ndp = 2", 6}, {"cp = 1\ntp = 2", 1}};
    for (size_t l = 0; l < 4; l++)
        for (int zero = 0; zero <= 3; zero++) {
            uint64_t n = layouts[l].n;
            if (n == 1 && zero > 0)
                continue;
            char *step = memory_format("zero = %d", zero);
            struct layers_scene s;
            ask(&s, "seq_len = 48\nscope = model", layouts[l].parallel, n == 1 ? NULL : step);
            uint64_t once4 =
                3 * ring(4 * LAYER_ELEMENTS, n) + ring(4 * EMBEDDING_ELEMENTS, n) + ring(4 * HEAD_ELEMENTS, n);
            uint64_t layers2 = 3 * ring(2 * LAYER_ELEMENTS, n);
            uint64_t ends2 = ring(2 * EMBEDDING_ELEMENTS, n) + ring(2 * HEAD_ELEMENTS, n);
            uint64_t weights = zero == 0 ? 0 : zero < 3 ? layers2 + ends2 : 2 * layers2 + ends2;
            for (uint32_t rank = 0; rank < s.schedule.ranks; rank++) {
                assert_int_equal(sent_as(&s.programs[rank], TRAFFIC_WEIGHT_GRADIENT).bytes,
                                 zero == 0 ? 2 * once4 : once4);
                assert_int_equal(sent_as(&s.programs[rank], TRAFFIC_WEIGHTS).bytes, weights);
            }
            layers_scene_fini(&s);
            free(step);
        }
}

/* A bucket of all layers sends what as many of one do, less often. */
static void buckets_send_less_often(void **state)
{
    (void)state;
    struct layers_scene one;
    ask(&one, "seq_len = 48\nscope = model", "cp = 2\ndp = 2", NULL);
    struct layers_scene three;
    ask(&three, "seq_len = 48\nscope = model", "cp = 2\ndp = 2", "bucket = 3");
    struct sums a = sent_as(&one.programs[0], TRAFFIC_WEIGHT_GRADIENT);
    struct sums b = sent_as(&three.programs[0], TRAFFIC_WEIGHT_GRADIENT);
    assert_int_equal(a.bytes, b.bytes);
    assert_int_equal(a.messages, 5);
    assert_int_equal(b.messages, 3);
    layers_scene_fini(&one);
    layers_scene_fini(&three);
}

/* Attention's own messages are those of its program alone, once a layer and pass. */
static void attention_sends_what_it_does_alone(void **state)
{
    (void)state;
    struct layers_scene model;
    ask(&model, "seq_len = 48\nscope = model", "cp = 4\ntp = 2", NULL);
    struct layers_scene full;
    ask(&full, "seq_len = 48\nscope = model", "cp = 4\ntp = 2", "recompute = full");
    struct program *alone = schedule_build_attention(&model.schedule);
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct sent a = sent_by(&alone[rank]), b = sent_by(&model.programs[rank]), c = sent_by(&full.programs[rank]);
        for (int traffic = 0; traffic < TRAFFIC_ATTENTION_COUNT; traffic++) {
            uint64_t forward = a.bytes[PHASE_FORWARD][traffic], backward = a.bytes[PHASE_BACKWARD][traffic];
            assert_int_equal(b.bytes[PHASE_FORWARD][traffic], 3 * forward);
            assert_int_equal(b.bytes[PHASE_BACKWARD][traffic], 3 * backward);
            assert_int_equal(c.bytes[PHASE_BACKWARD][traffic], 3 * (forward + backward));
        }
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            if (kind == OP_SEND || kind == OP_RECEIVE || (kind >= OP_PRODUCT && kind <= OP_OPTIMIZE))
                continue;
            for (int phase = 0; phase < PHASE_COUNT; phase++)
                assert_int_equal(count_ops(&model.programs[rank], (enum phase)phase, (enum op_kind)kind),
                                 3 * count_ops(&alone[rank], (enum phase)phase, (enum op_kind)kind));
        }
    }
    schedule_free_programs(&model.schedule, alone);
    layers_scene_fini(&model);
    layers_scene_fini(&full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_models_parameters),
        cmocka_unit_test(shares_are_parts_of_all),
        cmocka_unit_test(programs_take_the_models_flops),
        cmocka_unit_test(sequence_parallelism_sends_as_much_forward),
        cmocka_unit_test(data_parallel_ranks_send_what_sharing_out_takes),
        cmocka_unit_test(buckets_send_less_often),
        cmocka_unit_test(attention_sends_what_it_does_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
