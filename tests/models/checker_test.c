/* The checker: every schedule that the algorithms build passes; one whose blocks, sums or contents are not right is
 * refused, in words that say what is wrong. Broken schedules are made by editing a sound one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/checked_schedule.h"
#include "tests/models/plain_buffer.h"

/* ---- sound schedules ---- */

static uint64_t random_below(uint64_t bound)
{
    return (uint64_t)rand() % bound;
}

static void random_mask(struct fixture *f)
{
    struct mask *mask = &f->experiment.mask;
    mask->kind = (enum mask_kind)random_below(4);
    if (mask->kind == MASK_WINDOW)
        mask->window = 1 + random_below(mask->seq_len);
    if (mask->kind == MASK_DOCUMENTS) {
        mask->document_starts = f->documents;
        while (f->documents[mask->n_documents] < mask->seq_len) {
            uint64_t end = f->documents[mask->n_documents] + 1 + random_below(mask->seq_len);
            f->documents[++mask->n_documents] = end < mask->seq_len ? end : mask->seq_len;
        }
    }
}

static void random_sharding(struct fixture *f, uint32_t ranks)
{
    static const enum sharding_kind kinds[] = {SHARDING_CONTIGUOUS, SHARDING_ZIGZAG, SHARDING_STRIPED,
                                               SHARDING_EXPLICIT};
    f->experiment.sharding = kinds[random_below(4)];
    uint64_t seq_len = 1 + random_below(60);
    if (f->experiment.sharding == SHARDING_ZIGZAG)
        seq_len = 2 * ranks * (1 + random_below(3));
    if (f->experiment.sharding == SHARDING_EXPLICIT) {
        uint64_t left = seq_len;
        for (uint32_t r = 0; r < ranks; r++) {
            f->counts[r] = r + 1 == ranks ? left : random_below(left + 1);
            left -= f->counts[r];
        }
        f->experiment.shard_counts = f->counts;
    }
    f->experiment.seq_len = f->experiment.mask.seq_len = seq_len;
}

static struct fixture *random_fixture(const struct algorithm_ops *algorithm)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    uint32_t ranks = 1 + (uint32_t)random_below(9);
    f->experiment = plain_experiment(1, ranks);
    random_sharding(f, ranks);
    random_mask(f);
    if (f->experiment.mask.kind == MASK_DOCUMENTS && f->experiment.sharding != SHARDING_EXPLICIT && random_below(2))
        f->experiment.sharding = SHARDING_PER_DOCUMENT;
    f->experiment.dtype = (enum dtype)random_below(DTYPE_COUNT);
    f->experiment.batch = 1 + (uint32_t)random_below(3);
    f->experiment.train = random_below(4) > 0;
    f->experiment.overlap = random_below(2);
    f->experiment.buffers = 1 + (uint32_t)random_below(4);
    f->experiment.kv_block = random_below(2) ? 0 : 1 + random_below(f->experiment.seq_len + 2);
    f->experiment.skip = (enum skip_kind)random_below(algorithm->uses & USES_SKIP_TRANSFER ? 3 : 2);
    f->experiment.split_kv = random_below(2);
    f->experiment.gradient_accumulator = random_below(2);
    f->experiment.collective = (enum collective_kind)random_below(2);
    if (algorithm == &algorithm_ring && ranks > 2 && f->experiment.buffers < 2)
        f->experiment.buffers = 2;
    build(f, algorithm);
    return f;
}

static void print_fixture(const struct fixture *f)
{
    const struct experiment *e = &f->experiment;
    print_error(
        "%s: %u ranks, seq_len %u, sharding %d, mask %d window %u, kv_block %u, buffers %u, skip %d, overlap %d, "
        "split_kv %d, train %d, gradient_accumulator %d, collective %d\n",
        f->schedule.algorithm->name, f->schedule.ranks, (unsigned)e->seq_len, e->sharding, e->mask.kind,
        (unsigned)e->mask.window, (unsigned)e->kv_block, e->buffers, e->skip, e->overlap, e->split_kv, e->train,
        e->gradient_accumulator, e->collective);
    for (uint32_t r = 0; e->sharding == SHARDING_EXPLICIT && r < f->schedule.ranks; r++)
        print_error(" %u", (unsigned)e->shard_counts[r]);
    for (size_t d = 1; d <= e->mask.n_documents; d++)
        print_error(" |%u", (unsigned)e->mask.document_starts[d]);
}

/* Three that accept whatever is asked of them; random_schedules_test.c has the others. */
static const struct algorithm_ops *some_algorithm(unsigned i)
{
    static const struct algorithm_ops *const any[] = {&algorithm_ring, &algorithm_all_gather, &algorithm_direct};
    return any[i % 3];
}

