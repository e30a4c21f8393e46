/* What is reported of whole layers, on programs made by hand: memory that is kept, waits and kernels by kind, names,
 * micro-batches, figures.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/layer/parameters.h"
#include "models/result/memory.h"
#include "models/result/micro_batches.h"
#include "models/result/step_figures.h"
#include "models/schedule/execution.h"
#include "models/schedule/layer_names.h"
#include "tests/models/hand.h"

static uint32_t buffer(struct hand *hand, enum tensor tensor, enum buffer_role role, uint64_t bytes, bool kept)
{
    const struct buffer made = {.tensor = (uint8_t)tensor,
                                .dtype = DTYPE_FP32,
                                .role = (uint8_t)role,
                                .kept = kept,
                                .rows = 1,
                                .columns = 1,
                                .bytes = bytes};
    program_add_buffer(&hand->programs[1], "b", made);
    return program_add_buffer(&hand->programs[0], "b", made);
}

static uint32_t local(struct hand *hand, enum op_kind kind, struct layer_work work, uint32_t read, uint32_t write,
                      double begin, double end)
{
    struct program *program = &hand->programs[0];
    const struct op op = {.kind = (uint8_t)kind, .work = program_add_work(program, work)};
    return hand_add(hand, op, read, write, begin, end);
}

static void receive(struct hand *hand, enum stream stream, enum traffic traffic, uint32_t write, double begin,
                    double end)
{
    hand_receive(hand, (struct op){.stream = (uint8_t)stream, .traffic = (uint8_t)traffic}, write, begin, end);
}

static struct rank_time measure(struct hand *hand, double forward, double backward)
{
    const double phase_end[PHASE_COUNT] = {forward, backward};
    struct stream_order order;
    struct rank_ops ops;
    struct rank_time time;
    end_phase(hand, PHASE_BACKWARD);
    stream_order_init(&order, &hand->programs[0]);
    rank_ops_init(&ops, &order);
    rank_time_init(&time, &ops, (struct instance_times){.moments = hand->moments}, phase_end);
    rank_ops_fini(&ops);
    stream_order_fini(&order);
    double exposed = 0, compute = 0;
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        exposed += time.exposed_by_kind[kind];
    for (int part = 0; part < COMPUTE_PARTS; part++)
        compute += time.compute_by_part[part];
    assert_true(exposed == time.exposed_seconds);
    assert_true(fabs(compute - time.compute_seconds) < 1e-12 * backward);
    assert_true(time.compute_seconds + time.exposed_seconds + time.idle_seconds == backward);
    return time;
}

/* ---- memory ---- */

static struct high_water water_of(struct hand *hand)
{
    struct stream_order order;
    struct high_water water;
    end_phase(hand, PHASE_BACKWARD);
    stream_order_init(&order, &hand->programs[0]);
    high_water_init(&water, &order);
    stream_order_fini(&order);
    return water;
}

static const struct layer_work nothing = {.part = MODEL_NORM};

static void what_is_kept_takes_memory_through_the_whole_step_touched_or_not(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t weight = buffer(&hand, TENSOR_WEIGHT, ROLE_WEIGHTS, 1000, true);
    buffer(&hand, TENSOR_OPTIMIZER, ROLE_OPTIMIZER, 4000, true); /* no operation touches it */
    uint32_t small = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 1, false);
    uint32_t large = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 100, false);
    local(&hand, OP_NORM, nothing, weight, small, 0, 1); /* the weight's only use */
    end_phase(&hand, PHASE_FORWARD);
    local(&hand, OP_NORM, nothing, NONE, large, 2, 3);
    struct high_water water = water_of(&hand);
    assert_int_equal(water.bytes, 5100);
    assert_int_equal(water.by_role[ROLE_WEIGHTS], 1000);
    assert_int_equal(water.by_role[ROLE_OPTIMIZER], 4000);
    assert_int_equal(water.by_role[ROLE_ACTIVATIONS], 100);
    high_water_fini(&water);
    hand_fini(&hand);
}

