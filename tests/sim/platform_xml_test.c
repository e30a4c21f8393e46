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

/* A message of each pair of ranks, each rank on the GPU of its number, and their plan. */
struct planned {
    struct scene scene;
    struct execution *execution;
    struct simulation simulation;
    struct plan plan;
};

static void plan_messages(struct planned *planned, const char *topology, uint32_t ranks, const uint32_t (*pairs)[2],
                          size_t n_pairs)
{
    scene_init(&planned->scene, topology, ranks, 1);
    for (size_t i = 0; i < n_pairs; i++)
        add_message(&planned->scene, STREAM_EXCHANGE, pairs[i][0], pairs[i][1], 1000 + i);
    end_phase(&planned->scene, PHASE_FORWARD);
    struct diagnostics diag;
    diagnostics_init(&diag);
    planned->scene.cost = (struct cost){.device = &planned->scene.device, .topology = &planned->scene.topology};
    planned->execution = execution_create(planned->scene.programs, ranks, 1, &diag);
    assert_non_null(planned->execution);
    planned->simulation = (struct simulation){.ensemble = execution_ensemble(planned->execution),
                                              .cost = &planned->scene.cost,
                                              .placement = &planned->scene.placement};
    expect_good(plan_init(&planned->plan, &planned->simulation, &diag), &diag);
}

static void planned_fini(struct planned *planned)
{
    plan_fini(&planned->plan);
    execution_destroy(planned->execution);
    scene_fini(&planned->scene);
}

static char *written(const struct plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    platform_xml_write(plan, stream);
    fclose(stream);
    return text;
}

static void assert_platform(const char *topology, uint32_t ranks, const uint32_t (*pairs)[2], size_t n_pairs,
                            const char *expected)
{
    struct planned planned;
    plan_messages(&planned, topology, ranks, pairs, n_pairs);
    char *text = written(&planned.plan);
    assert_string_equal(text, expected);
    free(text);
    planned_fini(&planned);
}

static void only_what_the_paths_use_is_written_and_no_latency(void **state)
{
    (void)state;
    assert_platform("[cluster]\ndevice = toy\n"
                    "[level node]\nsize = 2\nkind = switch\nbandwidth = 400 GB/s\nlatency = 1 us\n"
                    "[level cluster]\nsize = 4\nkind = switch\nattach = rail\nbandwidth = 400 Gb/s\nlatency = 4 us\n",
                    8, (const uint32_t[][2]){{0, 1}, {1, 3}, {3, 1}}, 3,
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
                    2, (const uint32_t[][2]){{0, 1}, {1, 0}}, 2,
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
    struct planned planned;
    plan_messages(&planned,
                  "[cluster]\ndevice = toy\n[level node]\nsize = 3\nkind = switch\n"
                  "bandwidth = 400 GB/s\nlatency = 1 us\n",
                  3, (const uint32_t[][2]){{0, 1}, {0, 1}, {0, 1}, {1, 2}}, 4);
    static const double rates[] = {76e9, 76e9, 400e9, 38e9};
    assert_int_equal(planned.plan.first_path[3], 4);
    for (size_t i = 0; i < 4; i++) {
        struct path *path = &planned.plan.paths[i];
        path->cost.bytes_per_s = rates[i];
        path->lane = i == 2;
        path->opens_lane = i != 1;
    }
    char *text = written(&planned.plan);
    assert_string_equal(
        strstr(text, "    <host id=\"gpu0"),
        "    <host id=\"gpu0\" speed=\"1f\"/>\n"
        "    <host id=\"gpu0.1\" speed=\"1f\"/>\n"
        "    <host id=\"gpu1\" speed=\"1f\"/>\n"
        "    <host id=\"gpu2\" speed=\"1f\"/>\n"
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
    free(text);
    planned_fini(&planned);
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
