/* Where a rank's time goes, on timelines made by hand. Rank 0 is measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/execution.h"
#include "tests/models/hand.h"
#include "tests/models/plain_buffer.h"

/* Both ranks with eight buffers. */
static void hand_make(struct hand *hand)
{
    hand_init(hand);
    for (uint32_t r = 0; r < 2; r++)
        for (int b = 0; b < 8; b++)
            plain_buffer(&hand->programs[r], (struct lanes){0, 1, 0, 1}, "b", TENSOR_KV, DTYPE_FP32, ROLE_RECEIVED, 1,
                         4);
}

static uint32_t local(struct hand *hand, enum stream stream, uint32_t read, uint32_t write, double begin, double end)
{
    struct op op = {.kind = stream_computes(stream) ? OP_ATTEND : OP_ACCUMULATE, .stream = (uint8_t)stream};
    return hand_add(hand, op, read, write, begin, end);
}

static void receive(struct hand *hand, enum stream stream, uint32_t group, uint32_t write, double begin, double end)
{
    hand_receive(hand, (struct op){.stream = (uint8_t)stream, .group = group}, write, begin, end);
}

/* Measures rank 0, with phases that end at `forward` and `backward`, and checks what must always hold. */
static struct rank_time measure(struct hand *hand, double forward, double backward)
{
    if (hand->programs[0].phase_end[PHASE_FORWARD] == 0)
        end_phase(hand, PHASE_FORWARD);
    end_phase(hand, PHASE_BACKWARD);
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct execution *execution = execution_create(hand->programs, 2, 1, &diag);
    assert_non_null(execution);
    struct rank_time time;
    const double phase_end[PHASE_COUNT] = {forward, backward};
    struct rank_ops ops;
    rank_ops_init(&ops, &ensemble_shape(execution_ensemble(execution), 0)->order);
    rank_time_init(&time, &ops, (struct instance_times){.moments = hand->moments}, phase_end);
    rank_ops_fini(&ops);
    execution_destroy(execution);
    hand_fini(hand);
    assert_true(time.compute_seconds + time.exposed_seconds + time.idle_seconds == backward);
    assert_true(time.overlapped_seconds <= time.compute_seconds);
    assert_true(time.overlapped_seconds <= time.communication_seconds);
    assert_true(time.idle_seconds >= 0);
    return time;
}

static void waiting_for_a_late_peer_is_idle_and_for_a_message_under_way_exposed(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 3, 7);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 2);
    uint32_t waits = local(&hand, STREAM_COMPUTE, 2, 1, 7, 9);
    struct rank_time time = measure(&hand, 12, 12);
    assert_true(time.compute_seconds == 4);
    assert_true(time.communication_seconds == 4);
    assert_true(time.overlapped_seconds == 0);
    assert_true(time.exposed_seconds == 4);
    assert_true(time.idle_seconds == 1 + 3);
    assert_true(time.before[waits].exposed == 4);
    assert_true(time.before[waits].idle == 1);
    assert_true(time.seconds == 9);
    rank_time_fini(&time);
}

static void what_runs_behind_a_kernel_is_overlapped(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 1, 7);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 5);
    local(&hand, STREAM_COMPUTE, 2, 1, 7, 9);
    struct rank_time time = measure(&hand, 9, 9);
    assert_true(time.overlapped_seconds == 4);
    assert_true(time.exposed_seconds == 2);
    assert_true(time.idle_seconds == 0);
    rank_time_fini(&time);
}

static void a_message_that_nobody_waits_for_is_not_exposed(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    receive(&hand, STREAM_GRADIENT, 0, 3, 2, 6);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 4, 5);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 2);
    local(&hand, STREAM_COMPUTE, 2, 1, 5, 8);
    struct rank_time time = measure(&hand, 8, 8);
    assert_true(time.communication_seconds == 4);
    assert_true(time.exposed_seconds == 1);
    assert_true(time.idle_seconds == 2);
    rank_time_fini(&time);
}

