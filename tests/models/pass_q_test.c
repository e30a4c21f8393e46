/* Travelling queries (pass-q) against closed forms: whole sequences, prefill on a cached prefix, decoding. Q is the
 * bytes of a rank's new tokens, L of one number per row and head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

static const uint64_t q_row = 32 * 128 * 2, l_row = 32 * 4, kv_row = 2 * 8 * 128 * 2;

static void ask_for(struct asked *a, unsigned p, unsigned seq_len, const char *workload, const char *keys)
{
    char forward[160], schedule[160];
    snprintf(forward, sizeof forward, "pass = forward\n%s", workload);
    snprintf(schedule, sizeof schedule, "algorithm = pass-q\n%s", keys);
    ask_text(a, asked_text(p, seq_len, forward, schedule));
}

static void queries_go_round_and_partial_results_go_home(void **state)
{
    (void)state;
    const uint64_t q = 64 * q_row, l = 64 * l_row;
    for (unsigned p = 1; p <= 9; p++) {
        struct asked a;
        ask_for(&a, p, 64 * p, "mask = full", "");
        asked_check(&a);
        for (unsigned r = 0; r < p; r++) {
            const struct program *program = &a.programs[r];
            struct sent sent = sent_by(program);
            assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], 0);
            assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_OTHER], (p - 1) * q + (p - 1) * (q + l));
            assert_int_equal(sent.messages[PHASE_FORWARD][TRAFFIC_OTHER], 2 * (p - 1));
            assert_int_equal(pairs_of(program, OP_ATTEND), 64 * 64 * p);
            /* Two blocks of queries on their way; a partial result of each owner, and one from each holder. */
            assert_int_equal(bytes_held(program, ROLE_RECEIVED, TENSOR_Q), (p > 2 ? 2 : p - 1) * q);
            assert_int_equal(bytes_held(program, ROLE_WORKSPACE, TENSOR_PARTIAL), p > 1 ? (2 * p - 1) * (q + l) : 0);
            assert_int_equal(program->n_collectives, p > 1);
            if (p > 1)
                assert_int_equal(program->collectives[0].call, CALL_ALL_TO_ALL);
        }
        asked_fini(&a);
    }
}

static void what_nobody_sees_is_neither_computed_nor_returned(void **state)
{
    (void)state;
    const uint64_t q = 64 * q_row, l = 64 * l_row;
    for (unsigned p = 2; p <= 7; p++) {
        struct asked a;
        ask_for(&a, p, 64 * p, "mask = causal", "");
        asked_check(&a);
        for (unsigned r = 0; r < p; r++) { /* its keys are seen by those behind */
            struct sent sent = sent_by(&a.programs[r]);
            assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_OTHER], (p - 1) * q + (p - 1 - r) * (q + l));
            assert_int_equal(count_ops(&a.programs[r], PHASE_FORWARD, OP_ATTEND), p - r);
            assert_int_equal(pairs_of(&a.programs[r], OP_ATTEND), 64 * 65 / 2 + 64 * 64 * (p - 1 - r));
        }
        asked_fini(&a);
        ask_for(&a, p, 64 * p, "mask = causal", "skip = transfer"); /* the first rank's see nothing of others' */
        asked_check(&a);
        uint64_t bytes = 0;
        for (unsigned r = 0; r < p; r++)
            bytes += sent_by(&a.programs[r]).bytes[PHASE_FORWARD][TRAFFIC_OTHER];
        assert_int_equal(bytes, (p - 1) * (p - 1) * q + p * (p - 1) / 2 * (q + l));
        asked_fini(&a);
    }
}

/* T new tokens on Pc cached ones: T Pc + T (T + 1) / 2 pairs; bytes by new tokens alone. */
static void a_cached_prefix_costs_work_and_no_bytes(void **state)
{
    (void)state;
    const uint64_t p = 4, fresh = 64;
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    for (unsigned trial = 0; trial < 9; trial++) {
        uint64_t cached = 100 * (trial / 3);
        char workload[64], keys[64];
        snprintf(workload, sizeof workload, "new_tokens = %u", (unsigned)fresh);
        snprintf(keys, sizeof keys, "sharding = %s\nskip = none", shardings[trial % 3]);
        struct asked a;
        ask_for(&a, (unsigned)p, (unsigned)(cached + fresh), workload, keys);
        asked_check(&a);
        uint64_t pairs = 0;
        for (unsigned r = 0; r < p; r++) {
            uint64_t q = fresh / p * q_row, l = fresh / p * l_row;
            pairs += pairs_of(&a.programs[r], OP_ATTEND);
            assert_int_equal(sent_by(&a.programs[r]).bytes[PHASE_FORWARD][TRAFFIC_OTHER], (p - 1) * (2 * q + l));
        }
        assert_int_equal(pairs, fresh * cached + fresh * (fresh + 1) / 2);
        asked_fini(&a);
    }
}

/* The ring of keys sends (P-1) (T + Pc) / P rows of KV. L aside, both meet at T / (T + Pc) = 2 Hk / (2 Hq), for the
 * queries go and their results come; of what kernels can hide, the queries alone, at 2 Hk / Hq. */
