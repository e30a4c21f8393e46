/* Where numbers are, in buffers with some of the lanes and rows that are joined: every number says what it is (tensor
 * row's position, item, head, dim), and must be found in its place after layout copies and in messages. Buffers of one
 * array lie behind each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/layout.h"
#include "hw/run/packing.h"
#include "hw/run/rank_memory.h"
#include "models/result/memory.h"
#include "tests/hw/scene.h"

#define BUFFERS_MAX 8

/* One rank's program, made by hand, on a schedule of 4 ranks of which pairs are joined. */
struct bench {
    struct experiment experiment;
    struct schedule schedule;
    struct program program;
    struct compute *cpu;
    struct diagnostics diag;
    struct block blocks[BUFFERS_MAX]; /* what each buffer holds */
    float *memory[BUFFERS_MAX];
};

static void bench_init(struct bench *b, enum sharding_kind sharding)
{
    *b = (struct bench){.experiment = make_experiment("usp", 4, 48)};
    diagnostics_init(&b->diag);
    b->experiment.model.q_heads = 8;
    b->experiment.model.kv_heads = 2;
    b->experiment.model.head_dim = 3;
    b->experiment.batch = 3;
    b->experiment.sharding = sharding;
    b->experiment.ulysses_degree = 2;
    assert_true(schedule_init(&b->schedule, &b->experiment, NULL, &b->diag));
    assert_int_equal(b->schedule.sharding.joined, 2);
    program_init(&b->program, 0);
    b->cpu = compute_cpu.open(&b->schedule, 0, &(struct compute_settings){0}, &b->diag);
}

static void bench_fini(struct bench *b)
{
    for (size_t i = 0; i < BUFFERS_MAX; i++)
        free(b->memory[i]);
    compute_cpu.close(b->cpu);
    program_fini(&b->program);
    schedule_fini(&b->schedule);
    diagnostics_fini(&b->diag);
}

/* A buffer for exactly the rows of `block`, poisoned. */
static uint32_t bench_buffer(struct bench *b, enum tensor tensor, struct block block, struct lanes lanes)
{
    struct buffer buffer = {.tensor = (uint8_t)tensor,
                            .dtype = DTYPE_FP32,
                            .role = ROLE_WORKSPACE,
                            .first = block.first,
                            .rows = block.count,
                            .bytes = schedule_tensor_bytes(&b->schedule, tensor, DTYPE_FP32, block.count, lanes),
                            .lanes = lanes};
    uint32_t index = program_add_buffer(&b->program, "x", buffer);
    assert_true(index < BUFFERS_MAX);
    b->blocks[index] = block;
    b->memory[index] = memory_zeroed(1, buffer.bytes);
    memset(b->memory[index], 0xff, buffer.bytes);
    return index;
}

/* ---- what a number is ---- */

static float number_of(uint32_t array, uint64_t position, uint32_t item, uint32_t head, uint32_t d)
{
    return (float)(array * 500000 + position * 1000 + item * 100 + head * 10 + d);
}

/* Calls `visit` for each number of rows [first, first + count) of what a buffer holds. */
static void each_number(struct bench *b, uint32_t buffer, struct block block,
                        void (*visit)(float *number, float is, uint32_t head, uint32_t item))
{
    const struct buffer *held = &b->program.buffers[buffer];
    struct buffer_layout layout = layout_of(&b->schedule, held);
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(&b->schedule.sharding, block, spans);
    for (uint32_t a = 0; a < layout.n_arrays; a++) {
        float *number = layout_rows(&layout, held, b->memory[buffer], a, block);
        for (uint32_t s = 0; s < n_spans; s++)
            for (uint64_t r = 0; r < spans[s].count; r++)
                for (uint32_t item = layout.lanes.item; item < layout.lanes.item + layout.lanes.items; item++)
                    for (uint32_t head = layout.lanes.head; head < layout.lanes.head + layout.lanes.heads; head++)
                        for (uint32_t d = 0; d < layout.arrays[a].width; d++)
                            visit(number++, number_of(a, spans[s].first + r * spans[s].stride, item, head, d), head,
                                  item);
    }
}

static void set_number(float *number, float is, uint32_t head, uint32_t item)
{
    (void)head;
    (void)item;
    *number = is;
}

/* The lanes that were copied (as the tensor has them), and how often each number was added up. */
static struct lanes copied;
static float times;

static void expect_number(float *number, float is, uint32_t head, uint32_t item)
{
    if (lanes_within((struct lanes){head, 1, item, 1}, copied)) {
        if (*number != times * is) /* NOLINT: exact */
            fail_msg("%g instead of %g", (double)*number, (double)(times * is));
    } else if (!isnan(*number)) {
        fail_msg("head %u of item %u was touched", head, item);
    }
}

