/* Routes and links of hand-made clusters: every kind of level, attachments, orders, numbering. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/input/topology.h"

/* Level k of every topology here has bandwidth 100 / (k + 1) and latency 10^k, so that sums tell who is in them. */
static void add_level(struct topology *topology, const char *name, enum level_kind kind, uint32_t size,
                      enum level_attach attach)
{
    uint32_t k = topology->n_levels++;
    struct level *level = &topology->levels[k];
    snprintf(level->name, sizeof level->name, "%s", name);
    level->kind = kind;
    level->size = size;
    level->attach = attach;
    level->bytes_per_s = 100.0 / (k + 1);
    level->latency_seconds = pow(10, k);
    if (kind == LEVEL_RING) {
        level->torus[0] = size;
        level->n_torus = 1;
    }
    assert_true(topology_count(topology));
}

static void add_torus(struct topology *topology, const char *name, const uint32_t *lengths, uint32_t n_lengths,
                      enum level_attach attach)
{
    struct level *level = &topology->levels[topology->n_levels];
    uint32_t size = 1;
    for (uint32_t d = 0; d < n_lengths; d++)
        size *= level->torus[d] = lengths[d];
    level->n_torus = n_lengths;
    add_level(topology, name, LEVEL_TORUS, size, attach);
}

static void find_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(topology_route(topology, from, to, route, &diag));
    assert_int_equal(diag.count, 0);
    diagnostics_fini(&diag);
}

/* The route as text, link names joined by ", ". */
static void assert_route(const struct topology *topology, uint64_t from, uint64_t to, const char *expected,
                         double alpha)
{
    struct route route;
    route_init(&route);
    find_route(topology, from, to, &route);
    char text[1024] = "", name[128];
    for (size_t i = 0; i < route.n_links; i++) {
        topology_link_name(topology, route.links[i], name, sizeof name);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", name);
    }
    assert_string_equal(text, expected);
    assert_true(route.alpha_seconds == alpha);
    route_fini(&route);
}

static void one_level_routes_by_its_kind(void **state)
{
    (void)state;
    struct topology nvswitch = {0}, mesh = {0}, ring = {0};
    add_level(&nvswitch, "node", LEVEL_SWITCH, 8, ATTACH_RAIL);
    assert_int_equal(nvswitch.n_links, 16);
    assert_route(&nvswitch, 2, 5, "node: gpu 2 up, node: gpu 5 down", 1);

    add_level(&mesh, "node", LEVEL_MESH, 4, ATTACH_RAIL);
    assert_int_equal(mesh.n_links, 12);
    assert_route(&mesh, 1, 3, "node: gpu 1 to gpu 3", 1);
    assert_route(&mesh, 3, 1, "node: gpu 3 to gpu 1", 1);

    add_level(&ring, "node", LEVEL_RING, 6, ATTACH_RAIL);
    assert_int_equal(ring.n_links, 12);
    assert_route(&ring, 5, 1, "node: gpu 5 to gpu 0, node: gpu 0 to gpu 1", 2);
    assert_route(&ring, 1, 5, "node: gpu 1 to gpu 0, node: gpu 0 to gpu 5", 2);
}

static void a_tie_in_a_ring_goes_to_increasing_index(void **state)
{
    (void)state;
    struct topology ring = {0};
    add_level(&ring, "r", LEVEL_RING, 4, ATTACH_RAIL);
    assert_route(&ring, 0, 2, "r: gpu 0 to gpu 1, r: gpu 1 to gpu 2", 2);
    assert_route(&ring, 2, 0, "r: gpu 2 to gpu 3, r: gpu 3 to gpu 0", 2);
}

static void a_ring_of_two_has_one_cable(void **state)
{
    (void)state;
    struct topology ring = {0}, torus = {0};
    add_level(&ring, "r", LEVEL_RING, 2, ATTACH_RAIL);
    assert_int_equal(ring.n_links, 2);
    assert_route(&ring, 0, 1, "r: gpu 0 to gpu 1", 1);
    assert_route(&ring, 1, 0, "r: gpu 1 to gpu 0", 1);
    add_torus(&torus, "t", (const uint32_t[]){4, 2}, 2, ATTACH_RAIL);
    assert_int_equal(torus.n_links, 2 * (2 * 4 + 4 * 1));
    assert_route(&torus, 7, 1, "t: gpu 7 to gpu 4, t: gpu 4 to gpu 5, t: gpu 5 to gpu 1", 3);
}

