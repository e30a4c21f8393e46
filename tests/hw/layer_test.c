/* Whole layers run for real on the transport 'local': all ranks of the layout end with what a single rank has, and what
 * they forget to sum shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/layer_scene.h"
#include "tests/hw/predicted_peak.h"

/* ---- what must hold for every run ---- */

/* Memory as predicted, and every byte that a send of the program has. */
static void expect_account(const struct scene *scene)
{
    const struct program *programs = hardware_programs(scene->hardware);
    for (uint32_t r = 0; r < scene->run.n_ranks; r++) {
        uint64_t sent[TRAFFIC_COUNT] = {0};
        for (uint32_t i = 0; i < programs[r].n_ops; i++)
            if (programs[r].ops[i].kind == OP_SEND)
                sent[programs[r].ops[i].traffic] += programs[r].ops[i].bytes;
        assert_memory_equal(sent, scene->run.ranks[r].wire.sent_bytes, sizeof sent);
        assert_int_equal(scene->run.ranks[r].peak_bytes, predicted_peak(&programs[r]));
    }
}

/* All that a layer puts out is compared on all ranks: every number of it. */
static void expect_all_compared(const struct experiment *experiment, const struct verification *verification)
{
    const struct transformer *model = &experiment->model;
    const uint64_t *degree = (const uint64_t[]){experiment->degree[PARALLEL_TP], experiment->degree[PARALLEL_CP],
                                                experiment->degree[PARALLEL_DP]};
    bool parted = degree[0] > 1 && experiment->step.sequence_parallel;
    uint64_t hidden = experiment->seq_len * experiment->batch * degree[2] * model->hidden * (parted ? 1 : degree[0]);
    uint64_t whole = degree[1] * degree[2]; /* each weight is in so many places, parted among tp ranks */
    uint64_t q = (uint64_t)model->q_heads * model->head_dim, kv = (uint64_t)model->kv_heads * model->head_dim;
    uint64_t norm = whole * degree[0] * model->hidden * (model->norm == NORM_LAYER ? 2 : 1);
    const uint64_t due[OUTPUT_COUNT] = {
        [OUTPUT_Y] = hidden,
        [OUTPUT_DX] = hidden,
        [OUTPUT_DNORM_1] = norm,
        [OUTPUT_DW_Q] = whole * model->hidden * q,
        [OUTPUT_DW_K] = whole * model->hidden * kv,
        [OUTPUT_DW_V] = whole * model->hidden * kv,
        [OUTPUT_DW_O] = whole * q * model->hidden,
        [OUTPUT_DNORM_2] = norm,
        [OUTPUT_DW_UP] = whole * model->hidden * model->ffn * (model->mlp == MLP_GATED ? 2 : 1),
        [OUTPUT_DW_DOWN] = whole * model->ffn * model->hidden,
    };
    for (int t = 0; t < OUTPUT_COUNT; t++) {
        bool present = due[t] > 0 && (experiment->train || t == OUTPUT_Y);
        assert_int_equal(verification->tensors[t].present, present);
        assert_int_equal(verification->tensors[t].values, present ? due[t] : 0);
    }
}

/* The worst of the errors of so many steps, each with its own inputs, in units of their tolerances. */
static double expect_right(const struct experiment *experiment, uint64_t steps)
{
    struct scene scene;
    char text[512];
    double worst = 0;
    scene_open(&scene, experiment, &compute_cpu, "local");
    if (!scene.opened)
        fail_msg("%s: %s", layer_describe(experiment, text), scene_message(&scene));
    for (uint64_t seed = 0; seed < steps; seed++) {
        scene_step(&scene, RUN_ALL, seed);
        if (!scene.passed)
            fail_msg("%s: %s", layer_describe(experiment, text), scene_message(&scene));
        expect_all_compared(experiment, &scene.run.verification);
        expect_account(&scene);
        for (int t = 0; t < OUTPUT_COUNT; t++)
            if (scene.run.verification.tensors[t].present)
                worst = fmax(worst,
                             scene.run.verification.tensors[t].max_error / scene.run.verification.tensors[t].tolerance);
    }
    scene_close(&scene);
    return worst;
}

/* ---- right results ---- */

