/* The algorithms' programs against closed forms: bytes, messages, work per rank and per step, for every sharding. The
 * proofs that they compute attention are the checker's (checker_test.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

/* `schedule` is the lines of [schedule]; 32 query and 8 KV heads of 128. */
static char *question(unsigned cp, unsigned seq_len, const char *mask, const char *pass, const char *dtype,
                      const char *schedule)
{
    return memory_format("[model]\nq_heads = 32\nkv_heads = 8\nhead_dim = 128\ndtype = %s\n[workload]\nseq_len = %u\n"
                         "mask = %s\npass = %s\n[parallel]\ncp = %u\n[schedule]\n%s\n",
                         dtype, seq_len, mask, pass, cp, schedule);
}

static void bytes_sent_forward_are_oracle_3(void **state)
{
    (void)state;
    static const struct {
        const char *algorithm;
        unsigned cp;
        uint64_t bytes;
    } cases[] = {{"ring", 4, 25165824},       {"ring", 8, 29360128},   {"all-gather", 4, 25165824},
                 {"all-gather", 8, 29360128}, {"direct", 4, 25165824}, {"direct", 8, 29360128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[64];
        snprintf(keys, sizeof keys, "algorithm = %s", cases[i].algorithm);
        struct asked c;
        ask_text(&c, question(cases[i].cp, 8192, "causal", "forward", "bf16", keys));
        for (unsigned r = 0; r < cases[i].cp; r++)
            assert_int_equal(sent_by(&c.programs[r]).bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], cases[i].bytes);
        asked_fini(&c);
    }
}

static void work_per_rank_is_oracle_2(void **state)
{
    (void)state;
    static const struct {
        const char *sharding;
        uint64_t pairs[4], sum_of_step_maxima;
    } cases[] = {
        {"contiguous", {10, 26, 42, 58}, 58}, {"zigzag", {34, 34, 34, 34}, 34}, {"striped", {28, 32, 36, 40}, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[64];
        snprintf(keys, sizeof keys, "algorithm = ring\nsharding = %s\nskip = none", cases[i].sharding);
        struct asked c;
        ask_text(&c, question(4, 16, "causal", "train", "bf16", keys));
        uint64_t maxima[4] = {0}, sum = 0;
        for (unsigned r = 0; r < 4; r++) {
            assert_int_equal(pairs_of(&c.programs[r], OP_ATTEND), cases[i].pairs[r]);
            assert_int_equal(pairs_of(&c.programs[r], OP_ATTEND_BACKWARD), cases[i].pairs[r]);
            for (uint32_t op = 0, step = 0; op < c.programs[r].n_ops; op++)
                if (c.programs[r].ops[op].kind == OP_ATTEND) {
                    maxima[step] =
                        maxima[step] > c.programs[r].ops[op].pairs ? maxima[step] : c.programs[r].ops[op].pairs;
                    step++;
                }
        }
        for (unsigned step = 0; step < 4; step++)
            sum += maxima[step];
        assert_int_equal(sum, cases[i].sum_of_step_maxima);
        asked_fini(&c);
    }
}

/* With skip = transfer, a causal contiguous block of rank s goes to the P-1-s ranks behind it and to no other. */
static void skipped_transfers_are_those_nobody_needs(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "direct"};
    const uint64_t kv = 2 * 64 * 8 * 128 * 2;
    for (unsigned a = 0; a < 2; a++) {
        for (unsigned p = 1; p <= 7; p++) {
            char keys[96];
            snprintf(keys, sizeof keys, "algorithm = %s\nskip = transfer\ngradients = model", names[a]);
            struct asked c;
            ask_text(&c, question(p, 64 * p, "causal", "train", "bf16", keys));
            uint64_t forward = 0, gradient = 0;
            for (unsigned r = 0; r < p; r++) {
                struct sent sent = sent_by(&c.programs[r]);
                forward += sent.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV];
                gradient += sent.bytes[PHASE_BACKWARD][TRAFFIC_GRADIENT];
            }
            assert_int_equal(forward, p * (p - 1) / 2 * kv);
            /* direct: one return per reader; ring: as many hops as there, and one home for all but the last owner */
            assert_int_equal(gradient, (p * (p - 1) / 2 + (a == 0 ? p - 1 : 0)) * kv);
            asked_fini(&c);
        }
    }
}

static void a_shard_travels_in_blocks_of_at_most_kv_block(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "all-gather", "direct"};
    for (unsigned a = 0; a < 3; a++) {
        char keys[96];
        snprintf(keys, sizeof keys, "algorithm = %s\nkv_block = 300", names[a]);
        struct asked c;
        ask_text(&c, question(4, 4000, "causal", "train", "fp16", keys));
        for (unsigned r = 0; r < 4; r++) {
            struct sent sent = sent_by(&c.programs[r]);
            assert_int_equal(sent.messages[PHASE_FORWARD][TRAFFIC_FORWARD_KV], 3 * 4); /* 300 + 300 + 300 + 100 */
            assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], UINT64_C(3) * 2 * 1000 * 8 * 128 * 2);
            for (uint32_t i = 0; i < c.programs[r].n_ops; i++)
                if (op_is_message(&c.programs[r].ops[i]))
                    assert_true(c.programs[r].ops[i].k.count <= 300);
            for (uint32_t i = 0; i < c.programs[r].n_buffers; i++)
                if (c.programs[r].buffers[i].role == ROLE_RECEIVED)
                    assert_true(c.programs[r].buffers[i].rows <= 300);
        }
        asked_fini(&c);
    }
}