static void a_rail_port_at_level_1_sits_on_the_gpu(void **state)
{
    (void)state;
    struct topology rail = {0}, node = {0};
    add_level(&rail, "node", LEVEL_SWITCH, 8, ATTACH_RAIL);
    add_level(&rail, "cluster", LEVEL_SWITCH, 4, ATTACH_RAIL);
    assert_int_equal(rail.n_links, 2 * 32 + 2 * 32);
    assert_route(&rail, 3, 30, "cluster: gpu 3 up, cluster: gpu 30 down", 10);
    assert_route(&rail, 24, 30, "node: gpu 24 up, node: gpu 30 down", 1);

    add_level(&node, "node", LEVEL_SWITCH, 8, ATTACH_RAIL);
    add_level(&node, "cluster", LEVEL_SWITCH, 4, ATTACH_NODE);
    assert_int_equal(node.n_links, 2 * 32 + 2 * 4);
    assert_route(&node, 3, 30, "node: gpu 3 up, cluster: node 0 up, cluster: node 3 down, node: gpu 30 down", 11);
}

static void three_levels_cross_the_switches_between(void **state)
{
    (void)state;
    for (int attach_1 = ATTACH_RAIL; attach_1 <= ATTACH_NODE; attach_1++) {
        for (int attach_2 = ATTACH_RAIL; attach_2 <= ATTACH_NODE; attach_2++) {
            struct topology t = {0};
            add_level(&t, "node", LEVEL_SWITCH, 2, ATTACH_RAIL);
            add_level(&t, "pod", LEVEL_SWITCH, 2, (enum level_attach)attach_1);
            add_level(&t, "site", LEVEL_SWITCH, 2, (enum level_attach)attach_2);
            const char *up[2] = {"pod: gpu 1 up", "node: gpu 1 up, pod: node 0 up"};
            const char *across[2] = {"site: gpu 1 up, site: gpu 6 down", "site: pod 0 up, site: pod 1 down"};
            const char *down[2] = {"pod: gpu 6 down", "pod: node 3 down, node: gpu 6 down"};
            char expected[256];
            snprintf(expected, sizeof expected, "%s, %s, %s", up[attach_1], across[attach_2], down[attach_1]);
            assert_route(&t, 1, 6, expected, attach_1 == ATTACH_RAIL ? 110 : 111);
        }
    }
}

static void a_rail_ring_ends_at_the_lane_and_goes_on_inside(void **state)
{
    (void)state;
    struct topology t = {0};
    add_level(&t, "node", LEVEL_SWITCH, 4, ATTACH_RAIL);
    add_level(&t, "ring", LEVEL_RING, 4, ATTACH_RAIL);
    assert_int_equal(t.n_links, 2 * 16 + 2 * 4 * 4);
    assert_route(&t, 1, 13, "ring: gpu 1 to gpu 13", 10);
    assert_route(&t, 1, 11, "ring: gpu 1 to gpu 5, ring: gpu 5 to gpu 9, node: gpu 9 up, node: gpu 11 down", 21);

    struct topology mesh = {0};
    add_level(&mesh, "node", LEVEL_MESH, 3, ATTACH_RAIL);
    add_level(&mesh, "all", LEVEL_MESH, 3, ATTACH_RAIL);
    assert_route(&mesh, 8, 1, "all: gpu 8 to gpu 2, node: gpu 2 to gpu 1", 11);
}

