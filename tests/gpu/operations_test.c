/* Every operation of the backend 'cuda' against the backend 'cpu': of blocks, lanes, masks and buffers drawn at random.
 *
 * What may differ: cpu computes in fp32 throughout; on the GPU, attention rounds P and dS before it multiplies (see
 * hw/verify/verify.h: at most some 2.6 units of the mean square), and what is kept in 16 bits is rounded once.
 */
#include "twins.h"

#define SEED 20

/* The address sanitizer makes every change of the emulation's threads many times slower. */
#ifdef __SANITIZE_ADDRESS__
#define ATTENTION_TURNS 4
#else
#define ATTENTION_TURNS 32
#endif

static const struct slack exact = {0, 0}, products = {3, 2e-5};

static enum dtype wide_or_narrow(struct twins *t)
{
    return dice_chance(t->dice, 2) ? DTYPE_FP32 : t->dtype;
}

/* ---- attention ---- */

/* The buffers of an attention operation on `q` and `k`: of one tensor for each of the ranks if `k` is of all. */
struct attention {
    struct block q, k, parts[4];
    struct lanes lanes;
    uint32_t n_keys, reads[8], n_reads, d_kv[4];
    enum dtype dkv_dtype;
};

static struct attention draw_attention(struct twins *t, bool backward)
{
    const struct sharding *sharding = &t->of[GPU].schedule.sharding;
    struct attention a = {.lanes = draw_lanes(t, t->of[GPU].schedule.lanes), .n_keys = 1};
    a.q = draw_block(t, draw_owner(t));
    a.dkv_dtype = wide_or_narrow(t);
    a.k = a.parts[0] = draw_block(t, draw_owner(t));
    if (dice_chance(t->dice, 3)) {
        a.n_keys = 4;
        a.k = draw_block(t, 0);
        a.k.owner = BLOCK_ALL;
    }
    a.reads[a.n_reads++] = twins_buffer(t, TENSOR_Q, t->dtype, a.q, a.lanes);
    for (uint32_t i = 0; i < a.n_keys; i++) {
        if (a.n_keys > 1)
            a.parts[i] = (struct block){i, a.k.first, a.k.count};
        assert_true(a.parts[i].first + a.parts[i].count <= sharding_rows(sharding, a.parts[i].owner) || a.n_keys == 1);
        a.reads[a.n_reads++] = twins_buffer(t, TENSOR_KV, t->dtype, a.parts[i], a.lanes);
        if (backward)
            a.d_kv[i] = twins_buffer(t, TENSOR_DKV, a.dkv_dtype, a.parts[i], a.lanes);
    }
    return a;
}

static uint32_t add_forward(struct twins *t, const struct attention *a)
{
    uint32_t writes[2], n = 1;
    if (dice_chance(t->dice, 2)) {
        writes[0] = twins_buffer(t, TENSOR_PARTIAL, t->dtype, a->q, a->lanes);
    } else {
        writes[0] = twins_buffer(t, TENSOR_O, t->dtype, a->q, a->lanes);
        writes[n++] = twins_buffer(t, TENSOR_LSE, DTYPE_FP32, a->q, a->lanes);
    }
    const struct op op = {.kind = OP_ATTEND, .q = a->q, .k = a->k, .lanes = a->lanes};
    return twins_add(t, op, a->reads, a->n_reads, writes, n);
}

static uint32_t add_backward(struct twins *t, struct attention *a)
{
    uint32_t writes[5] = {twins_buffer(t, TENSOR_DQ, t->dtype, a->q, a->lanes)};
    for (uint32_t i = 0; i < a->n_keys; i++)
        writes[1 + i] = a->d_kv[i];
    a->reads[a->n_reads++] = twins_buffer(t, TENSOR_DO, t->dtype, a->q, a->lanes);
    a->reads[a->n_reads++] = twins_buffer(t, TENSOR_LSE, DTYPE_FP32, a->q, a->lanes);
    a->reads[a->n_reads++] = twins_buffer(t, TENSOR_DELTA, DTYPE_FP32, a->q, a->lanes);
    const struct op op = {
        .kind = OP_ATTEND_BACKWARD, .stream = STREAM_GRADIENT, .q = a->q, .k = a->k, .lanes = a->lanes};
    return twins_add(t, op, a->reads, a->n_reads, writes, 1 + a->n_keys);
}