static void ten_million_tokens_make_blocks_of_five_gigabytes(void **state)
{
    (void)state;
    struct asked c;
    ask_text(&c, question(8, 10485760, "causal", "train", "bf16", "algorithm = ring\nsharding = zigzag"));
    for (uint32_t i = 0; i < c.programs[3].n_ops; i++)
        if (c.programs[3].ops[i].kind == OP_SEND && c.programs[3].ops[i].traffic == TRAFFIC_FORWARD_KV)
            assert_int_equal(c.programs[3].ops[i].bytes, UINT64_C(5368709120));
    assert_int_equal(pairs_of(&c.programs[3], OP_ATTEND), UINT64_C(10485760) * 10485761 / 2 / 8);
    asked_fini(&c);
}

/* Everything that random experiments ask for runs to its end, in rendezvous. */
static void random_schedules_are_proved_and_do_not_deadlock(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "all-gather", "direct"};
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    static const char *const masks[] = {"full", "causal", "window:13", "documents"};
    static const char *const skips[] = {"none", "compute", "transfer"};
    srand(1);
    for (unsigned trial = 0; trial < 150; trial++) {
        unsigned a = (unsigned)rand() % 3, p = 1 + (unsigned)rand() % 9, m = (unsigned)rand() % 4;
        unsigned length = 2 * p * (1 + (unsigned)rand() % 30), skip = (unsigned)rand() % (a == 1 ? 2 : 3);
        char mask[64];
        if (m == 3)
            snprintf(mask, sizeof mask, "documents:1,%u,%u", length / 2, length - length / 2 - 1);
        else
            snprintf(mask, sizeof mask, "%s", masks[m]);
        if (m == 3 && (length < 3 || length / 2 == 0 || length - length / 2 - 1 == 0))
            continue;
        char keys[256];
        unsigned block = (unsigned)rand() % 2 ? 1 + (unsigned)rand() % 12 : 0;
        int used = snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s\nskip = %s\noverlap = %s\nkv_block = %u",
                            names[a], shardings[rand() % 3], skips[skip], rand() % 2 ? "yes" : "no", block);
        if (a != 1 || block)
            snprintf(keys + used, sizeof keys - (size_t)used, "\nbuffers = %u", (unsigned)(2 + rand() % 3));
        struct asked c;
        ask_text(&c, question(p, length, mask, rand() % 2 ? "train" : "forward", "fp32", keys));
        char what[384];
        snprintf(what, sizeof what, "%s\nmask %s, P %u, length %u", keys, mask, p, length);
        expect_proved(&c, what);
        asked_fini(&c);
    }
}

static void what_an_algorithm_cannot_do_is_refused_by_name(void **state)
{
    (void)state;
    expect_refusal(question(4, 64, "causal", "train", "bf16", "algorithm = rnig"),
                   "unknown algorithm 'rnig', did you mean 'ring', expected ring | ");
    expect_refusal(question(4, 64, "causal", "train", "bf16", "algorithm = ring\nbuffers = 1"),
                   "buffers = 1 is too few, expected at least 2");
    expect_refusal(question(4, 64, "causal", "train", "bf16", "algorithm = all-gather\nskip = transfer"),
                   "cannot do skip = transfer");
    expect_refusal(question(4, 64, "causal", "train", "bf16", "algorithm = ring\ncollective = direct"),
                   "'collective' has no effect with algorithm = ring");
    expect_refusal(question(4, 64, "causal", "forward", "bf16", "algorithm = ring\ngradients = fp32"),
                   "'gradients' has no effect with pass = forward");
    expect_refusal(question(4, 64, "causal", "train", "bf16", "algorithm = all-gather\nbuffers = 3"),
                   "'buffers' has no effect with algorithm = all-gather and kv_block = 0");
    expect_refusal(question(256, 1 << 30, "causal", "train", "bf16", "algorithm = ring\nkv_block = 1"),
                   "expected at most 1e+08: larger blocks");
    expect_refusal(question(1 << 16, 1 << 20, "causal", "train", "bf16", "algorithm = ring"),
                   "'cp' = 65536 makes about 5.2e+10 operations, expected at most 1e+08: fewer ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_sent_forward_are_oracle_3),
        cmocka_unit_test(work_per_rank_is_oracle_2),
        cmocka_unit_test(skipped_transfers_are_those_nobody_needs),
        cmocka_unit_test(a_shard_travels_in_blocks_of_at_most_kv_block),
        cmocka_unit_test(ten_million_tokens_make_blocks_of_five_gigabytes),
        cmocka_unit_test(random_schedules_are_proved_and_do_not_deadlock),
        cmocka_unit_test(what_an_algorithm_cannot_do_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