static void any_layout_of_up_to_two_of_each_is_right(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < 8; d++) {
        for (int kind = 0; kind < 8; kind++) {
            struct experiment experiment = make_layer("ring", 1 + (d & 1), 1 + (d >> 1 & 1), 1 + (d >> 2));
            experiment.step.sequence_parallel = kind & 1;
            experiment.model.mlp = kind & 2 ? MLP_PLAIN : MLP_GATED;
            experiment.model.norm = kind & 4 ? NORM_LAYER : NORM_RMS;
            experiment.dtype = (d ^ (uint32_t)kind) & 1 ? DTYPE_BF16 : DTYPE_FP32;
            experiment.batch = 2;
            expect_right(&experiment, 1);
        }
    }
}

static void every_algorithm_with_rows_of_its_own_is_right(void **state)
{
    (void)state;
    unsigned count = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        struct experiment experiment = make_layer(algorithms[a]->name, 2, 4, 1);
        struct experiment like = make_experiment_for(algorithms[a], 4, 64);
        experiment.model.q_heads = 16;
        experiment.model.kv_heads = 8;
        experiment.train = like.train;
        experiment.ulysses_degree = like.ulysses_degree;
        experiment.ring_window = like.ring_window;
        experiment.gather_heads = like.gather_heads;
        if (!is_accepted(&experiment))
            continue;
        count++;
        expect_right(&experiment, 1);
    }
    assert_true(count >= 8);
}

static void what_is_computed_again_is_right(void **state)
{
    (void)state;
    for (enum recomputation r = RECOMPUTE_NONE; r <= RECOMPUTE_FULL; r++) {
        struct experiment experiment = make_layer(r & 1 ? "all-gather" : "ring", 2, 2, 1);
        experiment.step.recomputation = r;
        if (r != RECOMPUTE_ALTERNATE)
            expect_right(&experiment, 2);
    }
}

/* ---- random layers ---- */

static uint32_t roll(uint64_t *state, uint32_t sides)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % sides;
}

static struct experiment random_layer(uint64_t *dice, uint64_t shard_counts[4])
{
    static const char *const names[] = {"ring", "all-gather", "ulysses", "usp"};
    static const enum sharding_kind shardings[] = {SHARDING_CONTIGUOUS, SHARDING_ZIGZAG, SHARDING_STRIPED,
                                                   SHARDING_EXPLICIT};
    static const enum recomputation recomputations[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_AROUND,
                                                        RECOMPUTE_FULL};
    const uint32_t tp = 1 + roll(dice, 3), cp = 1 + roll(dice, 3), group = 1 + roll(dice, 2);
    struct experiment e = make_layer(names[roll(dice, sizeof names / sizeof *names)], tp, cp, 1 + roll(dice, 2));
    e.model.kv_heads = tp * cp * (1 + roll(dice, 2));
    e.model.q_heads = group * e.model.kv_heads;
    e.model.head_dim = 2 + 2 * roll(dice, 5);
    e.model.hidden = 8 + roll(dice, 40);
    e.model.ffn = tp * (1 + roll(dice, 20));
    e.model.mlp = roll(dice, 2) ? MLP_PLAIN : MLP_GATED;
    e.model.norm = roll(dice, 2) ? NORM_LAYER : NORM_RMS;
    e.dtype = roll(dice, 2) ? DTYPE_BF16 : DTYPE_FP32;
    e.train = roll(dice, 6) > 0;
    e.overlap = roll(dice, 3) > 0;
    e.sharding = shardings[roll(dice, 4)];
    e.step.sequence_parallel = roll(dice, 2);
    e.step.recomputation = recomputations[roll(dice, 4)];
    e.step.weight_gradients_fp32 = roll(dice, 2);
    e.batch = e.step.sequence_parallel ? tp : 1 + roll(dice, 3);
    e.seq_len = 2 * cp * (1 + roll(dice, 16));
    if (e.sharding == SHARDING_EXPLICIT) {
        e.shard_counts = shard_counts;
        e.seq_len = 1;
        for (uint32_t r = 0; r < cp; r++)
            e.seq_len += shard_counts[r] = roll(dice, 30);
        shard_counts[cp - 1]++;
    }
    e.mask = make_mask((enum mask_kind)roll(dice, 3), e.seq_len, 1 + roll(dice, 20));
    return e;
}

