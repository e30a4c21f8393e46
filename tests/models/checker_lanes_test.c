/* The checker, where lanes and rows are dealt out: heads traded for rows, queries dealt out by item or held by all,
 * partial results that are scaled before they are summed, collectives. Broken schedules are made by editing sound ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"
#include "tests/models/checked_schedule.h"
#include "tests/models/plain_buffer.h"

/* ---- what is broken ---- */

/* Two ranks, four query heads, one KV head for all: each rank gets two of the heads, and the KV head as well. */
static const struct question ulysses = {.cp = 2,
                                        .q_heads = 4,
                                        .kv_heads = 1,
                                        .head_dim = 4,
                                        .batch = 1,
                                        .seq_len = 12,
                                        .schedule = "algorithm = ulysses\nsharding = striped"};

/* One new token of two batch items and twelve positions, on three ranks: rank 2 has no queries. */
static const struct question pass_q = {.cp = 3,
                                       .q_heads = 2,
                                       .kv_heads = 2,
                                       .head_dim = 4,
                                       .batch = 2,
                                       .seq_len = 12,
                                       .pass = "forward",
                                       .workload = "new_tokens = 1",
                                       .schedule = "algorithm = pass-q\nsharding = contiguous"};

static const struct question tree = {.cp = 2,
                                     .q_heads = 2,
                                     .kv_heads = 2,
                                     .head_dim = 4,
                                     .batch = 2,
                                     .seq_len = 12,
                                     .pass = "forward",
                                     .workload = "new_tokens = 1",
                                     .schedule = "algorithm = tree-decode"};

/* As if nothing had been entered: edits need not keep the table right. */
static void forget_collectives(struct asked *a)
{
    for (uint32_t rank = 0; rank < a->schedule.ranks; rank++) {
        a->programs[rank].n_collectives = 0;
        for (uint32_t i = 0; i < a->programs[rank].n_ops; i++)
            a->programs[rank].ops[i].collective = 0;
    }
}

static struct asked *sound(const struct question *question)
{
    struct asked *a = memory_zeroed(1, sizeof *a);
    ask(a, question);
    expect_proved(a, question->schedule);
    return a;
}

/* Some line of the checker's has all of `text` in it. */
static void refuse(struct asked *a, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool said = false;
    assert_false(checker_check(&a->schedule, a->programs, &diag));
    for (size_t i = 0; i < diag.count; i++)
        said = said || strstr(diag.lines[i], text);
    if (!said) {
        diagnostics_print(&diag, stderr, "  ");
        fail_msg("no line says '%s'", text);
    }
    diagnostics_fini(&diag);
    asked_fini(a);
    free(a);
}

/* The first operation of a kind that writes the buffer `target`. */
static uint32_t find_into(const struct program *program, enum op_kind kind, const char *target)
{
    uint32_t buffer = find_buffer(program, target);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        for (uint32_t w = 0; w < op->n_writes; w++)
            if (op->kind == kind && program_writes(program, op)[w] == buffer)
                return i;
    }
    fail_msg("no %s into '%s'", op_kind_name(kind), target);
    return 0;
}

/* The first message of a kind whose buffer is `name`. */
static uint32_t find_carrying(const struct program *program, enum op_kind kind, const char *name)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind &&
            strcmp(program->buffers[*program_reads(program, &program->ops[i])].name, name) == 0)
            return i;
    fail_msg("no %s of '%s'", op_kind_name(kind), name);
    return 0;
}

static void swap_accesses(struct program *program, uint32_t op, uint32_t i, uint32_t j)
{
    uint32_t *accesses = program->accesses + program->ops[op].access, kept = accesses[i];
    accesses[i] = accesses[j];
    accesses[j] = kept;
}

/* ---- nothing is in vain ---- */

