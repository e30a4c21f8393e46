/* What is said of a simulation whose messages leave their groups, of random programs: critical paths leave no time
 * unexplained, members of collectives are where they are, hot links are those of their users; and the ways to simulate
 * it without a clock find the moments that the event loop finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/result/step_path.h"
#include "sim/critical_path.h"
#include "sim/event_loop.h"
#include "sim/path_costs.h"
#include "sim/surroundings.h"
#include "tests/sim/layout_programs.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 40
#else
#define CASES 300
#endif

/* A path has no gap, and its pieces end when what they are of does. Where nothing but the programs' order and the
 * links' own times count, neither does a message on it wait for anything: what it began after has been found. */
static void check_path(const struct pair *pair, bool folded)
{
    struct simulation simulation = folded ? pair->turned_simulation : pair->simulation;
    struct timeline timeline;
    struct plan plan;
    struct step_path path;
    struct diagnostics diag;
    diagnostics_init(&diag);
    simulation.ensemble = folded ? &pair->folding.ensemble : &pair->whole;
    simulation.folding = folded ? &pair->folding : NULL;
    timeline_of(&timeline, simulation.ensemble);
    assert_true(plan_init(&plan, &simulation, &diag) && engine_analytic.run(&simulation, &timeline, &diag));
    path_of_simulation(&path, &plan, folded ? &pair->turned : &pair->whole, &timeline);
    double end = timeline.phase_end[PHASE_COUNT - 1], at = 0;
    bool waits = cost_waits(&pair->cost) || pair->device.transfer_slowdown > 0;
    for (size_t i = 0; i < path.count; i++) {
        const struct path_piece *piece = &path.pieces[i];
        if (!near(piece->begin, at, end) || (!waits && piece->seconds[PATH_WAITING] > TOLERANCE * 10 * end))
            fail_msg(
                "piece %zu of the path, operation %u of rank %u, begins at %.12g s after %.12g s, waits %.12g s: %s", i,
                piece->activity.op, piece->activity.instance, piece->begin, at, piece->seconds[PATH_WAITING],
                pair->what);
        at = piece->end;
        if (piece->activity.op == PATH_NO_OP)
            continue;
        uint32_t instance = folding_instance(simulation.folding, piece->activity.instance);
        if (!near(timeline.moments[instance][piece->activity.op].end, at, end))
            fail_msg("piece %zu of the path, operation %u of rank %u, does not end with it: %s", i, piece->activity.op,
                     piece->activity.instance, pair->what);
    }
    if (!near(at, end, end))
        fail_msg("the path ends at %.12g s, the step at %.12g s: %s", at, end, pair->what);
    step_path_fini(&path);
    plan_fini(&plan);
    timeline_fini(&timeline);
    diagnostics_fini(&diag);
}

/* How many members a rank has within its instance of each level, and how far apart they are: one by one. */
static void check_members(const struct pair *pair, const struct ensemble *ensemble, uint32_t instance,
                          const struct surroundings *surroundings, uint32_t index)
{
    const struct program *program = ensemble_program(ensemble, instance);
    const struct instance *self = &ensemble->instances[instance];
    struct members members = communicator_of_collective(program, &program->collectives[index]);
    uint64_t gpu = placement_gpu(&pair->placement, self->group, self->rank), lowest = UINT64_MAX, highest = 0;
    uint32_t at_level[LEVELS_MAX] = {0};
    for (uint32_t i = 0; i < members.count; i++) {
        struct rank_place place = ensemble_peer_place(ensemble, instance, members.numbers[i]);
        uint64_t other = placement_gpu(&pair->placement, place.group, place.rank);
        at_level[topology_level_between(&pair->topology, gpu, other)]++;
        lowest = other < lowest ? other : lowest;
        highest = other > highest ? other : highest;
    }
    struct communicator_size size = surroundings_of_collective(surroundings, index);
    bool good = size.ranks == members.count && size.span == topology_level_between(&pair->topology, lowest, highest);
    for (uint32_t k = 0, nearer = 1, joined = 0; k < pair->topology.n_levels; k++, nearer = joined) {
        joined += at_level[k];
        good = good && surroundings_members(surroundings, index, k) == (joined + nearer - 1) / nearer;
    }
    if (!good)
        fail_msg("rank %u of group %u sees other members of collective %u: %s", self->rank, self->group, index,
                 pair->what);
}

/* Who uses a hot link has a way over it, from group to group. */
static void check_users(const struct pair *pair, const struct timeline *timeline)
{
    struct report report;
    struct diagnostics diag;
    struct route route;
    diagnostics_init(&diag);
    route_init(&route);
    make_report(&report, pair, NULL, timeline);
    for (uint32_t h = 0; h < report.n_hot_links; h++) {
        const struct hot_link *link = &report.hot_links[h];
        for (uint32_t u = 0; u < link->n_users; u++) {
            const struct link_user *user = &link->users[u];
            assert_true(topology_route(&pair->topology, placement_gpu(&pair->placement, user->group, user->from),
                                       placement_gpu(&pair->placement, user->to_group, user->to), &route, &diag));
            bool crosses = false;
            for (size_t i = 0; i < route.n_links; i++)
                crosses |= route.links[i] == link->link;
            assert_true(crosses);
        }
    }
    route_fini(&route);
    report_fini(&report);
    diagnostics_fini(&diag);
}

