/* Why operations began when they did, on timelines made by hand: which piece leads to which, and what it was spent on.
 * (That the pieces of any schedule add up to its step: tests/sim/random_reports_test.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "models/result/step_path.h"
#include "tests/models/plain_buffer.h"

#define RANKS 2
#define OPS_MAX 16

struct hand {
    struct program programs[RANKS];
    struct moment moments[RANKS][OPS_MAX];
    double phase_end[PHASE_COUNT];
    double issued[RANKS][OPS_MAX]; /* by the hosts */
    struct path_cost cost;         /* of any activity; seconds 0: what it took */
    struct step_path path;
    size_t next; /* piece to be looked at */
};

static void hand_init(struct hand *hand)
{
    memset(hand, 0, sizeof *hand);
    for (uint32_t r = 0; r < RANKS; r++) {
        program_init(&hand->programs[r], r);
        for (int b = 0; b < 8; b++)
            plain_buffer(&hand->programs[r], (struct lanes){0, 1, 0, 1}, "b", TENSOR_KV, DTYPE_FP32, ROLE_RECEIVED, 1,
                         4);
    }
}

/* A kernel that reads one buffer and writes another, ready at `begin`, with its turn from `move` on. */
static uint32_t kernel(struct hand *hand, uint32_t rank, enum op_kind kind, enum stream stream, uint32_t read,
                       uint32_t write, struct moment moment)
{
    struct op op = {.kind = (uint8_t)kind, .stream = (uint8_t)stream};
    uint32_t index = program_add_op(&hand->programs[rank], op, &read, 1, &write, 1);
    hand->moments[rank][index] = moment;
    return index;
}

/* From rank 1's buffer to rank 0's. */
static void message(struct hand *hand, uint32_t group, uint32_t from, uint32_t to, struct moment moment)
{
    struct op op = {.kind = OP_SEND, .stream = STREAM_EXCHANGE, .group = group, .peer = 0, .bytes = 4};
    hand->moments[1][program_add_op(&hand->programs[1], op, &from, 1, NULL, 0)] = moment;
    op.kind = OP_RECEIVE;
    op.peer = 1;
    hand->moments[0][program_add_op(&hand->programs[0], op, NULL, 0, &to, 1)] = moment;
}

static void end_phase(struct hand *hand, enum phase phase, double seconds)
{
    for (uint32_t r = 0; r < RANKS; r++)
        program_end_phase(&hand->programs[r], phase);
    hand->phase_end[phase] = seconds;
}

static struct path_cost cost_of(const void *context, struct activity activity)
{
    const struct hand *hand = context;
    const struct op *op = &hand->programs[activity.instance].ops[activity.op];
    assert_true(op->kind != OP_RECEIVE); /* a message is its send */
    const struct moment *moment = &hand->moments[activity.instance][activity.op];
    if (hand->cost.seconds > 0 || op_is_message(op))
        return hand->cost.seconds > 0 ? hand->cost
                                      : (struct path_cost){moment->end - moment->begin, moment->move - moment->begin};
    return (struct path_cost){moment->end - moment->move, 0};
}

static double issued(const void *context, struct activity activity)
{
    const struct hand *hand = context;
    return hand->issued[activity.instance][activity.op];
}

static void walk(struct hand *hand)
{
    struct ensemble ensemble;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(ensemble_init(&ensemble, hand->programs, RANKS, (struct layout){.cp = RANKS, .tp = 1, .dp = 1}, &diag));
    diagnostics_fini(&diag);
    struct moment *moments[RANKS] = {hand->moments[0], hand->moments[1]};
    struct timeline timeline = {.n_instances = RANKS, .moments = moments};
    memcpy(timeline.phase_end, hand->phase_end, sizeof timeline.phase_end);
    const struct path_input input = {
        .whole = &ensemble, .timeline = &timeline, .cost = cost_of, .issued = issued, .context = hand};
    step_path_init(&hand->path, &input);
    ensemble_fini(&ensemble);
}

static struct path_piece *expect(struct hand *hand, uint32_t rank, uint32_t op, enum path_cause cause, double begin,
                                 double end)
{
    assert_true(hand->next < hand->path.count);
    struct path_piece *piece = &hand->path.pieces[hand->next++];
    assert_int_equal(piece->activity.instance, rank);
    assert_int_equal(piece->activity.op, op);
    assert_string_equal(path_cause_name(piece->cause), path_cause_name(cause));
    assert_true(fabs(piece->begin - begin) < 1e-12);
    assert_true(fabs(piece->end - end) < 1e-12);
    return piece;
}

