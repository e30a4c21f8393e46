/* A cluster as a graph: which way is the shortest, which of equal ones is taken, and what makes no graph. */
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

#define LINK(ends) "[link " ends "]\n" RATE

static void hops_come_before_latency(void **state)
{
    (void)state;
    struct topology t;
    read_topology(
        &t, CLUSTER LINK("gpu0 a") LINK("a gpu1") LINK("gpu0 b") LINK("b c")
                LINK("c gpu1") "[link gpu0 d]\nbandwidth = 3 GB/s\nlatency = 0.5 us\n"
                               "[link d gpu1]\nbandwidth = 2 GB/s\nlatency = 0.25 us\nduplex = half\nclass = slow\n");
    assert_int_equal(t.n_gpus, 2);
    assert_int_equal(t.n_links, 2 * 6 + 1);
    assert_int_equal(t.n_levels, 2);
    assert_string_equal(t.levels[0].name, "link");
    assert_string_equal(t.levels[1].name, "slow");
    assert_route_text(&t, 0, 1, "link: gpu 0 to d, slow: d - gpu 1", 0.75);
    assert_route_text(&t, 1, 0, "slow: d - gpu 1, link: d to gpu 0", 0.75);
    struct route route;
    route_init(&route);
    find_route(&t, 0, 1, &route);
    assert_true(route.bytes_per_s == 2e9);
    assert_int_equal(route.level, 1);
    assert_true(topology_link(&t, route.links[0]).bytes_per_s == 3e9);
    assert_int_equal(topology_link(&t, route.links[0]).level, 0);
    route_fini(&route);
    topology_fini(&t);
}

/* gpu0 - {a, b, c} - gpu1, with two cables by c. */
#define EQUAL_WAYS                                                                                                     \
    LINK("a gpu0") LINK("gpu0 b") LINK("gpu0 c") LINK("gpu1 b") LINK("a gpu1") LINK("gpu1 c") "count = 2\n"

static void of_equal_ways_shortest_takes_the_first_of_the_file(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER "routing = shortest\n" EQUAL_WAYS);
    assert_route_text(&t, 0, 1, "link: gpu 0 to a, link: a to gpu 1", 2);
    assert_route_text(&t, 1, 0, "link: gpu 1 to b, link: b to gpu 0", 2);
    topology_fini(&t);
    read_topology(&t, CLUSTER "routing = shortest\n" LINK("gpu0 c") LINK("gpu1 c") "count = 2\n");
    assert_route_text(&t, 0, 1, "link: gpu 0 to c, link: c to gpu 1/0", 2);
    topology_fini(&t);
}

static void of_equal_ways_a_hash_takes_each_as_often(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, CLUSTER EQUAL_WAYS);
    int taken[4] = {0};
    static const char *const ways[] = {"link: gpu 0 to a, link: a to gpu 1", "link: gpu 0 to b, link: b to gpu 1",
                                       "link: gpu 0 to c, link: c to gpu 1/0", "link: gpu 0 to c, link: c to gpu 1/1"};
    for (t.seed = 0; t.seed < 6000; t.seed++) {
        struct route route;
        route_init(&route);
        find_route(&t, 0, 1, &route);
        char text[256];
        route_text(&t, &route, text, sizeof text);
        int way = 0;
        while (way < 4 && strcmp(text, ways[way]) != 0)
            way++;
        assert_true(way < 4);
        taken[way]++;
        route_fini(&route);
    }
    /* Hop by hop: three ways out of gpu0, then two out of c. */
    for (int i = 0; i < 4; i++) {
        double share = i < 2 ? 1.0 / 3 : 1.0 / 6, mean = 6000 * share;
        assert_true(fabs(taken[i] - mean) < 5 * sqrt(mean * (1 - share)));
    }
    topology_fini(&t);
}