static void run_copy(struct bench *b, enum op_kind kind, bool keys, struct block block, struct lanes lanes,
                     const uint32_t *reads, size_t n_reads, const uint32_t *writes, size_t n_writes)
{
    struct op op = {.kind = (uint8_t)kind, .lanes = lanes};
    *(keys ? &op.k : &op.q) = block;
    uint32_t index = program_add_op(&b->program, op, reads, n_reads, writes, n_writes);
    if (!layout_check(&b->schedule, &b->program, &b->diag))
        fail_msg("%s", b->diag.lines[0]);
    compute_cpu.run(b->cpu, &b->program, index, (void *const *)b->memory, NULL);
}

/* ---- rows ---- */

/* Rows of the joined block, in lanes that are fewer than the buffers have, go to their ranks, and back. */
static void copy_rows(enum sharding_kind sharding, enum tensor tensor, struct lanes lanes, uint32_t first,
                      uint32_t count)
{
    struct bench b;
    bench_init(&b, sharding);
    struct block joined = {block_joined(1), first, count};
    bool keys = tensor_goes_by_keys(tensor);
    uint32_t from = bench_buffer(&b, tensor, sharding_keys(&b.schedule.sharding, joined.owner), b.schedule.lanes);
    uint32_t parts[2], n = 0, to;
    for (uint32_t member = 0; member < 2; member++) {
        struct block part =
            sharding_part(&b.schedule.sharding, joined, sharding_group_rank(&b.schedule.sharding, 1, member));
        if (part.count)
            parts[n++] = bench_buffer(&b, tensor, part, b.schedule.lanes);
    }
    to = bench_buffer(&b, tensor, joined, b.schedule.lanes);
    each_number(&b, from, b.blocks[from], set_number);
    copied = layout_lanes(&b.schedule, tensor, lanes);
    times = 1;
    run_copy(&b, OP_SPLIT_ROWS, keys, joined, lanes, &from, 1, parts, n);
    for (uint32_t i = 0; i < n; i++)
        each_number(&b, parts[i], b.blocks[parts[i]], expect_number);
    run_copy(&b, OP_JOIN_ROWS, keys, joined, lanes, parts, n, &to, 1);
    each_number(&b, to, joined, expect_number);
    bench_fini(&b);
}

static void joined_rows_go_to_their_ranks_and_back(void **state)
{
    (void)state;
    const struct lanes all = {0, 8, 0, 3}, some = {4, 4, 1, 2}, one = {0, 8, 2, 1};
    for (int sharding = SHARDING_CONTIGUOUS; sharding <= SHARDING_STRIPED; sharding++) {
        copy_rows((enum sharding_kind)sharding, TENSOR_Q, all, 0, 24);
        copy_rows((enum sharding_kind)sharding, TENSOR_KV, all, 0, 24);
        copy_rows((enum sharding_kind)sharding, TENSOR_KV, some, 3, 19);
        copy_rows((enum sharding_kind)sharding, TENSOR_Q, one, 5, 8);
        copy_rows((enum sharding_kind)sharding, TENSOR_LSE, some, 1, 1);
        copy_rows((enum sharding_kind)sharding, TENSOR_PARTIAL, some, 2, 20);
    }
}

/* ---- lanes ---- */

static void copy_lanes(enum tensor tensor, const struct lanes *slices, uint32_t n, struct lanes lanes, float added)
{
    struct bench b;
    bench_init(&b, SHARDING_ZIGZAG);
    struct block rows = {0, 2, 9};
    bool keys = tensor_goes_by_keys(tensor);
    uint32_t from = bench_buffer(&b, tensor, sharding_keys(&b.schedule.sharding, 0), b.schedule.lanes), parts[4], to;
    for (uint32_t i = 0; i < n; i++)
        parts[i] = bench_buffer(&b, tensor, rows, slices[i]);
    to = bench_buffer(&b, tensor, rows, b.schedule.lanes);
    each_number(&b, from, b.blocks[from], set_number);
    times = 1;
    run_copy(&b, OP_SPLIT_LANES, keys, rows, lanes, &from, 1, parts, n);
    for (uint32_t i = 0; i < n; i++) {
        copied = layout_lanes(&b.schedule, tensor, lanes_common(lanes, slices[i]));
        each_number(&b, parts[i], rows, expect_number);
    }
    run_copy(&b, OP_JOIN_LANES, keys, rows, lanes, parts, n, &to, 1);
    copied = layout_lanes(&b.schedule, tensor, lanes);
    times = added;
    each_number(&b, to, rows, expect_number);
    bench_fini(&b);
}

