/* The checker: messages whose ends do not fit, groups that disturb each other, operations that are no operations.
 * Broken schedules are made by editing a sound one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/checked_schedule.h"
#include "tests/models/plain_buffer.h"

/* ---- messages ---- */

static void receive_with_other_bytes_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    f->programs[1].ops[find_message(&f->programs[1], OP_RECEIVE, TRAFFIC_FORWARD_KV, 0)].bytes -= 64;
    check_fails(f, "has another size than its block: 4 rows of KV in bf16 are 256 bytes");
}

static void receive_of_a_shorter_block_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct op *receive = &f->programs[1].ops[find_message(&f->programs[1], OP_RECEIVE, TRAFFIC_FORWARD_KV, 0)];
    receive->k.count--;
    receive->bytes -= 64;
    check_fails(f, "keys of rank 0, rows 0-3) meets other bytes at rank 1, operation");
}

static void receive_of_another_block_with_equal_bytes_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    f->programs[1].ops[find_message(&f->programs[1], OP_RECEIVE, TRAFFIC_FORWARD_KV, 0)].k.owner = 2;
    check_fails(f, "keys of rank 0, rows 0-3) meets another block at rank 1, operation");
}

static void receive_in_another_type_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    for (uint32_t i = 0; i < f->programs[1].n_buffers; i++)
        if (f->programs[1].buffers[i].tensor == TENSOR_KV)
            f->programs[1].buffers[i].dtype = DTYPE_FP16;
    check_fails(f, "meets another tensor or type at rank 1");
}

static void send_of_a_block_that_is_not_held_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[0];
    uint32_t relay = 2 + find_message(program, OP_SEND, TRAFFIC_FORWARD_KV, 1);
    while (program->ops[relay].kind != OP_SEND)
        relay++;
    uint32_t empty = plain_buffer(program, f->schedule.lanes, "kv none", TENSOR_KV, DTYPE_BF16, ROLE_RECEIVED, 4, 256);
    set_access(program, relay, 0, empty);
    check_fails(f, "reads keys of rank 2, rows 0-3 in 'kv none', which holds nothing");
}

static void unmatched_send_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    drop_op(&f->programs[1], find_message(&f->programs[1], OP_RECEIVE, TRAFFIC_GRADIENT, 0));
    check_fails(f, "no rank posts the other end of 'send dkv sum");
}

static void cycle_of_blocking_sends_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
        for (uint32_t op = 0; op < f->programs[rank].n_ops; op++)
            f->programs[rank].ops[op].group = 0; /* every rank sends, and only then receives */
    check_fails(f, "deadlock in the forward phase");
}

static void read_of_a_buffer_being_overwritten_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    /* In round 2, the block that is passed on and the one that arrives share a buffer. */
    uint32_t receive = 1 + find_message(program, OP_RECEIVE, TRAFFIC_FORWARD_KV, 0);
    while (program->ops[receive].kind != OP_RECEIVE)
        receive++;
    set_access(program, receive, 0, find_buffer(program, "kv 0"));
    check_fails(f, "overwrites 'kv 0' while operation");
}

static void two_writes_of_one_buffer_in_a_group_are_refused(void **state)
{
    (void)state;
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(12, 3);
    f->experiment.collective = COLLECTIVE_DIRECT;
    build(f, &algorithm_all_gather);
    struct program *program = &f->programs[0];
    set_access(program, find_message(program, OP_RECEIVE, TRAFFIC_FORWARD_KV, 1), 0, find_buffer(program, "kv 0.2"));
    check_fails(f, "of the same group (receive kv 0.2");
}

static void group_torn_apart_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[0];
    uint32_t send = find_message(program, OP_SEND, TRAFFIC_FORWARD_KV, 1);
    uint32_t later = find_message(program, OP_SEND, TRAFFIC_REPLAY_KV, 1);
    program->ops[later].group = program->ops[send].group;
    check_fails(f, "is apart from the rest of its group");
}

/* ---- form ---- */

static void unsound_forms_are_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    f->programs[0].ops[0].peer = 0;
    check_fails(f, "rank 0, operation 0: its peer is its own rank, or no rank");

    f = make(&algorithm_ring, 12, 3);
    set_access(&f->programs[0], 0, 0, 999);
    check_fails(f, "names a buffer that does not exist");

    f = make(&algorithm_ring, 12, 3);
    set_access(&f->programs[0], find_op(&f->programs[0], PHASE_FORWARD, OP_ATTEND, 0), 0,
               find_buffer(&f->programs[0], "kv"));
    check_fails(f, "it has not one buffer of each tensor");

    f = make(&algorithm_ring, 12, 3);
    f->programs[0].ops[find_op(&f->programs[0], PHASE_FORWARD, OP_ATTEND, 0)].k.count = 5;
    check_fails(f, "its keys are of rank 0, rows 0-4, which has 4 rows");

    f = make(&algorithm_ring, 12, 3);
    f->programs[0].ops[0].traffic = TRAFFIC_OTHER;
    check_fails(f, "counts KV of the forward phase as 'other' traffic");

    f = make(&algorithm_ring, 12, 3);
    f->programs[0].buffers[0].bytes++;
    check_fails(f, "buffer 'q' has 257 bytes, but 4 rows of Q in bf16 are 256");

    f = make(&algorithm_ring, 12, 3);
    f->programs[0].phase_end[PHASE_BACKWARD]--;
    check_fails(f, "its phases are not its operations");

    f = make(&algorithm_ring, 12, 3);
    f->programs[0].buffers[find_buffer(&f->programs[0], "o")].role = ROLE_WORKSPACE;
    check_fails(f, "rank 0 has no resident O");
}

