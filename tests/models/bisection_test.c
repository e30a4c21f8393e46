/* What a cluster carries between its halves: closed forms against maximum flow over the links that routes take, which
 * knows nothing of what links end at. */
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

#include "models/base/maximum_flow.h"
#include "models/base/memory.h"
#include "models/input/bisection.h"
#include "models/input/link_ends.h"

static void read_topology(struct topology *topology, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (!topology_read_text(topology, "test.ini", text, &diag))
        fail_msg("%s\n%s", diag.count ? diag.lines[0] : "no message", text);
    diagnostics_fini(&diag);
}

#define LEVEL(name, size, kind, rate, more)                                                                            \
    "[level " name "]\nsize = " size "\nkind = " kind "\nbandwidth = " rate " GB/s\nlatency = 1 us\n" more
#define CLUSTER "[cluster]\ndevice = toy\n"
#define RAIL "attach = rail\n"
#define NODE "attach = node\n"
#define HALF "duplex = half\n"

/* Which half of the level's members a GPU is in; the definition again, in its own words. */
static bool first_half(const struct topology *topology, uint32_t k, uint64_t gpu)
{
    const struct level *level = &topology->levels[k];
    for (uint32_t j = 0; j < k; j++)
        gpu /= topology->levels[j].size;
    uint64_t member = gpu % level->size;
    if (level->kind != LEVEL_TORUS)
        return member < level->size / 2;
    uint64_t at[TORUS_DIMENSIONS_MAX];
    uint32_t longest = 0;
    for (uint32_t d = 0; d < level->n_torus; d++) {
        at[d] = member % level->torus[d];
        member /= level->torus[d];
        longest = level->torus[d] >= level->torus[longest] ? d : longest;
    }
    return at[longest] < level->torus[longest] / 2;
}

/* Links are vertices of their own here, each two of them joined by its bandwidth; one that follows another in some
 * route is joined to it. Only for clusters of one instance of the level. */
static double flow_over_routes(const struct topology *topology, uint32_t k)
{
    uint32_t n = (uint32_t)topology->n_links;
    struct flow_graph graph;
    flow_graph_init(&graph, 2 * n + 2);
    for (uint32_t link = 0; link < n; link++)
        flow_graph_join(&graph, 2 * link, 2 * link + 1, topology_link(topology, link).bytes_per_s, 0);
    bool *joined = memory_zeroed((size_t)(n + 1) * (n + 1), sizeof *joined);
    struct route route;
    route_init(&route);
    struct diagnostics diag;
    diagnostics_init(&diag);
    for (uint64_t from = 0; from < topology->n_gpus; from++) {
        for (uint64_t to = 0; to < topology->n_gpus; to++) {
            if (from == to)
                continue;
            assert_true(topology_route(topology, from, to, &route, &diag));
            for (size_t i = 0; i <= route.n_links; i++) {
                uint64_t before = i ? route.links[i - 1] : n, after = i < route.n_links ? route.links[i] : n;
                bool begins = i == 0 && first_half(topology, k, from),
                     ends = i == route.n_links && !first_half(topology, k, to), inside = i > 0 && i < route.n_links;
                bool *seen = &joined[before * (n + 1) + after];
                if (*seen || !(begins || ends || inside))
                    continue;
                *seen = true;
                flow_graph_join(&graph, i ? (uint32_t)(2 * before + 1) : 2 * n,
                                i < route.n_links ? (uint32_t)(2 * after) : 2 * n + 1, INFINITY, 0);
            }
        }
    }
    double flow = flow_graph_maximum(&graph, 2 * n, 2 * n + 1);
    free(joined);
    route_fini(&route);
    diagnostics_fini(&diag);
    flow_graph_fini(&graph);
    return flow;
}

static void assert_near(double value, double expected, const char *what)
{
    if (!(fabs(value - expected) <= 1e-9 * expected))
        fail_msg("%.17g, expected %.17g: %s", value, expected, what);
}

static double by_flow(const struct topology *topology, uint32_t level)
{
    uint64_t gpus;
    return bisection_by_flow(topology, level, &gpus);
}

struct known {
    const char *text;
    double gigabytes_per_s, oversubscription; /* of the outermost level */
};