/* Random connected graphs against Floyd and Warshall's distances. */
static void random_ways_are_connected_and_shortest(void **state)
{
    (void)state;
    enum { NODES_MAX = 24 };
    srand(3);
    for (int round = 0; round < 150; round++) {
        int gpus = 2 + rand() % 10, nodes = gpus + rand() % 10;
        static double distance[NODES_MAX][NODES_MAX]; /* hops * 1e6 + latency in us */
        static char text[65536];
        int degree[NODES_MAX] = {0};
        for (int i = 0; i < NODES_MAX; i++)
            for (int k = 0; k < NODES_MAX; k++)
                distance[i][k] = i == k ? 0 : 1e12;
        snprintf(text, sizeof text, CLUSTER "routing = %s\n", round % 2 ? "ecmp" : "shortest");
        for (int a = 0; a < nodes; a++) {
            for (int b = 0; b < a; b++) {
                if (rand() % 4 && b != a - 1 && degree[a] + degree[b] > 2) /* a chain keeps it connected */
                    continue;
                degree[a]++;
                degree[b]++;
                int latency = rand() % 4;
                char ends[2][16];
                for (int e = 0; e < 2; e++) {
                    int node = e ? b : a;
                    snprintf(ends[e], sizeof ends[e], node < gpus ? "gpu%d" : "s%d", node);
                }
                snprintf(text + strlen(text), sizeof text - strlen(text),
                         "[link %s %s]\nbandwidth = 1 GB/s\nlatency = %d us\n", ends[0], ends[1], latency);
                distance[a][b] = distance[b][a] = 1e6 + latency;
            }
        }
        for (int m = 0; m < nodes; m++)
            for (int i = 0; i < nodes; i++)
                for (int k = 0; k < nodes; k++)
                    distance[i][k] = fmin(distance[i][k], distance[i][m] + distance[m][k]);
        struct topology t;
        struct diagnostics diag;
        diagnostics_init(&diag);
        bool read = topology_read_text(&t, "t.ini", text, &diag);
        if (!read)
            assert_non_null(strstr(diag.lines[0], "dead end"));
        diagnostics_fini(&diag);
        struct route route, back;
        route_init(&route);
        route_init(&back);
        for (int from = 0; read && from < gpus; from++) {
            for (int to = 0; to < gpus; to++) {
                if (from == to)
                    continue;
                find_route(&t, (uint64_t)from, (uint64_t)to, &route);
                find_route(&t, (uint64_t)to, (uint64_t)from, &back);
                double found = 1e6 * (double)route.n_links + route.alpha_seconds * 1e6;
                assert_true(fabs(found - distance[from][to]) < 1e-3);
                char end[40], at[40];
                snprintf(at, sizeof at, "gpu %d", from);
                for (size_t i = 0; i < route.n_links; i++) {
                    char name[LINK_NAME_SIZE];
                    topology_link_name(&t, route.links[i], name, sizeof name);
                    char *arrow = strstr(name, " to ");
                    assert_non_null(arrow);
                    *arrow = '\0';
                    assert_string_equal(name + strlen("link: "), at);
                    snprintf(end, sizeof end, "%s", arrow + 4);
                    strcpy(at, end);
                    for (size_t k = 0; k < back.n_links; k++)
                        assert_true(route.links[i] != back.links[k]);
                }
                snprintf(end, sizeof end, "gpu %d", to);
                assert_string_equal(at, end);
            }
        }
        route_fini(&route);
        route_fini(&back);
        if (read)
            topology_fini(&t);
    }
}

static void what_is_no_graph_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines;
    } cases[] = {
        {LINK("gpu0"), "t.ini:3: section [link gpu0], expected two ends: [link A B]"},
        {LINK("gpu0 gpu1 gpu2"), "t.ini:3: section [link gpu0 gpu1 gpu2], expected two ends: [link A B]"},
        {LINK("gpu0 gpu0"), "t.ini:3: the link joins 'gpu0' to itself, expected two ends"},
        {LINK("gpu0 a.b"), "t.ini:3: 'a.b' is no end of a link, expected letters, digits, '-' or '_'"},
        {LINK("gpu0 gpu01"), "t.ini:3: 'gpu01' is no end of a link, expected gpu0 to gpu4095 or a switch's name"},
        {LINK("gpu0 gpu1x"), "t.ini:3: 'gpu1x' is no end of a link, expected gpu0 to gpu4095 or a switch's name"},
        {LINK("gpu0 gpu4096"), "t.ini:3: 'gpu4096' is no end of a link, expected gpu0 to gpu4095 or a switch's name"},
        {LINK("gpu0 gpu1") LINK("gpu1 gpu0"),
         "t.ini:6: [link gpu0 gpu1] joins the same ends, expected one of them, with 'count' for more cables"},
        {LINK("gpu0 gpu2"), "t.ini: gpu1 is at no link, expected all of gpu0 to gpu2"},
        {LINK("a b"), "t.ini: no link ends at a GPU, expected ends gpu0, gpu1, ..."},
        {LINK("gpu0 spine") LINK("gpu1 spine") LINK("gpu2 spinne") LINK("gpu2 spine"),
         "t.ini:9: switch 'spinne' is a dead end, did you mean 'spine'?"},
        {LINK("gpu0 gpu1") LINK("gpu1 x"), "t.ini:6: switch 'x' is a dead end, expected links to two others at least"},
        {LINK("gpu0 gpu1") LINK("gpu2 gpu3"), "t.ini: no links lead from gpu0 to 'gpu2', expected a connected graph"},
        {"[link gpu0 gpu1]\nbandwidth = 1 GB\nlatency = 2\ncount = 0\nduplex = no\nlength = 3\n",
         "t.ini:4: 'bandwidth' is '1 GB', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)\n"
         "t.ini:5: 'latency' is '2', expected a time such as 2 us (s, ms, us, ns)\n"
         "t.ini:6: 'count' is '0', expected 1 to 1024\n"
         "t.ini:7: 'duplex' is 'no', expected full or half\n"
         "t.ini:8: unknown key 'length' in [link gpu0 gpu1], expected bandwidth, latency, duplex, count or class"},
        {LINK("gpu0 gpu1") "class = a b\n", "t.ini:6: 'class' is 'a b', expected letters, digits, '-' or '_'"},
        {"[level node]\nsize = 2\nkind = mesh\n" RATE LINK("gpu0 gpu1"),
         "t.ini:8: [link gpu0 gpu1] beside [level node], expected either levels or links of a graph"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, CLUSTER "%s", cases[i].text);
        assert_refused_text(text, cases[i].lines);
    }
    assert_refused_text("[cluster]\ndevice = toy\nrouting = adaptive\n" LINK("gpu0 gpu1"),
                        "t.ini:3: 'routing' is 'adaptive', expected ecmp or shortest: in a graph, a message that is "
                        "spread over several ways has no route");
    assert_refused_text("[cluster]\ndevice = toy\nranks_per_device = 2\n" LINK("gpu0 gpu1"),
                        "t.ini:3: ranks_per_device = 2 in a graph, expected 1");
    assert_refused_text("[cluster]\ndevice = toy\nrouting = shortest\nseed = 3\n" LINK("gpu0 gpu1"),
                        "t.ini:4: 'seed' has no effect without routing by ecmp, expected both");
    char text[2048] = CLUSTER;
    for (int i = 0; i < 9; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "[link gpu%d gpu%d]\n" RATE "class = c%d\n", i, i + 1,
                 i);
    assert_refused_text(text,
                        "t.ini:38: 'class' is 'c8', one more than 8 classes of links, expected one of those before");
}

