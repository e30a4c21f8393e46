/* Parallel uplinks: which one a message takes, how evenly a hash spreads pairs, and what an oversubscription comes to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>

#include "tests/models/routes.h"

#define NODE "[level node]\nsize = 4\nkind = switch\nbandwidth = 3 GB/s\nlatency = 1 us\n"
#define POD(keys) "[level pod]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 1 GB/s\nlatency = 2 us\n" keys

static void shortest_takes_the_first(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE POD("uplinks = 3\nrouting = shortest\n"));
    assert_int_equal(t.n_links, 2 * 8 + 2 * 2 * 3);
    for (uint64_t from = 0; from < 4; from++) {
        char text[128];
        snprintf(text, sizeof text, "node: gpu %d up, pod: node 0 up/0, pod: node 1 down/0, node: gpu 6 down",
                 (int)from);
        assert_route_text(&t, from, 6, text, 3);
    }
    topology_fini(&t);
}

static void adaptive_uplinks_are_one_link_of_all_their_bandwidth(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER "routing = adaptive\n" NODE POD("uplinks = 2\n"));
    assert_int_equal(t.n_links, 2 * 8 + 2 * 2);
    assert_route_text(&t, 1, 6, "node: gpu 1 up, pod: node 0 up, pod: node 1 down, node: gpu 6 down", 3);
    struct route route;
    route_init(&route);
    find_route(&t, 1, 6, &route);
    assert_true(route.bytes_per_s == 2e9);
    assert_true(topology_link(&t, route.links[1]).bytes_per_s == 2e9);
    route_fini(&route);
    topology_fini(&t);
}

/* Which of the parallel links of level 1 the route takes, up and down. */
static uint32_t uplink_of(const struct topology *topology, uint64_t from, uint64_t to)
{
    struct route route;
    route_init(&route);
    find_route(topology, from, to, &route);
    uint32_t way = UINT32_MAX;
    for (size_t i = 0; i < route.n_links; i++) {
        struct link_place at = wiring_locate(topology, route.links[i]);
        if (at.level != 1)
            continue;
        if (way != UINT32_MAX)
            assert_int_equal(at.way, way); /* by one spine */
        way = at.way;
    }
    route_fini(&route);
    return way;
}

static void a_hash_keeps_a_pair_on_its_uplink_and_spreads_pairs_evenly(void **state)
{
    (void)state;
    enum { WAYS = 5, SEEDS = 4000 };
    struct topology t;
    read_topology(&t, CLUSTER NODE POD("uplinks = 5\nrouting = ecmp\n"));
    static const uint64_t pairs[][2] = {{0, 4}, {0, 5}, {1, 4}, {4, 0}, {3, 7}};
    for (size_t p = 0; p < 5; p++) {
        int taken[WAYS] = {0}, meeting = 0;
        for (t.seed = 0; t.seed < SEEDS; t.seed++) {
            uint32_t way = uplink_of(&t, pairs[p][0], pairs[p][1]);
            assert_int_equal(uplink_of(&t, pairs[p][0], pairs[p][1]), way);
            taken[way]++;
            meeting += way == uplink_of(&t, pairs[(p + 1) % 5][0], pairs[(p + 1) % 5][1]);
        }
        /* Counts of a binomial distribution: within five standard deviations. */
        double mean = (double)SEEDS / WAYS, slack = 5 * sqrt(mean * (1 - 1.0 / WAYS));
        for (int i = 0; i < WAYS; i++)
            assert_true(fabs(taken[i] - mean) < slack);
        assert_true(fabs(meeting - mean) < slack);
    }
    topology_fini(&t);

    /* And over the pairs of one seed. */
    read_topology(&t, CLUSTER "seed = 7\n[level node]\nsize = 64\nkind = switch\n" RATE POD("uplinks = 8\n"));
    int taken[8] = {0};
    for (uint64_t from = 0; from < 64; from++) {
        for (uint64_t to = 64; to < 128; to++)
            taken[uplink_of(&t, from, to)]++;
    }
    for (int i = 0; i < 8; i++)
        assert_true(abs(taken[i] - 512) < 5 * 22);
    topology_fini(&t);
}

static void levels_choose_independently(void **state)
{
    (void)state;
    struct topology t;
    read_topology(
        &t,
        CLUSTER NODE POD("uplinks = 2\n") "[level site]\nsize = 2\nkind = switch\nattach = switch\nuplinks = 2\n" RATE);
    int together[2][2] = {{0}};
    for (t.seed = 0; t.seed < 1000; t.seed++) {
        struct route route;
        route_init(&route);
        find_route(&t, 0, 8, &route);
        assert_int_equal(route.n_links, 6);
        together[wiring_locate(&t, route.links[1]).way][wiring_locate(&t, route.links[2]).way]++;
        route_fini(&route);
    }
    for (int i = 0; i < 4; i++)
        assert_true(abs(together[i / 2][i % 2] - 250) < 70);
    topology_fini(&t);
}

