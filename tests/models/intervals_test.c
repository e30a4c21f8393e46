/* Sets of intervals, against counting unit cells of a small axis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/result/intervals.h"

#define CELLS 24

/* A random set, and the same as cells. */
static void random_set(unsigned *seed, struct intervals *set, char cells[CELLS])
{
    *set = (struct intervals){0};
    memset(cells, 0, CELLS);
    int n = rand_r(seed) % 7;
    for (int i = 0; i < n; i++) {
        int begin = rand_r(seed) % CELLS, end = begin + rand_r(seed) % 6;
        end = end > CELLS ? CELLS : end;
        intervals_add(set, begin, end);
        for (int c = begin; c < end; c++)
            cells[c] = 1;
    }
    intervals_unite(set);
}

static void union_intersection_and_difference_equal_brute_force(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int trial = 0; trial < 2000; trial++) {
        struct intervals a, b;
        char in_a[CELLS], in_b[CELLS];
        random_set(&seed, &a, in_a);
        random_set(&seed, &b, in_b);
        int length = 0, common = 0;
        for (int c = 0; c < CELLS; c++) {
            length += in_a[c];
            common += in_a[c] && in_b[c];
        }
        assert_true(intervals_seconds(&a) == length);
        assert_true(intervals_common_seconds(&a, &b) == common);
        assert_true(intervals_common_seconds(&b, &a) == common);
        for (size_t i = 1; i < a.count; i++)
            assert_true(a.items[i].begin > a.items[i - 1].end);
        intervals_subtract(&a, &b);
        assert_true(intervals_seconds(&a) == length - common);
        assert_true(intervals_common_seconds(&a, &b) == 0);
        intervals_fini(&a);
        intervals_fini(&b);
    }
}

static void empty_and_backward_intervals_are_nothing(void **state)
{
    (void)state;
    struct intervals set = {0};
    intervals_add(&set, 3, 3);
    intervals_add(&set, 5, 4);
    intervals_unite(&set);
    assert_int_equal(set.count, 0);
    assert_true(intervals_seconds(&set) == 0);
    intervals_fini(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(union_intersection_and_difference_equal_brute_force),
        cmocka_unit_test(empty_and_backward_intervals_are_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