static void activations_live_from_their_making_forward_to_their_last_use_backward(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t first = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 10, false);
    uint32_t second = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 200, false);
    uint32_t gradient = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 3000, false);
    uint32_t last = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 3100, false);
    local(&hand, OP_NORM, nothing, NONE, first, 0, 1);
    local(&hand, OP_NORM, nothing, first, second, 1, 2);
    end_phase(&hand, PHASE_FORWARD);
    uint32_t peak = local(&hand, OP_NORM_BACKWARD, nothing, second, gradient, 2, 3); /* first, second, gradient */
    local(&hand, OP_ADD, nothing, first, NONE, 3, 4);
    local(&hand, OP_ADD, nothing, NONE, last, 4, 5); /* alone: 3100 */
    struct high_water water = water_of(&hand);
    assert_int_equal(water.bytes, 3210);
    struct water_moment moment = high_water_moment(&water, &hand.programs[0]);
    assert_int_equal(moment.op, peak);
    assert_int_equal(moment.phase, PHASE_BACKWARD);
    assert_false(moment.finish);
    high_water_fini(&water);
    hand_fini(&hand);
}

static void a_peak_of_what_is_kept_alone_is_at_the_begin(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t weight = buffer(&hand, TENSOR_WEIGHT, ROLE_WEIGHTS, 1000, true);
    local(&hand, OP_OPTIMIZE, nothing, weight, weight, 0, 1);
    end_phase(&hand, PHASE_FORWARD);
    struct high_water water = water_of(&hand);
    struct water_moment moment = high_water_moment(&water, &hand.programs[0]);
    assert_int_equal(moment.op, NO_OPERATION);
    assert_int_equal(moment.phase, PHASE_FORWARD);
    high_water_fini(&water);
    hand_fini(&hand);
}

/* Rows of memory of 100,000 operations; a quadratic search would take minutes, and the test's timeout end it. */
static void a_long_program_s_memory_is_the_sum_that_a_list_of_lives_gives(void **state)
{
    (void)state;
    enum { COUNT = 50000, BUFFERS = 10000 };
    struct hand hand;
    hand_init(&hand);
    uint32_t buffers[BUFFERS];
    for (uint32_t b = 0; b < BUFFERS; b++)
        buffers[b] = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 1 + b, false);
    struct program *program = &hand.programs[0];
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        const struct op op = {.kind = OP_ADD, .work = program_add_work(program, nothing)};
        uint32_t forward = i < COUNT, at = forward ? i % BUFFERS : (2 * COUNT - 1 - i) % BUFFERS;
        program_add_op(program, op, &buffers[at], !forward, &buffers[at], forward);
        if (i + 1 == COUNT)
            end_phase(&hand, PHASE_FORWARD);
    }
    struct high_water water = water_of(&hand);
    assert_int_equal(water.bytes, (uint64_t)BUFFERS * (BUFFERS + 1) / 2); /* all live when backward begins */
    high_water_fini(&water);
    hand_fini(&hand);
}

/* ---- time ---- */

static void a_gap_is_of_the_kind_that_was_waited_for_last(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t weights = buffer(&hand, TENSOR_WEIGHT, ROLE_WEIGHTS, 4, false);
    uint32_t rows = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 4, false);
    uint32_t keys = buffer(&hand, TENSOR_HIDDEN, ROLE_RECEIVED, 4, false);
    receive(&hand, STREAM_WEIGHTS, TRAFFIC_WEIGHTS, weights, 0, 5);
    receive(&hand, STREAM_TENSOR, TRAFFIC_TENSOR, rows, 2, 3);
    struct program *program = &hand.programs[0];
    const uint32_t reads[] = {weights, rows};
    struct op op = {.kind = OP_ADD, .work = program_add_work(program, nothing)};
    uint32_t both = program_add_op(program, op, reads, 2, NULL, 0); /* waits for both, for the weights longer */
    hand.moments[both] = (struct moment){5, 5, 6};
    receive(&hand, STREAM_EXCHANGE, TRAFFIC_FORWARD_KV, keys, 6, 8);
    local(&hand, OP_ADD, nothing, keys, NONE, 9, 10); /* a second later than it could */
    receive(&hand, STREAM_TENSOR, TRAFFIC_TENSOR, rows, 10, 14);
    local(&hand, OP_ADD, nothing, rows, NONE, 14, 15);
    end_phase(&hand, PHASE_FORWARD);
    receive(&hand, STREAM_REDUCTION, TRAFFIC_WEIGHT_GRADIENT, weights, 15, 16); /* the phase ends with it */
    struct rank_time time = measure(&hand, 15, 16);
    assert_true(time.exposed_by_kind[WAIT_DP] == 5 + 1);
    assert_true(time.exposed_by_kind[WAIT_CP] == 2);
    assert_true(time.exposed_by_kind[WAIT_TP] == 4);
    assert_true(time.idle_seconds == 1);
    rank_time_fini(&time);
    hand_fini(&hand);
}