static void lanes_go_into_slices_and_back(void **state)
{
    (void)state;
    const struct lanes all = {0, 8, 0, 3}, halves[] = {{0, 4, 0, 3}, {4, 4, 0, 3}},
                       items[] = {{0, 8, 0, 2}, {0, 8, 2, 1}};
    const struct lanes uneven[] = {{0, 1, 0, 3}, {1, 5, 0, 3}, {6, 2, 0, 3}}, inner = {0, 7, 1, 2};
    copy_lanes(TENSOR_Q, halves, 2, all, 1);
    copy_lanes(TENSOR_KV, halves, 2, all, 1);
    copy_lanes(TENSOR_DKV, halves, 2, all, 1);
    copy_lanes(TENSOR_DKV, items, 2, all, 1);
    copy_lanes(TENSOR_LSE, uneven, 3, all, 1);
    copy_lanes(TENSOR_Q, uneven, 3, inner, 1);
    copy_lanes(TENSOR_STATE, items, 2, inner, 1);
}

/* Four slices of two query heads, of which two read the same of two KV heads. */
static void slices_of_one_kv_head_add_up_in_a_gradient_only(void **state)
{
    (void)state;
    const struct lanes all = {0, 8, 0, 3}, quarters[] = {{0, 2, 0, 3}, {2, 2, 0, 3}, {4, 2, 0, 3}, {6, 2, 0, 3}};
    copy_lanes(TENSOR_KV, quarters, 4, all, 1);
    copy_lanes(TENSOR_DKV, quarters, 4, all, 2);
}

/* ---- messages ---- */

/* What a message of some lanes carries, packed and unpacked again into another buffer. */
static void send_lanes(enum tensor tensor, struct lanes lanes, bool packs)
{
    struct bench b;
    bench_init(&b, SHARDING_STRIPED);
    struct block rows = {0, 1, 7};
    bool keys = tensor_goes_by_keys(tensor);
    struct packings packings = {0};
    struct piece_of_memory pieces[PIECES_MAX], arrived[PIECES_MAX];
    size_t sent, received;
    struct op op = {.kind = OP_SEND,
                    .part = PART_ALL,
                    .lanes = lanes,
                    .bytes = schedule_tensor_bytes(&b.schedule, tensor, DTYPE_FP32, rows.count, lanes)};
    *(keys ? &op.k : &op.q) = rows;
    uint32_t from = bench_buffer(&b, tensor, sharding_keys(&b.schedule.sharding, 0), b.schedule.lanes);
    uint32_t to = bench_buffer(&b, tensor, rows, b.schedule.lanes);
    each_number(&b, from, b.blocks[from], set_number);
    uint32_t out = program_add_op(&b.program, op, &from, 1, NULL, 0);
    op.kind = OP_RECEIVE;
    uint32_t in = program_add_op(&b.program, op, NULL, 0, &to, 1);
    const struct op *ops = b.program.ops;
    if (!layout_check(&b.schedule, &b.program, &b.diag))
        fail_msg("%s", b.diag.lines[0]);

    uint32_t n = packing_begin(&packings, &compute_cpu, b.cpu, &b.schedule, &b.program, &ops[out], b.memory[from],
                               pieces, &sent);
    uint32_t m = packing_begin(&packings, &compute_cpu, b.cpu, &b.schedule, &b.program, &ops[in], b.memory[to], arrived,
                               &received);
    assert_int_equal(sent != NOT_PACKED, packs);
    char *wire = memory_zeroed(1, op.bytes), *at = wire;
    for (uint32_t i = 0; i < n; at += pieces[i++].bytes)
        memcpy(at, pieces[i].memory, pieces[i].bytes);
    assert_int_equal(at - wire, op.bytes);
    at = wire;
    for (uint32_t i = 0; i < m; at += arrived[i++].bytes)
        memcpy(arrived[i].memory, at, arrived[i].bytes);
    assert_int_equal(at - wire, op.bytes);
    free(wire);
    packing_end(&packings, &compute_cpu, b.cpu, &b.schedule, &b.program, &ops[out], b.memory[from], sent);
    packing_end(&packings, &compute_cpu, b.cpu, &b.schedule, &b.program, &ops[in], b.memory[to], received);
    copied = layout_lanes(&b.schedule, tensor, lanes);
    times = 1;
    each_number(&b, to, rows, expect_number);
    packings_fini(&packings, &compute_cpu, b.cpu);
    bench_fini(&b);
}