static void attend(struct dice *dice, uint32_t dim)
{
    struct twins t;
    twins_init(&t, dice, dim);
    struct attention a = draw_attention(&t, false);
    twins_run(&t, add_forward(&t, &a));
    twins_compare(&t, products);
    twins_fini(&t);
}

static void attend_backward(struct dice *dice, uint32_t dim)
{
    struct twins t;
    twins_init(&t, dice, dim);
    struct attention a = draw_attention(&t, true);
    twins_run(&t, add_backward(&t, &a));
    twins_compare(&t, products);
    twins_fini(&t);
}

static void attention_agrees(void **state)
{
    (void)state;
    struct dice dice = {SEED};
    for (int turn = 0; turn < ATTENTION_TURNS; turn++) {
        attend(&dice, 64);
        attend_backward(&dice, 64);
    }
    for (uint32_t dim = 128; dim <= 256; dim *= 2) {
        for (int turn = 0; turn < ATTENTION_TURNS / 8 + 1; turn++) {
            attend(&dice, dim);
            attend_backward(&dice, dim);
        }
    }
}

/* The same operation again, with buffers in other places; then another of the same blocks, and of others. */
static void attention_follows_its_buffers(void **state)
{
    (void)state;
    struct dice dice = {SEED + 1};
    for (int turn = 0; turn < 6; turn++) {
        struct twins t;
        twins_init(&t, &dice, 64);
        struct attention a = draw_attention(&t, true);
        const uint32_t first = add_forward(&t, &a);
        for (int again = 0; again < 3; again++) {
            twins_run(&t, first);
            twins_compare(&t, products);
            for (uint32_t i = 0; again == 0 && i < a.n_reads; i++)
                twins_move(&t, a.reads[i]);
            for (uint32_t i = 0; again == 1 && i < a.n_reads; i++)
                twins_fill(&t, a.reads[i]);
        }
        twins_run(&t, add_backward(&t, &a));
        a = draw_attention(&t, false);
        twins_run(&t, add_forward(&t, &a));
        twins_compare(&t, products);
        twins_fini(&t);
    }
}

/* Blocks that follow each other, of the same size and owner; then another program, whose first operation is on others.
 */
static void each_block_has_its_own_mask(void **state)
{
    (void)state;
    struct dice dice = {SEED + 7};
    for (int turn = 0; turn < 4; turn++) {
        struct twins t;
        twins_init(&t, &dice, 64);
        const struct block half = {block_joined(1), 0, (uint32_t)t.of[GPU].experiment.seq_len / 4};
        for (uint32_t program = 0; program < 4; program++) {
            for (uint32_t i = 0; i < 4; i++) {
                struct attention a = {.q = half, .k = half, .lanes = t.of[GPU].schedule.lanes, .n_keys = 1};
                a.q.first = (i / 2 ^ program / 2) * half.count;
                a.k.first = ((i ^ program ^ program / 2) % 2) * half.count;
                a.reads[a.n_reads++] = twins_buffer(&t, TENSOR_Q, t.dtype, a.q, a.lanes);
                a.reads[a.n_reads++] = twins_buffer(&t, TENSOR_KV, t.dtype, a.k, a.lanes);
                twins_run(&t, add_forward(&t, &a));
            }
            twins_compare(&t, products);
            twins_begin_again(&t);
        }
        twins_fini(&t);
    }
}

/* ---- each number, or each lane, alone ---- */

/* One operation on queries, whose first buffers are of these tensors: what it reads, then what it writes; `adds`: reads
 * what it writes first of all too. */
struct step {
    enum op_kind kind;
    enum tensor reads[4], writes[3];
    uint32_t n_reads, n_writes;
    bool adds;
    struct slack slack;
};

