/* What sharing comes to on the networks that levels and graphs describe, as closed forms: oversubscription, NICs,
 * rails, hashed and spread uplinks, dragonflies, graphs, links that are slow and NICs that are missing. Messages are of
 * 100 MB over links of 1 GB/s, unless another rate is said: a lone one takes 0.1 s, and latencies are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

#define EXACT 1e-9
#define BYTES UINT64_C(100000000)
#define CLUSTER "[cluster]\ndevice = toy\n"
#define FAST "bandwidth = 100 GB/s\nlatency = 0 s\n"
#define SLOW "bandwidth = 1 GB/s\nlatency = 0 s\n"

struct pair {
    uint32_t from, to;
};

/* The seconds until the last of the messages, all sent at once, has arrived; `ends` gets each one's. */
static double seconds_with(const char *topology, const struct pair *pairs, uint32_t n, double *ends)
{
    struct scene scene;
    scene_init(&scene, topology, 1, 1);
    uint32_t gpus = (uint32_t)scene.topology.n_gpus;
    scene_fini(&scene);
    scene_init(&scene, topology, gpus, 1);
    uint32_t *op = memory_zeroed(gpus, sizeof *op), *of = memory_zeroed(n, sizeof *of);
    for (uint32_t i = 0; i < n; i++) {
        of[i] = op[pairs[i].from]++;
        enum stream stream = i % 2 ? STREAM_GRADIENT : STREAM_EXCHANGE; /* of a GPU's two messages, one each */
        add_message(&scene, stream, pairs[i].from, pairs[i].to, BYTES);
        op[pairs[i].to]++;
    }
    end_phase(&scene, PHASE_FORWARD);
    struct outcome outcome;
    run_scene(&outcome, &engine_simgrid, &scene);
    assert_string_equal(outcome.messages, "");
    assert_true(outcome.good);
    for (uint32_t i = 0; ends && i < n; i++)
        ends[i] = moment_of(&outcome, pairs[i].from, of[i]).end;
    double seconds = seconds_of(&outcome);
    outcome_fini(&outcome);
    scene_fini(&scene);
    free(op);
    free(of);
    return seconds;
}

static const struct pair four_out[] = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};

static void an_oversubscription_of_r_takes_r_times_as_long(void **state)
{
    (void)state;
    static const struct {
        const char *ratio;
        double factor;
    } cases[] = {{"1:1", 1}, {"2:1", 2}, {"4:1", 4}, {"3:2", 1.5}, {"1:2", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 CLUSTER "[level node]\nsize = 4\nkind = switch\n" SLOW
                         "[level pod]\nsize = 2\nkind = switch\nattach = node\noversubscription = %s\nlatency = 0 s\n",
                 cases[i].ratio);
        assert_near(seconds_with(text, four_out, 4, NULL), 0.1 * cases[i].factor, EXACT);
        assert_near(seconds_with(text, four_out, 1, NULL), 0.1 * (cases[i].factor > 4 ? cases[i].factor / 4 : 1),
                    EXACT);
    }
}

static void fewer_nics_are_shared(void **state)
{
    (void)state;
    for (uint32_t nics = 1; nics <= 4; nics++) {
        char text[512];
        snprintf(text, sizeof text,
                 CLUSTER "[level node]\nsize = 4\nkind = switch\n" FAST "[level leaf]\nsize = 2\nkind = switch\n" SLOW
                         "nics = %u\n",
                 nics);
        uint32_t most = (4 + nics - 1) / nics; /* GPUs on one NIC */
        assert_near(seconds_with(text, four_out, 4, NULL), 0.1 * most, EXACT);
    }
}

#define RAILS(crossing)                                                                                                \
    CLUSTER "[level node]\nsize = 2\nkind = switch\n" FAST "[level leaf]\nsize = 3\nkind = switch\n" SLOW              \
            "cross_rail = " crossing "\n"
#define SPINE "[level spine]\nsize = 1\nkind = switch\nattach = switch\n" SLOW