static void spent(const struct path_piece *piece, enum path_kind kind, double seconds)
{
    if (fabs(piece->seconds[kind] - seconds) > 1e-12)
        fail_msg("%s: %g s, expected %g", path_kind_name(kind), piece->seconds[kind], seconds);
}

static void hand_fini(struct hand *hand)
{
    assert_int_equal(hand->next, hand->path.count);
    step_path_fini(&hand->path);
    for (uint32_t r = 0; r < RANKS; r++)
        program_fini(&hand->programs[r]);
}

/* Rank 0 computes behind a message that takes longer than what it computes meanwhile. */
static void a_kernel_that_waits_for_a_block_leads_to_its_message(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 4});
    message(&hand, 0, 0, 2, (struct moment){0, 1, 6});
    uint32_t last = kernel(&hand, 0, OP_MERGE, STREAM_COMPUTE, 2, 3, (struct moment){6, 6, 9});
    end_phase(&hand, PHASE_FORWARD, 9);
    end_phase(&hand, PHASE_BACKWARD, 9);
    walk(&hand);
    struct path_piece *piece = expect(&hand, 0, 1, PATH_BY_PHASE, 0, 6);
    spent(piece, PATH_LATENCY, 1);
    spent(piece, PATH_TRANSFER, 5);
    piece = expect(&hand, 0, last, PATH_BY_HAZARD, 6, 9);
    spent(piece, PATH_MERGE, 3);
    hand_fini(&hand);
}

/* Both ended at once: the operation before it in its stream comes first. */
static void of_two_that_ended_together_the_own_stream_counts(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 6});
    message(&hand, 0, 0, 2, (struct moment){0, 1, 6});
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 2, 3, (struct moment){6, 6, 9});
    end_phase(&hand, PHASE_FORWARD, 9);
    end_phase(&hand, PHASE_BACKWARD, 9);
    walk(&hand);
    spent(expect(&hand, 0, 0, PATH_BY_PHASE, 0, 6), PATH_ATTENTION, 6);
    expect(&hand, 0, 2, PATH_BY_STREAM, 6, 9);
    hand_fini(&hand);
}

/* The message could not begin before rank 1 had computed what it sends. */
static void a_late_peer_is_found_behind_the_message(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t late = kernel(&hand, 1, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 5});
    message(&hand, 0, 1, 2, (struct moment){5, 5, 7});
    uint32_t last = kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 2, 3, (struct moment){7, 7, 8});
    end_phase(&hand, PHASE_FORWARD, 8);
    end_phase(&hand, PHASE_BACKWARD, 8);
    walk(&hand);
    expect(&hand, 1, late, PATH_BY_PHASE, 0, 5);
    expect(&hand, 0, 0, PATH_BY_PEER, 5, 7);
    expect(&hand, 0, last, PATH_BY_HAZARD, 7, 8);
    hand_fini(&hand);
}

/* Messages posted together are over together, so what waits for the first of them waits for the last. */
static void a_group_is_over_with_its_last_message(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    uint32_t group = program_new_group(&hand.programs[0]);
    assert_int_equal(group, program_new_group(&hand.programs[1]));
    message(&hand, group, 0, 2, (struct moment){0, 0, 3});
    message(&hand, group, 1, 4, (struct moment){0, 0, 7});
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 2, 3, (struct moment){7, 7, 8});
    end_phase(&hand, PHASE_FORWARD, 8);
    end_phase(&hand, PHASE_BACKWARD, 8);
    walk(&hand);
    expect(&hand, 0, 1, PATH_BY_PHASE, 0, 7);
    expect(&hand, 0, 2, PATH_BY_HAZARD, 7, 8);
    hand_fini(&hand);
}

/* Ready at 0, launched in 1 beside the other stream's kernel, which has the device until 4. */
static void a_kernel_behind_another_one_works_from_that_ones_end(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 4});
    kernel(&hand, 0, OP_CAST, STREAM_COMPUTE_2, 2, 3, (struct moment){0, 3, 9});
    end_phase(&hand, PHASE_FORWARD, 9);
    end_phase(&hand, PHASE_BACKWARD, 9);
    walk(&hand);
    expect(&hand, 0, 0, PATH_BY_PHASE, 0, 4);
    spent(expect(&hand, 0, 1, PATH_BY_TURN, 4, 9), PATH_OTHER, 5);
    hand_fini(&hand);
}

