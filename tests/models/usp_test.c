/* The algorithm usp, all-to-all inside and a ring outside, against closed forms; its placement; and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

static const char *const shardings[] = {"contiguous", "zigzag", "striped"};

static void the_default_degree_is_the_largest_that_divides_cp_and_the_kv_heads(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp, q_heads, kv_heads, degree;
    } cases[] = {{8, 32, 8, 8}, {16, 32, 8, 8}, {12, 32, 8, 4}, {6, 24, 6, 6},
                 {9, 24, 6, 3}, {5, 8, 4, 1},   {8, 8, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question q = {cases[i].cp, cases[i].q_heads, cases[i].kv_heads, 8, 1, 16 * cases[i].cp, NULL, NULL,
                             NULL,        "algorithm = usp"};
        struct asked a;
        ask(&a, &q);
        assert_int_equal(a.schedule.sharding.joined, cases[i].degree);
        asked_fini(&a);
    }
}

static void uneven_and_empty_shards_are_proved(void **state)
{
    (void)state;
    static const char *const shards[] = {"3,2,7,4", "0,9,0,7", "16,0,0,0", "0,0,1,15"};
    for (unsigned i = 0; i < 4; i++) {
        char keys[96];
        snprintf(keys, sizeof keys, "algorithm = usp\nulysses_degree = 2\nsharding = %s", shards[i]);
        struct question q = {4, 8, 2, 4, 2, 16, "causal", "train", NULL, keys};
        struct asked a;
        ask(&a, &q);
        expect_proved(&a, keys);
        asked_fini(&a);
    }
}

/* Members of a group, or places of a ring, are consecutive: a permutation under every sharding. */
static void the_inner_level_sits_side_by_side(void **state)
{
    (void)state;
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned ring = 0; ring < 2; ring++) {
            char keys[128];
            snprintf(keys, sizeof keys, "algorithm = usp\nulysses_degree = 4\nsharding = %s\ninner = %s", shardings[s],
                     ring ? "ring" : "all-to-all");
            struct question q = {12, 8, 4, 4, 1, 24, NULL, NULL, NULL, keys};
            struct asked a;
            ask(&a, &q);
            const struct sharding *sharding = &a.schedule.sharding;
            assert_true((a.schedule.place_of_rank == NULL) == ((s == 2) == ring)); /* striped groups are strided */
            for (uint32_t rank = 0; rank < 12; rank++) {
                uint32_t place = a.schedule.place_of_rank ? a.schedule.place_of_rank[rank] : rank;
                assert_int_equal(ring ? place / 3 : place % 4, sharding_member_of(sharding, rank));
                assert_int_equal(ring ? place % 3 : place / 4, sharding_group_of(sharding, rank));
            }
            asked_fini(&a);
        }
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct question q = {12, 32, 8, 16, 1, 96, NULL, NULL, NULL, "algorithm = usp\nulysses_degree = 5"};
    expect_refused(&q, "'ulysses_degree' = 5 does not divide cp = 12, nearest that fits the heads too: 4");
    q.schedule = "algorithm = usp\nulysses_degree = 3";
    expect_refused(&q, "'ulysses_degree' = 3 ranks cannot share out 32 query and 8 KV heads (of one tp rank)");
    expect_refused(&q, "nearest: 2 or 4");
    q.schedule = "algorithm = usp\nulysses_degree = 4\nbuffers = 1";
    expect_refused(&q, "in a ring of 3 a rank passes one block on");
    q.schedule = "algorithm = usp\nulysses_degree = 1\ninner = ring";
    expect_refused(&q, "'inner' has no effect with algorithm = usp where groups or rings are of one rank");
    q.schedule = "algorithm = usp\nulysses_degree = 1\ncollective = direct";
    expect_refused(&q, "'collective' has no effect with algorithm = usp where nobody exchanges heads");
    q.cp = 8, q.schedule = "algorithm = usp\nulysses_degree = 8\ninner = ring";
    expect_refused(&q, "'inner' has no effect");
    q.schedule = "algorithm = usp\nring_window = 2";
    expect_refused(&q, "'ring_window' has no effect with algorithm = usp");
    q.schedule = "algorithm = ring\nulysses_degree = 2";
    expect_refused(&q, "'ulysses_degree' has no effect with algorithm = ring");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_degree_is_the_largest_that_divides_cp_and_the_kv_heads),
        cmocka_unit_test(uneven_and_empty_shards_are_proved),
        cmocka_unit_test(the_inner_level_sits_side_by_side),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