/* Two messages of one node to other nodes, both to rail 1. */
static void nvlink_first_makes_messages_share_the_destinations_rail(void **state)
{
    (void)state;
    static const struct pair to_rail_1[] = {{0, 3}, {1, 5}};
    assert_near(seconds_with(RAILS("leaf"), to_rail_1, 2, NULL), 0.1, EXACT);
    assert_near(seconds_with(RAILS("nvlink"), to_rail_1, 2, NULL), 0.2, EXACT);
    assert_near(seconds_with(RAILS("spine") SPINE, to_rail_1, 2, NULL), 0.1, EXACT);
}

/* Messages of three nodes from rail 0 to rail 1: the leaf switch has one uplink. */
static void the_spine_is_shared_by_all_that_cross_rails(void **state)
{
    (void)state;
    static const struct pair across[] = {{0, 3}, {2, 5}, {4, 1}};
    assert_near(seconds_with(RAILS("leaf"), across, 3, NULL), 0.1, EXACT);
    assert_near(seconds_with(RAILS("nvlink"), across, 3, NULL), 0.1, EXACT);
    assert_near(seconds_with(RAILS("spine") SPINE, across, 3, NULL), 0.3, EXACT);
}

static void a_missing_nic_doubles_the_load_of_the_next(void **state)
{
    (void)state;
    const char *missing =
        CLUSTER "[level node]\nsize = 4\nkind = switch\n" FAST "[level leaf]\nsize = 2\nkind = switch\n" SLOW
                "[override dead]\nlink = leaf: gpu 1 up\nmissing = yes\n";
    double ends[4];
    seconds_with(missing, four_out, 4, ends);
    assert_near(ends[0], 0.1, EXACT);
    assert_near(ends[1], 0.2, EXACT);
    assert_near(ends[2], 0.2, EXACT);
    assert_near(ends[3], 0.1, EXACT);
}

#define UPLINKS                                                                                                        \
    "[level node]\nsize = 4\nkind = switch\n" FAST                                                                     \
    "[level pod]\nsize = 2\nkind = switch\nattach = node\nuplinks = 2\n" SLOW

/* Messages whose hash is the same share an uplink, and there are seeds for every number of them. */
static void hashed_messages_collide_as_their_routes_say(void **state)
{
    (void)state;
    bool seen[5] = {false};
    struct route route;
    route_init(&route);
    for (int seed = 0; seed < 12; seed++) {
        char text[512];
        struct topology topology;
        struct diagnostics diag;
        diagnostics_init(&diag);
        snprintf(text, sizeof text, CLUSTER "seed = %d\n" UPLINKS, seed);
        assert_true(topology_read_text(&topology, "t.ini", text, &diag));
        uint32_t load[2] = {0}, way[4];
        for (int i = 0; i < 4; i++) {
            assert_true(topology_route(&topology, four_out[i].from, four_out[i].to, &route, &diag));
            way[i] = wiring_locate(&topology, route.links[1]).way;
            load[way[i]]++;
        }
        double ends[4];
        seconds_with(text, four_out, 4, ends);
        for (int i = 0; i < 4; i++)
            assert_near(ends[i], 0.1 * load[way[i]], EXACT);
        seen[load[0]] = true;
        topology_fini(&topology);
        diagnostics_fini(&diag);
    }
    assert_true(seen[2] && (seen[1] || seen[3]));
    route_fini(&route);
}

static void shortest_piles_up_on_the_first_and_adaptive_never_does(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 4; n++) {
        assert_near(seconds_with(CLUSTER "routing = shortest\n" UPLINKS, four_out, n, NULL), 0.1 * n, EXACT);
        assert_near(seconds_with(CLUSTER "routing = adaptive\n" UPLINKS, four_out, n, NULL), 0.1 * n / 2, EXACT);
    }
}

