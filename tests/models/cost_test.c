/* The cost of operations and messages: closed forms on the toy device, and the size curve of a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost/cost.h"
#include "models/schedule/mask.h"
#include "tests/models/plain_buffer.h"

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

/* Three ranks of contiguous shards of 4, 3 and 3 positions; 8 query heads of 64, batch 2. */
struct setting {
    struct device device;
    struct topology topology;
    struct experiment experiment;
    struct schedule schedule;
    struct program program;
    struct cost cost;
};

static bool setting_init(struct setting *setting, const char *device, enum mask_kind mask, struct diagnostics *diag)
{
    memset(setting, 0, sizeof *setting);
    diagnostics_init(diag);
    assert_true(device_read(&setting->device, device, diag));
    struct experiment *experiment = &setting->experiment;
    experiment->model = (struct transformer){.q_heads = 8, .kv_heads = 2, .head_dim = 64};
    experiment->dtype = DTYPE_BF16;
    experiment->seq_len = 10;
    experiment->batch = 2;
    experiment->train = true;
    experiment->mask = (struct mask){.kind = mask, .seq_len = 10, .window = 2};
    experiment->degree[PARALLEL_TP] = experiment->degree[PARALLEL_DP] = 1;
    experiment->degree[PARALLEL_CP] = 3;
    experiment->sharding = SHARDING_CONTIGUOUS;
    setting->schedule =
        (struct schedule){.experiment = experiment, .ranks = 3, .q_heads = 8, .kv_heads = 2, .lanes = {0, 8, 0, 2}};
    sharding_init(&setting->schedule.sharding, experiment, 1);
    program_init(&setting->program, 2);
    return cost_init(&setting->cost, &setting->device, &setting->topology, &setting->schedule, diag);
}

static void setting_fini(struct setting *setting)
{
    program_fini(&setting->program);
    sharding_fini(&setting->schedule.sharding);
    device_fini(&setting->device);
}

static double seconds(struct setting *setting, struct op op, const uint32_t *reads, size_t n_reads,
                      const uint32_t *writes, size_t n_writes)
{
    uint32_t index = program_add_op(&setting->program, op, reads, n_reads, writes, n_writes);
    return cost_op_seconds(&setting->cost, &setting->program, &setting->program.ops[index]);
}

static void attention_on_the_toy_is_its_flops_over_100_tflops(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct op op = {.kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {2, 0, 3}, .k = {2, 0, 3}, .pairs = 6};
    assert_near(cost_op_flops(&setting.cost, NULL, &op), 4.0 * 6 * 8 * 64 * 2);
    assert_near(seconds(&setting, op, NULL, 0, NULL, 0), 4.0 * 6 * 8 * 64 * 2 / 1e14);
    op.kind = OP_ATTEND_BACKWARD;
    assert_near(cost_op_flops(&setting.cost, NULL, &op), 10.0 * 6 * 8 * 64 * 2);
    assert_near(seconds(&setting, op, NULL, 0, NULL, 0), 10.0 * 6 * 8 * 64 * 2 / 1e14);
    setting_fini(&setting);
}

static void an_invisible_block_is_computed_whole(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct op op = {.kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {0, 0, 4}, .k = {2, 0, 3}, .pairs = 0};
    assert_near(cost_op_flops(&setting.cost, NULL, &op), 4.0 * 12 * 8 * 64 * 2);
    assert_near(seconds(&setting, op, NULL, 0, NULL, 0), 4.0 * 12 * 8 * 64 * 2 / 1e14);
    /* Rows 2 to 5 of every shard: 2 + 1 + 1 exist. */
    op.k = (struct block){BLOCK_ALL, 2, 4};
    assert_near(cost_op_flops(&setting.cost, NULL, &op), 4.0 * 16 * 8 * 64 * 2);
    setting_fini(&setting);
}

