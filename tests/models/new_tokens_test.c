/* New tokens on a cached prefix: what is legal, and the work and bytes of the algorithms that pass keys around. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

#define FORWARD "pass = forward\n"

static void illegal_numbers_are_named(void **state)
{
    (void)state;
    expect_refusal(asked_text(4, 64, FORWARD "new_tokens = 65", "algorithm = ring"),
                   "'new_tokens' = 65, expected at most seq_len = 64, the cached ones included");
    expect_refusal(asked_text(4, 64, "pass = train\nnew_tokens = 8", "algorithm = ring"),
                   "'new_tokens' with pass = train, expected pass = forward: a cached prefix has no gradients");
    expect_refusal(asked_text(2, 64, FORWARD "new_tokens = 8", "algorithm = ring\nsharding = 32,32"),
                   "'sharding' by counts or documents with new_tokens, expected contiguous, zigzag or striped");
    expect_refusal(
        asked_text(4, 61, FORWARD "new_tokens = 21", "algorithm = ring\nsharding = zigzag"),
        "'new_tokens' = 21 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, the nearest: 16 or 24");
    expect_refusal(asked_text(4, 64, FORWARD "new_tokens = 1", "algorithm = ring\nsharding = zigzag"),
                   "'new_tokens' = 1 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, the nearest: 8; to "
                   "decode, contiguous or striped");
    expect_refusal(
        asked_text(4, 7, FORWARD "new_tokens = 5", "algorithm = ring\nsharding = zigzag"),
        "'new_tokens' = 5 with cp = 4 and zigzag, expected a multiple of 2 x cp = 8, which seq_len = 7 has no "
        "room for; else contiguous or striped");
    struct asked a; /* the prefix need not be a multiple of anything */
    ask_text(&a, asked_text(4, 61, FORWARD "new_tokens = 16", "algorithm = ring\nsharding = zigzag"));
    asked_check(&a);
    asked_fini(&a);
}

static uint64_t pairs_of_items(const struct asked *a)
{
    uint64_t pairs = 0;
    for (unsigned r = 0; r < a->schedule.ranks; r++)
        for (uint32_t i = 0; i < a->programs[r].n_ops; i++)
            if (a->programs[r].ops[i].kind == OP_ATTEND)
                pairs += a->programs[r].ops[i].pairs * a->programs[r].ops[i].lanes.items;
    return pairs;
}

/* T Pc + T (T + 1) / 2 visible pairs a batch item, whoever computes them. */
static void work_is_that_of_new_queries_on_all_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "direct", "all-gather", "pass-q", "tree-decode", "dist-flash"};
    static const char *const shardings[] = {"contiguous", "striped", "zigzag"};
    for (unsigned trial = 0; trial < 6 * 3 * 6; trial++) {
        const char *name = names[trial % 6];
        unsigned p = 4, sharding = trial / 6 % 3, batch = 1 + trial / 18 % 2;
        uint64_t cached = 100 + 17 * (trial % 5), fresh = sharding == 2 ? 16 : 1 + 5 * (trial / 18);
        if (strcmp(name, "dist-flash") == 0 && fresh < p)
            fresh = p;
        char workload[96], keys[96];
        snprintf(workload, sizeof workload, FORWARD "new_tokens = %u\nbatch = %u", (unsigned)fresh, batch);
        snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s", name, shardings[sharding]);
        struct asked a;
        ask_text(&a, asked_text(p, (unsigned)(cached + fresh), workload, keys));
        asked_check(&a);
        assert_int_equal(pairs_of_items(&a), batch * (fresh * cached + fresh * (fresh + 1) / 2));
        asked_fini(&a);
    }
}

/* Every rank sends every block but that of its neighbour ahead: prefix and new rows, of all batch items, whosever
 * queries they are for. */
static void a_ring_moves_the_cache_too(void **state)
{
    (void)state;
    static const unsigned fresh[] = {1, 3, 64, 1000};
    for (unsigned p = 2; p <= 7; p++) {
        for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++) {
            char workload[96];
            snprintf(workload, sizeof workload, FORWARD "batch = 3\nnew_tokens = %u", fresh[i]);
            struct asked a;
            ask_text(&a, asked_text(p, 1000, workload, "algorithm = ring\nsharding = striped"));
            asked_check(&a);
            for (unsigned r = 0; r < p; r++) {
                uint64_t rows = 1000 - sharding_rows(&a.schedule.sharding, (r + 1) % p);
                assert_int_equal(sent_by(&a.programs[r]).bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV],
                                 rows * 3 * 2 * 8 * 128 * 2);
            }
            asked_fini(&a);
        }
    }
}

/* A window reaches some way into the prefix; documents end in it. */
static void masks_count_from_the_start_of_the_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *mask;
        uint64_t pairs;
    } cases[] = {{"window:10", 10 * 8}, {"documents:90,18", 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18}, {"full", 8 * 108}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char workload[96];
        snprintf(workload, sizeof workload, FORWARD "new_tokens = 8\nmask = %s", cases[i].mask);
        struct asked a;
        ask_text(&a, asked_text(4, 108, workload, "algorithm = ring\nskip = transfer"));
        asked_check(&a);
        assert_int_equal(pairs_of_items(&a), cases[i].pairs);
        asked_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(illegal_numbers_are_named),
        cmocka_unit_test(work_is_that_of_new_queries_on_all_keys),
        cmocka_unit_test(a_ring_moves_the_cache_too),
        cmocka_unit_test(masks_count_from_the_start_of_the_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