/* Whatever is left out, somebody misses it: copies, messages, sums. */
static void no_operation_can_be_left_out(void **state)
{
    (void)state;
    const struct question usp = {.cp = 4,
                                 .q_heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 4,
                                 .batch = 2,
                                 .seq_len = 16,
                                 .schedule = "algorithm = usp\nulysses_degree = 2\nsharding = zigzag"};
    const struct question *questions[] = {&ulysses, &usp, &pass_q, &tree};
    for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
        struct asked *a = sound(questions[q]);
        forget_collectives(a);
        for (uint32_t rank = 0; rank < a->schedule.ranks; rank++) {
            struct program *program = &a->programs[rank];
            for (uint32_t op = 0; op < program->n_ops; op++) {
                struct program whole = *program;
                struct op dropped = program->ops[op];
                struct diagnostics diag;
                char what[256];
                program_describe_op(program, op, what, sizeof what);
                diagnostics_init(&diag);
                drop_op(program, op);
                if (checker_check(&a->schedule, a->programs, &diag))
                    fail_msg("rank %u, operation %u (%s) of %s is missed by nobody", rank, op, what,
                             a->schedule.algorithm->name);
                diagnostics_fini(&diag);
                insert_op(program, op, dropped);
                memcpy(program->phase_end, whole.phase_end, sizeof whole.phase_end);
            }
        }
        expect_proved(a, "the edits have all been undone");
        asked_fini(a);
        free(a);
    }
}

/* ---- lanes ---- */

static void lost_slice_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    struct op *join = &program->ops[find_into(program, OP_JOIN_LANES, "o")];
    swap_accesses(program, (uint32_t)(join - program->ops), 1, 2);
    join->n_reads = 1; /* what was joined second is now beyond its accesses */
    refuse(a, "(join-lanes into o: queries of rank 0, rows 0-5) joins slices of 2 lanes, expected all 4");
}

static void slice_joined_twice_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    set_access(program, find_into(program, OP_JOIN_LANES, "o"), 1, find_buffer(program, "o from 0"));
    refuse(a, "has two slices, 'o from 0' and 'o from 0', of one head");
}

static void slice_for_another_member_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    /* Rank 0 sends the slice that it is to keep. */
    uint32_t send = find_carrying(program, OP_SEND, "q to 1");
    set_access(program, send, 0, find_buffer(program, "q to 0"));
    program->ops[send].lanes.head = 0;
    refuse(a, "meets other lanes at rank 1");
}

static void message_beyond_its_buffers_lanes_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    set_access(program, find_carrying(program, OP_SEND, "q to 1"), 0, find_buffer(program, "q to 0"));
    refuse(a, "works on heads 2-3 of item 0, but 'q to 0' is of heads 0-1 of item 0");
}

static void lanes_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    a->programs[0].ops[0].lanes.heads = 5;
    refuse(a, "it works on lanes that do not exist");

    a = sound(&ulysses);
    a->programs[0].ops[0].lanes.items = 0;
    refuse(a, "it works on no lanes");

    a = sound(&ulysses);
    a->programs[1].buffers[find_buffer(&a->programs[1], "joined q")].lanes.head = 3;
    refuse(a, "buffer 'joined q' is of no lanes, or of lanes that do not exist");

    a = sound(&ulysses);
    struct buffer *o = &a->programs[1].buffers[find_buffer(&a->programs[1], "o")];
    o->lanes.heads = 2;
    o->bytes /= 2;
    refuse(a, "resident 'o' is of heads 0-1 of item 0, expected heads 0-3 of item 0");
}

static void attention_of_a_slice_left_out_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct op *attend = &a->programs[1].ops[find_op(&a->programs[1], PHASE_FORWARD, OP_ATTEND, 0)];
    attend->lanes.heads = 1;
    refuse(a, "queries of group 0 and keys of group 0: 78 of 78 visible pairs are not attended in the forward phase "
              "(head 3 of item 0)");
}

/* ---- KV heads that several slices share ---- */

static void share_of_a_kv_head_overwritten_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    /* Copied one after the other, instead of joined. */
    uint32_t join = find_into(program, OP_JOIN_LANES, "dkv");
    struct op copy = program->ops[join];
    drop_op(program, join);
    for (uint32_t slice = 0; slice < 2; slice++) {
        uint32_t from = find_buffer(program, slice ? "dkv from 1" : "dkv from 0"), to = find_buffer(program, "dkv");
        copy.kind = OP_CAST;
        copy.lanes = program->buffers[from].lanes;
        program_add_op(program, copy, &from, 1, &to, 1);
    }
    program_end_phase(program, PHASE_BACKWARD);
    refuse(a, "overwrites heads 2-3 of item 0 in 'dkv', but not all that share a KV head there");
}