static void gathered_keys_count_where_they_are_seen(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "h100-sxm", MASK_WINDOW, &diag));
    /* Rank 1 owns positions 4, 5, 6 and sees 3 to 6 through a window of 2: four keys, six pairs. The row term of the
     * backward pass tells how many key rows were counted. */
    const struct op op = {.kind = OP_ATTEND_BACKWARD,
                          .lanes = setting.schedule.lanes,
                          .q = {1, 0, 3},
                          .k = {BLOCK_ALL, 0, 4},
                          .pairs = 6};
    assert_int_equal(mask_block_pairs(&setting.experiment.mask, &setting.schedule.sharding, op.q, op.k), 6);
    assert_near(seconds(&setting, op, NULL, 0, NULL, 0),
                kernel_fit_seconds(&setting.cost.fit[PASS_BACKWARD], 16, 3, 4, 6));
    assert_true(kernel_fit_seconds(&setting.cost.fit[PASS_BACKWARD], 16, 3, 4, 6) <
                kernel_fit_seconds(&setting.cost.fit[PASS_BACKWARD], 16, 3, 10, 6));
    setting_fini(&setting);
}

/* As one query on a million keys: what is read decides, not what is computed. */
static void attention_takes_at_least_its_bytes_over_the_memory_bandwidth(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_WINDOW, &diag));
    struct program *program = &setting.program;
    uint32_t q = plain_buffer(program, setting.schedule.lanes, "q", TENSOR_Q, DTYPE_BF16, ROLE_RESIDENT, 3, 3000);
    uint32_t kv = plain_buffer(program, setting.schedule.lanes, "kv", TENSOR_KV, DTYPE_BF16, ROLE_RECEIVED, 6, 6000000);
    uint32_t partial =
        plain_buffer(program, setting.schedule.lanes, "partial", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE, 3, 6000);
    const struct op attend = {
        .kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {1, 0, 3}, .k = {1, 0, 3}, .pairs = 5};
    assert_near(seconds(&setting, attend, (uint32_t[]){q, kv}, 2, &partial, 1), (3000 + 3000000 + 6000) / 1e12);
    /* Of gathered keys (three buffers) only those that are seen, 4 of 10. */
    uint32_t gathered[4] = {q};
    for (uint32_t i = 0; i < 3; i++)
        gathered[1 + i] = plain_buffer(program, setting.schedule.lanes, "kv", TENSOR_KV, DTYPE_BF16, ROLE_RECEIVED,
                                       i == 0 ? 4 : 3, 1000000);
    const struct op gather = {
        .kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {1, 0, 3}, .k = {BLOCK_ALL, 0, 4}, .pairs = 6};
    assert_near(seconds(&setting, gather, gathered, 4, &partial, 1), (3000 + 0.4 * 3000000 + 6000) / 1e12);
    setting_fini(&setting);
}

static void streaming_operations_take_their_bytes_over_the_memory_bandwidth(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    setting.device.launch_seconds = 1e-6;
    setting.device.memory_efficiency = 0.5; /* 0.5 TB/s */
    struct program *program = &setting.program;
    uint32_t partial =
        plain_buffer(program, setting.schedule.lanes, "partial", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE, 4, 4000);
    uint32_t sum =
        plain_buffer(program, setting.schedule.lanes, "state", TENSOR_STATE, DTYPE_FP32, ROLE_ACCUMULATOR, 8, 16000);
    uint32_t block =
        plain_buffer(program, setting.schedule.lanes, "dkv block", TENSOR_DKV, DTYPE_BF16, ROLE_WORKSPACE, 10, 1000);
    uint32_t total =
        plain_buffer(program, setting.schedule.lanes, "dkv", TENSOR_DKV, DTYPE_FP32, ROLE_ACCUMULATOR, 20, 4000);

    const struct op merge = {.kind = OP_MERGE, .lanes = setting.schedule.lanes, .q = {0, 0, 4}};
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 1e-6 + (4000 + 2 * 8000) / 0.5e12);
    assert_near(seconds(&setting, merge, &partial, 1, &sum, 1), 1e-6 + (4000 + 8000) / 0.5e12);
    const struct op finish = {.kind = OP_FINISH, .lanes = setting.schedule.lanes, .q = {0, 0, 8}};
    assert_near(seconds(&setting, finish, &sum, 1, NULL, 0), 1e-6 + 16000 / 0.5e12);
    /* Key-side buffers go by the key rows. */
    const struct op accumulate = {
        .kind = OP_ACCUMULATE, .lanes = setting.schedule.lanes, .q = {0, 0, 1}, .k = {0, 0, 5}};
    assert_near(seconds(&setting, accumulate, &block, 1, &total, 1), 1e-6 + (500 + 1000) / 0.5e12);
    const struct op cast = {.kind = OP_CAST, .lanes = setting.schedule.lanes, .k = {0, 0, 4}};
    assert_near(seconds(&setting, cast, &total, 1, &block, 1), 1e-6 + (800 + 400) / 0.5e12);
    assert_true(cost_op_flops(&setting.cost, NULL, &merge) == 0.0);

    const struct op send = {.kind = OP_SEND, .bytes = 1000};
    assert_true(seconds(&setting, send, &block, 1, NULL, 0) == 0.0);
    setting_fini(&setting);
}