static void unsound_buffers_are_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct buffer *buffer = &f->programs[1].buffers[find_buffer(&f->programs[1], "kv 0")];
    buffer->rows = 3;
    buffer->bytes = buffer->bytes / 4 * 3;
    check_fails(f, "needs 4 rows in 'kv 0', which has 3");

    f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    set_access(program, find_message(program, OP_RECEIVE, TRAFFIC_FORWARD_KV, 0), 0, find_buffer(program, "kv"));
    check_fails(f, "uses 'kv' for rows of rank 0, but it is resident: for its own rank's");

    f = make(&algorithm_ring, 12, 3);
    f->programs[1].buffers[find_buffer(&f->programs[1], "dq sum")].role = ROLE_RESIDENT;
    check_fails(f, "rank 1: 'dq sum' is its second resident dQ, expected one");
}

static void operations_on_other_tensors_are_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    set_access(program, find_op(program, PHASE_FORWARD, OP_ATTEND, 0), 0, find_buffer(program, "do"));
    check_fails(f, "its kind does not read these tensors");

    f = make(&algorithm_ring, 12, 3);
    program = &f->programs[1];
    set_access(program, find_op(program, PHASE_FORWARD, OP_ATTEND, 0), 2, find_buffer(program, "state"));
    check_fails(f, "its kind does not write these tensors");

    f = make(&algorithm_ring, 12, 3);
    program = &f->programs[1];
    set_access(program, find_op(program, PHASE_BACKWARD, OP_ACCUMULATE, 0), 0, find_buffer(program, "dkv part"));
    check_fails(f, "its source and its target are different tensors");

    f = make(&algorithm_ring, 12, 3);
    program = &f->programs[1];
    struct buffer sum = program->buffers[find_buffer(program, "state")];
    uint32_t other =
        plain_buffer(program, f->schedule.lanes, "other", sum.tensor, sum.dtype, sum.role, sum.rows, sum.bytes);
    set_access(program, find_op(program, PHASE_FORWARD, OP_MERGE, 1), 1, other);
    check_fails(f, "it reads one state and writes another");
}

static void operations_out_of_place_are_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    program->ops[find_op(program, PHASE_FORWARD, OP_ATTEND, 0)].group = program_new_group(program);
    check_fails(f, "is in a group, but no message");

    f = make(&algorithm_ring, 12, 3);
    f->programs[1].phase_end[PHASE_FORWARD] = f->programs[1].n_ops;
    check_fails(f, "it attends in the wrong phase");

    f = make(&algorithm_ring, 12, 3);
    f->experiment.train = false;
    check_fails(f, "it is in the backward phase of a forward-only schedule");
}

static void ten_problems_are_shown_and_the_rest_counted(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 64, 8);
    for (uint32_t rank = 0; rank < 8; rank++)
        for (uint32_t op = 0; op < f->programs[rank].n_ops; op++)
            if (f->programs[rank].ops[op].kind == OP_ATTEND)
                f->programs[rank].ops[op].pairs += 1;
    assert_false(checker_check(&f->schedule, f->programs, &f->diag));
    assert_int_equal(f->diag.count, 11);
    assert_string_equal(f->diag.lines[10], "and 26 more problems"); /* 8 * 9 / 2 blocks */
    assert_string_equal(f->diag.lines[0],
                        "rank 0, operation 2 (attend into o: queries of rank 0, rows 0-7, keys of rank "
                        "0, rows 0-7) counts 37 visible pairs, but its blocks have 36");
    release(f);
}

/* ---- queries may travel as well ---- */

static uint32_t add_buffer(struct fixture *f, uint32_t rank, const char *name, enum tensor tensor, enum dtype dtype,
                           enum buffer_role role)
{
    return plain_buffer(&f->programs[rank], f->schedule.lanes, name, tensor, dtype, role, 4,
                        schedule_tensor_bytes(&f->schedule, tensor, dtype, 4, f->schedule.lanes));
}