static void random_layers_are_right(void **state)
{
    (void)state;
    uint64_t dice = 1, counts[4];
    const char *asked = getenv("CPSIM_RANDOM_LAYERS");
    double worst[2] = {0};
    unsigned count = 0, narrow = 0;
    for (int i = 0; i < (asked ? atoi(asked) : 80); i++) {
        struct experiment experiment = random_layer(&dice, counts);
        if (!is_accepted(&experiment))
            continue;
        bool bf16 = experiment.dtype == DTYPE_BF16;
        worst[bf16] = fmax(worst[bf16], expect_right(&experiment, 1));
        count++;
        narrow += bf16;
    }
    print_message("%u layers; the worst errors are %.2g (fp32) and %.2g (bf16) of what is allowed\n", count, worst[0],
                  worst[1]);
    assert_true(narrow > 10 && count - narrow > 10);
}

/* ---- faults ---- */

/* Whether an operation is left out. */
typedef bool fault(const struct program *program, const struct op *op);
static fault *planted; /* the test's, set before a run */

static void run_faulty(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                       const struct between_tiles *between_tiles)
{
    if (!planted(program, &program->ops[op]))
        compute_cpu.run(compute, program, op, memory, between_tiles);
}

static bool sums(const struct program *program, const struct op *op, enum tensor tensor, enum stream stream)
{
    return op->kind == OP_ACCUMULATE && op->stream == (uint8_t)stream &&
           program->buffers[*program_writes(program, op)].tensor == (uint8_t)tensor;
}

static bool no_sum_over_cp(const struct program *program, const struct op *op)
{
    return sums(program, op, TENSOR_WEIGHT_GRADIENT, STREAM_REDUCTION);
}

/* CP rank 1 forgets one weight. */
static bool one_sum_forgotten(const struct program *program, const struct op *op)
{
    return program->rank == 1 && no_sum_over_cp(program, op) &&
           strncmp(program->buffers[*program_writes(program, op)].name, "dW output", 9) == 0;
}

static bool no_sum_of_norms(const struct program *program, const struct op *op)
{
    return sums(program, op, TENSOR_WEIGHT_GRADIENT, STREAM_TENSOR);
}

static bool no_sum_over_tp(const struct program *program, const struct op *op)
{
    return sums(program, op, TENSOR_HIDDEN, STREAM_TENSOR);
}

static bool no_norm(const struct program *program, const struct op *op)
{
    (void)program;
    return op->kind == OP_NORM_BACKWARD;
}

/* `wrong`: outputs that must be found wrong, a bit each; others must not. */
static void expect_caught(struct experiment *experiment, fault *what, uint32_t wrong, const char *message)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        struct compute_ops ops = compute_cpu;
        struct scene scene;
        ops.run = run_faulty;
        planted = what;
        experiment->dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
        scene_open(&scene, experiment, &ops, "local");
        assert_true(scene.opened);
        scene_step(&scene, RUN_ALL, 3);
        assert_false(scene.passed);
        if (!strstr(scene_message(&scene), message))
            fail_msg("expected '%s', got '%s'", message, scene_message(&scene));
        for (int t = 0; t < OUTPUT_COUNT; t++) {
            const struct tensor_check *check = &scene.run.verification.tensors[t];
            if (check->present && (check->wrong + check->non_finite > 0) != (wrong >> t & 1))
                fail_msg("%s is off by %g of its scale, of %g", output_name((enum output)t), check->max_error,
                         check->tolerance);
        }
        scene_close(&scene);
    }
}

#define WEIGHTS                                                                                                        \
    (1u << OUTPUT_DNORM_1 | 1u << OUTPUT_DW_Q | 1u << OUTPUT_DW_K | 1u << OUTPUT_DW_V | 1u << OUTPUT_DW_O |            \
     1u << OUTPUT_DNORM_2 | 1u << OUTPUT_DW_UP | 1u << OUTPUT_DW_DOWN)

static void gradients_that_are_not_summed_over_cp_are_caught(void **state)
{
    (void)state;
    struct experiment experiment = make_layer("ring", 1, 2, 1);
    expect_caught(&experiment, no_sum_over_cp, WEIGHTS, "verification failed: dnorm_1 of rank ");
    expect_caught(&experiment, one_sum_forgotten, 1u << OUTPUT_DW_O, "verification failed: dW_o of rank ");
    experiment = make_layer("ring", 2, 1, 2); /* nor over dp */
    expect_caught(&experiment, no_sum_over_cp, WEIGHTS, "verification failed: dnorm_1 of rank ");
}