static void a_forward_run_needs_no_backward_rates_and_training_does(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "h100-sxm", MASK_CAUSAL, &diag));
    setting.experiment.model.head_dim = 256;
    assert_false(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(diag.lines[0], "no backward rates in bf16 for head_dim '256', only for 128, 64"));
    setting.experiment.train = false;
    assert_true(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    diagnostics_fini(&diag);
    setting_fini(&setting);
}

static void the_topology_chooses_the_kernel(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "h100-sxm", MASK_CAUSAL, &diag));
    assert_string_equal(setting.cost.fit[PASS_FORWARD].table->kernel, "fa3");
    strcpy(setting.topology.kernel, "cudnn");
    assert_true(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    assert_string_equal(setting.cost.fit[PASS_FORWARD].table->kernel, "cudnn");
    assert_string_equal(setting.cost.fit[PASS_BACKWARD].table->kernel, "cudnn");
    setting_fini(&setting);
}

/* --- mechanisms and implementations ----------------------------------------------------------------------------------
 */

/* 4 rows of 8 heads of 64 in 2 sequences: 64 rows by the LSE, 4096 elements of O. */
static void an_implementation_has_passes_of_its_own(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    setting.device.launch_seconds = 1e-6;
    struct program *program = &setting.program;
    const struct lanes lanes = setting.schedule.lanes;
    uint32_t partial = plain_buffer(program, lanes, "partial", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE, 4, 4000);
    uint32_t sum = plain_buffer(program, lanes, "state", TENSOR_STATE, DTYPE_FP32, ROLE_ACCUMULATOR, 8, 16000);
    uint32_t block = plain_buffer(program, lanes, "dkv block", TENSOR_DKV, DTYPE_BF16, ROLE_WORKSPACE, 10, 1000);
    uint32_t total = plain_buffer(program, lanes, "dkv", TENSOR_DKV, DTYPE_FP32, ROLE_ACCUMULATOR, 20, 4000);
    struct passes *steps = setting.experiment.implementation.steps;
    steps[IMPLEMENTATION_MERGE_FIRST] = (struct passes){true, 1, 6, 0};
    steps[IMPLEMENTATION_MERGE] = (struct passes){true, 1, 10, 12};
    steps[IMPLEMENTATION_MERGE_PART] = (struct passes){true, 3, 18, 20};
    steps[IMPLEMENTATION_DELTA] = (struct passes){.given = true};
    steps[IMPLEMENTATION_ADD_DKV] = (struct passes){true, 2, 10, 0};

    struct op merge = {.kind = OP_MERGE, .lanes = lanes, .q = {0, 0, 8}};
    assert_near(seconds(&setting, merge, &partial, 1, &sum, 1), 1e-6 + 6 * 8192 / 1e12);
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 1e-6 + (10 * 8192 + 12 * 128) / 1e12);
    merge.q.count = 4;
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 3e-6 + (18 * 4096 + 20 * 64) / 1e12);
    const struct op delta = {.kind = OP_DELTA, .lanes = lanes, .q = {0, 0, 4}};
    assert_true(seconds(&setting, delta, &partial, 1, &block, 1) == 0);
    /* K and V of 5 rows of 2 heads of 64 in 2 sequences. */
    const struct op add = {.kind = OP_ACCUMULATE, .lanes = lanes, .q = {0, 0, 1}, .k = {0, 0, 5}};
    assert_near(seconds(&setting, add, (uint32_t[]){block, total}, 2, &total, 1), 2e-6 + 10 * 2 * 5 * 4 * 64 / 1e12);

    setting.cost.without = 1U << MECHANISM_STEPS;
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 3e-6);
    setting.cost.without = 1U << MECHANISM_LAUNCH;
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), (18 * 4096 + 20 * 64) / 1e12);
    setting.cost.without = 1U << MECHANISM_IMPLEMENTATION;
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 1e-6 + (4000 + 2 * 8000) / 1e12);
    setting.cost.without |= 1U << MECHANISM_STEPS;
    assert_near(seconds(&setting, merge, (uint32_t[]){partial, sum}, 2, &sum, 1), 1e-6);
    setting_fini(&setting);
}

