/* NICs and rails: which NIC a message leaves and enters by, over NVLink first or over the spine, and past a missing
 * one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/routes.h"

#define NODE(size) "[level node]\nsize = " #size "\nkind = switch\nbandwidth = 10 GB/s\nlatency = 1 us\n"
#define LEAF(keys) "[level leaf]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 10 us\n" keys
#define SPINE(keys)                                                                                                    \
    "[level spine]\nsize = 2\nkind = switch\nattach = switch\nbandwidth = 1 GB/s\nlatency = 100 us\n" keys

static void gpus_share_fewer_nics(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE(4) LEAF("nics = 2\n"));
    assert_int_equal(t.n_links, 2 * 8 + 2 * 4);
    assert_route_text(&t, 0, 7, "leaf: node 0 nic 0 up, leaf: node 1 nic 1 down", 10);
    assert_route_text(&t, 1, 4, "leaf: node 0 nic 0 up, leaf: node 1 nic 0 down", 10);
    assert_route_text(&t, 6, 3, "leaf: node 1 nic 1 up, leaf: node 0 nic 1 down", 10);
    assert_route_text(&t, 2, 3, "node: gpu 2 up, node: gpu 3 down", 1);
    topology_fini(&t);

    /* GPU i uses NIC i * 3 / 8, rounded down. */
    read_topology(&t, CLUSTER NODE(8) LEAF("nics = 3\n"));
    static const int nic[] = {0, 0, 0, 1, 1, 1, 2, 2};
    for (uint64_t i = 0; i < 8; i++) {
        char text[80];
        snprintf(text, sizeof text, "leaf: node 0 nic %d up, leaf: node 1 nic %d down", nic[i], nic[7 - i]);
        assert_route_text(&t, i, 8 + 7 - i, text, 10);
    }
    topology_fini(&t);
}

static void nics_sit_on_gpus_however_deep_the_node_is(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER "[level pcie]\nsize = 2\nkind = switch\n" RATE
                              "[level node]\nsize = 2\nkind = switch\nattach = node\n" RATE LEAF("nics = 2\n"));
    assert_route_text(&t, 1, 6, "leaf: node 0 nic 0 up, leaf: node 1 nic 1 down", 10);
    assert_route_text(&t, 1, 2, "pcie: gpu 1 up, node: pcie 0 up, node: pcie 1 down, pcie: gpu 2 down", 2);
    topology_fini(&t);
}

static void one_nic_and_one_per_gpu_are_the_ends_of_the_range(void **state)
{
    (void)state;
    struct topology one, node, four, rail;
    read_topology(&one, CLUSTER NODE(4) LEAF("nics = 1\n"));
    read_topology(&node, CLUSTER "[level node]\nsize = 4\nkind = mesh\n" RATE LEAF("attach = node\n"));
    assert_route_text(&one, 3, 5, "leaf: node 0 up, leaf: node 1 down", 10);
    assert_route_text(&node, 3, 5, "leaf: node 0 up, leaf: node 1 down", 10);
    read_topology(&four, CLUSTER NODE(4) LEAF("nics = 4\n"));
    read_topology(&rail, CLUSTER NODE(4) LEAF(""));
    assert_int_equal(four.n_links, rail.n_links);
    assert_route_text(&four, 3, 5, "leaf: gpu 3 up, leaf: gpu 5 down", 10);
    assert_route_text(&rail, 3, 5, "leaf: gpu 3 up, leaf: gpu 5 down", 10);
    topology_fini(&one);
    topology_fini(&node);
    topology_fini(&four);
    topology_fini(&rail);
}

static void to_another_rail_nvlink_comes_first(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE(4) LEAF("cross_rail = nvlink\n"));
    assert_route_text(&t, 1, 5, "leaf: gpu 1 up, leaf: gpu 5 down", 10);
    assert_route_text(&t, 1, 7, "node: gpu 1 up, node: gpu 3 down, leaf: gpu 3 up, leaf: gpu 7 down", 11);
    assert_route_text(&t, 7, 1, "node: gpu 7 up, node: gpu 5 down, leaf: gpu 5 up, leaf: gpu 1 down", 11);
    topology_fini(&t);

    /* Two GPUs to a rail: to the one at the destination's place, unless the source is on the rail itself. */
    read_topology(&t, CLUSTER NODE(4) LEAF("nics = 2\ncross_rail = nvlink\n"));
    assert_route_text(&t, 1, 4, "leaf: node 0 nic 0 up, leaf: node 1 nic 0 down", 10);
    assert_route_text(&t, 1, 7, "node: gpu 1 up, node: gpu 3 down, leaf: node 0 nic 1 up, leaf: node 1 nic 1 down", 11);
    topology_fini(&t);

    /* The same beyond the leaf switches. */
    read_topology(&t, CLUSTER NODE(4) LEAF("cross_rail = nvlink\n") SPINE(""));
    assert_int_equal(t.n_links, 2 * 16 + 2 * 16 + 2 * 2 * 4);
    assert_route_text(&t, 1, 11,
                      "node: gpu 1 up, node: gpu 3 down, leaf: gpu 3 up, spine: leaf 0 rail 3 up, "
                      "spine: leaf 1 rail 3 down, leaf: gpu 11 down",
                      111);
    topology_fini(&t);
}