/* The kernel reads what an addition in the exchange stream wrote, which adds what came in the gradient stream. */
static void waiting_through_another_stream_counts(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 1);
    receive(&hand, STREAM_GRADIENT, 0, 3, 2, 4);
    local(&hand, STREAM_EXCHANGE, 3, 4, 4, 5);
    local(&hand, STREAM_COMPUTE, 4, 1, 5, 6);
    struct rank_time time = measure(&hand, 6, 6);
    assert_true(time.communication_seconds == 2);
    assert_true(time.exposed_seconds == 2);
    assert_true(time.idle_seconds == 1);
    rank_time_fini(&time);
}

/* As a reduce-scatter adds what arrives: with an infinitely fast network nothing would be exposed. */
static void a_sum_beside_the_compute_stream_is_compute_and_never_exposed(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 4);
    receive(&hand, STREAM_GRADIENT, 0, 3, 1, 3);
    local(&hand, STREAM_GRADIENT, 3, 4, 3, 6); /* half of it behind the kernel */
    receive(&hand, STREAM_EXCHANGE, 0, 2, 5, 8);
    uint32_t waits = local(&hand, STREAM_COMPUTE, 2, 1, 9, 10);
    local(&hand, STREAM_GRADIENT, 3, 4, 11, 12);
    struct rank_time time = measure(&hand, 13, 13);
    assert_true(time.compute_seconds == 4 + 2 + 1 + 1);
    assert_true(time.communication_seconds == 2 + 3);
    assert_true(time.overlapped_seconds == 2 + 1);
    assert_true(time.exposed_seconds == 2);
    assert_true(time.before[waits].exposed == 2);
    assert_true(time.before[waits].idle == 1);
    assert_true(time.tail[PHASE_BACKWARD].idle == 0 && time.tail[PHASE_FORWARD].idle == 2);
    assert_true(time.idle_seconds == 3);
    rank_time_fini(&time);
}

static void waiting_for_one_of_a_group_is_waiting_for_all(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    uint32_t group = program_new_group(&hand.programs[0]);
    program_new_group(&hand.programs[1]);
    receive(&hand, STREAM_EXCHANGE, group, 2, 1, 2);
    receive(&hand, STREAM_EXCHANGE, group, 3, 3, 5);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 1);
    local(&hand, STREAM_COMPUTE, 2, 1, 5, 6);
    struct rank_time time = measure(&hand, 6, 6);
    assert_true(time.exposed_seconds == 3);
    assert_true(time.idle_seconds == 1);
    rank_time_fini(&time);
}

static void without_overlap_messages_of_the_compute_stream_are_exposed(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 1);
    receive(&hand, STREAM_COMPUTE, 0, 2, 2, 5);
    local(&hand, STREAM_COMPUTE, 0, 1, 5, 6);
    struct rank_time time = measure(&hand, 6, 6);
    assert_true(time.compute_seconds == 2);
    assert_true(time.communication_seconds == 3);
    assert_true(time.exposed_seconds == 3);
    assert_true(time.idle_seconds == 1);
    rank_time_fini(&time);
}

static void behind_the_last_kernel_of_a_phase_all_transfers_are_exposed_and_the_rest_is_idle(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 2);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 1, 4);
    receive(&hand, STREAM_GRADIENT, 0, 3, 5, 6);
    end_phase(&hand, PHASE_FORWARD);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 8, 9);
    local(&hand, STREAM_COMPUTE, 2, 1, 10, 12);
    struct rank_time time = measure(&hand, 8, 13);
    assert_true(time.compute_seconds == 4);
    assert_true(time.exposed_seconds == 2 + 1 + 1);
    assert_true(time.idle_seconds == 1 + 2 + 1 + 1);
    rank_time_fini(&time);
}

static void a_rank_without_kernels_is_exposed_while_its_messages_move(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 1, 4);
    struct rank_time time = measure(&hand, 10, 10);
    assert_true(time.exposed_seconds == time.communication_seconds);
    assert_true(time.exposed_seconds == 3);
    assert_true(time.idle_seconds == 7);
    rank_time_fini(&time);
}