static void copies_around_attention_are_added_to_it(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    setting.device.launch_seconds = 1e-6;
    const struct op op = {
        .kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {0, 0, 4}, .k = {2, 0, 3}, .pairs = 12};
    double alone = seconds(&setting, op, NULL, 0, NULL, 0);
    setting.experiment.implementation.steps[IMPLEMENTATION_ATTEND] = (struct passes){true, 5, 10, 12};
    setting.experiment.implementation.steps[IMPLEMENTATION_ATTEND_KEYS] = (struct passes){true, 2, 4, 0};
    setting.experiment.implementation.steps[IMPLEMENTATION_ATTEND_BACKWARD] = (struct passes){true, 100, 100, 100};
    assert_near(seconds(&setting, op, NULL, 0, NULL, 0),
                alone + 7e-6 + (10 * 4 * 16 * 64 + 12 * 4 * 16 + 4 * 2 * 3 * 4 * 64) / 1e12);
    setting_fini(&setting);
}

/* Of 8 queries held 4, or of 6 keys 3, and all of them. */
static void copies_of_a_part_are_added_where_it_is_one(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct passes *steps = setting.experiment.implementation.steps;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        bool backward = pass == PASS_BACKWARD;
        struct op op = {.kind = (uint8_t)(backward ? OP_ATTEND_BACKWARD : OP_ATTEND),
                        .lanes = setting.schedule.lanes,
                        .q = {0, 0, 4},
                        .k = {2, 0, 3},
                        .pairs = 12};
        for (uint32_t part = 0; part < 4; part++) {
            uint32_t reads[2] = {plain_buffer(&setting.program, op.lanes, "q", TENSOR_Q, DTYPE_BF16, ROLE_RESIDENT,
                                              part & 1U ? 8 : 4, 8),
                                 plain_buffer(&setting.program, op.lanes, "kv", TENSOR_KV, DTYPE_BF16, ROLE_RECEIVED,
                                              part & 2U ? 6 : 3, 6)};
            memset(steps, 0, IMPLEMENTATION_STEPS * sizeof *steps);
            double alone = seconds(&setting, op, reads, 2, NULL, 0);
            steps[backward ? IMPLEMENTATION_ATTEND_BACKWARD_PART : IMPLEMENTATION_ATTEND_PART] =
                (struct passes){true, 1, 4, 2};
            steps[backward ? IMPLEMENTATION_ATTEND_BACKWARD_KEYS_PART : IMPLEMENTATION_ATTEND_KEYS_PART] =
                (struct passes){true, 1, 6, 0};
            double queries = 4 * 4 * 16 * 64 + 2 * 4 * 16, keys = 6 * 2 * 3 * 4 * 64;
            double bytes = (part & 1U ? queries : 0) + (part & 2U ? keys : 0);
            assert_near(seconds(&setting, op, reads, 2, NULL, 0), alone + bytes / 1e12);
        }
    }
    setting_fini(&setting);
}

