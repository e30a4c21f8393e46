/* Nodes of unequal sizes: ranks are numbered over the GPUs that are there, and ports stay where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/routes.h"

#define NODE(keys) "[level node]\nsize = 4\nkind = switch\n" RATE keys
#define LEAF(size, keys) "[level leaf]\nsize = " #size "\nkind = switch\nbandwidth = 1 GB/s\nlatency = 10 us\n" keys

static void gpus_are_numbered_over_those_that_are_there(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE("sizes = 4, 2,3\n") LEAF(3, ""));
    assert_int_equal(t.n_gpus, 9);
    assert_route_text(&t, 0, 3, "node: gpu 0 up, node: gpu 3 down", 1);
    assert_route_text(&t, 4, 5, "node: gpu 4 up, node: gpu 5 down", 1);
    assert_route_text(&t, 5, 6, "leaf: gpu 5 up, leaf: gpu 6 down", 10); /* nodes 1 and 2 */
    assert_route_text(&t, 8, 0, "leaf: gpu 8 up, leaf: gpu 0 down", 10);
    assert_int_equal(topology_level_between(&t, 3, 4), 1);
    assert_int_equal(topology_level_between(&t, 6, 8), 0);
    static const uint64_t node[] = {0, 0, 0, 0, 1, 1, 2, 2, 2}, lane[] = {0, 1, 2, 3, 0, 1, 0, 1, 2};
    for (uint64_t gpu = 0; gpu < 9; gpu++) {
        assert_int_equal(topology_node(&t, gpu), node[gpu]);
        assert_int_equal(topology_lane(&t, gpu), lane[gpu]);
    }
    struct route route;
    struct diagnostics diag;
    route_init(&route);
    diagnostics_init(&diag);
    assert_false(topology_route(&t, 0, 9, &route, &diag));
    assert_string_equal(diag.lines[0], "no route from gpu 0 to gpu 9: the topology has 9");
    diagnostics_fini(&diag);
    route_fini(&route);
    topology_fini(&t);
}

static void links_of_absent_gpus_are_told_apart(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE("sizes = 4x1, 2\n") LEAF(2, "nics = 2\n"));
    size_t absent = 0;
    for (uint64_t link = 0; link < t.n_links; link++) {
        char name[LINK_NAME_SIZE];
        topology_link_name(&t, link, name, sizeof name);
        bool expected = strstr(name, "absent") || strstr(name, "node 1 nic 1"); /* of GPUs 2 and 3 of node 1 */
        assert_true(topology_link(&t, link).absent == expected);
        absent += expected;
    }
    assert_int_equal(absent, 2 * 2 + 2);
    topology_fini(&t);

    read_topology(&t, CLUSTER "[level node]\nsize = 4\nsizes = 2\nkind = mesh\n" RATE);
    for (uint64_t link = 0; link < t.n_links; link++) {
        char name[LINK_NAME_SIZE];
        topology_link_name(&t, link, name, sizeof name);
        assert_true(topology_link(&t, link).absent == (strstr(name, "absent") != NULL));
    }
    topology_fini(&t);
}

static void outer_levels_may_be_unequal_too(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE("sizes = 4, 4, 1\n")
                          LEAF(2, "sizes = 2, 1\n") "[level site]\nsize = 2\nkind = mesh\nattach = node\n" RATE);
    assert_int_equal(t.n_gpus, 9);
    assert_route_text(&t, 8, 7, "leaf: gpu 8 up, site: leaf 1 to leaf 0, leaf: gpu 7 down", 11);
    topology_fini(&t);
}

static void sizes_that_are_all_full_change_nothing(void **state)
{
    (void)state;
    struct topology full, said;
    read_topology(&full, CLUSTER NODE("") LEAF(5, ""));
    read_topology(&said, CLUSTER NODE("sizes = 4x3, 4x2\n") LEAF(5, ""));
    assert_int_equal(full.n_gpus, said.n_gpus);
    struct route one, other;
    route_init(&one);
    route_init(&other);
    for (uint64_t from = 0; from < full.n_gpus; from++) {
        for (uint64_t to = 0; to < full.n_gpus; to++) {
            if (from == to)
                continue;
            find_route(&full, from, to, &one);
            find_route(&said, from, to, &other);
            assert_int_equal(one.n_links, other.n_links);
            assert_memory_equal(one.links, other.links, one.n_links * sizeof *one.links);
        }
    }
    route_fini(&one);
    route_fini(&other);
    topology_fini(&full);
    topology_fini(&said);
}

static void nvlink_first_goes_where_both_nodes_have_a_gpu(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE("sizes = 4, 2\n") LEAF(2, "cross_rail = nvlink\n"));
    assert_route_text(&t, 4, 1, "node: gpu 4 up, node: gpu 5 down, leaf: gpu 5 up, leaf: gpu 1 down", 11);
    /* The other node has no GPU on rail 3; the next rail that both have is 0. */
    assert_route_text(&t, 5, 3,
                      "node: gpu 5 up, node: gpu 4 down, leaf: gpu 4 up, leaf: gpu 0 down, node: gpu 0 up, "
                      "node: gpu 3 down",
                      12);
    topology_fini(&t);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    assert_refused_text(CLUSTER NODE("sizes = 4, 2\n") LEAF(3, ""),
                        "t.ini:8: 'sizes' is of 2 instances, expected as many as there are, 3");
    assert_refused_text(CLUSTER NODE("sizes = 4x4\n") LEAF(3, ""),
                        "t.ini:8: 'sizes' is of 4 instances, expected as many as there are, 3");
    assert_refused_text(CLUSTER NODE("sizes = 4, 5, 4\n") LEAF(3, ""),
                        "t.ini:8: 'sizes' has 5, expected at most the size, 4");
    static const char *const bad[] = {"4,", "0, 4", "4x0", "4x", "x4", "-1", "4 4", "1.5", ","};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512], lines[512];
        snprintf(text, sizeof text, CLUSTER NODE("sizes = %s\n") LEAF(2, ""), bad[i]);
        snprintf(lines, sizeof lines,
                 "t.ini:8: 'sizes' is '%s', expected the sizes of the instances in order, such as 8x15, 4", bad[i]);
        assert_refused_text(text, lines);
    }
    assert_refused_text(CLUSTER "[level r]\nsize = 4\nkind = ring\nsizes = 3\n" RATE,
                        "t.ini:6: 'sizes' in a ring, expected a switch or a mesh: all others need every member");
    assert_refused_text(CLUSTER NODE("sizes = 4, 3\n") "[level m]\nsize = 2\nkind = mesh\n" RATE,
                        "t.ini:11: a mesh of rails over members of unequal sizes, expected attach = node");
    assert_refused_text("[cluster]\ndevice = toy\nranks_per_device = 2\n" NODE("sizes = 4, 3\n") LEAF(2, ""),
                        "t.ini:3: ranks_per_device = 2 does not divide the 3 members of level 'node', expected all "
                        "devices to have as many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_numbered_over_those_that_are_there),
        cmocka_unit_test(links_of_absent_gpus_are_told_apart),
        cmocka_unit_test(outer_levels_may_be_unequal_too),
        cmocka_unit_test(sizes_that_are_all_full_change_nothing),
        cmocka_unit_test(nvlink_first_goes_where_both_nodes_have_a_gpu),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