static void a_node_attached_level_over_cables_is_near_to_every_member(void **state)
{
    (void)state;
    struct topology box = {0};
    add_level(&box, "bridge", LEVEL_SWITCH, 4, ATTACH_RAIL);
    add_level(&box, "sockets", LEVEL_MESH, 2, ATTACH_NODE);
    add_level(&box, "lan", LEVEL_SWITCH, 2, ATTACH_NODE);
    assert_int_equal(box.n_links, 2 * 16 + 2 * 2 + 2 * 2);
    assert_route(&box, 0, 5, "bridge: gpu 0 up, sockets: bridge 0 to bridge 1, bridge: gpu 5 down", 11);
    assert_route(&box, 13, 10, "bridge: gpu 13 up, sockets: bridge 3 to bridge 2, bridge: gpu 10 down", 11);
    assert_route(&box, 1, 13, "bridge: gpu 1 up, lan: sockets 0 up, lan: sockets 1 down, bridge: gpu 13 down", 101);

    struct topology flat = {0};
    add_level(&flat, "node", LEVEL_RING, 4, ATTACH_RAIL);
    add_level(&flat, "lan", LEVEL_SWITCH, 2, ATTACH_NODE);
    assert_route(&flat, 3, 6, "lan: node 0 up, lan: node 1 down", 10);

    struct topology own_nics = {0};
    add_level(&own_nics, "node", LEVEL_SWITCH, 2, ATTACH_RAIL);
    add_level(&own_nics, "mesh", LEVEL_MESH, 2, ATTACH_RAIL);
    add_level(&own_nics, "lan", LEVEL_SWITCH, 2, ATTACH_RAIL);
    assert_route(&own_nics, 1, 6, "lan: gpu 1 up, lan: gpu 6 down", 100);
}

static void half_duplex_makes_both_directions_one_link(void **state)
{
    (void)state;
    struct topology t = {0};
    add_level(&t, "bus", LEVEL_SWITCH, 4, ATTACH_RAIL);
    add_level(&t, "ring", LEVEL_RING, 3, ATTACH_NODE);
    t.levels[0].half_duplex = t.levels[1].half_duplex = true;
    assert_true(topology_count(&t));
    assert_int_equal(t.n_links, 12 + 3);
    assert_route(&t, 1, 10, "bus: gpu 1, ring: bus 2 - bus 0, bus: gpu 10", 11);
    assert_route(&t, 10, 1, "bus: gpu 10, ring: bus 2 - bus 0, bus: gpu 1", 11);
}

/* How many of the hops rank r -> r + 1 of a ring over `ranks` GPUs, `stride` apart, cross level 1. */
static int outer_hops(const struct topology *topology, uint64_t ranks, uint64_t stride)
{
    struct route route;
    route_init(&route);
    int crossing = 0;
    for (uint64_t r = 0; r < ranks; r++) {
        find_route(topology, r * stride, (r + 1) % ranks * stride, &route);
        crossing += route.level == 1;
    }
    route_fini(&route);
    return crossing;
}

static void two_nodes_of_eight_are_not_eight_nodes_of_two(void **state)
{
    (void)state;
    struct topology two = {0}, eight = {0};
    add_level(&two, "node", LEVEL_SWITCH, 8, ATTACH_RAIL);
    add_level(&two, "cluster", LEVEL_SWITCH, 2, ATTACH_RAIL);
    add_level(&eight, "node", LEVEL_SWITCH, 2, ATTACH_RAIL);
    add_level(&eight, "cluster", LEVEL_SWITCH, 8, ATTACH_RAIL);
    assert_int_equal(outer_hops(&two, 16, 1), 2);
    assert_int_equal(outer_hops(&eight, 16, 1), 8);
    assert_int_equal(outer_hops(&two, 8, 1), 0);
    assert_int_equal(outer_hops(&two, 8, 2), 2);
    assert_int_equal(outer_hops(&two, 2, 8), 2);
}

/* Random clusters of up to 4 levels and about 200 GPUs. */
static void random_topology(struct topology *topology)
{
    static const uint32_t shapes[][3] = {{2, 2, 1}, {3, 2, 1}, {4, 3, 1}, {2, 2, 2}, {5, 1, 1}, {1, 4, 1}};
    *topology = (struct topology){0};
    uint32_t n_levels = 1 + (uint32_t)rand() % 4;
    for (uint32_t k = 0; k < n_levels; k++) {
        char name[16];
        snprintf(name, sizeof name, "l%u", k);
        enum level_attach attach = (enum level_attach)(rand() % 2);
        enum level_kind kind = (enum level_kind)(rand() % 4);
        if (kind == LEVEL_TORUS)
            add_torus(topology, name, shapes[rand() % 6], 3, attach);
        else
            add_level(topology, name, kind, 1 + (uint32_t)rand() % (topology->n_gpus > 30 ? 3 : 6), attach);
        topology->levels[k].half_duplex = rand() % 4 == 0;
        topology->levels[k].bytes_per_s = 1 + rand() % 1000;
    }
    assert_true(topology_count(topology));
}