static void a_level_says_its_own_routing(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER "routing = shortest\n" NODE POD(
                          "uplinks = 2\nrouting = adaptive\n") "[level site]\nsize = 2\nkind = switch\nattach = "
                                                               "node\nuplinks = 2\n" RATE);
    assert_int_equal(t.levels[1].routing, ROUTING_ADAPTIVE);
    assert_int_equal(t.levels[2].routing, ROUTING_SHORTEST);
    topology_fini(&t);
}

static double bandwidth_of(const char *text, uint32_t level)
{
    struct topology t;
    read_topology(&t, text);
    double bytes_per_s = t.levels[level].bytes_per_s;
    topology_fini(&t);
    return bytes_per_s;
}

/* bandwidth = ports below, in a member, * their bandwidth / (uplinks of the member * ratio). */
static void an_oversubscription_makes_the_bandwidth(void **state)
{
    (void)state;
#define OVER(ratio, keys) "[level pod]\nsize = 2\nkind = switch\nlatency = 2 us\noversubscription = " ratio "\n" keys
    assert_true(bandwidth_of(CLUSTER NODE OVER("1:1", "attach = node\n"), 1) == 4 * 3e9);
    assert_true(bandwidth_of(CLUSTER NODE OVER("2:1", "attach = node\n"), 1) == 4 * 3e9 / 2);
    assert_true(bandwidth_of(CLUSTER NODE OVER("4:1", "attach = node\nuplinks = 2\n"), 1) == 4 * 3e9 / 8);
    assert_true(bandwidth_of(CLUSTER NODE OVER("3 : 2", "attach = switch\n"), 1) == 4 * 3e9 / 1.5);
    /* Rails: a leaf switch per GPU of a node, with a port per node. */
#define LEAF(keys) "[level leaf]\nsize = 6\nkind = switch\n" RATE keys
    assert_true(bandwidth_of(CLUSTER NODE LEAF("cross_rail = nvlink\n") OVER("2:1", "attach = switch\nuplinks = 3\n"),
                             2) == 6 * 1e9 / (3 * 2));
    assert_true(bandwidth_of(CLUSTER NODE LEAF("uplinks = 2\n") OVER("2:1", "attach = switch\nuplinks = 3\n"), 2) ==
                24 * 2 * 1e9 / (3 * 2));
    assert_true(bandwidth_of(CLUSTER NODE LEAF("nics = 2\n") OVER("1:1", "attach = switch\n"), 2) == 12 * 1e9);
    assert_true(bandwidth_of(CLUSTER NODE LEAF("") OVER("2:1", "attach = rail\n"), 2) == 1e9 / 2);
    /* Level upon level. */
    assert_true(
        bandwidth_of(
            CLUSTER NODE OVER(
                "2:1", "attach = node\n") "[level site]\nsize = 3\nkind = switch\nattach = switch\nlatency = 1 us\n"
                                          "oversubscription = 3:1\nuplinks = 4\n",
            2) == 2 * 6e9 / (3 * 4));
}

static void a_cluster_of_131072_gpus_costs_what_is_asked_of_it(void **state)
{
    (void)state;
    struct topology t;
    struct diagnostics diag;
    diagnostics_init(&diag);
    const char *overrides[] = {"level fabric.size=512", "level fabric.routing=ecmp",
                               "override slow.link=su: gpu 99992 up", "override slow.factor=0.5"};
    assert_true(topology_read(&t, CPSIM_SOURCE_DIR "/topologies/superpod-h100-16384.ini", overrides, 4, &diag));
    diagnostics_fini(&diag);
    assert_int_equal(t.n_gpus, 131072);
    assert_int_equal(t.n_links, 2 * 131072 * 3);
    assert_true(t.levels[2].bytes_per_s == 50e9);
#ifdef __SANITIZE_ADDRESS__
    uint64_t rounds = 1;
#else
    uint64_t rounds = 8;
#endif
    struct route route;
    route_init(&route);
    uint64_t links = 0, slow = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t from = 0; from < t.n_gpus; from++) {
            find_route(&t, from, (from + 1 + (round << 14) + round) % t.n_gpus, &route);
            links += route.n_links;
            slow += route.bytes_per_s < 50e9;
        }
    }
    assert_true(route.capacity <= 8); /* grown once */
    assert_true(links > 2 * rounds * t.n_gpus);
    assert_true(slow >= 1 && slow <= 2 * rounds);
    route_fini(&route);
    topology_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortest_takes_the_first),
        cmocka_unit_test(adaptive_uplinks_are_one_link_of_all_their_bandwidth),
        cmocka_unit_test(a_hash_keeps_a_pair_on_its_uplink_and_spreads_pairs_evenly),
        cmocka_unit_test(levels_choose_independently),
        cmocka_unit_test(a_level_says_its_own_routing),
        cmocka_unit_test(an_oversubscription_makes_the_bandwidth),
        cmocka_unit_test(a_cluster_of_131072_gpus_costs_what_is_asked_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