static void every_schedule_of_every_algorithm_passes(void **state)
{
    (void)state;
    srand(2);
    unsigned failed = 0;
    for (unsigned i = 0; i < 1500; i++) {
        struct fixture *f = random_fixture(some_algorithm(i));
        if (!checker_check(&f->schedule, f->programs, &f->diag) && ++failed <= 5) {
            print_fixture(f);
            diagnostics_print(&f->diag, stderr, "  ");
        }
        release(f);
    }
    assert_int_equal(failed, 0);
}

/* Under the sanitizers one of three operations of a rank, of the next rank others. */
#ifdef __SANITIZE_ADDRESS__
#define OPS_APART 3
#else
#define OPS_APART 1
#endif

/* In a schedule where every block is seen, any one operation left out is missed. (All-gather's own copy of its keys is
 * still there in the backward pass, and need not be made again.) */
static void no_operation_can_be_left_out(void **state)
{
    (void)state;
    srand(3);
    for (unsigned i = 0; i < 60; i++) {
        const struct algorithm_ops *algorithm = some_algorithm(i);
        struct fixture *f = random_fixture(algorithm);
        if (f->experiment.skip == SKIP_NONE || (algorithm == &algorithm_all_gather && f->experiment.mask.kind)) {
            release(f); /* zeros are added up */
            continue;
        }
        for (uint32_t rank = 0; rank < f->schedule.ranks; rank++) {
            struct program *program = &f->programs[rank];
            for (uint32_t op = (i + rank) % OPS_APART; op < program->n_ops; op += OPS_APART) {
                struct program whole = *program;
                struct op dropped = program->ops[op];
                bool own_copy =
                    dropped.kind == OP_CAST && program->buffers[*program_writes(program, &dropped)].tensor == TENSOR_KV;
                drop_op(program, op);
                bool passes = checker_check(&f->schedule, f->programs, &f->diag);
                insert_op(program, op, dropped);
                memcpy(program->phase_end, whole.phase_end, sizeof whole.phase_end);
                if (passes && !own_copy) {
                    print_fixture(f);
                    fail_msg("operation %u of rank %u is missed by nobody", op, rank);
                }
            }
        }
        diagnostics_fini(&f->diag);
        check_passes(f); /* the edits have all been undone */
        release(f);
    }
}

/* ---- coverage and delivery ---- */

static void dropped_gradient_return_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_direct, 12, 3);
    /* Rank 2 no longer returns its share of rank 0's gradient, and rank 0 expects none. */
    drop_op(&f->programs[2], find_message(&f->programs[2], OP_SEND, TRAFFIC_GRADIENT, 0));
    uint32_t receive = find_message(&f->programs[0], OP_RECEIVE, TRAFFIC_GRADIENT, 2);
    assert_int_equal(f->programs[0].ops[receive + 1].kind, OP_ACCUMULATE);
    drop_op(&f->programs[0], receive);
    drop_op(&f->programs[0], receive);
    check_fails(f, "(attend-backward into dq part: queries of rank 2, rows 0-3, keys of rank 0, rows 0-3) gives dK, dV "
                   "that never reach their owner, rank 0");
}

static void gradient_returned_to_the_wrong_owner_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_direct, 12, 3);
    /* Rank 2 returns to each of the others what is the other's. */
    struct program *program = &f->programs[2];
    uint32_t to_1 = find_message(program, OP_SEND, TRAFFIC_GRADIENT, 1);
    uint32_t to_0 = find_message(program, OP_SEND, TRAFFIC_GRADIENT, 0);
    program->ops[to_1].k.owner = 0;
    program->ops[to_0].k.owner = 1;
    check_fails(f, "meets another block at rank 1");
}

static void gradient_from_the_wrong_buffer_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_direct, 12, 3);
    struct program *program = &f->programs[2];
    set_access(program, find_message(program, OP_SEND, TRAFFIC_GRADIENT, 0), 0, find_buffer(program, "dkv out 0"));
    check_fails(f, "reads keys of rank 0, rows 0-3 in 'dkv out 0', which holds keys of rank 1, rows 0-3");
}

static void block_attended_twice_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[2];
    uint32_t attend = find_op(program, PHASE_FORWARD, OP_ATTEND, 1);
    struct op again[2] = {program->ops[attend], program->ops[attend + 1]};
    assert_int_equal(again[1].kind, OP_MERGE);
    insert_op(program, attend + 2, again[1]);
    insert_op(program, attend + 2, again[0]);
    check_fails(f, "queries of rank 2, rows 0-3, attend keys of rank 1, rows 0-3 twice: rank 2");
}