/* Alpha by the rules of topology.h, on the digits of the GPU numbers. */
static double expected_alpha(const struct topology *topology, const uint32_t *from, const uint32_t *to, int k)
{
    const struct level *levels = topology->levels;
    while (k >= 0 && from[k] == to[k])
        k--;
    if (k < 0)
        return 0;
    double alpha = levels[k].latency_seconds;
    bool cables = levels[k].kind != LEVEL_SWITCH;
    if (levels[k].kind == LEVEL_RING || levels[k].kind == LEVEL_TORUS) {
        uint32_t hops = 0;
        for (uint32_t d = 0, a = from[k], b = to[k]; d < levels[k].n_torus; d++) {
            uint32_t length = levels[k].torus[d], x = a % length, y = b % length, gap = x > y ? x - y : y - x;
            hops += gap < length - gap ? gap : length - gap;
            a /= length;
            b /= length;
        }
        alpha *= hops;
    }
    if (k > 0 && cables && levels[k].attach == ATTACH_RAIL)
        return alpha + expected_alpha(topology, from, to, k - 1);
    for (int j = k; j > 0; j--) {
        bool below = levels[j - 1].kind == LEVEL_SWITCH;
        if (levels[j].attach == ATTACH_RAIL && (j == 1 || levels[j].kind != LEVEL_SWITCH || !below))
            break;
        alpha += below ? levels[j - 1].latency_seconds : 0;
    }
    return alpha;
}

static bool share_a_link(const struct route *one, const struct route *other)
{
    for (size_t i = 0; i < one->n_links; i++)
        for (size_t j = 0; j < other->n_links; j++)
            if (one->links[i] == other->links[j])
                return true;
    return false;
}

static void random_routes_are_valid_narrowest_and_sum_their_latencies(void **state)
{
    (void)state;
    srand(1);
    struct route route, back;
    route_init(&route);
    route_init(&back);
    for (int round = 0; round < 3000; round++) {
        struct topology t;
        random_topology(&t);
        if (t.n_gpus < 2)
            continue;
        uint64_t from = (uint64_t)rand() % t.n_gpus, to = (from + 1 + (uint64_t)rand() % (t.n_gpus - 1)) % t.n_gpus;
        find_route(&t, from, to, &route);
        find_route(&t, to, from, &back);
        assert_true(route.n_links > 0);
        double narrowest = INFINITY;
        uint32_t outermost = 0;
        bool half_duplex = false;
        for (size_t i = 0; i < route.n_links; i++) {
            assert_true(route.links[i] < t.n_links);
            for (size_t j = 0; j < i; j++)
                assert_true(route.links[i] != route.links[j]);
            struct link_info info = topology_link(&t, route.links[i]);
            narrowest = fmin(narrowest, info.bytes_per_s);
            outermost = info.level > outermost ? info.level : outermost;
            half_duplex |= t.levels[info.level].half_duplex;
        }
        assert_true(route.bytes_per_s == narrowest);
        assert_int_equal(route.level, outermost);
        if (!half_duplex)
            assert_false(share_a_link(&route, &back));
        uint32_t a[LEVELS_MAX], b[LEVELS_MAX];
        for (uint32_t k = 0; k < t.n_levels; k++) {
            a[k] = (uint32_t)(from % t.levels[k].size);
            b[k] = (uint32_t)(to % t.levels[k].size);
            from /= t.levels[k].size;
            to /= t.levels[k].size;
        }
        assert_true(fabs(route.alpha_seconds - expected_alpha(&t, a, b, (int)t.n_levels - 1)) < 1e-9);
    }
    route_fini(&route);
    route_fini(&back);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void no_two_links_share_a_name(void **state)
{
    (void)state;
    srand(2);
    for (int round = 0; round < 200; round++) {
        struct topology t;
        random_topology(&t);
        char(*names)[64] = calloc(t.n_links + 1, sizeof *names);
        for (uint64_t i = 0; i < t.n_links; i++)
            topology_link_name(&t, i, names[i], sizeof names[i]);
        qsort(names, t.n_links, sizeof *names, compare_names);
        for (uint64_t i = 1; i < t.n_links; i++)
            assert_string_not_equal(names[i - 1], names[i]);
        free(names);
    }
}

/* Walks a torus by its links' names: every link starts where the one before ended, and no way is shorter. */
static void torus_routes_are_connected_and_shortest(void **state)
{
    (void)state;
    struct topology t = {0};
    add_torus(&t, "t", (const uint32_t[]){4, 3, 2}, 3, ATTACH_RAIL);
    uint32_t distance[24][24];
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < 24; j++)
            distance[i][j] = i == j ? 0 : 1000;
    for (uint64_t link = 0; link < t.n_links; link++) {
        char name[64];
        int a, b;
        topology_link_name(&t, link, name, sizeof name);
        assert_int_equal(sscanf(name, "t: gpu %d to gpu %d", &a, &b), 2);
        distance[a][b] = 1;
    }
    for (int m = 0; m < 24; m++)
        for (int i = 0; i < 24; i++)
            for (int j = 0; j < 24; j++)
                if (distance[i][m] + distance[m][j] < distance[i][j])
                    distance[i][j] = distance[i][m] + distance[m][j];
    struct route route;
    route_init(&route);
    for (int from = 0; from < 24; from++) {
        for (int to = 0; to < 24; to++) {
            if (from == to)
                continue;
            find_route(&t, (uint64_t)from, (uint64_t)to, &route);
            assert_int_equal(route.n_links, distance[from][to]);
            int at = from;
            for (size_t i = 0; i < route.n_links; i++) {
                char name[64];
                int a, b;
                topology_link_name(&t, route.links[i], name, sizeof name);
                assert_int_equal(sscanf(name, "t: gpu %d to gpu %d", &a, &b), 2);
                assert_int_equal(a, at);
                at = b;
            }
            assert_int_equal(at, to);
        }
    }
    route_fini(&route);
}