/* Rings of four ranks, two in each node: every ring crosses the node's uplink once each way. */
static void k_rings_share_an_uplink(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 3; k++) {
        struct pair pairs[12];
        for (uint32_t ring = 0; ring < k; ring++) {
            uint32_t ranks[4] = {2 * ring, 2 * ring + 1, 6 + 2 * ring, 7 + 2 * ring};
            for (uint32_t i = 0; i < 4; i++)
                pairs[4 * ring + i] = (struct pair){ranks[i], ranks[(i + 1) % 4]};
        }
        double ends[12];
        seconds_with(CLUSTER "[level node]\nsize = 6\nkind = switch\n" FAST
                             "[level pod]\nsize = 2\nkind = switch\nattach = node\n" SLOW,
                     pairs, 4 * k, ends);
        for (uint32_t i = 0; i < 4 * k; i++)
            assert_near(ends[i], i % 2 ? 0.1 * k : 0.001, EXACT);
    }
}

/* Groups of two routers: whatever goes from group 0 to group 1 shares one cable, to group 2 another. */
static void a_dragonflys_groups_share_their_cable(void **state)
{
    (void)state;
    const char *fly =
        CLUSTER "[level router]\nsize = 2\nkind = switch\n" FAST
                "[level fly]\nsize = 6\nkind = dragonfly:3x2\nattach = node\n" FAST "global_bandwidth = 1 GB/s\n";
    static const struct pair pairs[] = {{0, 4}, {1, 6}, {2, 5}, {3, 8}, {9, 7}};
    double ends[5];
    seconds_with(fly, pairs, 5, ends);
    for (int i = 0; i < 3; i++)
        assert_near(ends[i], 0.3, EXACT);
    assert_near(ends[3], 0.1, EXACT);
    assert_near(ends[4], 0.1, EXACT);
}

static void a_graphs_links_are_shared(void **state)
{
    (void)state;
    const char *graph = CLUSTER "routing = shortest\n"
                                "[link gpu0 a]\n" FAST "[link gpu1 a]\n" FAST "[link gpu2 a]\n" FAST "[link a b]\n" SLOW
                                "[link b gpu3]\n" FAST "[link b gpu4]\n" FAST "[link b gpu5]\n" FAST;
    static const struct pair pairs[] = {{0, 3}, {1, 4}, {2, 5}, {3, 0}};
    double ends[4];
    for (uint32_t n = 1; n <= 3; n++)
        assert_near(seconds_with(graph, pairs, n, NULL), 0.1 * n, EXACT);
    seconds_with(graph, pairs, 4, ends);
    assert_near(ends[2], 0.3, EXACT);
    assert_near(ends[3], 0.1, EXACT); /* the other way */
}

static void a_slow_link_slows_its_own_messages_only(void **state)
{
    (void)state;
    const char *slow =
        CLUSTER "[level node]\nsize = 4\nkind = switch\n" FAST "[level leaf]\nsize = 2\nkind = switch\n" SLOW
                "[override slow]\nlink = leaf: gpu 2 up\nfactor = 0.25\n"
                "[override slower]\nlink = leaf: gpu 7 down\nbandwidth = 125 MB/s\nlatency = 10 ms\n";
    double ends[4];
    seconds_with(slow, four_out, 4, ends);
    assert_near(ends[0], 0.1, EXACT);
    assert_near(ends[1], 0.1, EXACT);
    assert_near(ends[2], 0.4, EXACT);
    assert_near(ends[3], 0.81, EXACT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_oversubscription_of_r_takes_r_times_as_long),
        cmocka_unit_test(fewer_nics_are_shared),
        cmocka_unit_test(nvlink_first_makes_messages_share_the_destinations_rail),
        cmocka_unit_test(the_spine_is_shared_by_all_that_cross_rails),
        cmocka_unit_test(a_missing_nic_doubles_the_load_of_the_next),
        cmocka_unit_test(hashed_messages_collide_as_their_routes_say),
        cmocka_unit_test(shortest_piles_up_on_the_first_and_adaptive_never_does),
        cmocka_unit_test(k_rings_share_an_uplink),
        cmocka_unit_test(a_dragonflys_groups_share_their_cable),
        cmocka_unit_test(a_graphs_links_are_shared),
        cmocka_unit_test(a_slow_link_slows_its_own_messages_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