static const struct known cases[] = {
    /* one level: h ports; h (n - h) cables; two cables, or one; two for each ring along the longest dimension */
    {CLUSTER LEVEL("a", "8", "switch", "10", ""), 40, 1},
    {CLUSTER LEVEL("a", "7", "switch", "10", ""), 30, 1},
    {CLUSTER LEVEL("a", "8", "switch", "10", HALF), 40, 1},
    {CLUSTER LEVEL("a", "8", "mesh", "10", ""), 160, 1},
    {CLUSTER LEVEL("a", "5", "mesh", "10", ""), 60, 1},
    {CLUSTER LEVEL("a", "8", "ring", "10", ""), 20, 1},
    {CLUSTER LEVEL("a", "2", "ring", "10", ""), 10, 1},
    {CLUSTER LEVEL("a", "5", "ring", "10", HALF), 20, 1},
    {CLUSTER LEVEL("a", "16", "torus:4x4", "10", ""), 80, 1},
    {CLUSTER LEVEL("a", "12", "torus:6x2", "10", ""), 40, 1},
    {CLUSTER LEVEL("a", "30", "torus:2x5x3", "10", ""), 120, 1},
    {CLUSTER LEVEL("a", "4", "torus:2x2", "10", ""), 20, 1},
    /* a NIC per GPU, or one shared, over a switch: 2 nodes of 4 */
    {CLUSTER LEVEL("a", "4", "switch", "100", "") LEVEL("b", "2", "switch", "10", RAIL), 40, 1},
    {CLUSTER LEVEL("a", "4", "switch", "100", "") LEVEL("b", "2", "switch", "10", NODE), 10, 40},
    {CLUSTER LEVEL("a", "4", "switch", "2", "") LEVEL("b", "2", "switch", "10", NODE), 8, 0.8},
    {CLUSTER LEVEL("a", "4", "switch", "10", "") LEVEL("b", "4", "switch", "40", NODE), 80, 1},
    {CLUSTER LEVEL("a", "4", "switch", "10", "") LEVEL("b", "4", "switch", "20", NODE), 40, 2},
    {CLUSTER LEVEL("a", "4", "mesh", "10", "") LEVEL("b", "3", "switch", "20", NODE), 20, INFINITY},
    /* cables between nodes: through the switch, a lane each, or below what the nodes can bring */
    {CLUSTER LEVEL("a", "4", "switch", "24", "") LEVEL("b", "2", "mesh", "22", NODE), 22, 96.0 / 22},
    {CLUSTER LEVEL("a", "2", "switch", "1", "") LEVEL("b", "5", "mesh", "10", NODE), 4, 0.05},
    {CLUSTER LEVEL("a", "2", "switch", "1", "") LEVEL("b", "6", "ring", "10", NODE), 6, 0.1},
    {CLUSTER LEVEL("a", "2", "switch", "9", "") LEVEL("b", "6", "ring", "10", RAIL), 40, 1},
    {CLUSTER LEVEL("a", "2", "ring", "9", "") LEVEL("b", "12", "torus:4x3", "10", RAIL), 120, 1},
    {CLUSTER LEVEL("a", "2", "switch", "9", "") LEVEL("b", "12", "torus:4x3", "10", NODE), 60, 0.45},
    /* three levels: leaf and spine, a shared uplink over rails, over a mesh */
    {CLUSTER LEVEL("a", "2", "switch", "90", "") LEVEL("b", "3", "switch", "10", RAIL)
         LEVEL("c", "2", "switch", "10", RAIL),
     60, 1},
    {CLUSTER LEVEL("a", "2", "switch", "90", "") LEVEL("b", "3", "switch", "10", RAIL)
         LEVEL("c", "2", "switch", "5", RAIL),
     30, 2},
    {CLUSTER LEVEL("a", "2", "switch", "90", "") LEVEL("b", "3", "switch", "10", RAIL)
         LEVEL("c", "4", "switch", "15", NODE),
     30, 4},
    {CLUSTER LEVEL("a", "2", "switch", "9", "") LEVEL("b", "3", "mesh", "10", NODE)
         LEVEL("c", "2", "switch", "60", NODE),
     54, 0.9},
    {CLUSTER LEVEL("a", "2", "switch", "9", "") LEVEL("b", "3", "switch", "6", NODE)
         LEVEL("c", "2", "switch", "1", RAIL),
     6, 3},
    /* NICs that GPUs share, separate rails, uplinks side by side */
    {CLUSTER LEVEL("a", "4", "switch", "100", "") LEVEL("b", "4", "switch", "10", RAIL "nics = 2\n"), 40, INFINITY},
    {CLUSTER LEVEL("a", "4", "switch", "100", "") LEVEL("b", "4", "switch", "10", RAIL "cross_rail = nvlink\n"), 80, 1},
    {CLUSTER LEVEL("a", "2", "switch", "90", "") LEVEL("b", "3", "switch", "10", RAIL "cross_rail = nvlink\n")
         LEVEL("c", "4", "switch", "5", "attach = switch\nuplinks = 2\nrouting = adaptive\n"),
     40, 3},
};

