/* Balance by helping (dist-flash) against closed forms: who attends what, what moves, what is held. With s rows a rank
 * and P ranks, Q and KV bytes of a shard, L of a number per row and head. That the programs compute attention, for what
 * is asked here and for random experiments, is the checker's to prove. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

#define ROWS 64
static const uint64_t q_bytes = ROWS * 32 * 128 * 2, kv_bytes = 2 * ROWS * 8 * 128 * 2, l_bytes = ROWS * 32 * 4;

static void ask_for(struct asked *a, unsigned p, const char *mask, const char *pass, const char *keys)
{
    char workload[128], schedule[160];
    snprintf(workload, sizeof workload, "mask = %s\npass = %s", mask, pass);
    snprintf(schedule, sizeof schedule, "algorithm = dist-flash\n%s", keys);
    ask_text(a, asked_text(p, ROWS * p, workload, schedule));
}

static void two_buffers_of_each_kind_suffice(void **state)
{
    (void)state;
    struct asked a;
    ask_for(&a, 9, "causal", "forward", "");
    const struct program *last = &a.programs[8], *first = &a.programs[0];
    assert_int_equal(bytes_held(last, ROLE_RECEIVED, TENSOR_KV), 2 * kv_bytes);
    assert_int_equal(bytes_held(last, ROLE_RECEIVED, TENSOR_Q), 0);
    assert_int_equal(bytes_held(first, ROLE_RECEIVED, TENSOR_KV), 0);
    assert_int_equal(bytes_held(first, ROLE_RECEIVED, TENSOR_Q), 2 * q_bytes);
    assert_int_equal(bytes_held(first, ROLE_WORKSPACE, TENSOR_PARTIAL), 2 * (q_bytes + l_bytes));
    asked_fini(&a);
    ask_for(&a, 9, "causal", "train", "buffers = 1");
    asked_check(&a);
    assert_int_equal(bytes_held(&a.programs[8], ROLE_RECEIVED, TENSOR_KV), kv_bytes);
    asked_fini(&a);
}

/* Only rows that see each other move: of a window of 17, the last 16 keys of the neighbour before. */
static void a_window_moves_its_own_width(void **state)
{
    (void)state;
    struct asked a;
    ask_for(&a, 5, "window:17", "train", "gradients = model");
    asked_check(&a);
    for (unsigned r = 0; r < 5; r++) {
        struct sent sent = sent_by(&a.programs[r]);
        const uint64_t *forward = sent.bytes[PHASE_FORWARD], *backward = sent.bytes[PHASE_BACKWARD];
        assert_int_equal(forward[TRAFFIC_FORWARD_KV], r < 4 ? kv_bytes * 16 / ROWS : 0);
        assert_int_equal(forward[TRAFFIC_OTHER], 0);
        assert_int_equal(backward[TRAFFIC_GRADIENT], r > 0 ? kv_bytes * 16 / ROWS : 0);
    }
    asked_fini(&a);
}

/* Whatever the positions of a rank, and however many they are; with a cached prefix too. */
static void any_sharding_and_length_is_proved(void **state)
{
    (void)state;
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    static const char *const masks[] = {"full", "causal", "window:23", "documents:5,30,%u"};
    for (unsigned trial = 0; trial < 300; trial++) {
        unsigned p = 1 + trial % 11, zigzag = trial / 11 % 3 == 1, kind = trial / 33 % 4;
        unsigned length = zigzag ? 2 * p * (20 / p + 1 + trial % 3) : 40 + trial % 29;
        unsigned cached = trial % 2 ? 3 + trial % 17 : 0;
        char mask[64], workload[128], keys[192], number[32] = "";
        snprintf(mask, sizeof mask, "%s", masks[kind]);
        if (kind == 3)
            snprintf(mask, sizeof mask, "documents:5,30,%u", length + cached - 35);
        if (cached)
            snprintf(number, sizeof number, "\nnew_tokens = %u", length);
        snprintf(workload, sizeof workload, "mask = %s\npass = %s\nbatch = %u%s", mask, cached ? "forward" : "train",
                 1 + trial % 2, number);
        snprintf(keys, sizeof keys,
                 "algorithm = dist-flash\nsharding = %s\noverlap = %s\nbuffers = %u\nkv_messages = %u",
                 shardings[trial / 11 % 3], trial % 5 ? "yes" : "no", 1 + trial % 3, 1 + trial % 2);
        struct asked a;
        ask_text(&a, asked_text(p, length + cached, workload, keys));
        asked_check(&a);
        asked_fini(&a);
    }
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    expect_refusal(asked_text(4, 64, "pass = train", "algorithm = dist-flash\nskip = compute"),
                   "'skip' has no effect with algorithm = dist-flash, which moves and computes only what is seen, "
                   "expected transfer or no such key");
    expect_refusal(asked_text(4, 64, "pass = train", "algorithm = dist-flash\nkv_block = 8"),
                   "'kv_block' has no effect with algorithm = dist-flash");
    expect_refusal(asked_text(4, 64, "pass = forward\nnew_tokens = 3", "algorithm = dist-flash"),
                   "algorithm 'dist-flash' deals out new tokens, but there are fewer (3) than ranks: expected at least "
                   "cp = 4");
    struct asked a;
    ask_text(&a, asked_text(4, 64, "pass = train", "algorithm = dist-flash\nskip = transfer"));
    asked_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_buffers_of_each_kind_suffice),
        cmocka_unit_test(a_window_moves_its_own_width),
        cmocka_unit_test(any_sharding_and_length_is_proved),
        cmocka_unit_test(what_it_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