/* 16 heads of 256 rows in tiles of 128: 32 tiles on 8 SMs are 4 waves; on 7, 5. */
static void few_sms_less_may_be_a_wave_more(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_FULL, &diag));
    setting.device.processors = 8;
    setting.device.tile_rows = 128;
    struct op op = {
        .kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {0, 0, 256}, .k = {1, 0, 256}, .pairs = 65536};
    struct attention_table *table = &setting.device.tables[0];
    assert_int_equal(table->pass, PASS_FORWARD);
    static const enum persistence persistences[] = {PERSISTENT_UNKNOWN, PERSISTENT_YES, PERSISTENT_NO};
    for (int p = 0; p < 3; p++) {
        table->persistent = persistences[p];
        bool waves = persistences[p] == PERSISTENT_NO;
        assert_true(cost_sms_share(&setting.cost, &op, 0) == 0);
        assert_near(cost_sms_share(&setting.cost, &op, 1), waves ? 1 - 4.0 / 5 : 1.0 / 8);
        assert_near(cost_sms_share(&setting.cost, &op, 2), waves ? 1 - 4.0 / 6 : 2.0 / 8);
        assert_near(cost_sms_share(&setting.cost, &op, 4), 0.5);
        assert_near(cost_sms_share(&setting.cost, &op, 99), waves ? 1 - 4.0 / 32 : 7.0 / 8); /* one is left */
    }
    op.pairs = 40000; /* tiles of all sizes: no waves to speak of */
    assert_near(cost_sms_share(&setting.cost, &op, 1), 1.0 / 8);
    op.kind = OP_MERGE;
    assert_true(cost_sms_share(&setting.cost, &op, 4) == 0);
    op.kind = OP_ATTEND;
    setting.cost.without = 1U << MECHANISM_SMS;
    assert_true(cost_sms_share(&setting.cost, &op, 4) == 0);
    setting_fini(&setting);
}

/* Two heads of 128 x 2 query rows: 4 tiles on 8 SMs, on 3, on 1 with 2 tiles each, ...; the last wave is one of so many
 * of equal tiles, and its tile the longest under a mask, here 2 w of a mean w. */
static void attention_leaves_no_sm_until_its_last_wave(void **state)
{
    (void)state;
    static const struct {
        uint32_t processors, at_once, waves;
    } cases[] = {{8, 1, 1}, {4, 1, 1}, {3, 1, 2}, {1, 1, 4}, {1, 2, 2}, {2, 2, 1}};
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_FULL, &diag));
    struct attention_table *table = &setting.device.tables[0];
    setting.device.tile_rows = 128;
    struct op op = {.kind = OP_ATTEND, .lanes = setting.schedule.lanes, .q = {0, 0, 256}, .k = {1, 0, 256}};
    op.lanes.heads = 2;
    op.lanes.items = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting.device.processors = cases[i].processors;
        table->blocks = cases[i].at_once;
        for (uint32_t longest = 1; longest <= 2; longest++) {
            op.pairs = 256 * 256 / longest;
            table->persistent = PERSISTENT_YES;
            double seconds = cost_op_seconds(&setting.cost, &setting.program, &op);
            assert_near(cost_fill_seconds(&setting.cost, &setting.program, &op), seconds);
            table->persistent = PERSISTENT_NO;
            seconds = cost_op_seconds(&setting.cost, &setting.program, &op);
            double work = seconds - cost_op_fixed_seconds(&setting.cost, &setting.program, &op);
            double fill = cost_fill_seconds(&setting.cost, &setting.program, &op);
            if (cases[i].waves <= longest)
                assert_true(fill == 0);
            else
                assert_near(fill, seconds - work * longest / cases[i].waves);
        }
    }
    setting.device.processors = 1;
    table->persistent = PERSISTENT_YES;
    struct implementation *implementation = &setting.experiment.implementation;
    implementation->steps[IMPLEMENTATION_ATTEND] = (struct passes){true, 1, 4, 0};
    assert_true(cost_fill_seconds(&setting.cost, &setting.program, &op) == 0); /* its copies come first */
    op.kind = OP_MERGE;
    assert_true(cost_fill_seconds(&setting.cost, &setting.program, &op) == 0);
    setting_fini(&setting);
}

static void transfers_wait_where_the_implementation_lets_them(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_FULL, &diag));
    struct implementation *implementation = &setting.experiment.implementation;
    assert_false(cost_waits(&setting.cost));
    implementation->waits = true;
    assert_true(cost_waits(&setting.cost));
    implementation->fixed_sms = true; /* copy engines */
    assert_false(cost_waits(&setting.cost));
    implementation->sms = 4;
    assert_true(cost_waits(&setting.cost));
    setting.cost.without = 1U << MECHANISM_WAITING;
    assert_false(cost_waits(&setting.cost));
    setting_fini(&setting);
}