static enum dtype dtype_of(struct twins *t, enum tensor tensor)
{
    switch (tensor) {
    case TENSOR_STATE:
    case TENSOR_LSE:
    case TENSOR_DELTA:
    case TENSOR_TOP:
    case TENSOR_DENOMINATOR:
        return DTYPE_FP32;
    case TENSOR_NUMERATOR:
    case TENSOR_DKV:
        return wide_or_narrow(t);
    default:
        return t->dtype;
    }
}

static void take_step(struct dice *dice, const struct step *step, bool added)
{
    struct twins t;
    twins_init(&t, dice, 64);
    const bool keys = tensor_goes_by_keys(step->writes[0]);
    const struct lanes lanes = draw_lanes(&t, t.of[GPU].schedule.lanes);
    const struct block block = draw_block(&t, draw_owner(&t));
    struct op op = {.kind = (uint8_t)step->kind, .stream = (uint8_t)dice_below(dice, STREAM_COUNT), .lanes = lanes};
    *(keys ? &op.k : &op.q) = block;
    uint32_t reads[5], writes[3], n_reads = 0;
    for (uint32_t i = 0; i < step->n_reads; i++)
        reads[n_reads++] = twins_buffer(&t, step->reads[i], dtype_of(&t, step->reads[i]), block, lanes);
    for (uint32_t i = 0; i < step->n_writes; i++)
        writes[i] = twins_buffer(&t, step->writes[i], dtype_of(&t, step->writes[i]), block, lanes);
    if (added)
        reads[n_reads++] = writes[0];
    if (step->kind == OP_RAISE && added) /* what it is the larger of */
        assert_int_equal(n_reads, 2);
    twins_run(&t, twins_add(&t, op, reads, n_reads, writes, step->n_writes));
    twins_compare(&t, step->slack);
    twins_fini(&t);
}

static void steps_agree(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {OP_MERGE, {TENSOR_PARTIAL}, {TENSOR_STATE}, 1, 1, true, {0, 2e-5}},
        {OP_FINISH, {TENSOR_STATE}, {TENSOR_O, TENSOR_LSE}, 1, 2, false, {0, 2e-5}},
        {OP_DELTA, {TENSOR_O, TENSOR_DO}, {TENSOR_DELTA}, 2, 1, false, {0, 2e-5}},
        {OP_SUM_LSE, {TENSOR_PARTIAL}, {TENSOR_LSE}, 1, 1, true, {0, 2e-5}},
        {OP_TOP, {TENSOR_PARTIAL}, {TENSOR_TOP}, 1, 1, false, {0, 0}},
        {OP_CORRECT, {TENSOR_PARTIAL, TENSOR_LSE}, {TENSOR_O}, 2, 1, true, {0, 2e-5}},
        {OP_WEIGH, {TENSOR_PARTIAL, TENSOR_TOP}, {TENSOR_NUMERATOR, TENSOR_DENOMINATOR}, 2, 2, false, {0, 2e-5}},
        {OP_NORMALIZE,
         {TENSOR_NUMERATOR, TENSOR_DENOMINATOR, TENSOR_TOP},
         {TENSOR_O, TENSOR_LSE},
         3,
         2,
         false,
         {0, 2e-5}},
        {OP_ACCUMULATE, {TENSOR_DQ}, {TENSOR_DQ}, 1, 1, true, {0, 0}},
        {OP_ACCUMULATE, {TENSOR_DKV}, {TENSOR_DKV}, 1, 1, true, {0, 0}},
        {OP_ACCUMULATE, {TENSOR_NUMERATOR}, {TENSOR_NUMERATOR}, 1, 1, true, {0, 0}},
        {OP_CAST, {TENSOR_DKV}, {TENSOR_DKV}, 1, 1, false, {0, 0}},
    };
    struct dice dice = {SEED + 2};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int turn = 0; turn < 12; turn++)
            take_step(&dice, &steps[i], steps[i].adds && turn % 2);
    static const struct step raise = {OP_RAISE, {TENSOR_TOP}, {TENSOR_TOP}, 1, 1, true, {0, 0}};
    for (int turn = 0; turn < 12; turn++)
        take_step(&dice, &raise, true);
}

