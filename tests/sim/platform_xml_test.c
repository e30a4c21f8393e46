/* The platform that SimGrid loads, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "sim/platform_xml.h"
#include "tests/sim/scene.h"

static void assert_platform(const char *text, const uint64_t (*pairs)[2], size_t n_pairs, const char *expected)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct topology topology;
    bool good = topology_read_text(&topology, "test", text, &diag);
    struct path *paths = memory_zeroed(n_pairs, sizeof *paths);
    for (size_t i = 0; i < n_pairs; i++) {
        paths[i] = (struct path){.from = pairs[i][0], .to = pairs[i][1]};
        route_init(&paths[i].route);
        good = good && topology_route(&topology, pairs[i][0], pairs[i][1], &paths[i].route, &diag);
        paths[i].cost.bytes_per_s = paths[i].route.bytes_per_s;
        paths[i].opens_lane = true;
    }
    expect_good(good, &diag);
    char *written = NULL;
    size_t size;
    FILE *stream = open_memstream(&written, &size);
    platform_xml_write(&topology, paths, n_pairs, stream);
    fclose(stream);
    assert_string_equal(written, expected);
    free(written);
    for (size_t i = 0; i < n_pairs; i++)
        route_fini(&paths[i].route);
    free(paths);
    topology_fini(&topology);
}

static void only_what_the_paths_use_is_written_and_no_latency(void **state)
{
    (void)state;
    assert_platform("[cluster]\ndevice = toy\n"
                    "[level node]\nsize = 2\nkind = switch\nbandwidth = 400 GB/s\nlatency = 1 us\n"
                    "[level cluster]\nsize = 4\nkind = switch\nattach = rail\nbandwidth = 400 Gb/s\nlatency = 4 us\n",
                    (const uint64_t[][2]){{0, 1}, {1, 3}, {3, 1}}, 3,
                    "<?xml version='1.0'?>\n"
                    "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                    "<platform version=\"4.1\">\n"
                    "  <zone id=\"cluster\" routing=\"Full\">\n"
                    "    <host id=\"cpsim\" speed=\"1f\"/>\n"
                    "    <host id=\"gpu0\" speed=\"1f\"/>\n"
                    "    <host id=\"gpu1\" speed=\"1f\"/>\n"
                    "    <host id=\"gpu3\" speed=\"1f\"/>\n"
                    "    <link id=\"link0\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
                    "    <link id=\"link3\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
                    "    <link id=\"link24\" bandwidth=\"50000000000Bps\" latency=\"0s\"/>\n"
                    "    <link id=\"link25\" bandwidth=\"50000000000Bps\" latency=\"0s\"/>\n"
                    "    <link id=\"link26\" bandwidth=\"50000000000Bps\" latency=\"0s\"/>\n"
                    "    <link id=\"link27\" bandwidth=\"50000000000Bps\" latency=\"0s\"/>\n"
                    "    <route src=\"gpu0\" dst=\"gpu1\" symmetrical=\"NO\">"
                    "<link_ctn id=\"link0\"/><link_ctn id=\"link3\"/></route>\n"
                    "    <route src=\"gpu1\" dst=\"gpu3\" symmetrical=\"NO\">"
                    "<link_ctn id=\"link24\"/><link_ctn id=\"link27\"/></route>\n"
                    "    <route src=\"gpu3\" dst=\"gpu1\" symmetrical=\"NO\">"
                    "<link_ctn id=\"link26\"/><link_ctn id=\"link25\"/></route>\n"
                    "  </zone>\n"
                    "</platform>\n");
}

static void half_duplex_directions_are_one_link(void **state)
{
    (void)state;
    assert_platform("[cluster]\ndevice = toy\n"
                    "[level bus]\nsize = 2\nkind = mesh\nbandwidth = 12.5 GB/s\nlatency = 1 us\nduplex = half\n",
                    (const uint64_t[][2]){{0, 1}, {1, 0}}, 2,
                    "<?xml version='1.0'?>\n"
                    "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                    "<platform version=\"4.1\">\n"
                    "  <zone id=\"cluster\" routing=\"Full\">\n"
                    "    <host id=\"cpsim\" speed=\"1f\"/>\n"
                    "    <host id=\"gpu0\" speed=\"1f\"/>\n"
                    "    <host id=\"gpu1\" speed=\"1f\"/>\n"
                    "    <link id=\"link0\" bandwidth=\"12500000000Bps\" latency=\"0s\"/>\n"
                    "    <route src=\"gpu0\" dst=\"gpu1\" symmetrical=\"NO\"><link_ctn id=\"link0\"/></route>\n"
                    "    <route src=\"gpu1\" dst=\"gpu0\" symmetrical=\"NO\"><link_ctn id=\"link0\"/></route>\n"
                    "  </zone>\n"
                    "</platform>\n");
}

/* Two rates between the same GPUs, another between others; a path whose lane is open already adds nothing. */
static void what_cannot_fill_its_links_has_a_link_that_nobody_shares(void **state)
{
    (void)state;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct topology topology;
    bool good = topology_read_text(&topology, "test",
                                   "[cluster]\ndevice = toy\n[level node]\nsize = 3\nkind = switch\n"
                                   "bandwidth = 400 GB/s\nlatency = 1 us\n",
                                   &diag);
    struct path paths[] = {
        {.from = 0, .to = 1, .cost = {1e-6, 76e9}, .opens_lane = true},
        {.from = 0, .to = 1, .cost = {2e-6, 76e9}},
        {.from = 0, .to = 1, .cost = {1e-6, 400e9}, .lane = 1, .opens_lane = true},
        {.from = 1, .to = 2, .cost = {1e-6, 38e9}, .opens_lane = true},
    };
    for (size_t i = 0; i < 4; i++) {
        route_init(&paths[i].route);
        good = good && topology_route(&topology, paths[i].from, paths[i].to, &paths[i].route, &diag);
    }
    expect_good(good, &diag);
    char *written = NULL;
    size_t size;
    FILE *stream = open_memstream(&written, &size);
    platform_xml_write(&topology, paths, 4, stream);
    fclose(stream);
    assert_string_equal(
        strstr(written, "    <host id=\"gpu0"),
        "    <host id=\"gpu0\" speed=\"1f\"/>\n"
        "    <host id=\"gpu1\" speed=\"1f\"/>\n"
        "    <host id=\"gpu2\" speed=\"1f\"/>\n"
        "    <host id=\"gpu0.1\" speed=\"1f\"/>\n"
        "    <link id=\"link0\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
        "    <link id=\"link2\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
        "    <link id=\"link3\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
        "    <link id=\"link5\" bandwidth=\"400000000000Bps\" latency=\"0s\"/>\n"
        "    <link id=\"alone38000000000\" bandwidth=\"38000000000Bps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n"
        "    <link id=\"alone76000000000\" bandwidth=\"76000000000Bps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n"
        "    <route src=\"gpu0\" dst=\"gpu1\" symmetrical=\"NO\">"
        "<link_ctn id=\"alone76000000000\"/><link_ctn id=\"link0\"/><link_ctn id=\"link3\"/></route>\n"
        "    <route src=\"gpu0.1\" dst=\"gpu1\" symmetrical=\"NO\"><link_ctn id=\"link0\"/><link_ctn "
        "id=\"link3\"/></route>\n"
        "    <route src=\"gpu1\" dst=\"gpu2\" symmetrical=\"NO\">"
        "<link_ctn id=\"alone38000000000\"/><link_ctn id=\"link2\"/><link_ctn id=\"link5\"/></route>\n"
        "  </zone>\n"
        "</platform>\n");
    free(written);
    for (size_t i = 0; i < 4; i++)
        route_fini(&paths[i].route);
    topology_fini(&topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_paths_use_is_written_and_no_latency),
        cmocka_unit_test(half_duplex_directions_are_one_link),
        cmocka_unit_test(what_cannot_fill_its_links_has_a_link_that_nobody_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