static void the_host_pays_for_each_kernel_message_and_call(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct program *program = &setting.program;
    const struct lanes lanes = setting.schedule.lanes;
    struct implementation *implementation = &setting.experiment.implementation;
    implementation->host_attention_seconds = 60e-6;
    implementation->host_kernel_seconds = 8e-6;
    implementation->host_message_seconds = 10e-6;
    implementation->steps[IMPLEMENTATION_FINISH] = (struct passes){true, 3, 1, 1};
    implementation->steps[IMPLEMENTATION_ATTEND] = (struct passes){true, 2, 1, 1};
    uint32_t buffer = plain_buffer(program, lanes, "o", TENSOR_O, DTYPE_BF16, ROLE_RESIDENT, 4, 4000);
    const struct op ops[] = {
        {.kind = OP_ATTEND, .lanes = lanes, .q = {0, 0, 4}, .k = {0, 0, 4}, .pairs = 10},
        {.kind = OP_FINISH, .lanes = lanes, .q = {0, 0, 4}},
        {.kind = OP_CAST, .lanes = lanes, .q = {0, 0, 4}},
        {.kind = OP_SEND, .stream = STREAM_EXCHANGE, .lanes = lanes, .bytes = 100},
    };
    static const double expected[] = {60e-6 + 2 * 8e-6, 3 * 8e-6, 8e-6, 10e-6};
    for (size_t i = 0; i < 4; i++)
        program_add_op(program, ops[i], &buffer, 1, NULL, 0);
    for (size_t i = 0; i < 4; i++)
        assert_near(cost_host_seconds(&setting.cost, program, &program->ops[i]), expected[i]);
    /* A collective is one call, whatever it is made of. */
    program_begin_collective(program, CALL_ALL_GATHER, STREAM_EXCHANGE, 1, 0, (uint32_t[]){0}, &buffer, &buffer);
    uint32_t first = program_add_op(program, ops[3], &buffer, 1, NULL, 0);
    program_add_op(program, ops[3], &buffer, 1, NULL, 0);
    program_end_collective(program);
    assert_near(cost_host_seconds(&setting.cost, program, &program->ops[first]), 10e-6);
    assert_true(cost_host_seconds(&setting.cost, program, &program->ops[first + 1]) == 0);
    implementation->host_call_seconds = 114e-6;
    assert_near(cost_host_seconds(&setting.cost, program, &program->ops[first]), 114e-6);
    assert_near(cost_host_seconds(&setting.cost, program, &program->ops[3]), 10e-6);
    setting.cost.without = 1U << MECHANISM_LAUNCH;
    assert_true(cost_host_seconds(&setting.cost, program, &program->ops[0]) == 0);
    setting_fini(&setting);
}

/* K and V are one tensor to a program and two to most libraries, and Q with them one to some. */
static void a_trade_of_heads_is_as_many_calls_as_the_implementation_makes(void **state)
{
    (void)state;
    static const struct {
        enum tensor tensor;
        double one_each, packed;
    } cases[] = {{TENSOR_Q, 1, 0.5}, {TENSOR_KV, 2, 0.5}, {TENSOR_O, 1, 1}, {TENSOR_DQ, 1, 0.5}, {TENSOR_DKV, 2, 0.5}};
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct program *program = &setting.program;
    const struct lanes lanes = setting.schedule.lanes;
    struct implementation *implementation = &setting.experiment.implementation;
    implementation->host_kernel_seconds = 8e-6;
    implementation->host_call_seconds = 100e-6;
    implementation->split_kv = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t buffer = plain_buffer(program, lanes, "b", cases[i].tensor, DTYPE_BF16, ROLE_RESIDENT, 4, 4000);
        const struct op send = {.kind = OP_SEND, .stream = STREAM_EXCHANGE, .lanes = lanes, .bytes = 100};
        const struct op copy = {.kind = OP_SPLIT_LANES, .lanes = lanes, .q = {0, 0, 4}, .k = {0, 0, 4}};
        uint32_t copied = program_add_op(program, copy, &buffer, 1, NULL, 0);
        program_begin_collective(program, CALL_ALL_TO_ALL, STREAM_EXCHANGE, 1, 0, (uint32_t[]){0}, &buffer, &buffer);
        uint32_t call = program_add_op(program, send, &buffer, 1, NULL, 0);
        program_end_collective(program);
        for (int packed = 0; packed < 2; packed++) {
            double calls = packed ? cases[i].packed : cases[i].one_each;
            implementation->packs_qkv = packed;
            assert_near(cost_host_seconds(&setting.cost, program, &program->ops[call]), calls * 100e-6);
            assert_near(cost_host_seconds(&setting.cost, program, &program->ops[copied]), calls * 8e-6);
        }
    }
    setting_fini(&setting);
}