static void computing_is_parted_by_what_runs_and_what_is_done_again_is_of_it(void **state)
{
    (void)state;
    const struct layer_work up = {.form = PRODUCT_OUTPUT, .part = MODEL_MLP},
                            down = {.form = PRODUCT_WEIGHT_GRADIENT, .part = MODEL_MLP},
                            head = {.form = PRODUCT_OUTPUT, .part = MODEL_HEAD};
    struct hand hand;
    hand_init(&hand);
    uint32_t x = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 4, false);
    local(&hand, OP_NORM, nothing, NONE, x, 0, 1);
    local(&hand, OP_PRODUCT, up, x, x, 1, 3);
    local(&hand, OP_ATTEND, nothing, x, x, 3, 7);
    end_phase(&hand, PHASE_FORWARD);
    local(&hand, OP_PRODUCT, head, x, x, 7, 15);  /* late, not again */
    local(&hand, OP_NORM, nothing, x, x, 15, 16); /* again */
    local(&hand, OP_PRODUCT, up, x, x, 16, 18);   /* again */
    local(&hand, OP_PRODUCT, down, x, x, 18, 22);
    local(&hand, OP_ATTEND_BACKWARD, nothing, x, x, 22, 30);
    uint32_t beside = local(&hand, OP_ACCUMULATE, nothing, NONE, NONE, 25, 31); /* beside attention, but for a second */
    hand.programs[0].ops[beside].stream = STREAM_REDUCTION;
    local(&hand, OP_OPTIMIZE, nothing, x, x, 31, 47);
    struct rank_time time = measure(&hand, 7, 47);
    assert_true(time.compute_by_part[COMPUTE_ATTENTION] == 4 + 8);
    assert_true(time.compute_by_part[COMPUTE_PRODUCTS] == 2 + 8 + 2 + 4);
    assert_true(time.compute_by_part[COMPUTE_OPTIMIZER] == 16);
    assert_true(time.compute_by_part[COMPUTE_OTHER] == 1 + 1 + 1);
    assert_true(time.recomputed_seconds == 1 + 2);
    rank_time_fini(&time);
    hand_fini(&hand);
}

/* ---- names ---- */

static void expect_name(const struct hand *hand, uint32_t op, const char *expected)
{
    char text[128];
    layer_describe_op(&hand->programs[0], op, text, sizeof text);
    assert_string_equal(text, expected);
}