static void block_attended_twice_backward_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    uint32_t attend = find_op(program, PHASE_BACKWARD, OP_ATTEND_BACKWARD, 1);
    for (uint32_t i = 0; i < 3; i++) /* with both its accumulations */
        insert_op(program, attend + 3 + i, program->ops[attend + i]);
    check_fails(f, "queries of rank 1, rows 0-3, attend keys of rank 0, rows 0-3 twice: rank 1");
}

static void missing_block_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[2];
    uint32_t attend = find_op(program, PHASE_FORWARD, OP_ATTEND, 2);
    drop_op(program, attend);
    drop_op(program, attend);
    check_fails(f,
                "queries of rank 2 and keys of rank 0: 16 of 16 visible pairs are not attended in the forward phase");
}

static void block_cut_too_short_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct op *attend = &f->programs[2].ops[find_op(&f->programs[2], PHASE_FORWARD, OP_ATTEND, 1)];
    attend->k.count--;
    attend->pairs = 12;
    check_fails(f, "queries of rank 2 and keys of rank 1: 4 of 16 visible pairs are not attended in the forward phase");
}

static void partial_merged_twice_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    uint32_t merge = find_op(program, PHASE_FORWARD, OP_MERGE, 1);
    insert_op(program, merge, program->ops[merge]);
    check_fails(f,
                "(attend into partial: queries of rank 1, rows 0-3, keys of rank 0, rows 0-3) is more than once in the "
                "final O of rank 1");
}

static void state_overwritten_by_a_later_block_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[1];
    struct op *merge = &program->ops[find_op(program, PHASE_FORWARD, OP_MERGE, 1)];
    assert_int_equal(merge->n_reads, 2);
    program->accesses[merge->access + 1] = *program_writes(program, merge);
    merge->n_reads = 1; /* state = partial, not state + partial */
    check_fails(f, "keys of rank 1, rows 0-3) gives O, LSE that never reach their owner, rank 1");
}

static void wrong_pair_count_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    f->programs[0].ops[find_op(&f->programs[0], PHASE_FORWARD, OP_ATTEND, 0)].pairs = 11;
    check_fails(f, "counts 11 visible pairs, but its blocks have 10");
}

/* ---- contents ---- */

static void stale_block_in_the_backward_pass_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[2];
    uint32_t attend = find_op(program, PHASE_BACKWARD, OP_ATTEND_BACKWARD, 1);
    assert_int_equal(program->accesses[program->ops[attend].access + 1], find_buffer(program, "kv 0"));
    set_access(program, attend, 1, find_buffer(program, "kv 1"));
    check_fails(f, "reads keys of rank 1, rows 0-3 in 'kv 1', which holds keys of rank 0, rows 0-3");
}

static void read_of_what_nobody_wrote_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_direct, 8, 2);
    drop_op(&f->programs[0], find_message(&f->programs[0], OP_SEND, TRAFFIC_FORWARD_KV, 1));
    drop_op(&f->programs[1], find_message(&f->programs[1], OP_RECEIVE, TRAFFIC_FORWARD_KV, 0));
    check_fails(f, "reads keys of rank 0, rows 0-3 in 'kv 0', which holds nothing");
}

static void half_a_block_is_refused(void **state)
{
    (void)state;
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(8, 2);
    f->experiment.split_kv = true;
    build(f, &algorithm_ring);
    for (uint32_t rank = 0; rank < 2; rank++) { /* K arrives, V does not */
        struct program *program = &f->programs[rank];
        drop_op(program, 1 + find_message(program, OP_SEND, TRAFFIC_FORWARD_KV, 1 - rank));
        drop_op(program, 1 + find_message(program, OP_RECEIVE, TRAFFIC_FORWARD_KV, 1 - rank));
    }
    check_fails(f, "reads keys of rank 0, rows 0-3 in 'kv 0' (V part), which holds nothing");
}

