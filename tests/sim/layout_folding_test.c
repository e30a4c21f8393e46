/* Folded equals unfolded where messages leave their groups, by both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/layout_programs.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 30
#else
#define CASES 150
#endif

static void folded_equals_whole(void **state)
{
    (void)state;
    struct dice dice = {.state = 5};
    unsigned leaving = 0, folded = 0, turned = 0, replicas = 0;
    for (unsigned accepted = 0, tried = 0; accepted < CASES; tried++) {
        struct pair pair;
        bool uniform;
        assert_true(tried < 40 * CASES);
        if (!random_layout_pair(&dice, &pair, &uniform))
            continue;
        if (is_quick(&pair) && count_moments(&pair.whole) > 0) {
            compare(&pair);
            accepted++;
            if (leaves_groups(&pair)) {
                bool fewer = pair.folding.ensemble.n_instances < pair.whole.n_instances;
                leaving++;
                folded += fewer;
                turned += fewer && uniform && pair.schedule.ranks > 1;
                replicas += pair.folding.ensemble.n_replicas > 1;
            }
        }
        pair_fini(&pair);
    }
    print_message("%u leave their groups, %u of them folded, %u of these turned; %u of several replicas\n", leaving,
                  folded, turned, replicas);
    assert_true(leaving > CASES / 2 && folded > CASES / 8 && turned > CASES / 20 && replicas > CASES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_equals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
