/* The algorithm ulysses against closed forms: what travels, what is computed, what is held; and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
static const char *const masks[] = {"full", "causal", "window:37", "documents:5,11,16*6"};

/* Bytes of one rank's share of seq_len rows. */
struct sizes {
    uint64_t q, kv, l;
};

static struct sizes sizes_of(const struct question *q)
{
    uint64_t rows = q->seq_len / q->cp * q->batch;
    return (struct sizes){rows * q->q_heads * q->head_dim * 2, 2 * rows * q->kv_heads * q->head_dim * 2,
                          rows * q->q_heads * 4};
}

/* One kernel over the whole sequence, on 1/P of the heads, whatever the mask and the sharding; no merge. */
static void every_rank_attends_the_whole_sequence_once(void **state)
{
    (void)state;
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned m = 0; m < 4; m++) {
            char keys[64];
            snprintf(keys, sizeof keys, "algorithm = ulysses\nsharding = %s", shardings[s]);
            struct question q = {4, 8, 2, 16, 2, 112, masks[m], NULL, NULL, keys};
            struct asked a;
            ask(&a, &q);
            for (uint32_t r = 0; r < 4; r++) {
                const struct program *program = &a.programs[r];
                assert_int_equal(program->n_collectives, 4 + 3); /* Q, KV, O, LSE; dO, dQ, dKV */
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_ATTEND), 1);
                assert_int_equal(count_ops(program, PHASE_BACKWARD, OP_ATTEND_BACKWARD), 1);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_MERGE), 0);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_SPLIT_LANES), 2);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_JOIN_ROWS), 2);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_SPLIT_ROWS), 2);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_JOIN_LANES), 2);
                for (uint32_t i = 0; i < program->n_ops; i++) {
                    const struct op *op = &program->ops[i];
                    if (!op_is_attention(op))
                        continue;
                    assert_true(lanes_equal(op->lanes, (struct lanes){2 * r, 2, 0, 2}));
                    assert_int_equal(op->q.count, 112);
                    assert_int_equal(op->k.count, 112);
                }
                static const uint64_t documents = 5 * 6 / 2 + 11 * 12 / 2 + 6 * (16 * 17 / 2);
                const uint64_t pairs[] = {112 * 112, 112 * 113 / 2, 37 * 112 - 37 * 36 / 2, documents};
                assert_int_equal(pairs_of(program, OP_ATTEND), pairs[m]);
                assert_int_equal(pairs_of(program, OP_ATTEND_BACKWARD), pairs[m]);
            }
            asked_fini(&a);
        }
    }
}

/* Forward alone: residents, joined Q, what of K and V is on its way in. Training: residents of both passes' end; with
 * them all joined tensors but O, of which delta is all that is needed, or what the forward pass kept and dO on its way
 * in. */
static void memory_is_that_of_the_tensors_in_flight(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 8; p *= 2) {
        for (uint32_t kv_heads = 8; kv_heads >= p; kv_heads /= 2) {
            for (unsigned train = 0; train < 2; train++) {
                struct question q = {p, 8, kv_heads, 32, 1, 64 * p, "causal", train ? "train" : "forward", NULL, NULL};
                q.schedule = "algorithm = ulysses\nsharding = zigzag";
                struct asked a;
                ask(&a, &q);
                struct sizes one = sizes_of(&q);
                uint64_t forward = (2 * one.q + one.kv + one.l) + 2 * one.q + one.kv + (p - 1) * one.kv / p;
                uint64_t attends = (3 * one.q + one.kv + one.l) + 3 * one.q + 2 * one.kv + 2 * one.l;
                uint64_t enters = (3 * one.q + one.kv + one.l) + (2 * one.q + one.kv + one.l) + 2 * one.q;
                uint64_t both = attends > enters ? attends : enters;
                for (uint32_t r = 0; r < p; r++)
                    assert_int_equal(peak_bytes_of_step(&a.programs[r]), train ? both : forward);
                asked_fini(&a);
            }
        }
    }
}

static void replicated_heads_are_held_by_all_who_read_them(void **state)
{
    (void)state;
    struct question q = {8, 16, 2, 32, 1, 64 * 8, "causal", "train", NULL, "algorithm = ulysses"};
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < 8; r++) {
        uint64_t joined = UINT64_C(2) * 512 * 1 * 32 * 2; /* all rows of one KV head */
        uint32_t buffer = NO_BUFFER;
        for (uint32_t i = 0; i < a.programs[r].n_buffers; i++)
            if (strcmp(a.programs[r].buffers[i].name, "joined kv") == 0)
                buffer = i;
        assert_true(buffer != NO_BUFFER);
        assert_int_equal(a.programs[r].buffers[buffer].bytes, joined);
        assert_true(lanes_equal(schedule_kv_lanes(&a.schedule, a.programs[r].buffers[buffer].lanes),
                                (struct lanes){r / 4, 1, 0, 1}));
    }
    asked_fini(&a);
}

static void uneven_and_empty_shards_are_proved(void **state)
{
    (void)state;
    static const char *const shards[] = {"3,2,7,4", "0,9,0,7", "16,0,0,0", "1,1,1,13"};
    for (unsigned i = 0; i < 4; i++) {
        char keys[96];
        snprintf(keys, sizeof keys, "algorithm = ulysses\nsharding = %s", shards[i]);
        struct question q = {4, 8, 2, 4, 2, 16, "causal", "train", NULL, keys};
        struct asked a;
        ask(&a, &q);
        expect_proved(&a, keys);
        asked_fini(&a);
    }
}

static void degrees_that_do_not_fit_the_heads_are_refused(void **state)
{
    (void)state;
    struct question q = {6, 32, 8, 16, 1, 96, NULL, NULL, NULL, "algorithm = ulysses"};
    expect_refused(&q, "algorithm 'ulysses': 'cp' = 6 ranks cannot share out 32 query and 8 KV heads");
    expect_refused(&q, "nearest: 4 or 8");
    q.cp = 64, q.seq_len = 128;
    expect_refused(&q, "nearest: 32");
    q.cp = 3, q.q_heads = 12, q.kv_heads = 4;
    expect_refused(&q, "nearest: 2 or 4");
    q.cp = 8, q.q_heads = 16, q.kv_heads = 4, q.schedule = "algorithm = ulysses\ninner = ring";
    expect_refused(&q, "'inner' has no effect with algorithm = ulysses");
    q.schedule = "algorithm = ulysses\nbuffers = 3";
    expect_refused(&q, "'buffers' has no effect with algorithm = ulysses");
    q.schedule = "algorithm = ulysses\nskip = transfer";
    expect_refused(&q, "cannot do skip = transfer");
    q.schedule = "algorithm = ulysses", q.workload = "new_tokens = 1", q.pass = "forward";
    expect_refused(&q, "deals out new tokens, but there are fewer (1) than ranks: expected at least cp = 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_attends_the_whole_sequence_once),
        cmocka_unit_test(memory_is_that_of_the_tensors_in_flight),
        cmocka_unit_test(replicated_heads_are_held_by_all_who_read_them),
        cmocka_unit_test(uneven_and_empty_shards_are_proved),
        cmocka_unit_test(degrees_that_do_not_fit_the_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