static void gradient_of_an_unfinished_output_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make(&algorithm_ring, 12, 3);
    struct program *program = &f->programs[2];
    /* O and LSE are taken from the state before its last merge, too, and the backward pass uses that O. */
    uint64_t rows = 4, bytes = schedule_tensor_bytes(&f->schedule, TENSOR_O, DTYPE_BF16, rows, f->schedule.lanes);
    uint64_t lse_bytes = schedule_tensor_bytes(&f->schedule, TENSOR_LSE, DTYPE_FP32, rows, f->schedule.lanes);
    uint32_t early =
        plain_buffer(program, f->schedule.lanes, "early o", TENSOR_O, DTYPE_BF16, ROLE_WORKSPACE, rows, bytes);
    uint32_t lse =
        plain_buffer(program, f->schedule.lanes, "early lse", TENSOR_LSE, DTYPE_FP32, ROLE_WORKSPACE, rows, lse_bytes);
    set_access(program, find_op(program, PHASE_BACKWARD, OP_DELTA, 0), 0, early);
    uint32_t finish = find_op(program, PHASE_FORWARD, OP_FINISH, 0);
    struct op op = program->ops[finish];
    uint32_t state_read = *program_reads(program, &op); /* a copy: the program's own list may move as it grows */
    uint32_t end = program_add_op(program, op, &state_read, 1, (uint32_t[]){early, lse}, 2);
    op = program->ops[end];
    drop_op(program, end);
    insert_op(program, find_op(program, PHASE_FORWARD, OP_MERGE, 2), op);
    check_fails(f, "reads 'early o' with less or other keys in it than the final one of rank 2");
}

static struct fixture *make_in_blocks(const struct algorithm_ops *algorithm)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(8, 2);
    f->experiment.mask.kind = MASK_FULL;
    f->experiment.kv_block = 2;
    f->experiment.buffers = 1;
    build(f, algorithm);
    return f;
}

static void block_replaced_by_another_of_its_owner_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make_in_blocks(&algorithm_ring);
    struct program *program = &f->programs[1];
    struct op *attend = &program->ops[find_op(program, PHASE_FORWARD, OP_ATTEND, 3)];
    assert_int_equal(attend->k.first, 2);
    attend->k.first = 0;
    check_fails(f, "reads keys of rank 0, rows 0-1 in 'kv 0', which holds keys of rank 0, rows 2-3");
}

static void sum_with_a_gap_is_refused(void **state)
{
    (void)state;
    struct fixture *f = make_in_blocks(&algorithm_ring);
    struct program *program = &f->programs[1];
    uint32_t dkv = find_buffer(program, "dkv");
    for (uint32_t op = 0; op < program->n_ops; op++) /* a last look at dKV: the cast of rows 0-1 went elsewhere */
        if (program->ops[op].kind == OP_CAST && *program_writes(program, &program->ops[op]) == dkv) {
            uint64_t bytes = schedule_tensor_bytes(&f->schedule, TENSOR_DKV, DTYPE_BF16, 4, f->schedule.lanes);
            uint32_t copy =
                plain_buffer(program, f->schedule.lanes, "copy", TENSOR_DKV, DTYPE_BF16, ROLE_ACCUMULATOR, 4, bytes);
            set_access(program, op, 1, copy);
            break;
        }
    struct op look = {.kind = OP_CAST, .lanes = f->schedule.lanes, .k = {1, 0, 4}};
    uint64_t bytes = schedule_tensor_bytes(&f->schedule, TENSOR_DKV, DTYPE_FP32, 4, f->schedule.lanes);
    uint32_t other =
        plain_buffer(program, f->schedule.lanes, "other", TENSOR_DKV, DTYPE_FP32, ROLE_ACCUMULATOR, 4, bytes);
    program_add_op(program, look, &dkv, 1, &other, 1);
    program_end_phase(program, PHASE_BACKWARD);
    check_fails(f, "reads keys of rank 1, rows 0-3 in 'dkv', which holds keys of rank 1, rows 2-3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_of_every_algorithm_passes),
        cmocka_unit_test(no_operation_can_be_left_out),
        cmocka_unit_test(dropped_gradient_return_is_refused),
        cmocka_unit_test(gradient_returned_to_the_wrong_owner_is_refused),
        cmocka_unit_test(gradient_from_the_wrong_buffer_is_refused),
        cmocka_unit_test(block_attended_twice_is_refused),
        cmocka_unit_test(block_attended_twice_backward_is_refused),
        cmocka_unit_test(missing_block_is_refused),
        cmocka_unit_test(block_cut_too_short_is_refused),
        cmocka_unit_test(partial_merged_twice_is_refused),
        cmocka_unit_test(state_overwritten_by_a_later_block_is_refused),
        cmocka_unit_test(wrong_pair_count_is_refused),
        cmocka_unit_test(stale_block_in_the_backward_pass_is_refused),
        cmocka_unit_test(read_of_what_nobody_wrote_is_refused),
        cmocka_unit_test(half_a_block_is_refused),
        cmocka_unit_test(gradient_of_an_unfinished_output_is_refused),
        cmocka_unit_test(block_replaced_by_another_of_its_owner_is_refused),
        cmocka_unit_test(sum_with_a_gap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