static void the_hosts_times_vary_by_their_spread(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "toy", MASK_CAUSAL, &diag));
    struct implementation *implementation = &setting.experiment.implementation;
    implementation->host_message_seconds = 10e-6;
    implementation->host_spread = 0.5;
    const struct op op = {.kind = OP_SEND, .stream = STREAM_EXCHANGE, .lanes = setting.schedule.lanes, .bytes = 100};
    assert_near(cost_spread(&setting.cost, CONSTANT_HOST), 0.5);
    setting.cost.end = COST_SLOW;
    assert_near(cost_host_seconds(&setting.cost, &setting.program, &op), 10e-6);
    setting.cost.moved = 1U << CONSTANT_HOST;
    assert_near(cost_host_seconds(&setting.cost, &setting.program, &op), 15e-6);
    setting.cost.end = COST_FAST;
    assert_near(cost_host_seconds(&setting.cost, &setting.program, &op), 10e-6 / 1.5);
    setting_fini(&setting);
}

static void the_implementation_names_the_kernel_unless_the_topology_does(void **state)
{
    (void)state;
    struct setting setting;
    struct diagnostics diag;
    assert_true(setting_init(&setting, "h100-sxm", MASK_CAUSAL, &diag));
    strcpy(setting.experiment.implementation.kernel, "fa2");
    assert_true(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    assert_string_equal(setting.cost.fit[PASS_FORWARD].table->kernel, "fa2");
    strcpy(setting.topology.kernel, "cudnn");
    assert_true(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    assert_string_equal(setting.cost.fit[PASS_FORWARD].table->kernel, "cudnn");
    setting.topology.kernel[0] = '\0';
    strcpy(setting.experiment.implementation.kernel, "fa4");
    assert_false(cost_init(&setting.cost, &setting.device, &setting.topology, &setting.schedule, &diag));
    assert_non_null(strstr(diag.lines[0], "no attention kernel 'fa4' in this profile"));
    assert_non_null(strstr(diag.lines[0], "unless [cluster] kernel names one"));
    diagnostics_fini(&diag);
    setting_fini(&setting);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static double message_delay(const struct cost *cost, const struct route *route, uint64_t bytes)
{
    const struct transfer transfer = {.bytes = bytes, .call = CALL_COUNT};
    const struct transfer_cost result = cost_transfer(cost, route, &transfer);
    assert_true(result.bytes_per_s == route->bytes_per_s);
    return result.delay_seconds;
}

static double message_seconds(const struct cost *cost, const struct route *route, uint64_t bytes)
{
    return message_delay(cost, route, bytes) + (double)bytes / route->bytes_per_s;
}

static void without_a_curve_the_delay_is_alpha(void **state)
{
    (void)state;
    struct topology topology = {.n_levels = 1};
    topology.levels[0].bytes_per_s = 1e11;
    struct route route = {.alpha_seconds = 3e-6, .bytes_per_s = 1e11};
    const struct cost cost = {.topology = &topology};
    assert_true(message_delay(&cost, &route, 0) == 3e-6);
    assert_true(message_delay(&cost, &route, UINT64_C(1) << 40) == 3e-6);
}

static struct curve_point nccl_curve[] = {
    /* A step in the number of channels: 64 MiB take nearly as long as 256 MiB. */
    {1 << 20, (1 << 20) / 35e-6},      {16 << 20, (16 << 20) / 238e-6},    {64 << 20, (64 << 20) / 877e-6},
    {128 << 20, (128 << 20) / 860e-6}, {256 << 20, (256 << 20) / 1074e-6}, {512 << 20, (512 << 20) / 1880e-6},
};

static void a_message_of_a_curve_point_takes_the_time_of_that_point(void **state)
{
    (void)state;
    struct topology topology = {.n_levels = 1};
    topology.levels[0] = (struct level){.bytes_per_s = 450e9, .curve = nccl_curve, .n_curve = 6};
    struct route route = {.alpha_seconds = 3e-6, .bytes_per_s = 450e9};
    const struct cost cost = {.topology = &topology};
    assert_near(message_seconds(&cost, &route, 0), 3e-6);
    assert_near(message_seconds(&cost, &route, 1 << 20), 35e-6);
    assert_near(message_seconds(&cost, &route, 1 << 19), (3e-6 + 35e-6) / 2);
    assert_near(message_seconds(&cost, &route, 40 << 20), (238e-6 + 860e-6) / 2);
    assert_near(message_seconds(&cost, &route, 64 << 20), 860e-6); /* not more than twice of it took */
    assert_near(message_seconds(&cost, &route, 96 << 20), 860e-6);
    assert_near(message_seconds(&cost, &route, 128 << 20), 860e-6);
    assert_near(message_seconds(&cost, &route, 256 << 20), 1074e-6);
    assert_near(message_seconds(&cost, &route, UINT64_C(1) << 34), (double)(UINT64_C(1) << 34) / (512 << 20) * 1880e-6);
}

static void message_time_never_falls_with_size_nor_below_alpha_and_bandwidth(void **state)
{
    (void)state;
    unsigned seed = 12345;
    for (int round = 0; round < 200; round++) {
        struct curve_point curve[5];
        double bytes = 1000;
        for (int i = 0; i < 5; i++) {
            bytes *= 1.5 + rand_r(&seed) % 100;
            curve[i] = (struct curve_point){floor(bytes), 1e8 * (1 + rand_r(&seed) % 2000)};
        }
        struct topology topology = {.n_levels = 2};
        topology.levels[1] = (struct level){.bytes_per_s = 1e11, .curve = curve, .n_curve = 5};
        /* The route may be narrower than the level whose class it is. */
        struct route route = {.level = 1, .alpha_seconds = 5e-6, .bytes_per_s = round % 2 ? 1e11 : 4e10};
        const struct cost cost = {.topology = &topology};
        double before = 0;
        for (double size = 0; size < 1e13; size = size * 1.3 + 1) {
            double now = message_seconds(&cost, &route, (uint64_t)size);
            assert_true(now >= before * (1 - 1e-12));
            assert_true(now >= (5e-6 + floor(size) / route.bytes_per_s) * (1 - 1e-12));
            before = now;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_on_the_toy_is_its_flops_over_100_tflops),
        cmocka_unit_test(an_invisible_block_is_computed_whole),
        cmocka_unit_test(gathered_keys_count_where_they_are_seen),
        cmocka_unit_test(attention_takes_at_least_its_bytes_over_the_memory_bandwidth),
        cmocka_unit_test(streaming_operations_take_their_bytes_over_the_memory_bandwidth),
        cmocka_unit_test(a_forward_run_needs_no_backward_rates_and_training_does),
        cmocka_unit_test(the_topology_chooses_the_kernel),
        cmocka_unit_test(an_implementation_has_passes_of_its_own),
        cmocka_unit_test(copies_around_attention_are_added_to_it),
        cmocka_unit_test(copies_of_a_part_are_added_where_it_is_one),
        cmocka_unit_test(few_sms_less_may_be_a_wave_more),
        cmocka_unit_test(attention_leaves_no_sm_until_its_last_wave),
        cmocka_unit_test(transfers_wait_where_the_implementation_lets_them),
        cmocka_unit_test(the_host_pays_for_each_kernel_message_and_call),
        cmocka_unit_test(a_trade_of_heads_is_as_many_calls_as_the_implementation_makes),
        cmocka_unit_test(the_hosts_times_vary_by_their_spread),
        cmocka_unit_test(the_implementation_names_the_kernel_unless_the_topology_does),
        cmocka_unit_test(without_a_curve_the_delay_is_alpha),
        cmocka_unit_test(a_message_of_a_curve_point_takes_the_time_of_that_point),
        cmocka_unit_test(message_time_never_falls_with_size_nor_below_alpha_and_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