static void a_route_to_nowhere_is_an_error_that_names_both(void **state)
{
    (void)state;
    struct topology t = {0};
    add_level(&t, "node", LEVEL_SWITCH, 4, ATTACH_RAIL);
    struct route route;
    struct diagnostics diag;
    route_init(&route);
    diagnostics_init(&diag);
    assert_false(topology_route(&t, 2, 2, &route, &diag));
    assert_false(topology_route(&t, 2, 4, &route, &diag));
    assert_int_equal(diag.count, 2);
    assert_string_equal(diag.lines[0], "no route from gpu 2 to gpu 2: they are the same");
    assert_string_equal(diag.lines[1], "no route from gpu 2 to gpu 4: the topology has 4");
    diagnostics_fini(&diag);
    route_fini(&route);
}

static void too_many_gpus_are_refused(void **state)
{
    (void)state;
    struct topology t = {0};
    add_level(&t, "a", LEVEL_SWITCH, 1 << 12, ATTACH_RAIL);
    add_level(&t, "b", LEVEL_MESH, 1 << 12, ATTACH_RAIL);
    assert_int_equal(t.n_gpus, TOPOLOGY_GPUS_MAX);
    assert_int_equal(t.n_links, (UINT64_C(2) << 24) + (UINT64_C(1) << 12) * (1 << 12) * ((1 << 12) - 1));
    t.levels[2] = t.levels[1];
    t.levels[2].size = 2;
    t.n_levels = 3;
    assert_false(topology_count(&t));
    t.levels[1].size = t.levels[2].size = UINT32_MAX;
    assert_false(topology_count(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_level_routes_by_its_kind),
        cmocka_unit_test(a_tie_in_a_ring_goes_to_increasing_index),
        cmocka_unit_test(a_ring_of_two_has_one_cable),
        cmocka_unit_test(a_rail_port_at_level_1_sits_on_the_gpu),
        cmocka_unit_test(three_levels_cross_the_switches_between),
        cmocka_unit_test(a_rail_ring_ends_at_the_lane_and_goes_on_inside),
        cmocka_unit_test(a_node_attached_level_over_cables_is_near_to_every_member),
        cmocka_unit_test(half_duplex_makes_both_directions_one_link),
        cmocka_unit_test(two_nodes_of_eight_are_not_eight_nodes_of_two),
        cmocka_unit_test(random_routes_are_valid_narrowest_and_sum_their_latencies),
        cmocka_unit_test(no_two_links_share_a_name),
        cmocka_unit_test(torus_routes_are_connected_and_shortest),
        cmocka_unit_test(a_route_to_nowhere_is_an_error_that_names_both),
        cmocka_unit_test(too_many_gpus_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