static void gradient_of_some_lanes_of_a_kv_head_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    program->ops[find_into(program, OP_SPLIT_ROWS, "dkv to 1")].lanes.heads = 1;
    refuse(a, "reads head 0 of item 0 in 'joined dkv', but not all that share a KV head there");
}

static void share_of_a_kv_head_added_twice_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    uint32_t from = find_buffer(program, "dkv from 1"), to = find_buffer(program, "dkv");
    struct op add = program->ops[find_into(program, OP_JOIN_LANES, "dkv")];
    add.kind = OP_ACCUMULATE;
    add.lanes = program->buffers[from].lanes;
    program_add_op(program, add, (uint32_t[]){from, to}, 2, &to, 1);
    program_end_phase(program, PHASE_BACKWARD);
    refuse(a, "is more than once in the final dK of rank 0 (heads 2-3 of item 0)");
}

/* ---- joined rows ---- */

static void rows_of_another_member_are_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    swap_accesses(program, find_into(program, OP_JOIN_ROWS, "joined q"), 0, 1);
    refuse(a, "reads queries of rank 0, rows 0-5 in 'q from 1' (heads 0-1 of item 0), which holds queries of rank 1, "
              "rows 0-5");
}

static void rows_split_for_another_member_are_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    swap_accesses(program, find_into(program, OP_SPLIT_ROWS, "o to 1"), 1, 2);
    refuse(a, "reads queries of rank 1, rows 0-5 in 'o to 1' (heads 0-1 of item 0), which holds queries of rank 0, "
              "rows 0-5");
}

static void member_left_out_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    uint32_t join = find_into(program, OP_JOIN_ROWS, "joined q");
    swap_accesses(program, join, 1, 2);
    program->ops[join].n_reads = 1;
    refuse(a, "it has not one buffer for each rank of the group that has such rows");

    a = sound(&ulysses);
    program = &a->programs[0];
    program->ops[find_into(program, OP_JOIN_ROWS, "joined q")].q = (struct block){0, 0, 6};
    refuse(a, "its rows are not of a group");
}

/* The backward pass is to use the O that its owners ended with, whoever holds it in between. */
static void joined_output_that_is_not_the_final_one_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    struct program *program = &a->programs[0];
    forget_collectives(a);
    /* Attended once more, after O has been handed out. */
    uint32_t attend = find_op(program, PHASE_FORWARD, OP_ATTEND, 0);
    insert_op(program, program->phase_end[PHASE_FORWARD], program->ops[attend]);
    program->phase_end[PHASE_FORWARD]++;
    refuse(a, "reads 'joined o' with less or other keys in it than the final one of group 0 (heads 0-1 of item 0)");
}

/* ---- queries dealt out by item, or held by all ---- */

static void missing_item_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&pass_q);
    forget_collectives(a);
    /* Rank 2 does not attend its keys for item 0, and rank 0 does not wait for it. */
    struct program *from = &a->programs[2], *to = &a->programs[0];
    drop_op(from, find_into(from, OP_ATTEND, "partial 0"));
    drop_op(from, find_carrying(from, OP_SEND, "partial 0"));
    drop_op(to, find_carrying(to, OP_RECEIVE, "returned 2"));
    drop_op(to, find_op(to, PHASE_FORWARD, OP_MERGE, 2));
    refuse(a, "queries of group 0 and keys of rank 2: 3 of 3 visible pairs are not attended in the forward phase "
              "(heads 0-1 of item 0)");
}

static void result_of_another_item_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&pass_q);
    struct program *program = &a->programs[0];
    /* Rank 0 merges its result for the item of rank 1. */
    set_access(program, find_op(program, PHASE_FORWARD, OP_MERGE, 1), 0, find_buffer(program, "partial 1"));
    refuse(a, "works on heads 0-1 of item 0, but 'partial 1' is of heads 0-1 of item 1");
}

static void rank_without_the_common_output_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&tree);
    drop_op(&a->programs[1], find_op(&a->programs[1], PHASE_FORWARD, OP_NORMALIZE, 0));
    refuse(a, "gives O, LSE that never reach all their owners (7 of 14 pairs do)");
}

