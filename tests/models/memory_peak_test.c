/* The high-water mark from lifetimes, on programs made by hand: the compute stream is the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/result/memory.h"
#include "tests/models/plain_buffer.h"

#define NONE UINT32_MAX

struct hand {
    struct program program;
    struct moment moments[16];
};

static void hand_init(struct hand *hand)
{
    memset(hand, 0, sizeof *hand);
    program_init(&hand->program, 0);
    program_new_group(&hand->program); /* group 1 */
}

static uint32_t buffer(struct hand *hand, enum tensor tensor, enum buffer_role role, uint64_t bytes)
{
    return plain_buffer(&hand->program, (struct lanes){0, 1, 0, 1}, "b", tensor, DTYPE_FP32, role, 1, bytes);
}

/* An operation that reads one buffer (or none) and writes one (or none). */
static void add(struct hand *hand, struct op op, uint32_t read, uint32_t write)
{
    uint32_t index = program_add_op(&hand->program, op, &read, read != NONE, &write, write != NONE);
    hand->moments[index] = (struct moment){2 * index, 2 * index, 2 * index + 1};
}

static void step(struct hand *hand, uint32_t read, uint32_t write)
{
    add(hand, (struct op){.kind = OP_CAST}, read, write);
}

static void receive(struct hand *hand, uint32_t group, uint32_t write)
{
    add(hand, (struct op){.kind = OP_RECEIVE, .stream = STREAM_EXCHANGE, .group = group}, NONE, write);
}

static void send(struct hand *hand, uint32_t group, uint32_t read)
{
    add(hand, (struct op){.kind = OP_SEND, .stream = STREAM_EXCHANGE, .group = group}, read, NONE);
}

static struct memory_peak peak_of(struct hand *hand)
{
    if (hand->program.phase_end[PHASE_FORWARD] == 0)
        program_end_phase(&hand->program, PHASE_FORWARD);
    program_end_phase(&hand->program, PHASE_BACKWARD);
    const double phase_end[PHASE_COUNT] = {2 * hand->program.phase_end[PHASE_FORWARD], 2 * hand->program.n_ops};
    struct stream_order order;
    stream_order_init(&order, &hand->program);
    struct memory_peak peak = memory_peak(&order, hand->moments, phase_end);
    uint64_t sum = 0;
    for (int role = 0; role < ROLE_COUNT; role++)
        sum += peak.by_role[role];
    assert_int_equal(sum, peak.bytes);
    stream_order_fini(&order);
    program_fini(&hand->program);
    return peak;
}

static void a_buffer_lives_from_first_touch_to_last(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t a = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 100);
    uint32_t b = buffer(&hand, TENSOR_PARTIAL, ROLE_WORKSPACE, 10);
    uint32_t c = buffer(&hand, TENSOR_STATE, ROLE_ACCUMULATOR, 1);
    step(&hand, NONE, a);
    step(&hand, a, b); /* a and b: 110 */
    step(&hand, b, c); /* b and c: 11 */
    struct memory_peak peak = peak_of(&hand);
    assert_int_equal(peak.bytes, 110);
    assert_true(peak.at_seconds == 2);
    assert_int_equal(peak.by_role[ROLE_RECEIVED], 100);
    assert_int_equal(peak.by_role[ROLE_WORKSPACE], 10);
}

static void what_an_operation_leaves_is_reused_by_the_next(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t a = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 100), b = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 70);
    step(&hand, NONE, b);
    step(&hand, NONE, a);
    assert_int_equal(peak_of(&hand).bytes, 100);
}

static void a_receive_owns_its_target_from_when_it_may_be_posted(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        struct hand hand;
        hand_init(&hand);
        uint32_t w = buffer(&hand, TENSOR_PARTIAL, ROLE_WORKSPACE, 10),
                 own = buffer(&hand, TENSOR_KV, ROLE_WORKSPACE, 1);
        uint32_t kv = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 100);
        step(&hand, NONE, w);
        step(&hand, w, own); /* the last that needs w */
        if (after)
            send(&hand, 1, own); /* in one group with the receive: it cannot be posted before */
        receive(&hand, 1, kv);
        step(&hand, kv, own);
        struct memory_peak peak = peak_of(&hand);
        assert_int_equal(peak.bytes, after ? 101 : 111);
        assert_true(peak.at_seconds == (after ? 3 : 2)); /* at the finish of the operation that is waited for */
    }
}