/* The second kernel is launched, and waits, while the first runs; a third follows when both are done. */
static void kernels_of_two_streams_that_overlap_are_computing_once(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 1, 9);
    uint32_t first = local(&hand, STREAM_COMPUTE, 0, 1, 0, 4), third = local(&hand, STREAM_COMPUTE, 2, 1, 9, 10);
    uint32_t second = local(&hand, STREAM_COMPUTE_2, 0, 3, 1, 7);
    struct rank_time time = measure(&hand, 10, 10);
    assert_true(time.compute_seconds == 8);
    assert_true(time.overlapped_seconds == 6);
    assert_true(time.exposed_seconds == 2);
    assert_true(time.before[third].exposed == 2 && time.before[second].exposed == 0);
    assert_true(time.idle_seconds == 0);
    assert_int_equal(time.n_kernels[PHASE_FORWARD], 3);
    assert_int_equal(time.n_kernels[PHASE_BACKWARD], 0);
    assert_int_equal(time.kernels[0], first);
    assert_int_equal(time.kernels[1], second);
    assert_int_equal(time.kernels[2], third);
    rank_time_fini(&time);
}

/* In the gap from 2 to 6 the compute stream waits for a late peer, whose message moves from 5 on, the other one for a
 * message that moves from 3 to 8, and nobody for one that moves from 2 to 3. */
static void what_either_compute_stream_waits_for_is_exposed(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    local(&hand, STREAM_COMPUTE, 0, 1, 0, 2);
    receive(&hand, STREAM_GRADIENT, 0, 5, 2, 3);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 5, 6);
    uint32_t waits = local(&hand, STREAM_COMPUTE, 2, 1, 6, 7);
    receive(&hand, STREAM_COMPUTE_2, 0, 3, 3, 8);
    uint32_t other = local(&hand, STREAM_COMPUTE_2, 3, 4, 8, 9);
    struct rank_time time = measure(&hand, 9, 9);
    assert_true(time.before[waits].exposed == 3);
    assert_true(time.before[waits].idle == 1);
    assert_true(time.before[other].exposed == 1);
    assert_true(time.exposed_seconds == 4);
    assert_true(time.idle_seconds == 1);
    rank_time_fini(&time);
}

/* The other stream's next kernel is far ahead, and none of its messages has begun in the first gaps. */
static void a_compute_stream_that_waits_long_is_looked_at_in_every_gap(void **state)
{
    (void)state;
    struct hand hand;
    hand_make(&hand);
    for (int i = 0; i < 3; i++)
        local(&hand, STREAM_COMPUTE, 0, 1, 4 * i, 4 * i + 1);
    receive(&hand, STREAM_EXCHANGE, 0, 2, 2, 3);
    receive(&hand, STREAM_EXCHANGE, 0, 3, 6, 10);
    uint32_t last = local(&hand, STREAM_COMPUTE_2, 3, 4, 10, 12);
    struct rank_time time = measure(&hand, 12, 12);
    assert_true(time.before[1].exposed == 1 && time.before[1].idle == 2);
    assert_true(time.before[2].exposed == 2 && time.before[2].idle == 1);
    assert_true(time.before[last].exposed == 1);
    assert_true(time.compute_seconds == 5);
    assert_true(time.exposed_seconds == 4);
    rank_time_fini(&time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_a_late_peer_is_idle_and_for_a_message_under_way_exposed),
        cmocka_unit_test(what_runs_behind_a_kernel_is_overlapped),
        cmocka_unit_test(a_message_that_nobody_waits_for_is_not_exposed),
        cmocka_unit_test(waiting_through_another_stream_counts),
        cmocka_unit_test(a_sum_beside_the_compute_stream_is_compute_and_never_exposed),
        cmocka_unit_test(waiting_for_one_of_a_group_is_waiting_for_all),
        cmocka_unit_test(without_overlap_messages_of_the_compute_stream_are_exposed),
        cmocka_unit_test(behind_the_last_kernel_of_a_phase_all_transfers_are_exposed_and_the_rest_is_idle),
        cmocka_unit_test(a_rank_without_kernels_is_exposed_while_its_messages_move),
        cmocka_unit_test(kernels_of_two_streams_that_overlap_are_computing_once),
        cmocka_unit_test(what_either_compute_stream_waits_for_is_exposed),
        cmocka_unit_test(a_compute_stream_that_waits_long_is_looked_at_in_every_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