static void query_of_the_cached_prefix_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&pass_q);
    a->programs[0].ops[find_op(&a->programs[0], PHASE_FORWARD, OP_ATTEND, 0)].q.first--;
    refuse(a, "its queries are of group 0, rows 10-10, but queries begin with row 11");
}

/* ---- scaled sums ---- */

static void drop_collective(struct asked *a, uint32_t number)
{
    for (uint32_t rank = 0; rank < a->schedule.ranks; rank++) {
        struct program *program = &a->programs[rank];
        for (uint32_t i = program->n_ops; i-- > 0;)
            if (program->ops[i].collective == number)
                drop_op(program, i);
    }
    forget_collectives(a);
}

static void unfinished_top_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&tree);
    assert_int_equal(a->programs[0].ops[find_op(&a->programs[0], PHASE_FORWARD, OP_RAISE, 0)].collective, 1);
    drop_collective(a, 1);
    refuse(a, "(weigh into numerator: queries of group 0, rows 11-11) is scaled by 'top', which is not of all keys "
              "that its queries see");
}

static void denominator_of_other_keys_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&tree);
    drop_collective(a, 3);
    refuse(a, "divides by 'denominator', which is of other keys than its numerator");
}

/* One rank that attends its keys in two blocks, sums LSE first and corrects O afterwards. */
static struct fixture *correct_afterwards(void)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(8, 1);
    f->experiment.train = false;
    build(f, NULL);
    struct program *program = &f->programs[0];
    program_init(program, 0);
    static const struct {
        const char *name;
        enum tensor tensor;
        enum dtype dtype;
        enum buffer_role role;
    } buffers[] = {{"q", TENSOR_Q, DTYPE_BF16, ROLE_RESIDENT},
                   {"kv", TENSOR_KV, DTYPE_BF16, ROLE_RESIDENT},
                   {"o", TENSOR_O, DTYPE_BF16, ROLE_RESIDENT},
                   {"lse", TENSOR_LSE, DTYPE_FP32, ROLE_RESIDENT},
                   {"early", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE},
                   {"late", TENSOR_PARTIAL, DTYPE_BF16, ROLE_WORKSPACE}};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        plain_buffer(program, f->schedule.lanes, buffers[i].name, buffers[i].tensor, buffers[i].dtype, buffers[i].role,
                     8, schedule_tensor_bytes(&f->schedule, buffers[i].tensor, buffers[i].dtype, 8, f->schedule.lanes));
    const uint32_t q = 0, kv = 1, o = 2, lse = 3, early = 4, late = 5;
    struct op op = {.kind = OP_ATTEND, .lanes = f->schedule.lanes, .q = {0, 0, 8}, .k = {0, 0, 4}, .pairs = 26};
    program_add_op(program, op, (uint32_t[]){q, kv}, 2, &early, 1);
    op.k.first = 4;
    op.pairs = 10;
    program_add_op(program, op, (uint32_t[]){q, kv}, 2, &late, 1);
    op = (struct op){.kind = OP_SUM_LSE, .lanes = f->schedule.lanes, .q = {0, 0, 8}};
    program_add_op(program, op, &early, 1, &lse, 1);
    program_add_op(program, op, (uint32_t[]){late, lse}, 2, &lse, 1);
    op.kind = OP_CORRECT;
    program_add_op(program, op, (uint32_t[]){early, lse}, 2, &o, 1);
    program_add_op(program, op, (uint32_t[]){late, lse, o}, 3, &o, 1);
    program_end_phase(program, PHASE_FORWARD);
    return f;
}

static void correction_by_an_unfinished_lse_is_refused(void **state)
{
    (void)state;
    struct fixture *f = correct_afterwards();
    check_passes(f);
    struct program *program = &f->programs[0];
    struct op first = program->ops[4];
    drop_op(program, 4);
    insert_op(program, 3, first); /* before the second block is in LSE */
    check_fails(f, "is scaled by 'lse', which is not of all keys that its queries see, each once");

    f = correct_afterwards();
    program = &f->programs[0];
    insert_op(program, 4, program->ops[3]); /* the second block is in LSE twice */
    check_fails(f, "is scaled by 'lse', which is not of all keys that its queries see, each once");

    f = correct_afterwards();
    program = &f->programs[0];
    program->accesses[program->ops[5].access + 2] = program->accesses[program->ops[5].access + 3];
    program->ops[5].n_reads = 2; /* O is replaced, not added to */
    check_fails(f, "keys of rank 0, rows 0-3) gives O that never reach their owner, rank 0");
}