static void check_surroundings(const struct pair *pair, const struct ensemble *ensemble, const struct folding *folding)
{
    struct simulation simulation = pair->simulation;
    struct neighbourhood neighbourhood;
    struct surroundings surroundings = {0};
    simulation.ensemble = ensemble;
    simulation.folding = folding;
    neighbourhood_init(&neighbourhood, &simulation);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        surroundings_of(&neighbourhood, i, &surroundings);
        for (uint32_t c = 0; c < ensemble_program(ensemble, i)->n_collectives; c++)
            check_members(pair, ensemble, i, &surroundings, c);
    }
    free(surroundings.numbers);
    neighbourhood_fini(&neighbourhood);
}

/* The analytic engine's moments, by the event loop whatever there is to simulate. */
static void check_moments(const struct pair *pair, const struct timeline *expected)
{
    struct simulation simulation = pair->simulation;
    struct event_loop loop;
    struct timeline timeline;
    struct diagnostics diag;
    diagnostics_init(&diag);
    timeline_of(&timeline, &pair->whole);
    assert_true(event_loop_init(&loop, &simulation, &timeline, &diag));
    event_loop_begin_ready(&loop);
    for (double at; event_loop_next(&loop, &at);) {
        event_loop_step(&loop);
        event_loop_begin_ready(&loop);
    }
    assert_true(recorder_end(&loop.recorder, &diag));
    double step = expected->phase_end[PHASE_COUNT - 1];
    for (uint32_t i = 0; i < timeline.n_instances; i++) {
        for (uint32_t op = 0; op < ensemble_program(&pair->whole, i)->n_ops; op++) {
            struct moment a = timeline.moments[i][op], b = expected->moments[i][op];
            if (!near(a.begin, b.begin, step) || !near(a.move, b.move, step) || !near(a.end, b.end, step))
                fail_msg("operation %u of rank %u begins at %.12g s by the event loop, %.12g s without: %s", op, i,
                         a.begin, b.begin, pair->what);
        }
    }
    event_loop_fini(&loop);
    timeline_fini(&timeline);
    diagnostics_fini(&diag);
}

/* Where one folded replica is left, its order gives the step's seconds. Returns whether that was so. */
static bool check_order(const struct pair *pair, double seconds)
{
    const struct ensemble *ensemble = &pair->folding.ensemble;
    struct simulation simulation = pair->turned_simulation;
    struct run_order order;
    struct plan plan;
    struct diagnostics diag;
    diagnostics_init(&diag);
    simulation.ensemble = ensemble;
    simulation.folding = &pair->folding;
    assert_true(plan_init(&plan, &simulation, &diag));
    bool applies = critical_path_applies(&plan) && critical_path_goes_by_order(&plan);
    if (applies) {
        struct execution *execution = execution_of(ensemble);
        assert_true(run_order_init(&order, execution));
        execution_destroy(execution);
        struct order_times times;
        double phase_end[PHASE_COUNT], found;
        order_times_init(&times, &order, &plan);
        struct interval *spans = memory_zeroed(order.n_steps, sizeof *spans);
        run_order_run(&order, times.times, times.time_of, spans, phase_end);
        found = phase_end[PHASE_COUNT - 1];
        if (!near(found, seconds, seconds))
            fail_msg("the step takes %.12g s by its order, %.12g s simulated: %s", found, seconds, pair->what);
        free(spans);
        order_times_fini(&times);
        run_order_fini(&order);
    }
    plan_fini(&plan);
    diagnostics_fini(&diag);
    return applies;
}

static void all_views_agree(void **state)
{
    (void)state;
    struct dice dice = {.state = 11};
    unsigned in_order = 0;
    for (unsigned accepted = 0, tried = 0; accepted < CASES; tried++) {
        struct pair pair;
        struct timeline timeline;
        bool uniform;
        assert_true(tried < 40 * CASES);
        if (!random_layout_pair(&dice, &pair, &uniform))
            continue;
        if (is_quick(&pair) && count_moments(&pair.whole) > 0) {
            accepted++;
            assert_true(run(&engine_analytic, &pair, NULL, &timeline));
            check_surroundings(&pair, &pair.whole, NULL);
            check_surroundings(&pair, &pair.turned, NULL);
            check_surroundings(&pair, &pair.folding.ensemble, &pair.folding);
            check_users(&pair, &timeline);
            check_path(&pair, false);
            check_path(&pair, true);
            check_moments(&pair, &timeline);
            in_order += check_order(&pair, timeline.phase_end[PHASE_COUNT - 1]);
            timeline_fini(&timeline);
        }
        pair_fini(&pair);
    }
    print_message("%u by their order\n", in_order);
    assert_true(in_order > CASES / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_views_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