static void operations_are_named_by_layer_part_and_form(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t x = buffer(&hand, TENSOR_HIDDEN, ROLE_ACTIVATIONS, 4, false);
    uint32_t wide = buffer(&hand, TENSOR_WIDE, ROLE_ACTIVATIONS, 4, false);
    struct layer_work mlp = {.form = PRODUCT_OUTPUT, .part = MODEL_MLP, .layer = 3}, qkv = mlp, head = mlp, norm = mlp;
    qkv.part = MODEL_QUERY;
    head.part = MODEL_HEAD;
    head.layer = norm.layer = 4; /* behind the last */
    norm.part = MODEL_NORM;
    uint32_t ops[12], n = 0;
    ops[n++] = local(&hand, OP_PRODUCT, qkv, x, x, 0, 1);
    struct op attend = {.kind = OP_ATTEND};
    ops[n++] = program_add_op(&hand.programs[0], attend, &x, 1, &x, 1);
    ops[n++] = local(&hand, OP_PRODUCT, mlp, x, wide, 0, 1);
    ops[n++] = local(&hand, OP_PRODUCT, mlp, wide, x, 0, 1);
    ops[n++] = local(&hand, OP_NORM, norm, x, x, 0, 1);
    ops[n++] = local(&hand, OP_PRODUCT, head, x, x, 0, 1);
    end_phase(&hand, PHASE_FORWARD);
    mlp.form = PRODUCT_INPUT_GRADIENT;
    ops[n++] = local(&hand, OP_PRODUCT, mlp, x, wide, 0, 1);
    ops[n++] = local(&hand, OP_PRODUCT, mlp, wide, x, 0, 1);
    mlp.form = PRODUCT_WEIGHT_GRADIENT;
    ops[n++] = local(&hand, OP_PRODUCT, mlp, wide, x, 0, 1);
    ops[n++] = local(&hand, OP_PRODUCT, mlp, x, x, 0, 1);
    end_phase(&hand, PHASE_BACKWARD);
    static const char *const names[] = {"forward, layer 3, QKV",
                                        "forward, layer 3, attend",
                                        "forward, layer 3, MLP up",
                                        "forward, layer 3, MLP down",
                                        "forward, norm",
                                        "forward, head",
                                        "backward, layer 3, MLP down dX",
                                        "backward, layer 3, MLP up dX",
                                        "backward, layer 3, MLP down dW",
                                        "backward, layer 3, MLP up dW"};
    assert_int_equal(n, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < n; i++)
        expect_name(&hand, ops[i], names[i]);
    hand_fini(&hand);
}

/* ---- micro-batches ---- */

static void fill_rank(struct rank_report *rank, uint32_t number, double seconds)
{
    *rank = (struct rank_report){.rank = number,
                                 .seconds = seconds,
                                 .compute_seconds = seconds / 2,
                                 .communication_seconds = seconds / 2,
                                 .exposed_seconds = seconds / 4,
                                 .idle_seconds = seconds / 4,
                                 .exposed_by_kind = {0, seconds / 4, 0},
                                 .compute_by_part = {seconds / 4, seconds / 4, 0, 0},
                                 .bytes_sent = 100,
                                 .bytes_received = 100,
                                 .messages_sent = 2,
                                 .sent_bytes_by_kind = {[TRAFFIC_TENSOR] = 100},
                                 .flops = 1e12,
                                 .peak_bytes = 1000,
                                 .peak_at_seconds = 1};
}

static struct report two_ranks(double seconds)
{
    struct report report = {.seconds = seconds,
                            .forward_seconds = seconds / 4,
                            .backward_seconds = 3 * seconds / 4,
                            .seconds_low = seconds,
                            .seconds_high = 2 * seconds,
                            .n_ranks = 2,
                            .device_bytes = 1200,
                            .reserve_bytes = 300};
    report.ranks = calloc(2, sizeof *report.ranks);
    fill_rank(&report.ranks[0], 0, seconds);
    fill_rank(&report.ranks[1], 1, seconds);
    report_sum_up(&report);
    return report;
}

static void passes_add_up_rank_by_rank_and_memory_is_the_last_one_s(void **state)
{
    (void)state;
    struct report report = two_ranks(16), pass = two_ranks(8);
    pass.ranks[0].peak_bytes = 5000; /* never looked at */
    report_add_passes(&report, &pass, 3);
    assert_true(report.seconds == 3 * 8 + 16);
    assert_true(report.forward_seconds + report.backward_seconds == report.seconds);
    assert_true(report.seconds_low == 40 && report.seconds_high == 80);
    assert_true(report.compute_seconds + report.exposed_seconds + report.idle_seconds == report.seconds);
    assert_true(report.exposed_by_kind[WAIT_TP] == report.exposed_seconds);
    assert_true(report.compute_by_part[COMPUTE_PRODUCTS] == 10);
    assert_true(report.flops == 2 * 4e12);
    assert_true(report.tflops_per_rank == 4.0 / 40);
    assert_int_equal(report.bytes_sent, 2 * 400);
    assert_int_equal(report.messages_sent, 2 * 8);
    assert_int_equal(report.ranks[1].sent_bytes_by_kind[TRAFFIC_TENSOR], 400);
    assert_int_equal(report.peak_bytes, 1000);
    assert_true(report.ranks[0].peak_at_seconds == 3 * 8 + 1);
    assert_false(report.fits); /* 1000 and 300 of 1200 */
    free(report.ranks);
    free(pass.ranks);
}