/* Without closed forms: what is known of them otherwise. A dragonfly of 4 groups of 2 has 2 x 2 cables between halves,
 * a dumb-bell of a graph one; a slow cable takes from a switch's half, a missing node's GPUs are not counted. */
struct irregular {
    const char *text;
    double gigabytes_per_s;
    uint64_t gpus;
};

static const struct irregular irregulars[] = {
    {CLUSTER LEVEL("a", "8", "dragonfly:4x2", "10", "global_bandwidth = 7 GB/s\n"), 28, 4},
    {CLUSTER LEVEL("a", "8", "switch", "10", "[override x]\nlink = a: gpu 1 up\nbandwidth = 4 GB/s\n"), 34, 4},
    {CLUSTER LEVEL("a", "4", "switch", "10", "sizes = 4,3\n") LEVEL("b", "2", "switch", "5", RAIL), 15, 3},
    {CLUSTER "[link gpu0 s]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu1 s]\nbandwidth = 9 GB/s\nlatency = 1 us\n"
             "[link gpu2 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n[link gpu3 t]\nbandwidth = 9 GB/s\nlatency = 1 us\n"
             "[link s t]\nbandwidth = 5 GB/s\nlatency = 1 us\ncount = 2\nclass = trunk\n",
     10, 2},
};

static void irregular_clusters_are_cut_by_flow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof irregulars / sizeof *irregulars; i++) {
        struct topology topology;
        read_topology(&topology, irregulars[i].text);
        uint32_t outermost = topology.n_levels - 1;
        struct bisection bisection;
        assert_false(bisection_is_closed(&topology, outermost));
        assert_true(topology_bisection(&topology, outermost, &bisection));
        assert_near(bisection.bytes_per_s, irregulars[i].gigabytes_per_s * 1e9, irregulars[i].text);
        assert_int_equal(bisection.gpus, irregulars[i].gpus);
        topology_fini(&topology);
    }
}

static void closed_forms_are_the_maximum_flow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology topology;
        read_topology(&topology, cases[i].text);
        uint32_t outermost = topology.n_levels - 1;
        double expected = cases[i].gigabytes_per_s * 1e9;
        assert_near(bisection_closed(&topology, outermost), expected, cases[i].text);
        assert_near(by_flow(&topology, outermost), expected, cases[i].text);
        assert_near(flow_over_routes(&topology, outermost), expected, cases[i].text);
        double over = topology_oversubscription(&topology, outermost);
        if (isinf(cases[i].oversubscription))
            assert_true(isinf(over));
        else
            assert_near(over, cases[i].oversubscription, cases[i].text);
        topology_fini(&topology);
    }
}

static const char *const rates[] = {"1", "3", "10", "25"};

/* A random cluster of up to three levels and some dozen GPUs. */
static char *random_cluster(void)
{
    static const char *const kinds[] = {"switch", "mesh", "ring", "torus:%dx%d"};
    char *text = memory_text(CLUSTER);
    int levels = 1 + rand() % 3;
    for (int k = 0; k < levels; k++) {
        int kind = rand() % 4, a = 1 + rand() % 3, b = 1 + rand() % 3;
        int size = kind == 3 ? a * b : 2 + rand() % 3;
        char word[32];
        snprintf(word, sizeof word, kinds[kind], a, b);
        char *next = memory_format("%s[level l%d]\nsize = %d\nkind = %s\nbandwidth = %s GB/s\nlatency = 1 us\n%s%s",
                                   text, k, size, word, rates[rand() % 4],
                                   k == 0       ? ""
                                   : rand() % 2 ? RAIL
                                                : NODE,
                                   rand() % 4 ? "" : HALF);
        free(text);
        text = next;
    }
    return text;
}