/* dQ and dKV of one operation: the i-th target from the i-th source. */
static void sums_of_several_targets_agree(void **state)
{
    (void)state;
    struct dice dice = {SEED + 3};
    for (int turn = 0; turn < 6; turn++) {
        struct twins t;
        twins_init(&t, &dice, 64);
        const struct lanes lanes = draw_lanes(&t, t.of[GPU].schedule.lanes);
        const struct block q = draw_block(&t, draw_owner(&t)), k = draw_block(&t, draw_owner(&t));
        const uint32_t writes[] = {twins_buffer(&t, TENSOR_DQ, t.dtype, q, lanes),
                                   twins_buffer(&t, TENSOR_DKV, DTYPE_FP32, k, lanes)};
        const uint32_t reads[] = {twins_buffer(&t, TENSOR_DQ, t.dtype, q, lanes),
                                  twins_buffer(&t, TENSOR_DKV, t.dtype, k, lanes), writes[turn % 2]};
        const struct op op = {.kind = OP_ACCUMULATE, .q = q, .k = k, .lanes = lanes};
        twins_run(&t, twins_add(&t, op, reads, 3, writes, 2));
        twins_compare(&t, exact);
        twins_fini(&t);
    }
}

/* ---- layout copies ---- */

static const enum tensor laid_out[] = {TENSOR_Q, TENSOR_KV, TENSOR_DKV, TENSOR_LSE, TENSOR_PARTIAL, TENSOR_STATE};
#define N_LAID_OUT (sizeof laid_out / sizeof *laid_out)

static void copy_rows(struct dice *dice, enum tensor tensor)
{
    struct twins t;
    twins_init(&t, dice, 64);
    const struct sharding *sharding = &t.of[GPU].schedule.sharding;
    const struct lanes lanes = draw_lanes(&t, t.of[GPU].schedule.lanes);
    const struct block joined = draw_block(&t, block_joined(draw(&t, 0, 1)));
    const enum dtype dtype = dtype_of(&t, tensor);
    struct op op = {.kind = OP_SPLIT_ROWS, .lanes = lanes};
    *(tensor_goes_by_keys(tensor) ? &op.k : &op.q) = joined;
    const uint32_t from = twins_buffer(&t, tensor, dtype, joined, lanes);
    const uint32_t to = twins_buffer(&t, tensor, dtype, joined, lanes);
    uint32_t parts[2], n = 0;
    for (uint32_t member = 0; member < 2; member++) {
        const uint32_t rank = sharding_group_rank(sharding, joined.owner & ~BLOCK_JOINED, member);
        const struct block part = sharding_part(sharding, joined, rank);
        if (part.count)
            parts[n++] = twins_buffer(&t, tensor, dtype, part, lanes);
    }
    twins_run(&t, twins_add(&t, op, &from, 1, parts, n));
    op.kind = OP_JOIN_ROWS;
    twins_run(&t, twins_add(&t, op, parts, n, &to, 1));
    twins_compare(&t, exact);
    twins_fini(&t);
}

static void joined_rows_agree(void **state)
{
    (void)state;
    struct dice dice = {SEED + 4};
    for (size_t i = 0; i < N_LAID_OUT; i++)
        for (int turn = 0; turn < 8; turn++)
            copy_rows(&dice, laid_out[i]);
}

/* Lanes [from, from + count) of the operation's, by heads or by items. */
static struct lanes slice_of(struct lanes lanes, bool heads, uint32_t from, uint32_t count)
{
    if (heads)
        return (struct lanes){lanes.head + from, count, lanes.item, lanes.items};
    return (struct lanes){lanes.head, lanes.heads, lanes.item + from, count};
}

