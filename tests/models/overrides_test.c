/* [override NAME]: what it hits and what it leaves alone, what becomes of routes, and what it cannot say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/link_pattern.h"
#include "tests/models/routes.h"

#define TWO_NODES                                                                                                      \
    CLUSTER "[level node]\nsize = 4\nkind = switch\nbandwidth = 10 GB/s\nlatency = 1 us\n"                             \
            "[level leaf]\nsize = 2\nkind = switch\nbandwidth = 2 GB/s\nlatency = 10 us\n"
#define OVERRIDE(name, keys) "[override " name "]\n" keys

/* Links whose bandwidth differs from that of `plain` are those whose names match. */
static void assert_hits(const char *text, const char *override, const char *pattern, double factor)
{
    char all[4096];
    snprintf(all, sizeof all, "%s%s", text, override);
    struct topology plain, t;
    read_topology(&plain, text);
    read_topology(&t, all);
    assert_int_equal(plain.n_links, t.n_links);
    struct route route;
    route_init(&route);
    size_t hit = 0;
    for (uint64_t link = 0; link < t.n_links; link++) {
        char name[LINK_NAME_SIZE];
        topology_link_name(&t, link, name, sizeof name);
        bool match = fnmatch(pattern, name, 0) == 0;
        double before = topology_link(&plain, link).bytes_per_s, after = topology_link(&t, link).bytes_per_s;
        assert_true(after == (match ? before * factor : before));
        hit += match;
    }
    assert_true(hit > 0);
    for (uint64_t from = 0; from < t.n_gpus; from++) {
        for (uint64_t to = 0; to < t.n_gpus; to++) {
            if (from == to)
                continue;
            find_route(&t, from, to, &route);
            double narrowest = INFINITY;
            for (size_t i = 0; i < route.n_links; i++)
                narrowest = fmin(narrowest, topology_link(&t, route.links[i]).bytes_per_s);
            assert_true(route.bytes_per_s == narrowest);
        }
    }
    route_fini(&route);
    topology_fini(&plain);
    topology_fini(&t);
}

static void an_override_hits_exactly_the_links_it_names(void **state)
{
    (void)state;
    assert_hits(TWO_NODES, OVERRIDE("a", "link = leaf: gpu 3 up\nfactor = 0.5\n"), "leaf: gpu 3 up", 0.5);
    assert_hits(TWO_NODES, OVERRIDE("a", "link = leaf: gpu 3 *\nbandwidth = 1 GB/s\n"), "leaf: gpu 3 *", 0.5);
    assert_hits(TWO_NODES, OVERRIDE("a", "link = *: gpu ? down\nfactor = 3\n"), "*: gpu ? down", 3);
    assert_hits(CLUSTER "[level m]\nsize = 5\nkind = mesh\n" RATE,
                OVERRIDE("a", "link = m: gpu 3 to gpu 1\nfactor = 0.25\n"), "m: gpu 3 to gpu 1", 0.25);
    assert_hits(CLUSTER "[level t]\nsize = 9\nkind = torus:3x3\n" RATE,
                OVERRIDE("a", "link = t: gpu 4 to *\nfactor = 0.25\n"), "t: gpu 4 to *", 0.25);
    assert_hits(CLUSTER "[level node]\nsize = 2\nkind = switch\n" RATE
                        "[level pod]\nsize = 3\nkind = switch\nattach = node\nuplinks = 4\n" RATE,
                OVERRIDE("a", "link = pod: node 1 up/2\nfactor = 0.5\n"), "pod: node 1 up/2", 0.5);
    assert_hits(CLUSTER "[link gpu0 s]\n" RATE "[link s gpu1]\ncount = 2\n" RATE "[link s gpu2]\n" RATE,
                OVERRIDE("a", "link = link: s to gpu 1/1\nfactor = 0.5\n"), "link: s to gpu 1/1", 0.5);
}

static void a_latency_holds_for_the_crossing_of_a_switch(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, TWO_NODES OVERRIDE("slow", "link = leaf: gpu 3 up\nlatency = 50 us\n")
                          OVERRIDE("fast", "link = leaf: gpu 4 down\nlatency = 4 us\n")
                              OVERRIDE("near", "link = node: gpu 1 *\nlatency = 0 s\n"));
    assert_route_text(&t, 3, 5, "leaf: gpu 3 up, leaf: gpu 5 down", 50);
    assert_route_text(&t, 5, 3, "leaf: gpu 5 up, leaf: gpu 3 down", 10);
    assert_route_text(&t, 2, 4, "leaf: gpu 2 up, leaf: gpu 4 down", 4);
    assert_route_text(&t, 3, 4, "leaf: gpu 3 up, leaf: gpu 4 down", 50); /* the greater */
    assert_route_text(&t, 1, 2, "node: gpu 1 up, node: gpu 2 down", 0);
    topology_fini(&t);

    read_topology(&t, CLUSTER "[level r]\nsize = 5\nkind = ring\n" RATE OVERRIDE(
                          "slow", "link = r: gpu 1 to gpu 2\nlatency = 7 us\n"));
    assert_route_text(&t, 0, 2, "r: gpu 0 to gpu 1, r: gpu 1 to gpu 2", 8);
    assert_route_text(&t, 2, 0, "r: gpu 2 to gpu 1, r: gpu 1 to gpu 0", 2);
    topology_fini(&t);

    read_topology(&t, CLUSTER "[link gpu0 s]\n" RATE "[link s gpu1]\n" RATE OVERRIDE(
                          "slow", "link = link: s to gpu 1\nlatency = 7 us\nfactor = 0.5\n"));
    assert_route_text(&t, 0, 1, "link: gpu 0 to s, link: s to gpu 1", 8);
    assert_route_text(&t, 1, 0, "link: gpu 1 to s, link: s to gpu 0", 2);
    topology_fini(&t);
}

