/* Figures alone (report_input.figures_only), by the steps of an order where that suffices: the step's are those of the
 * whole report to the last bit, of random layouts on random clusters, and the two ranks that they are of say the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "sim/plan_memo.h"
#include "tests/sim/layout_programs.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 40
#else
#define CASES 300
#endif

static void report_of(struct report *report, const struct pair *pair, struct plan_memo *memo, bool figures_only,
                      struct timeline *timeline)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct simulation simulation = pair->turned_simulation;
    simulation.ensemble = &pair->folding.ensemble;
    simulation.folding = &pair->folding;
    simulation.memo = memo;
    simulation.spares_moments = figures_only;
    *timeline = (struct timeline){0};
    assert_true(engine_analytic.run(&simulation, timeline, &diag));
    const struct report_input input = {.schedule = &pair->schedule,
                                       .ensemble = simulation.ensemble,
                                       .folding = simulation.folding,
                                       .cost = &pair->cost,
                                       .placement = &pair->placement,
                                       .timeline = timeline,
                                       .figures_only = figures_only};
    assert_true(report_init(report, &input, &diag));
    diagnostics_fini(&diag);
}

#define SAME(member)                                                                                                   \
    do {                                                                                                               \
        if (memcmp(&few->member, &all->member, sizeof few->member) != 0)                                               \
            fail_msg("the figures alone differ in '%s': %s", #member, what);                                           \
    } while (0)

static void expect_same_rank(const struct rank_report *few, const struct rank_report *all, const char *what)
{
    SAME(rank);
    SAME(group);
    SAME(seconds);
    SAME(compute_seconds);
    SAME(communication_seconds);
    SAME(exposed_seconds);
    SAME(idle_seconds);
    SAME(overlapped_seconds);
    SAME(exposed_by_kind);
    SAME(compute_by_part);
    SAME(peak_at_seconds);
    SAME(peak_bytes);
}

static void expect_same(const struct report *few, const struct report *all, const char *what)
{
    SAME(seconds);
    SAME(forward_seconds);
    SAME(backward_seconds);
    SAME(critical_rank);
    SAME(compute_seconds);
    SAME(communication_seconds);
    SAME(exposed_seconds);
    SAME(idle_seconds);
    SAME(exposed_by_kind);
    SAME(compute_by_part);
    SAME(recomputed_seconds);
    SAME(overlap_efficiency);
    SAME(tflops_per_rank);
    SAME(imbalance);
    SAME(visible_pairs);
    SAME(bytes_sent);
    SAME(flops);
    SAME(peak_bytes);
    SAME(peak_rank);
    SAME(compute_bound_seconds);
    SAME(wire_bound_seconds);
    expect_same_rank(&few->ranks[few->critical_rank], &all->ranks[all->critical_rank], what);
    expect_same_rank(&few->ranks[few->peak_rank], &all->ranks[all->peak_rank], what);
}

static void figures_alone_are_those_of_the_report(void **state)
{
    (void)state;
    struct dice dice = {.state = 23};
    unsigned by_steps = 0, unknown = 0;
    for (unsigned accepted = 0, tried = 0; accepted < CASES; tried++) {
        struct pair pair;
        bool uniform;
        assert_true(tried < 40 * CASES);
        if (!random_layout_pair(&dice, &pair, &uniform))
            continue;
        if (is_quick(&pair) && count_moments(&pair.whole) > 0) {
            struct plan_memo *memo = plan_memo_create();
            struct timeline steps, moments;
            struct report few, all;
            accepted++;
            report_of(&all, &pair, NULL, false, &moments);
            report_of(&few, &pair, memo, true, &steps);
            expect_same(&few, &all, pair.what);
            by_steps += !steps.moments;
            for (uint32_t i = 0; i < few.n_ranks; i++)
                unknown += isnan(few.ranks[i].idle_seconds) ? 1 : 0;
            report_fini(&few);
            report_fini(&all);
            timeline_fini(&steps);
            timeline_fini(&moments);
            plan_memo_destroy(memo);
        }
        pair_fini(&pair);
    }
    print_message("%u by steps, %u ranks spared\n", by_steps, unknown);
    assert_true(by_steps > CASES / 20 && unknown > CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_alone_are_those_of_the_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