/* Slices of 1 to 3 heads (or items) of some rows, in `stream`. */
static void copy_lanes(struct twins *t, enum tensor tensor, enum stream stream)
{
    const struct lanes lanes = draw_lanes(t, t->of[GPU].schedule.lanes);
    const bool heads = !dice_chance(t->dice, 4);
    const struct block block = draw_block(t, draw_owner(t));
    const enum dtype dtype = dtype_of(t, tensor);
    struct op op = {.kind = OP_SPLIT_LANES, .stream = (uint8_t)stream, .lanes = lanes};
    *(tensor_goes_by_keys(tensor) ? &op.k : &op.q) = block;
    const uint32_t from = twins_buffer(t, tensor, dtype, block, lanes);
    const uint32_t to = twins_buffer(t, tensor, dtype, block, lanes);
    uint32_t slices[8], n = 0;
    for (uint32_t at = 0, all = heads ? lanes.heads : lanes.items, count; at < all; at += count) {
        count = draw(t, 1, all - at < 3 ? all - at : 3);
        slices[n++] = twins_slice(t, tensor, dtype, block, slice_of(lanes, heads, at, count));
    }
    twins_run(t, twins_add(t, op, &from, 1, slices, n));
    op.kind = OP_JOIN_LANES;
    twins_run(t, twins_add(t, op, slices, n, &to, 1));
}

static void slices_of_lanes_agree(void **state)
{
    (void)state;
    struct dice dice = {SEED + 5};
    for (size_t i = 0; i < N_LAID_OUT; i++) {
        for (int turn = 0; turn < 12; turn++) {
            struct twins t;
            twins_init(&t, &dice, 64);
            copy_lanes(&t, laid_out[i], STREAM_COMPUTE);
            twins_compare(&t, exact);
            twins_fini(&t);
        }
    }
}

/* Memory for sums is each stream's, and grows. */
static void sums_of_slices_agree_one_after_the_other(void **state)
{
    (void)state;
    struct dice dice = {SEED + 6};
    for (int turn = 0; turn < 8; turn++) {
        struct twins t;
        twins_init(&t, &dice, 64);
        for (int i = 0; i < 4; i++) {
            copy_lanes(&t, TENSOR_DKV, i % 3 ? STREAM_COMPUTE : STREAM_GRADIENT);
            twins_compare(&t, exact);
            twins_begin_again(&t);
        }
        twins_fini(&t);
    }
}

/* ---- opening ---- */

static void expect_refusal(const struct experiment *experiment, const struct compute_settings *settings,
                           const char *message)
{
    struct diagnostics diag;
    struct schedule schedule;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, experiment, NULL, &diag));
    assert_null(compute_cuda.open(&schedule, 0, settings, &diag));
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(diag.lines[0], message));
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void what_cannot_run_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct experiment e = make_experiment("ring", 2, 16);
    e.model.head_dim = 64;
    expect_refusal(&e, &(struct compute_settings){0},
                   "backend 'cuda' cannot run this: the GPU kernels compute in bf16 or fp16, not in fp32");
    e.dtype = DTYPE_FP16;
    e.model.head_dim = 96;
    expect_refusal(&e, &(struct compute_settings){0}, "the GPU kernels have head_dim 64, 128 and 256, not 96");
    e.model.head_dim = 64;
    expect_refusal(&e, &(struct compute_settings){.kernels = "thumbs"},
                   "backend 'cuda' has no kernels 'thumbs', expected mma");
    expect_refusal(&e, &(struct compute_settings){.device = 99}, "rank 0: choosing a GPU (");
    for (const char *const *name = (const char *const[]){NULL, "mma", ""}; !*name || **name; name++) {
        struct diagnostics diag;
        struct schedule schedule;
        diagnostics_init(&diag);
        assert_true(schedule_init(&schedule, &e, NULL, &diag));
        struct compute *cuda = compute_cuda.open(&schedule, 0, &(struct compute_settings){.kernels = *name}, &diag);
        assert_non_null(cuda);
        compute_cuda.close(cuda);
        schedule_fini(&schedule);
        diagnostics_fini(&diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(attention_follows_its_buffers),
        cmocka_unit_test(each_block_has_its_own_mask),
        cmocka_unit_test(steps_agree),
        cmocka_unit_test(sums_of_several_targets_agree),
        cmocka_unit_test(joined_rows_agree),
        cmocka_unit_test(slices_of_lanes_agree),
        cmocka_unit_test(sums_of_slices_agree_one_after_the_other),
        cmocka_unit_test(what_cannot_run_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