static void bytes_cross_where_the_hit_rate_says(void **state)
{
    (void)state;
    const unsigned p = 4, all = 4096;
    for (unsigned fresh = 256; fresh <= all; fresh += 256) {
        char workload[64];
        snprintf(workload, sizeof workload, "pass = forward\nmask = full\nnew_tokens = %u", fresh);
        struct asked queries, keys;
        ask_text(&queries, asked_text(p, all, workload, "algorithm = pass-q"));
        ask_text(&keys, asked_text(p, all, workload, "algorithm = ring"));
        uint64_t round = 0, kv = sent_by(&keys.programs[0]).bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV];
        for (uint32_t i = 0; i < queries.programs[0].n_ops; i++) {
            const struct op *op = &queries.programs[0].ops[i];
            if (op->kind == OP_SEND && !op->collective)
                round += op->bytes;
        }
        uint64_t whole = sent_by(&queries.programs[0]).bytes[PHASE_FORWARD][TRAFFIC_OTHER];
        assert_int_equal(kv, (p - 1) * all / p * kv_row);
        assert_int_equal(round, (p - 1) * fresh / p * q_row);
        assert_int_equal(round <= kv, fresh * 32 <= 2 * 8 * all);
        assert_int_equal(whole - (p - 1) * fresh / p * l_row <= kv, fresh * 32 <= 8 * all);
        asked_fini(&queries);
        asked_fini(&keys);
    }
}

/* Items of the batch are dealt out; a rank without any relays, attends and returns. */
static void decoding_sends_a_token_of_each_item(void **state)
{
    (void)state;
    const unsigned p = 4;
    for (unsigned batch = 1; batch <= 9; batch++) {
        char workload[64];
        snprintf(workload, sizeof workload, "new_tokens = 1\nbatch = %u", batch);
        struct asked a;
        ask_for(&a, p, 1000, workload, "");
        asked_check(&a);
        for (unsigned r = 0; r < p; r++) {
            uint64_t own = schedule_query_lanes(&a.schedule, r).items;
            uint64_t next = schedule_query_lanes(&a.schedule, (r + 1) % p).items;
            struct sent sent = sent_by(&a.programs[r]);
            assert_int_equal(own, batch / p + (r < batch % p));
            assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_OTHER],
                             (batch - next) * q_row + (batch - own) * (q_row + l_row));
            uint64_t pairs = 0; /* over items: 250 cached and new keys a rank */
            for (uint32_t i = 0; i < a.programs[r].n_ops; i++)
                if (a.programs[r].ops[i].kind == OP_ATTEND)
                    pairs += a.programs[r].ops[i].pairs * a.programs[r].ops[i].lanes.items;
            assert_int_equal(pairs, batch * sharding_rows(&a.schedule.sharding, r));
        }
        asked_fini(&a);
    }
}

/* A window that not every rank's keys are in: some have nothing to return, perhaps the owner itself. */
static void decoding_in_a_window_is_proved(void **state)
{
    (void)state;
    static const char *const shardings[] = {"contiguous", "striped"};
    for (unsigned trial = 0; trial < 240; trial++) {
        unsigned p = 2 + trial % 7, fresh = 1 + trial / 7 % (p - 1), window = 1 + trial / 2 % 12;
        char workload[96], keys[96];
        snprintf(workload, sizeof workload, "new_tokens = %u\nbatch = %u\nmask = window:%u", fresh, 1 + trial % 5,
                 window);
        snprintf(keys, sizeof keys, "sharding = %s\nskip = %s\ncollective = %s", shardings[trial / 3 % 2],
                 trial % 3 == 0   ? "none"
                 : trial % 3 == 1 ? "compute"
                                  : "transfer",
                 trial / 5 % 2 ? "ring" : "direct");
        struct asked a;
        ask_for(&a, p, fresh + 3 + trial % 50, workload, keys);
        asked_check(&a);
        asked_fini(&a);
    }
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    static const char *const movers[] = {"pass-q", "token-ring", "tree-decode", "burst", "dist-flash"};
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++) { /* a ring of keys could be counted */
        char expected[128];
        snprintf(expected, sizeof expected, "algorithm '%s': queries of 2147483648 tokens with batch = 1", movers[i]);
        char *text = memory_format("[model]\nq_heads = 65536\nkv_heads = 1\nhead_dim = 64\n"
                                   "[workload]\nseq_len = 2Gi\nbatch = 1\npass = forward\n[parallel]\ncp = 128\n"
                                   "[schedule]\nalgorithm = %s\n",
                                   movers[i]);
        expect_refusal(text, expected);
    }
    expect_refusal(asked_text(4, 64, "pass = train", "algorithm = pass-q"),
                   "algorithm 'pass-q' has no backward pass, expected pass = forward");
    expect_refusal(asked_text(4, 64, "pass = forward", "algorithm = pass-q\nbuffers = 1"),
                   "buffers = 1 is too few, expected at least 2");
    expect_refusal(asked_text(4, 64, "pass = forward\nnew_tokens = 1", "algorithm = pass-q\nbuffers = 2"),
                   "'buffers' has no effect with algorithm = pass-q and fewer new_tokens than ranks");
    expect_refusal(asked_text(4, 64, "pass = forward", "algorithm = pass-q\nkv_messages = 2"),
                   "'kv_messages' has no effect with algorithm = pass-q");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_go_round_and_partial_results_go_home),
        cmocka_unit_test(what_nobody_sees_is_neither_computed_nor_returned),
        cmocka_unit_test(a_cached_prefix_costs_work_and_no_bytes),
        cmocka_unit_test(bytes_cross_where_the_hit_rate_says),
        cmocka_unit_test(decoding_sends_a_token_of_each_item),
        cmocka_unit_test(decoding_in_a_window_is_proved),
        cmocka_unit_test(what_it_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