static void messages_carry_the_lanes_that_they_name(void **state)
{
    (void)state;
    send_lanes(TENSOR_Q, (struct lanes){0, 8, 0, 3}, false);
    send_lanes(TENSOR_KV, (struct lanes){0, 8, 0, 3}, false);
    send_lanes(TENSOR_Q, (struct lanes){2, 3, 0, 3}, true);
    send_lanes(TENSOR_KV, (struct lanes){0, 8, 1, 1}, true);
    send_lanes(TENSOR_TOP, (struct lanes){5, 1, 1, 2}, true);
    send_lanes(TENSOR_PARTIAL, (struct lanes){0, 8, 1, 2}, true);
}

static void what_does_not_fit_its_buffer_is_refused(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, SHARDING_CONTIGUOUS);
    struct lanes half = {0, 4, 0, 3};
    uint32_t q = bench_buffer(&b, TENSOR_Q, (struct block){0, 0, 12}, half);
    struct op op = {.kind = OP_SEND, .part = PART_ALL, .lanes = {2, 4, 0, 3}, .q = {0, 0, 12}, .bytes = 12 * 12 * 12};
    program_add_op(&b.program, op, &q, 1, NULL, 0);
    assert_false(layout_check(&b.schedule, &b.program, &b.diag));
    assert_non_null(strstr(b.diag.lines[0], "heads 2+4 of items 0+3 do not fit buffer 'x' of heads 0+4, items 0+3"));
    b.program.buffers[q].bytes--;
    assert_false(layout_check(&b.schedule, &b.program, &b.diag));
    assert_non_null(strstr(b.diag.lines[1], "buffer 'x' says 1727 bytes but its rows and lanes are 1728"));
    bench_fini(&b);
}

/* ---- arrays ---- */

/* Three buffers of one array, used one after the other, between them one that is alone. */
static void buffers_of_an_array_are_one_piece_of_memory(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b, SHARDING_CONTIGUOUS);
    struct block rows = {0, 0, 12};
    uint32_t array = program_new_array(&b.program), buffers[4];
    for (uint32_t i = 0; i < 4; i++) {
        struct lanes lanes = {0, i + 1, 0, 3};
        buffers[i] = bench_buffer(&b, TENSOR_DQ, rows, lanes);
        b.program.buffers[buffers[i]].array = i == 1 ? 0 : array;
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct op op = {.kind = OP_ACCUMULATE, .q = rows, .lanes = {0, 1, 0, 3}};
        program_add_op(&b.program, op, &buffers[i], 1, &buffers[(i + 1) % 4], 1);
    }
    program_end_phase(&b.program, PHASE_FORWARD);
    program_end_phase(&b.program, PHASE_BACKWARD);
    struct stream_order order;
    stream_order_init(&order, &b.program);
    struct rank_memory memory;
    rank_memory_init(&memory, &order, &compute_cpu, b.cpu);
    uint64_t whole = 0, seen = 0;
    for (uint32_t i = 0; i < 4; i++)
        whole += b.program.buffers[buffers[i]].bytes;
    for (int step = 0; step < 2; step++) {
        rank_memory_reset(&memory, false);
        for (uint32_t point = 0; point < memory.lifetimes.n_points; point++) {
            assert_int_equal(rank_memory_at(&memory, point, NULL, NULL), -1);
            char *const *at = (char *const *)memory.memory;
            assert_int_equal(at[buffers[0]] != NULL, at[buffers[3]] != NULL);
            if (!at[buffers[0]])
                continue;
            seen++;
            assert_true(at[buffers[2]] == at[buffers[0]] + b.program.buffers[buffers[0]].bytes);
            assert_true(at[buffers[3]] == at[buffers[2]] + b.program.buffers[buffers[2]].bytes);
            memset(at[buffers[0]], 1, whole - b.program.buffers[buffers[1]].bytes); /* all of it is there */
        }
        assert_int_equal(memory.peak_bytes, whole);
    }
    assert_true(seen > 0);
    struct moment moments[4] = {0};
    const double phase_end[PHASE_COUNT] = {0};
    assert_int_equal(memory_peak(&order, moments, phase_end).bytes, whole);
    rank_memory_fini(&memory);
    stream_order_fini(&order);
    bench_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_rows_go_to_their_ranks_and_back),
        cmocka_unit_test(lanes_go_into_slices_and_back),
        cmocka_unit_test(slices_of_one_kv_head_add_up_in_a_gradient_only),
        cmocka_unit_test(messages_carry_the_lanes_that_they_name),
        cmocka_unit_test(what_does_not_fit_its_buffer_is_refused),
        cmocka_unit_test(buffers_of_an_array_are_one_piece_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
