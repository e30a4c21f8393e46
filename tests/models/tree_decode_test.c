/* Tree decoding against closed forms: three all-reduces whose bytes know nothing of the sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

static void ask_for(struct asked *a, unsigned p, unsigned seq_len, const char *workload, const char *keys)
{
    char forward[160], schedule[160];
    snprintf(forward, sizeof forward, "pass = forward\n%s", workload);
    snprintf(schedule, sizeof schedule, "algorithm = tree-decode\n%s", keys);
    ask_text(a, asked_text(p, seq_len, forward, schedule));
}

/* B T Hq (d + 2) numbers in fp32: to P-1 others directly, or 2 (P-1)/P of them around a ring. */
static void bytes_are_those_of_three_small_sums(void **state)
{
    (void)state;
    static const unsigned lengths[] = {512, 8192, 1 << 20};
    for (unsigned p = 2; p <= 8; p *= 2) {
        for (unsigned trial = 0; trial < 12; trial++) {
            unsigned batch = 1 + trial / 6 * 2, fresh = trial / 3 % 2 ? 3 : 1;
            char workload[64];
            snprintf(workload, sizeof workload, "new_tokens = %u\nbatch = %u", fresh, batch);
            for (unsigned ring = 0; ring < 2; ring++) {
                struct asked a;
                ask_for(&a, p, lengths[trial % 3], workload, ring ? "collective = ring" : "collective = direct");
                asked_check(&a);
                uint64_t numbers = (uint64_t)batch * fresh * 32 * (128 + 2);
                for (unsigned r = 0; r < p; r++) {
                    const struct program *program = &a.programs[r];
                    struct sent sent = sent_by(program);
                    assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], 0);
                    assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_OTHER],
                                     4 * numbers * (ring ? 2u : p) * (p - 1) / p);
                    assert_int_equal(sent.messages[PHASE_FORWARD][TRAFFIC_OTHER], 3 * (ring ? 2u : 1u) * (p - 1));
                    assert_int_equal(program->n_collectives, 3);
                    for (uint32_t i = 0; i < 3; i++)
                        assert_int_equal(program->collectives[i].call, CALL_ALL_REDUCE);
                }
                asked_fini(&a);
            }
        }
    }
}

/* T Pc + T (T + 1) / 2, of every item, over all ranks; each in one kernel, on all lanes. */
static void each_rank_attends_its_own_keys_once(void **state)
{
    (void)state;
    static const char *const shardings[] = {"contiguous", "striped"};
    for (unsigned p = 1; p <= 9; p++) {
        for (int s = 0; s < 2; s++) {
            char keys[64];
            snprintf(keys, sizeof keys, "sharding = %s", shardings[s]);
            struct asked a;
            ask_for(&a, p, 1000, "new_tokens = 5\nbatch = 2", keys);
            asked_check(&a);
            uint64_t pairs = 0;
            for (unsigned r = 0; r < p; r++) {
                assert_int_equal(count_ops(&a.programs[r], PHASE_FORWARD, OP_ATTEND), 1);
                assert_int_equal(count_ops(&a.programs[r], PHASE_FORWARD, OP_TOP), p > 1);
                assert_int_equal(count_ops(&a.programs[r], PHASE_FORWARD, OP_NORMALIZE), p > 1);
                uint32_t attend = 0;
                while (a.programs[r].ops[attend].kind != OP_ATTEND)
                    attend++;
                assert_true(lanes_equal(a.programs[r].ops[attend].lanes, (struct lanes){0, 32, 0, 2}));
                pairs += a.programs[r].ops[attend].pairs;
            }
            assert_int_equal(pairs, 5 * 995 + 5 * 6 / 2);
            asked_fini(&a);
        }
    }
}

/* A rank outside the window attends one key, in vain, for the neutral element. */
static void a_rank_that_nobody_sees_contributes_nothing(void **state)
{
    (void)state;
    struct asked a;
    ask_for(&a, 4, 1000, "new_tokens = 1\nmask = window:10", "");
    asked_check(&a);
    unsigned unseen = 0;
    for (unsigned r = 0; r < 4; r++) {
        const struct op *op = &a.programs[r].ops[0];
        assert_int_equal(op->kind, OP_ATTEND);
        if (op->pairs == 0) {
            unseen++;
            assert_int_equal(op->k.count, 1);
        }
        assert_int_equal(a.programs[r].n_collectives, 3);
    }
    assert_int_equal(unseen, 2); /* the last share of the prefix is rank 3's, the new token rank 0's */
    asked_fini(&a);
}

static void everything_legal_is_proved(void **state)
{
    (void)state;
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    static const char *const masks[] = {"full", "causal", "window:9", "documents"};
    static const char *const skips[] = {"none", "compute"};
    static const char *const collectives[] = {"ring", "direct", "hierarchical:"};
    for (unsigned trial = 0; trial < 240; trial++) {
        unsigned p = 1 + trial % 8, zigzag = trial / 8 % 3 == 1, fresh = zigzag ? 2 * p : 1 + trial % 13;
        unsigned length = fresh + p + trial % 19, kind = trial / 3 % 4;
        char mask[64], workload[128], keys[128], node[16] = "";
        snprintf(mask, sizeof mask, "%s", masks[kind]);
        if (kind == 3)
            snprintf(mask, sizeof mask, "documents:1,%u", length - 1);
        snprintf(workload, sizeof workload, "new_tokens = %u\nbatch = %u\nmask = %s", fresh, 1 + trial % 3, mask);
        if (trial % 3 == 2)
            snprintf(node, sizeof node, "%u", p % 2 ? 1 : 2);
        snprintf(keys, sizeof keys, "sharding = %s\nskip = %s\ncollective = %s%s", shardings[trial / 8 % 3],
                 skips[trial % 2], collectives[trial % 3], node);
        struct asked a;
        ask_for(&a, p, length, workload, keys);
        asked_check(&a);
        asked_fini(&a);
    }
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    expect_refusal(asked_text(4, 64, "pass = train", "algorithm = tree-decode"),
                   "algorithm 'tree-decode' has no backward pass, expected pass = forward");
    expect_refusal(asked_text(4, 4, "pass = forward\nnew_tokens = 1", "algorithm = tree-decode"),
                   "algorithm 'tree-decode': rank 3 of cp = 4 has no keys of seq_len = 4, expected at least 5");
    expect_refusal(asked_text(4, 3, "pass = forward", "algorithm = tree-decode"),
                   "rank 3 of cp = 4 has no keys of seq_len = 3, expected at least 4");
    expect_refusal(asked_text(3, 64, "pass = forward", "algorithm = tree-decode\nsharding = 32,0,32"),
                   "rank 1 has no keys, expected every rank to have some");
    expect_refusal(asked_text(4, 64, "pass = forward", "algorithm = tree-decode\nskip = transfer"),
                   "cannot do skip = transfer");
    expect_refusal(asked_text(4, 64, "pass = forward", "algorithm = tree-decode\noverlap = no"),
                   "'overlap' has no effect with algorithm = tree-decode");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_three_small_sums),
        cmocka_unit_test(each_rank_attends_its_own_keys_once),
        cmocka_unit_test(a_rank_that_nobody_sees_contributes_nothing),
        cmocka_unit_test(everything_legal_is_proved),
        cmocka_unit_test(what_it_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