/* ---- figures ---- */

static void figures_are_counts_over_seconds_and_devices(void **state)
{
    (void)state;
    struct experiment x = {.model = {.q_heads = 4,
                                     .kv_heads = 4,
                                     .head_dim = 8,
                                     .layers = 3,
                                     .hidden = 32,
                                     .ffn = 64,
                                     .vocab = 100,
                                     .mlp = MLP_PLAIN,
                                     .norm = NORM_RMS},
                           .seq_len = 16,
                           .batch = 2,
                           .train = true,
                           .degree = {2, 4, 3},
                           .step = {.scope = SCOPE_MODEL, .micro_batches = 5}};
    struct report report = {.seconds = 0.5, .n_ranks = 24, .visible_pairs = 16 * 16, .flops = 1e9};
    struct step_figures figures = step_figures_of(&x, &report, 1e6);
    double tokens = 16 * 2 * 3 * 5;
    assert_true(figures.tokens == tokens);
    assert_true(figures.tokens_per_s_per_gpu == tokens / 24 / 0.5);
    /* 2 FLOPs a weight forward, twice that backward: projections, MLP, head; 4 a pair and element of a head */
    double weights = 3 * (4 * 32 * 32 + 2 * 32 * 64) + 32 * 100;
    double attention = 3 * 4.0 * (16 * 16) * 2 * 4 * 8 * 3 * 5, model = 3 * (2 * weights * tokens + attention);
    assert_true(fabs(figures.mfu - model / (24 * 0.5 * 1e6)) < 1e-12 * figures.mfu);
    assert_true(fabs(figures.hfu - 1e9 / (24 * 0.5 * 1e6)) < 1e-12 * figures.hfu);
    assert_true(fabs(figures.model_flops_per_gpu_s - figures.mfu * 1e6) < 1e-9 * 1e6);
    double n = weights + 32 * 100 + 7 * 32; /* embedding, norms */
    assert_int_equal(figures.parameters, (uint64_t)n);
    double palm = (6 * n + 12.0 * 3 * 4 * 8 * 16) * figures.tokens_per_s_per_gpu / 1e6;
    assert_true(fabs(figures.mfu_palm - palm) < 1e-12 * palm);

    x.train = false;
    figures = step_figures_of(&x, &report, 1e6);
    assert_true(fabs(figures.mfu - model / 3 / (24 * 0.5 * 1e6)) < 1e-12 * figures.mfu);
    assert_true(figures.mfu_palm == 0);

    x.train = true;
    x.step.scope = SCOPE_LAYER; /* a third of all but the head */
    figures = step_figures_of(&x, &report, 1e6);
    model = (model - 3 * 2 * 3200.0 * tokens) / 3;
    assert_true(fabs(figures.mfu - model / (24 * 0.5 * 1e6)) < 1e-12 * figures.mfu);
    figures = step_figures_of(&x, &report, 0); /* no peak stated */
    assert_true(figures.mfu == 0 && figures.hfu == 0 && figures.tokens_per_s_per_gpu > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_takes_memory_through_the_whole_step_touched_or_not),
        cmocka_unit_test(activations_live_from_their_making_forward_to_their_last_use_backward),
        cmocka_unit_test(a_peak_of_what_is_kept_alone_is_at_the_begin),
        cmocka_unit_test(a_long_program_s_memory_is_the_sum_that_a_list_of_lives_gives),
        cmocka_unit_test(a_gap_is_of_the_kind_that_was_waited_for_last),
        cmocka_unit_test(computing_is_parted_by_what_runs_and_what_is_done_again_is_of_it),
        cmocka_unit_test(operations_are_named_by_layer_part_and_form),
        cmocka_unit_test(passes_add_up_rank_by_rank_and_memory_is_the_last_one_s),
        cmocka_unit_test(figures_are_counts_over_seconds_and_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
