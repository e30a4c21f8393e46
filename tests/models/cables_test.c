/* Cables of meshes and dragonflies: numbers and ends agree, ways are connected, short and by the stated routers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/input/cables.h"
#include "tests/models/routes.h"

static void every_cable_of_a_mesh_is_found_by_its_ends(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < 40; size++) {
        struct level level = {.kind = LEVEL_MESH, .size = size};
        uint64_t cable = 0;
        for (uint64_t low = 0; low < size; low++) {
            for (uint64_t high = low + 1; high < size; high++, cable++) {
                uint64_t a, b;
                cables_ends(&level, cable, &a, &b);
                assert_int_equal(a, low);
                assert_int_equal(b, high);
            }
        }
        assert_int_equal(cables_count(&level), cable);
    }
}

/* Four groups of two routers of one GPU: group g has the cable to the n-th other group at its router n mod 2. */
#define DRAGONFLY                                                                                                      \
    CLUSTER "[level fly]\nsize = 8\nkind = dragonfly:4x2\nbandwidth = 2 GB/s\nlatency = 1 us\n"                        \
            "global_bandwidth = 1 GB/s\nglobal_latency = 10 us\n"

static void minimal_ways_go_by_the_stated_routers(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, DRAGONFLY);
    assert_int_equal(t.n_links, 2 * (4 + 6));
    assert_route_text(&t, 0, 1, "fly: gpu 0 to gpu 1", 1);
    assert_route_text(&t, 0, 2, "fly: gpu 0 to gpu 2", 10);                      /* groups 0 and 1: first of each */
    assert_route_text(&t, 1, 2, "fly: gpu 1 to gpu 0, fly: gpu 0 to gpu 2", 11); /* local, global */
    assert_route_text(&t, 0, 3, "fly: gpu 0 to gpu 2, fly: gpu 2 to gpu 3", 11); /* global, local */
    assert_route_text(&t, 3, 1, "fly: gpu 3 to gpu 2, fly: gpu 2 to gpu 0, fly: gpu 0 to gpu 1", 12);
    assert_route_text(&t, 0, 4, "fly: gpu 0 to gpu 1, fly: gpu 1 to gpu 4", 11); /* group 2 is the second other */
    assert_route_text(&t, 6, 0, "fly: gpu 6 to gpu 0", 10);                      /* third of 0, first of 3 */
    struct route route;
    route_init(&route);
    find_route(&t, 0, 1, &route);
    assert_true(route.bytes_per_s == 2e9);
    find_route(&t, 3, 1, &route);
    assert_true(route.bytes_per_s == 1e9 && topology_link(&t, route.links[0]).bytes_per_s == 2e9);
    route_fini(&route);
    topology_fini(&t);
}

static void a_dragonfly_of_switches_crosses_them(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER "[level router]\nsize = 2\nkind = switch\nbandwidth = 5 GB/s\nlatency = 100 us\n"
                              "[level fly]\nsize = 6\nkind = dragonfly:3x2\nattach = node\n" RATE);
    assert_route_text(&t, 0, 11,
                      "router: gpu 0 up, fly: router 0 to router 1, fly: router 1 to router 4, "
                      "fly: router 4 to router 5, router: gpu 11 down",
                      103); /* no global_latency: as the others */
    topology_fini(&t);
}

/* By the ends of their cables. */
static void dragonfly_ways_are_connected_with_one_cable_between_groups(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{2, 1}, {3, 1}, {4, 3}, {5, 4}, {7, 2}, {9, 8}, {1, 5}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        uint32_t size = shapes[s][0] * shapes[s][1];
        char text[256];
        snprintf(text, sizeof text, CLUSTER "[level f]\nsize = %u\nkind = dragonfly:%ux%u\n" RATE, size, shapes[s][0],
                 shapes[s][1]);
        struct topology t;
        read_topology(&t, text);
        struct route route;
        route_init(&route);
        for (uint64_t from = 0; from < size; from++) {
            for (uint64_t to = 0; to < size; to++) {
                if (from == to)
                    continue;
                find_route(&t, from, to, &route);
                uint64_t at = from, global = 0;
                for (size_t i = 0; i < route.n_links; i++) {
                    struct link_place place = wiring_locate(&t, route.links[i]);
                    uint64_t a, b;
                    cables_ends(&t.levels[0], place.cable, &a, &b);
                    assert_int_equal(at, place.direction == FORWARD ? a : b);
                    at = place.direction == FORWARD ? b : a;
                    global += a / shapes[s][1] != b / shapes[s][1];
                    assert_int_equal(cables_is_global(&t.levels[0], place.cable), a / shapes[s][1] != b / shapes[s][1]);
                }
                assert_int_equal(at, to);
                assert_int_equal(global, from / shapes[s][1] != to / shapes[s][1]);
                assert_true(route.n_links <= 1 + 2 * global);
            }
        }
        route_fini(&route);
        topology_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cable_of_a_mesh_is_found_by_its_ends),
        cmocka_unit_test(minimal_ways_go_by_the_stated_routers),
        cmocka_unit_test(a_dragonfly_of_switches_crosses_them),
        cmocka_unit_test(dragonfly_ways_are_connected_with_one_cable_between_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