static void gpus_have_speeds(void **state)
{
    (void)state;
    struct topology t;
    read_topology(&t, TWO_NODES OVERRIDE("a", "gpu = 6, 1-2\nspeed = 0.8\n") OVERRIDE("b", "gpu = 3\nspeed = 2\n"));
    static const double expected[] = {1, 0.8, 0.8, 2, 1, 1, 0.8, 1};
    for (uint64_t gpu = 0; gpu < 8; gpu++)
        assert_true(topology_gpu_speed(&t, gpu) == expected[gpu]);
    topology_fini(&t);
    read_topology(&t, TWO_NODES);
    assert_true(topology_gpu_speed(&t, 5) == 1);
    topology_fini(&t);
}

static void what_overrides_cannot_say_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines;
    } cases[] = {
        {OVERRIDE("a", "link = leef: gpu 3 up\nfactor = 0.5\n"),
         "t.ini:14: 'link' begins with 'leef', which is no level, did you mean 'leaf'?"},
        {OVERRIDE("a", "link = leaf: gpu 3 upp\nfactor = 0.5\n"),
         "t.ini:14: no link is called 'leaf: gpu 3 upp', did you mean 'leaf: gpu 3 up'?"},
        {OVERRIDE("a", "link = leaf: *sideways*\nfactor = 0.5\n"),
         "t.ini:14: no link is called 'leaf: *sideways*', expected a name such as 'leaf: gpu 0 up'"},
        {OVERRIDE("a", "link = *x\nfactor = 0.5\n"),
         "t.ini:14: no link is called '*x', expected a name such as 'node: gpu 0 up'"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nfactor = 0.5\n") OVERRIDE("b", "link = *: gpu 3 up\nlatency = 1 us\n"),
         "t.ini:17: link 'leaf: gpu 3 up' is overridden a second time, expected once (first by [override a])"},
        {OVERRIDE("a", "gpu = 3-5\nspeed = 0.5\n") OVERRIDE("b", "gpu = 1, 4\nspeed = 2\n"),
         "t.ini:17: gpu 4 is overridden a second time, expected once (first by [override a])"},
        {OVERRIDE("a", "gpu = 8\nspeed = 0.5\n"), "t.ini:14: 'gpu' has 8, expected 0 to 7"},
        {OVERRIDE("a", "gpu = 5-3\nspeed = 0.5\n"),
         "t.ini:14: 'gpu' is '5-3', expected at most 16 GPUs or ranges of them, such as 17, 24-31"},
        {OVERRIDE("a", "gpu = 1,\nspeed = 0.5\n"),
         "t.ini:14: 'gpu' is '1,', expected at most 16 GPUs or ranges of them, such as 17, 24-31"},
        {OVERRIDE("a", "gpu = 1\nspeed = 0\n"), "t.ini:15: 'speed' is '0', expected 0.001 to 100"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nfactor = 0\n"), "t.ini:15: 'factor' is '0', expected 1e-06 to 100"},
        {OVERRIDE("a", "factor = 0.5\n"),
         "t.ini:13: [override a] says neither what link nor what GPU it is about, expected one of 'link' and 'gpu'"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\ngpu = 3\nspeed = 1\n"),
         "t.ini:15: [override a] says both, expected one of 'link' and 'gpu'"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\n"),
         "t.ini:13: [override a] changes nothing, expected 'bandwidth', 'factor', 'latency' or 'missing'"},
        {OVERRIDE("a", "gpu = 3\n"), "t.ini:13: [override a] changes nothing, expected 'speed'"},
        {OVERRIDE("a", "gpu = 3\nspeed = 1\nlatency = 1 us\n"),
         "t.ini:16: 'latency' has no effect on a GPU, expected it with 'link'"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nspeed = 1\nlatency = 1 us\n"),
         "t.ini:15: 'speed' has no effect on a link, expected it with 'gpu'"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nfactor = 1\nbandwidth = 1 GB/s\n"),
         "t.ini:15: 'factor' beside 'bandwidth', expected one of them"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nmissing = yes\nfactor = 1\n"),
         "t.ini:15: 'missing' beside what a link's bandwidth or latency is, expected one of them"},
        {OVERRIDE("a", "link = node: gpu 3 up\nmissing = yes\n"),
         "t.ini:15: 'node: gpu 3 up' is no NIC's, expected a port of a switch level with attach = rail that sits on "
         "its GPU"},
        {OVERRIDE("a", "link = leaf: gpu [0123] *\nmissing = yes\n"),
         "t.ini:15: no NIC is left in node 0, expected one at least"},
        {OVERRIDE("a", "link = leaf: gpu 3 up\nbandwith = 1 GB/s\n"),
         "t.ini:15: unknown key 'bandwith' in [override a], did you mean 'bandwidth'?"},
        {"[override]\nspeed = 1\n", "t.ini:13: section [override], expected [override NAME]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, TWO_NODES "%s", cases[i].text);
        assert_refused_text(text, cases[i].lines);
    }
    assert_refused_text(CLUSTER "[link gpu0 gpu1]\n" RATE OVERRIDE("a", "link = link: gpu 0 to gpu 1\nmissing = yes\n"),
                        "t.ini:8: 'link: gpu 0 to gpu 1' is no NIC's, expected a port of a switch level with attach = "
                        "rail that sits on its GPU");
    assert_refused_text(
        CLUSTER "[level m]\nsize = 16384\nkind = mesh\n" RATE OVERRIDE("a", "link = m: gpu 3 *\nfactor = 0.5\n"),
        "t.ini:9: the name is sought among 268419072 links, expected at most 16777216");
}

/* Names that begin with a level and a GPU are sought among its links alone. */
static void hundreds_of_names_are_found_in_a_large_cluster(void **state)
{
    (void)state;
    static const char cluster[] =
        CLUSTER "[level node]\nsize = 8\nkind = switch\n" RATE "[level leaf]\nsize = 16384\nkind = switch\n" RATE;
    enum { NAMES = 500 };
    char *text = memory_zeroed(sizeof cluster + (size_t)NAMES * 80, 1);
    strcpy(text, cluster);
    for (int i = 0; i < NAMES; i++)
        snprintf(text + strlen(text), 80, "[override o%d]\nlink = leaf: gpu %d *\nfactor = 0.5\n", i, 257 * i + 3);
    struct topology t;
    read_topology(&t, text);
    assert_int_equal(t.overrides.n_links, 2 * NAMES);
    topology_fini(&t);
    free(text);
}

static bool visit_none(void *context, uint64_t link)
{
    (void)context;
    fail_msg("link %d was visited", (int)link);
    return false;
}

static void other_names_are_not_sought_without_end(void **state)
{
    (void)state;
    struct topology t;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_topology(&t, TWO_NODES OVERRIDE("a", "link = *3 up\nfactor = 0.5\n"));
    const struct ini_section *section = &t.document->sections[t.document->n_sections - 1];
    uint64_t sought = (UINT64_C(1) << 24) - 16; /* by the names before; the cluster has 32 links */
    const struct link_pattern pattern = {&t, t.document, section, "*3 up", &diag, &sought};
    assert_false(link_pattern_each(&pattern, visit_none, NULL));
    assert_string_equal(diag.lines[0],
                        "t.ini:14: the names of all overrides are sought among more than 16777216 links, expected "
                        "names that begin with a level and a GPU or member, such as 'cluster: gpu 3 *'");
    diagnostics_fini(&diag);
    topology_fini(&t);
}

static void a_command_line_adds_overrides(void **state)
{
    (void)state;
    const char *sets[] = {"override slow.link=cluster: gpu 3 up", "override slow.factor=0.5", "override hot.gpu=7",
                          "override hot.speed=0.9"};
    struct topology t;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(topology_read(&t, CPSIM_SOURCE_DIR "/topologies/dgx-h100-4.ini", sets, 4, &diag));
    assert_true(topology_gpu_speed(&t, 7) == 0.9);
    struct route route;
    route_init(&route);
    find_route(&t, 3, 8, &route);
    assert_true(route.bytes_per_s == 25e9);
    route_fini(&route);
    topology_fini(&t);
    const char *bad[] = {"override slow.link=cluster: gpu 99 up", "override slow.factor=0.5"};
    assert_false(topology_read(&t, CPSIM_SOURCE_DIR "/topologies/dgx-h100-4.ini", bad, 2, &diag));
    assert_string_equal(diag.lines[0], "--set override slow.link=cluster: gpu 99 up: no link is called 'cluster: gpu "
                                       "99 up', did you mean 'cluster: gpu 9 up'?");
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_override_hits_exactly_the_links_it_names),
        cmocka_unit_test(a_latency_holds_for_the_crossing_of_a_switch),
        cmocka_unit_test(gpus_have_speeds),
        cmocka_unit_test(what_overrides_cannot_say_is_refused),
        cmocka_unit_test(hundreds_of_names_are_found_in_a_large_cluster),
        cmocka_unit_test(other_names_are_not_sought_without_end),
        cmocka_unit_test(a_command_line_adds_overrides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