static void gradients_of_norms_that_are_not_summed_over_tp_are_caught(void **state)
{
    (void)state;
    struct experiment experiment = make_layer("ring", 2, 2, 1);
    expect_caught(&experiment, no_sum_of_norms, 1u << OUTPUT_DNORM_1 | 1u << OUTPUT_DNORM_2,
                  "verification failed: dnorm_1 of rank ");
}

static void partial_sums_that_stay_apart_are_caught(void **state)
{
    (void)state;
    for (int parted = 0; parted < 2; parted++) {
        struct experiment experiment = make_layer("ring", 2, 1, 1);
        experiment.step.sequence_parallel = parted;
        expect_caught(&experiment, no_sum_over_tp, WEIGHTS | 1u << OUTPUT_Y | 1u << OUTPUT_DX,
                      "verification failed: y of rank ");
    }
}

static void what_nobody_computed_is_no_number(void **state)
{
    (void)state;
    struct experiment experiment = make_layer("ring", 1, 2, 1);
    expect_caught(&experiment, no_norm, (WEIGHTS | 1u << OUTPUT_DX) & ~(1u << OUTPUT_DW_UP | 1u << OUTPUT_DW_DOWN),
                  "is not a finite number");
}

/* ---- what cannot be run ---- */

static void expect_refused(const struct experiment *experiment, const char *message)
{
    struct scene scene;
    scene_open(&scene, experiment, &compute_cpu, "local");
    assert_false(scene.opened);
    if (!strstr(scene_message(&scene), message))
        fail_msg("expected '%s', got '%s'", message, scene_message(&scene));
    scene_close(&scene);
}

static void what_has_no_operations_is_refused(void **state)
{
    (void)state;
    struct experiment experiment = make_layer("ring", 1, 2, 1);
    experiment.step.scope = SCOPE_MODEL;
    expect_refused(&experiment, "hardware mode has no embedding, loss or optimizer, expected scope = layer");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.step.zero = 2;
    expect_refused(&experiment, "expected zero = 0");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.model.bias = BIAS_ALL;
    expect_refused(&experiment, "hardware mode has no biases, expected bias = none");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.step.linear = LINEAR_FP8;
    expect_refused(&experiment, "expected linear = model");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.step.recomputation = RECOMPUTE_ALTERNATE;
    expect_refused(&experiment, "hardware mode has no products of which a part is made again");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.step.micro_batches = 3;
    expect_refused(&experiment, "expected micro_batches = 1");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.dtype = DTYPE_BF16;
    experiment.model.hidden = 7;
    expect_refused(&experiment, "cannot verify rows of 7 numbers in bf16, expected at least 8");
    experiment = make_layer("ring", 1, 2, 1);
    experiment.model.hidden = experiment.model.ffn = 16384;
    expect_refused(&experiment, "verifies a layer in full");
}

static void a_backend_without_layers_is_refused(void **state)
{
    (void)state;
    struct experiment experiment = make_layer("ring", 1, 2, 1);
    struct compute_ops ops = compute_cpu;
    struct scene scene;
    ops.name = "other";
    ops.layers = false;
    scene_open(&scene, &experiment, &ops, "local");
    assert_false(scene.opened);
    assert_non_null(strstr(scene_message(&scene), "backend 'other' has no operations of layers"));
    scene_close(&scene);
    scene_open_as(&scene, &experiment, &compute_cpu, "local", COLLECTIVES_LIBRARY);
    assert_false(scene.opened);
    assert_non_null(strstr(scene_message(&scene), "--collectives has no effect"));
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_of_up_to_two_of_each_is_right),
        cmocka_unit_test(every_algorithm_with_rows_of_its_own_is_right),
        cmocka_unit_test(what_is_computed_again_is_right),
        cmocka_unit_test(random_layers_are_right),
        cmocka_unit_test(gradients_that_are_not_summed_over_cp_are_caught),
        cmocka_unit_test(gradients_of_norms_that_are_not_summed_over_tp_are_caught),
        cmocka_unit_test(partial_sums_that_stay_apart_are_caught),
        cmocka_unit_test(what_nobody_computed_is_no_number),
        cmocka_unit_test(what_has_no_operations_is_refused),
        cmocka_unit_test(a_backend_without_layers_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