static void collect(void *context, const char *section, const char *key, const char *value)
{
    char *text = context;
    snprintf(text + strlen(text), 2048 - strlen(text), "%s.%s=%s\n", section, key, value);
}

static void values_are_listed_and_read_back(void **state)
{
    (void)state;
    struct topology t, again;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_topology(&t, CLUSTER "seed = 5\n" LINK("gpu0 s") "class = a\n" LINK("s gpu1") "count = 2\nduplex = half\n");
    char text[2048] = "", second[2048] = "", lines[2048];
    topology_each_value(&t, collect, text);
    assert_string_equal(text, "cluster.device=toy\ncluster.ranks_per_device=1\ncluster.routing=ecmp\ncluster.seed=5\n"
                              "link gpu0 s.bandwidth=1000000000 B/s\nlink gpu0 s.latency=1e-06 s\n"
                              "link gpu0 s.duplex=full\nlink gpu0 s.count=1\nlink gpu0 s.class=a\n"
                              "link s gpu1.bandwidth=1000000000 B/s\nlink s gpu1.latency=1e-06 s\n"
                              "link s gpu1.duplex=half\nlink s gpu1.count=2\nlink s gpu1.class=link\n");
    const char *overrides[32];
    size_t n = 0;
    char *rest = strcpy(lines, text);
    for (char *line; (line = strsep(&rest, "\n")) && *line;)
        overrides[n++] = line;
    assert_true(topology_read(&again, "/dev/null", overrides, n, &diag));
    topology_each_value(&again, collect, second);
    assert_string_equal(second, text);
    topology_fini(&t);
    topology_fini(&again);
    diagnostics_fini(&diag);
}

static void a_large_graph_routes_fast(void **state)
{
    (void)state;
    static char text[256 * 1024];
    strcpy(text, CLUSTER);
    size_t used = strlen(text);
    for (int i = 0; i < 1500; i++) /* a ring of GPUs with a chord each */
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[link gpu%d gpu%d]\n" RATE "[link gpu%d c%d]\n" RATE "[link c%d gpu%d]\n" RATE, i,
                                 (i + 1) % 1500, i, i / 3, i / 3, (i + 700) % 1500);
    struct topology t;
    read_topology(&t, text);
    struct route route;
    route_init(&route);
    for (uint64_t i = 0; i < 200000; i++)
        find_route(&t, i % 1500, (i + 1 + i / 1500) % 1500, &route);
    route_fini(&route);
    topology_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hops_come_before_latency),
        cmocka_unit_test(of_equal_ways_shortest_takes_the_first_of_the_file),
        cmocka_unit_test(of_equal_ways_a_hash_takes_each_as_often),
        cmocka_unit_test(random_ways_are_connected_and_shortest),
        cmocka_unit_test(what_is_no_graph_is_refused),
        cmocka_unit_test(values_are_listed_and_read_back),
        cmocka_unit_test(a_large_graph_routes_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