static uint32_t add_message(struct fixture *f, uint32_t rank, enum op_kind kind, uint32_t group, uint32_t owner,
                            uint32_t buffer)
{
    struct program *program = &f->programs[rank];
    const struct buffer *held = &program->buffers[buffer];
    struct op op = {.kind = (uint8_t)kind,
                    .lanes = f->schedule.lanes,
                    .traffic = TRAFFIC_OTHER,
                    .part = PART_ALL,
                    .group = group,
                    .q = {owner, 0, 4},
                    .peer = 1 - rank,
                    .bytes = held->bytes};
    return program_add_op(program, op, &buffer, kind == OP_SEND, &buffer, kind == OP_RECEIVE);
}

/* Two ranks, each attending its own keys: to its own queries and to the other's, whose partial result it sends back. */
static struct fixture *pass_queries(void)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(8, 2);
    f->experiment.mask.kind = MASK_FULL;
    f->experiment.train = false;
    build(f, NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct program *program = &f->programs[rank];
        program_init(program, rank);
        uint32_t q = add_buffer(f, rank, "q", TENSOR_Q, DTYPE_BF16, ROLE_RESIDENT);
        uint32_t kv = add_buffer(f, rank, "kv", TENSOR_KV, DTYPE_BF16, ROLE_RESIDENT);
        uint32_t o = add_buffer(f, rank, "o", TENSOR_O, DTYPE_BF16, ROLE_RESIDENT);
        uint32_t lse = add_buffer(f, rank, "lse", TENSOR_LSE, DTYPE_FP32, ROLE_RESIDENT);
        uint32_t guest = add_buffer(f, rank, "guest q", TENSOR_Q, DTYPE_BF16, ROLE_RECEIVED);
        uint32_t part = add_buffer(f, rank, "part", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE);
        uint32_t back = add_buffer(f, rank, "part back", TENSOR_PARTIAL, DTYPE_BF16, ROLE_RECEIVED);
        uint32_t sum = add_buffer(f, rank, "state", TENSOR_STATE, DTYPE_FP32, ROLE_ACCUMULATOR);
        struct block own = {rank, 0, 4}, other = {1 - rank, 0, 4};
        uint32_t group = program_new_group(program);
        add_message(f, rank, OP_SEND, group, rank, q);
        add_message(f, rank, OP_RECEIVE, group, 1 - rank, guest);
        struct op attend = {.kind = OP_ATTEND, .lanes = f->schedule.lanes, .q = own, .k = own, .pairs = 16},
                  merge = {.kind = OP_MERGE, .lanes = f->schedule.lanes, .q = own};
        program_add_op(program, attend, (uint32_t[]){q, kv}, 2, &part, 1);
        program_add_op(program, merge, &part, 1, &sum, 1);
        attend.q = other;
        program_add_op(program, attend, (uint32_t[]){guest, kv}, 2, &part, 1);
        group = program_new_group(program);
        add_message(f, rank, OP_SEND, group, 1 - rank, part);
        add_message(f, rank, OP_RECEIVE, group, rank, back);
        program_add_op(program, merge, (uint32_t[]){back, sum}, 2, &sum, 1);
        struct op finish = {.kind = OP_FINISH, .lanes = f->schedule.lanes, .q = own};
        program_add_op(program, finish, &sum, 1, (uint32_t[]){o, lse}, 2);
        program_end_phase(program, PHASE_FORWARD);
    }
    return f;
}

static void travelling_queries_pass(void **state)
{
    (void)state;
    struct fixture *f = pass_queries();
    check_passes(f);
    release(f);
}

static void result_of_another_ranks_queries_is_refused(void **state)
{
    (void)state;
    struct fixture *f = pass_queries();
    /* Rank 1 merges the partial that it computed for rank 0 into its own state. */
    struct program *program = &f->programs[1];
    set_access(program, find_op(program, PHASE_FORWARD, OP_MERGE, 1), 0, find_buffer(program, "part"));
    check_fails(f, "reads queries of rank 1, rows 0-3 in 'part', which holds queries of rank 0, rows 0-3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive_with_other_bytes_is_refused),
        cmocka_unit_test(receive_of_a_shorter_block_is_refused),
        cmocka_unit_test(receive_of_another_block_with_equal_bytes_is_refused),
        cmocka_unit_test(receive_in_another_type_is_refused),
        cmocka_unit_test(send_of_a_block_that_is_not_held_is_refused),
        cmocka_unit_test(unmatched_send_is_refused),
        cmocka_unit_test(cycle_of_blocking_sends_is_refused),
        cmocka_unit_test(read_of_a_buffer_being_overwritten_is_refused),
        cmocka_unit_test(two_writes_of_one_buffer_in_a_group_are_refused),
        cmocka_unit_test(group_torn_apart_is_refused),
        cmocka_unit_test(unsound_forms_are_refused),
        cmocka_unit_test(unsound_buffers_are_refused),
        cmocka_unit_test(operations_on_other_tensors_are_refused),
        cmocka_unit_test(operations_out_of_place_are_refused),
        cmocka_unit_test(ten_problems_are_shown_and_the_rest_counted),
        cmocka_unit_test(travelling_queries_pass),
        cmocka_unit_test(result_of_another_ranks_queries_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