static void random_clusters_agree_on_every_level(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const int n = 40;
#else
    const int n = 400;
#endif
    srand(7);
    for (int i = 0; i < n; i++) {
        char *text = random_cluster();
        struct topology topology;
        read_topology(&topology, text);
        for (uint32_t k = 0; k < topology.n_levels; k++) {
            if (topology.levels[k].size < 2)
                continue;
            assert_true(bisection_is_closed(&topology, k));
            assert_near(by_flow(&topology, k), bisection_closed(&topology, k), text);
        }
        topology_fini(&topology);
        free(text);
    }
}

/* Every route is a walk from GPU to GPU over the ends of its links, members standing for all that is inside. */

struct step {
    const struct topology *topology;
    struct link_end wanted;
    bool found;
};

static bool same_end(struct link_end a, struct link_end b)
{
    return a.kind == b.kind && a.level == b.level && a.number == b.number;
}

static void look_inside(void *context, struct link_end inside)
{
    struct step *step = context;
    step->found = step->found || same_end(inside, step->wanted);
}

static bool meet(const struct topology *topology, struct link_end a, struct link_end b)
{
    struct step step = {topology, b, same_end(a, b)};
    if (a.kind == LINK_END_MEMBER || a.kind == LINK_END_NIC)
        link_end_each_inside(topology, a, look_inside, &step);
    step.wanted = a;
    if (b.kind == LINK_END_MEMBER || b.kind == LINK_END_NIC)
        link_end_each_inside(topology, b, look_inside, &step);
    return step.found;
}

static void walk(const struct topology *topology, const struct route *route, uint64_t from, uint64_t to,
                 const char *text)
{
    struct link_end at = {LINK_END_GPU, 0, places_of_gpu(&topology->places, from)};
    for (size_t i = 0; i < route->n_links; i++) {
        struct link_end ends[2];
        topology_link_ends(topology, route->links[i], &ends[0], &ends[1]);
        bool half = topology_link_is_half_duplex(topology, route->links[i]);
        bool turned = half && !meet(topology, at, ends[0]);
        if (!meet(topology, at, ends[turned]))
            fail_msg("link %zu of the route from %d to %d does not begin where the one before ends:\n%s", i, (int)from,
                     (int)to, text);
        at = ends[!turned];
    }
    assert_true(meet(topology, at, (struct link_end){LINK_END_GPU, 0, places_of_gpu(&topology->places, to)}));
}

static void walk_all_routes(const char *text)
{
    struct topology topology;
    read_topology(&topology, text);
    struct route route;
    route_init(&route);
    struct diagnostics diag;
    diagnostics_init(&diag);
    for (uint64_t from = 0; from < topology.n_gpus; from++) {
        for (uint64_t to = 0; to < topology.n_gpus; to++) {
            if (from == to)
                continue;
            assert_true(topology_route(&topology, from, to, &route, &diag));
            walk(&topology, &route, from, to, text);
        }
    }
    route_fini(&route);
    diagnostics_fini(&diag);
    topology_fini(&topology);
}

static void routes_walk_from_end_to_end(void **state)
{
    (void)state;
    srand(8);
    for (int i = 0; i < 60; i++) {
        char *text = random_cluster();
        walk_all_routes(text);
        free(text);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        walk_all_routes(cases[i].text);
    for (size_t i = 0; i < sizeof irregulars / sizeof *irregulars; i++)
        walk_all_routes(irregulars[i].text);
    walk_all_routes(CLUSTER LEVEL("a", "4", "switch", "9", "")
                        LEVEL("b", "3", "switch", "9", RAIL "cross_rail = spine\n")
                            LEVEL("c", "2", "switch", "9", "attach = switch\nuplinks = 4\n"));
    walk_all_routes(CLUSTER LEVEL("a", "2", "mesh", "9", "") LEVEL("b", "6", "dragonfly:3x2", "9", NODE HALF));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_are_the_maximum_flow),
        cmocka_unit_test(irregular_clusters_are_cut_by_flow),
        cmocka_unit_test(random_clusters_agree_on_every_level),
        cmocka_unit_test(routes_walk_from_end_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