/* Nothing keeps the message but that it was called behind the kernel of its sender. */
static void a_message_called_behind_a_kernel_leads_to_it(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 1, OP_ATTEND, STREAM_COMPUTE, 3, 4, (struct moment){0, 0, 1});
    uint32_t before = kernel(&hand, 1, OP_ATTEND, STREAM_COMPUTE, 3, 4, (struct moment){1, 1, 3});
    kernel(&hand, 1, OP_ATTEND, STREAM_COMPUTE, 3, 4, (struct moment){3, 3, 5});
    message(&hand, 0, 0, 2, (struct moment){3, 4, 9});
    end_phase(&hand, PHASE_FORWARD, 9);
    end_phase(&hand, PHASE_BACKWARD, 9);
    walk(&hand);
    expect(&hand, 1, 0, PATH_BY_PHASE, 0, 1);
    expect(&hand, 1, before, PATH_BY_STREAM, 1, 3);
    expect(&hand, 0, 0, PATH_BY_TURN, 3, 9);
    hand_fini(&hand);
}

/* The host had been at it since the step began, through both phases. */
static void what_the_host_held_up_leads_to_the_begin_of_the_step(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 2});
    end_phase(&hand, PHASE_FORWARD, 2);
    uint32_t last = kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){5, 5, 6});
    hand.issued[0][last] = 5;
    end_phase(&hand, PHASE_BACKWARD, 6);
    walk(&hand);
    spent(expect(&hand, 0, PATH_NO_OP, PATH_BY_PHASE, 0, 2), PATH_HOST, 2);
    spent(expect(&hand, 0, PATH_NO_OP, PATH_BY_HOST, 2, 5), PATH_HOST, 3);
    expect(&hand, 0, last, PATH_BY_HOST, 5, 6);
    hand_fini(&hand);
}

/* Each phase from what ended it; operations of the one before are over. */
static void a_phase_goes_on_with_what_the_one_before_ended_with(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 2});
    uint32_t slowest = kernel(&hand, 1, OP_ATTEND, STREAM_COMPUTE, 0, 1, (struct moment){0, 0, 3});
    end_phase(&hand, PHASE_FORWARD, 3);
    uint32_t last = kernel(&hand, 0, OP_ATTEND_BACKWARD, STREAM_COMPUTE, 1, 2, (struct moment){3, 3, 7});
    end_phase(&hand, PHASE_BACKWARD, 7);
    walk(&hand);
    assert_int_equal(expect(&hand, 1, slowest, PATH_BY_PHASE, 0, 3)->phase, PHASE_FORWARD);
    assert_int_equal(expect(&hand, 0, last, PATH_BY_PHASE, 3, 7)->phase, PHASE_BACKWARD);
    hand_fini(&hand);
}

/* More than they take alone, and than a message's latency, is somebody else's doing. */
static void time_beyond_what_they_take_alone_is_told_apart(void **state)
{
    (void)state;
    struct hand hand;
    hand_init(&hand);
    hand.cost = (struct path_cost){.seconds = 3, .start = 1};
    message(&hand, 0, 0, 2, (struct moment){0, 4, 10});
    kernel(&hand, 0, OP_ATTEND, STREAM_COMPUTE, 2, 3, (struct moment){10, 10, 15});
    end_phase(&hand, PHASE_FORWARD, 15);
    end_phase(&hand, PHASE_BACKWARD, 15);
    walk(&hand);
    struct path_piece *piece = expect(&hand, 0, 0, PATH_BY_PHASE, 0, 10);
    spent(piece, PATH_LATENCY, 1);
    spent(piece, PATH_WAITING, 3);
    spent(piece, PATH_TRANSFER, 2);
    spent(piece, PATH_SHARED, 4);
    piece = expect(&hand, 0, 1, PATH_BY_HAZARD, 10, 15);
    spent(piece, PATH_START, 1);
    spent(piece, PATH_ATTENTION, 2);
    spent(piece, PATH_SLOWED, 2);
    hand_fini(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_that_waits_for_a_block_leads_to_its_message),
        cmocka_unit_test(of_two_that_ended_together_the_own_stream_counts),
        cmocka_unit_test(a_late_peer_is_found_behind_the_message),
        cmocka_unit_test(a_group_is_over_with_its_last_message),
        cmocka_unit_test(a_kernel_behind_another_one_works_from_that_ones_end),
        cmocka_unit_test(a_message_called_behind_a_kernel_leads_to_it),
        cmocka_unit_test(what_the_host_held_up_leads_to_the_begin_of_the_step),
        cmocka_unit_test(a_phase_goes_on_with_what_the_one_before_ended_with),
        cmocka_unit_test(time_beyond_what_they_take_alone_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