static void to_another_rail_the_spine_is_crossed(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE(4) LEAF("cross_rail = spine\n") SPINE(""));
    assert_route_text(&t, 1, 5, "leaf: gpu 1 up, leaf: gpu 5 down", 10);
    assert_route_text(&t, 1, 7, "leaf: gpu 1 up, spine: leaf 0 rail 1 up, spine: leaf 0 rail 3 down, leaf: gpu 7 down",
                      110);
    assert_route_text(&t, 1, 11,
                      "leaf: gpu 1 up, spine: leaf 0 rail 1 up, spine: leaf 1 rail 3 down, leaf: gpu 11 down", 110);
    assert_int_equal(topology_level_between(&t, 1, 7), 1);
    topology_fini(&t);

    /* Rails that stay apart in the spine as well meet in the core. */
    read_topology(&t, CLUSTER NODE(2) LEAF("cross_rail = spine\n")
                          SPINE("cross_rail = spine\n") "[level core]\nsize = 1\nkind = switch\nattach = "
                                                        "switch\nbandwidth = 1 GB/s\nlatency = 1 ms\n");
    assert_route_text(&t, 0, 2, "leaf: gpu 0 up, leaf: gpu 2 down", 10);
    assert_route_text(&t, 0, 3,
                      "leaf: gpu 0 up, spine: leaf 0 rail 0 up, core: spine 0 rail 0 up, core: spine 0 rail 1 down, "
                      "spine: leaf 0 rail 1 down, leaf: gpu 3 down",
                      1110);
    assert_route_text(&t, 0, 4, "leaf: gpu 0 up, spine: leaf 0 rail 0 up, spine: leaf 1 rail 0 down, leaf: gpu 4 down",
                      110);
    topology_fini(&t);
}

static void all_nics_on_one_leaf_switch_share_its_uplink(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE(4) LEAF("") SPINE(""));
    assert_int_equal(t.n_links, 2 * 16 + 2 * 16 + 2 * 2);
    assert_route_text(&t, 1, 7, "leaf: gpu 1 up, leaf: gpu 7 down", 10);
    assert_route_text(&t, 1, 11, "leaf: gpu 1 up, spine: leaf 0 up, spine: leaf 1 down, leaf: gpu 11 down", 110);
    topology_fini(&t);
}

#define MISSING(pattern) "[override dead]\nlink = " pattern "\nmissing = yes\n"

static void past_a_missing_nic_messages_take_the_next_gpus(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER NODE(4) LEAF("") MISSING("leaf: gpu 3 up"));
    assert_route_text(&t, 3, 5, "node: gpu 3 up, node: gpu 0 down, leaf: gpu 0 up, leaf: gpu 5 down", 11);
    assert_route_text(&t, 5, 3, "leaf: gpu 5 up, leaf: gpu 0 down, node: gpu 0 up, node: gpu 3 down", 11);
    assert_route_text(&t, 2, 5, "leaf: gpu 2 up, leaf: gpu 5 down", 10);
    assert_route_text(&t, 3, 2, "node: gpu 3 up, node: gpu 2 down", 1);
    for (uint64_t link = 0; link < t.n_links; link++) {
        char name[LINK_NAME_SIZE];
        topology_link_name(&t, link, name, sizeof name);
        bool gone = strcmp(name, "leaf: gpu 3 up") == 0 || strcmp(name, "leaf: gpu 3 down") == 0;
        assert_true(topology_link(&t, link).absent == gone);
    }
    topology_fini(&t);

    read_topology(&t, CLUSTER NODE(4) LEAF("nics = 2\n") MISSING("leaf: node 1 nic 0 *"));
    assert_route_text(&t, 0, 5, "leaf: node 0 nic 0 up, leaf: node 1 nic 1 down, node: gpu 6 up, node: gpu 5 down", 11);
    topology_fini(&t);

    /* With rails apart both ends use the next rail that has a NIC in both nodes. */
    read_topology(&t, CLUSTER NODE(4) LEAF("cross_rail = nvlink\n") MISSING("leaf: gpu [15] *"));
    assert_route_text(&t, 1, 6, "node: gpu 1 up, node: gpu 2 down, leaf: gpu 2 up, leaf: gpu 6 down", 11);
    assert_route_text(&t, 0, 5,
                      "node: gpu 0 up, node: gpu 2 down, leaf: gpu 2 up, leaf: gpu 6 down, node: gpu 6 up, "
                      "node: gpu 5 down",
                      12);
    topology_fini(&t);

    read_topology(&t, CLUSTER NODE(2) LEAF("cross_rail = nvlink\n") MISSING("leaf: gpu [03] *"));
    struct route route;
    struct diagnostics diag;
    route_init(&route);
    diagnostics_init(&diag);
    assert_false(topology_route(&t, 0, 2, &route, &diag));
    assert_string_equal(diag.lines[0], "no route from gpu 0 to gpu 2: no rail has a NIC in both nodes");
    route_fini(&route);
    diagnostics_fini(&diag);
    topology_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_share_fewer_nics),
        cmocka_unit_test(nics_sit_on_gpus_however_deep_the_node_is),
        cmocka_unit_test(one_nic_and_one_per_gpu_are_the_ends_of_the_range),
        cmocka_unit_test(to_another_rail_nvlink_comes_first),
        cmocka_unit_test(to_another_rail_the_spine_is_crossed),
        cmocka_unit_test(all_nics_on_one_leaf_switch_share_its_uplink),
        cmocka_unit_test(past_a_missing_nic_messages_take_the_next_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