/* ---- collectives ---- */

static void collective_that_others_do_not_call_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    a->programs[0].collectives[1].call = CALL_ALL_REDUCE;
    refuse(a, "the collectives of the exchange stream do not match: rank 0 comes to collective 1, all-reduce of 2 "
              "ranks from rank 0 on, forward; rank 1, one of them, to collective 1, all-to-all of 2 ranks");

    a = sound(&ulysses);
    struct program *program = &a->programs[1];
    program->n_collectives--;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].collective > program->n_collectives)
            program->ops[i].collective = 0;
    refuse(a, "rank 1, one of them, to none");
}

/* Two rings of pairs that meet in a cycle: each rank waits for the next. */
static void collectives_that_wait_in_a_circle_are_refused(void **state)
{
    (void)state;
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(6, 3);
    f->experiment.train = false;
    build(f, &algorithm_ring);
    for (uint32_t rank = 0; rank < 3; rank++)
        for (uint32_t turn = 0; turn < 2; turn++) { /* first with the next rank, then with the one before */
            uint32_t other = (rank + 1 + turn) % 3, none[2] = {NO_BUFFER, NO_BUFFER};
            uint32_t members[2] = {rank < other ? rank : other, rank < other ? other : rank};
            program_begin_collective(&f->programs[rank], CALL_ALL_TO_ALL, STREAM_GRADIENT, 2, rank > other, members,
                                     none, none);
            program_end_collective(&f->programs[rank]);
            f->programs[rank].collectives[turn].phase = PHASE_FORWARD;
        }
    check_fails(f, "the collectives of the gradient stream do not match: rank 0 comes to collective 0");
}

static void collective_torn_apart_is_refused(void **state)
{
    (void)state;
    struct asked *a = sound(&ulysses);
    a->programs[0].ops[a->programs[0].collectives[0].first_op].collective = 0;
    refuse(a, "is of collective -1, expected 0");

    a = sound(&ulysses);
    a->programs[0].collectives[1].first_op -= 2;
    refuse(a, "rank 0, collective 1: it begins before the one before it ends");

    a = sound(&ulysses);
    a->programs[0].collectives[0].me = 1;
    refuse(a, "rank 0, collective 0: this rank is not the member that it says it is");

    a = sound(&ulysses);
    a->programs[0].lists[a->programs[0].collectives[0].sources + 1] = 999;
    refuse(a, "it names a rank or a buffer that does not exist, or a rank twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_operation_can_be_left_out),
        cmocka_unit_test(lost_slice_is_refused),
        cmocka_unit_test(slice_joined_twice_is_refused),
        cmocka_unit_test(slice_for_another_member_is_refused),
        cmocka_unit_test(message_beyond_its_buffers_lanes_is_refused),
        cmocka_unit_test(lanes_that_do_not_exist_are_refused),
        cmocka_unit_test(attention_of_a_slice_left_out_is_refused),
        cmocka_unit_test(share_of_a_kv_head_overwritten_is_refused),
        cmocka_unit_test(gradient_of_some_lanes_of_a_kv_head_is_refused),
        cmocka_unit_test(share_of_a_kv_head_added_twice_is_refused),
        cmocka_unit_test(rows_of_another_member_are_refused),
        cmocka_unit_test(rows_split_for_another_member_are_refused),
        cmocka_unit_test(member_left_out_is_refused),
        cmocka_unit_test(joined_output_that_is_not_the_final_one_is_refused),
        cmocka_unit_test(missing_item_is_refused),
        cmocka_unit_test(result_of_another_item_is_refused),
        cmocka_unit_test(rank_without_the_common_output_is_refused),
        cmocka_unit_test(query_of_the_cached_prefix_is_refused),
        cmocka_unit_test(unfinished_top_is_refused),
        cmocka_unit_test(denominator_of_other_keys_is_refused),
        cmocka_unit_test(correction_by_an_unfinished_lse_is_refused),
        cmocka_unit_test(collective_that_others_do_not_call_is_refused),
        cmocka_unit_test(collectives_that_wait_in_a_circle_are_refused),
        cmocka_unit_test(collective_torn_apart_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