/* A send that no later kernel waits for may still be under way: its buffer is not reused. */
static void a_buffer_that_is_being_sent_is_kept_until_a_kernel_has_waited_for_it(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct hand hand;
        hand_init(&hand);
        uint32_t out = buffer(&hand, TENSOR_DKV, ROLE_WORKSPACE, 100),
                 w = buffer(&hand, TENSOR_DKV, ROLE_WORKSPACE, 70);
        uint32_t in = buffer(&hand, TENSOR_DKV, ROLE_ACCUMULATOR, 1);
        step(&hand, NONE, out);
        send(&hand, 1, out);
        receive(&hand, 1, in);
        step(&hand, waits ? in : NONE, w);
        assert_int_equal(peak_of(&hand).bytes, waits ? 101 : 171);
    }
}

static void resident_buffers_live_through_every_phase_that_uses_them(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t q = buffer(&hand, TENSOR_Q, ROLE_RESIDENT, 1000), d_o = buffer(&hand, TENSOR_DO, ROLE_RESIDENT, 500);
    uint32_t w = buffer(&hand, TENSOR_PARTIAL, ROLE_WORKSPACE, 7);
    step(&hand, q, NONE);
    step(&hand, NONE, w); /* after q's last use */
    program_end_phase(&hand.program, PHASE_FORWARD);
    step(&hand, d_o, NONE);
    struct memory_peak peak = peak_of(&hand);
    assert_int_equal(peak.bytes, 1007);
    assert_true(peak.at_seconds == 2);
}

static void outputs_of_the_forward_phase_stay_to_the_end_of_the_step(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t o = buffer(&hand, TENSOR_O, ROLE_RESIDENT, 300), d_o = buffer(&hand, TENSOR_DO, ROLE_RESIDENT, 40);
    step(&hand, NONE, o);
    program_end_phase(&hand.program, PHASE_FORWARD);
    step(&hand, d_o, NONE);
    struct memory_peak peak = peak_of(&hand);
    assert_int_equal(peak.bytes, 340);
    assert_true(peak.at_seconds == 2); /* the begin of the backward phase */
}

/* Between the phases other layers run: a buffer that the backward phase fills anew need not be kept, one that it reads
 * must. */
static void buffers_are_kept_between_phases_only_if_read_afterwards(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        struct hand hand;
        hand_init(&hand);
        uint32_t a = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 100), b = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 70);
        step(&hand, NONE, a);
        step(&hand, NONE, b);
        program_end_phase(&hand.program, PHASE_FORWARD);
        step(&hand, reads ? a : NONE, reads ? NONE : a);
        assert_int_equal(peak_of(&hand).bytes, reads ? 170 : 100);
    }
}

static void the_time_that_things_take_does_not_change_the_mark(void **state)
{
    (void)state;
    uint64_t bytes[2];
    for (int slow = 0; slow < 2; slow++) {
        struct hand hand;
        hand_init(&hand);
        uint32_t kv = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, 100),
                 w = buffer(&hand, TENSOR_PARTIAL, ROLE_WORKSPACE, 7);
        step(&hand, NONE, w);
        receive(&hand, 0, kv);
        step(&hand, kv, NONE);
        if (slow)
            hand.moments[1] = (struct moment){500, 500, 900};
        bytes[slow] = peak_of(&hand).bytes;
    }
    assert_int_equal(bytes[0], bytes[1]);
}

static void sizes_beyond_32_bits_are_exact(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t a = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, UINT64_C(5368709120));
    uint32_t b = buffer(&hand, TENSOR_KV, ROLE_RECEIVED, UINT64_C(5368709120));
    step(&hand, a, b);
    assert_true(peak_of(&hand).bytes == UINT64_C(10737418240));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_lives_from_first_touch_to_last),
        cmocka_unit_test(what_an_operation_leaves_is_reused_by_the_next),
        cmocka_unit_test(a_receive_owns_its_target_from_when_it_may_be_posted),
        cmocka_unit_test(a_buffer_that_is_being_sent_is_kept_until_a_kernel_has_waited_for_it),
        cmocka_unit_test(resident_buffers_live_through_every_phase_that_uses_them),
        cmocka_unit_test(outputs_of_the_forward_phase_stay_to_the_end_of_the_step),
        cmocka_unit_test(buffers_are_kept_between_phases_only_if_read_afterwards),
        cmocka_unit_test(the_time_that_things_take_does_not_change_the_mark),
        cmocka_unit_test(sizes_beyond_32_bits_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
