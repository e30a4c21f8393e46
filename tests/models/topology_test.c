/* Reading a cluster from its INI: every key, every refusal with its message, and the shipped topologies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/input/topology.h"
#include "models/input/units.h"

#define NODE "[cluster]\ndevice = toy\n[level node]\n"

static void read_text(struct topology *topology, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool ok = topology_read_text(topology, "t.ini", text, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(ok);
    diagnostics_fini(&diag);
}

/* Expects `text` to be refused with exactly these lines (each ends in a newline). */
static void assert_refused(const char *text, const char *lines)
{
    struct topology topology;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(topology_read_text(&topology, "t.ini", text, &diag));
    char all[4096] = "";
    for (size_t i = 0; i < diag.count; i++) {
        strcat(all, diag.lines[i]);
        strcat(all, "\n");
    }
    assert_string_equal(all, lines);
    diagnostics_fini(&diag);
}

static void every_key_is_read(void **state)
{
    (void)state;
    struct topology t;
    read_text(&t, "[cluster]\ndevice = h100-sxm\nkernel = fa3\n"
                  "[level node]\nsize = 8\nkind = switch\nbandwidth = 450 GB/s\nlatency = 1.5 us\n"
                  "curve = 1 MiB: 30 GB/s,16 MiB:70.5 GB/s\n"
                  "[level pod]\nsize = 4\nkind = ring\nattach = node\nbandwidth = 400 Gb/s\nlatency = 0 s\n"
                  "duplex = half\n"
                  "[level site]\nsize = 12\nkind = torus:4x3\nbandwidth = 25 GB/s\nlatency = 1 s\n");
    assert_string_equal(t.device, "h100-sxm");
    assert_string_equal(t.kernel, "fa3");
    assert_int_equal(t.n_levels, 3);
    assert_int_equal(t.n_gpus, 8 * 4 * 12);
    const struct level *node = &t.levels[0], *pod = &t.levels[1], *site = &t.levels[2];
    assert_string_equal(node->name, "node");
    assert_int_equal(node->line, 4);
    assert_int_equal(node->kind, LEVEL_SWITCH);
    assert_true(node->bytes_per_s == 450e9);
    assert_true(node->latency_seconds == 1.5e-6);
    assert_false(node->half_duplex);
    assert_int_equal(node->n_curve, 2);
    assert_true(node->curve[0].bytes == 1048576 && node->curve[0].bytes_per_s == 30e9);
    assert_true(node->curve[1].bytes == 16777216 && node->curve[1].bytes_per_s == 70.5e9);
    assert_int_equal(pod->kind, LEVEL_RING);
    assert_int_equal(pod->n_torus, 1);
    assert_int_equal(pod->torus[0], 4);
    assert_int_equal(pod->attach, ATTACH_NODE);
    assert_true(pod->half_duplex);
    assert_true(pod->bytes_per_s == 50e9);
    assert_true(site->kind == LEVEL_TORUS && site->n_torus == 2 && site->torus[0] == 4 && site->torus[1] == 3);
    assert_int_equal(site->attach, ATTACH_RAIL);
    assert_int_equal(t.n_links, 2 * 384 + 48 * 1 + 2 * 32 * (12 + 12));
    topology_fini(&t);
}

static void a_bandwidth_that_is_none_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *value, *expected;
    } cases[] = {
        {"0 GB/s", "1 kB/s to 1 PB/s"},
        {"-1 GB/s", "1 kB/s to 1 PB/s"},
        {"1e-300 B/s", "1 kB/s to 1 PB/s"},
        {"2 PB/s", "1 kB/s to 1 PB/s"},
        {"0", NULL},
        {"-1", NULL},
        {"nan", NULL},
        {"inf GB/s", NULL},
        {"1e-300", NULL},
        {"25e9", NULL},
        {"400Gb", NULL},
        {"25 gb/s", NULL},
        {"10 us", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, NODE "size = 2\nkind = mesh\nbandwidth = %s\nlatency = 1 us\n", cases[i].value);
        snprintf(message, sizeof message, "t.ini:6: 'bandwidth' is '%s', expected %s\n", cases[i].value,
                 cases[i].expected ? cases[i].expected : units_expected(DIMENSION_RATE));
        assert_refused(text, message);
    }
    assert_refused(NODE "size = 2\nkind = mesh\nbandwidth =\nlatency = 1 us\n",
                   "t.ini:6: 'bandwidth' has no value, expected key = value\n");
}

static void bits_and_bytes_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        double bytes_per_s;
    } cases[] = {
        {"25Gb/s", 3.125e9}, {"25Gbps", 3.125e9}, {"25GB/s", 25e9}, {"25 GBps", 25e9}, {"25GiB/s", 25.0 * (1 << 30)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, NODE "size = 2\nkind = mesh\nbandwidth = %s\nlatency = 5us\n", cases[i].value);
        struct topology t;
        read_text(&t, text);
        assert_true(t.levels[0].bytes_per_s == cases[i].bytes_per_s);
        topology_fini(&t);
    }
}

static void a_latency_that_is_none_is_refused(void **state)
{
    (void)state;
    assert_refused(NODE "size = 2\nkind = mesh\nbandwidth = 1 GB/s\nlatency = -1 us\n",
                   "t.ini:7: 'latency' is '-1 us', expected 0 s to 1 s\n");
    assert_refused(NODE "size = 2\nkind = mesh\nbandwidth = 1 GB/s\nlatency = 5e-6\n",
                   "t.ini:7: 'latency' is '5e-6', expected a time such as 2 us (s, ms, us, ns)\n");
    assert_refused(NODE "size = 2\nkind = mesh\nbandwidth = 1 GB/s\nlatency = nan\n",
                   "t.ini:7: 'latency' is 'nan', expected a time such as 2 us (s, ms, us, ns)\n");
}

static void all_problems_come_at_once(void **state)
{
    (void)state;
    assert_refused("[clustre]\nx = 1\n[level node]\nsize = 0\nkind = star\nbandwith = 1 GB/s\nlatency = 2 us\n"
                   "attach = rail\nduplex = maybe\n[level]\nsize = 2\n",
                   "t.ini:1: unknown section [clustre], did you mean 'cluster'?\n"
                   "t.ini:10: section [level], expected [level NAME]\n"
                   "t.ini: no section [cluster], expected one\n"
                   "t.ini:8: 'attach' has no effect in the first level, expected it in outer levels only\n"
                   "t.ini:4: 'size' is '0', expected 1 to 16777216\n"
                   "t.ini:5: 'kind' is 'star', expected switch, mesh, ring, torus:4x4 (2 to 4 dimensions) or "
                   "dragonfly:9x4 (groups x routers)\n"
                   "t.ini:6: unknown key 'bandwith' in [level node], did you mean 'bandwidth'?\n"
                   "t.ini:9: 'duplex' is 'maybe', expected full or half\n"
                   "t.ini:3: [level node] has no key 'bandwidth', expected a rate such as 450 GB/s or 400 Gb/s\n");
    assert_refused("[cluster]\ndevice = toy\n", "t.ini: no section [level NAME], expected one\n");
}

#define LINK "bandwidth = 1 GB/s\nlatency = 1 us\n"

static void a_torus_needs_lengths_that_make_its_size(void **state)
{
    (void)state;
    assert_refused(NODE "size = 15\nkind = torus:4x4\n" LINK,
                   "t.ini:5: 'kind' is 'torus:4x4', expected lengths whose product is the size, 15\n");
    assert_refused(NODE "size = 17\nkind = torus:4x4\n" LINK,
                   "t.ini:5: 'kind' is 'torus:4x4', expected lengths whose product is the size, 17\n");
    assert_refused(NODE "size = 1\nkind = torus:99999999x99999999x99999999x99999999\n" LINK,
                   "t.ini:5: 'kind' is 'torus:99999999x99999999x99999999x99999999', expected lengths whose product is "
                   "the size, 1\n");
    static const char *const bad[] = {"torus",           "torus:",      "torus:4",     "torus:4x", "torus:0x4",
                                      "torus:2x2x2x2x2", "torus:-2x-2", "torus:4 x 4", "Switch",   "pcie-tree"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, NODE "size = 16\nkind = %s\n" LINK, bad[i]);
        snprintf(message, sizeof message,
                 "t.ini:5: 'kind' is '%s', expected switch, mesh, ring, torus:4x4 (2 to 4 dimensions) or dragonfly:9x4 "
                 "(groups x routers)\n",
                 bad[i]);
        assert_refused(text, message);
    }
}

static void a_curve_ascends_and_stays_within_the_bandwidth(void **state)
{
    (void)state;
    static const char form[] = "sizes with the rate that messages reach, such as 1 MiB: 30 GB/s, 16 MiB: 70.5 GB/s";
    static const struct {
        const char *value, *message;
    } cases[] = {
        {"1 MiB: 0.5 GB/s, 1 MiB: 0.6 GB/s", "'curve' is '1 MiB: 0.5 GB/s, 1 MiB: 0.6 GB/s', expected sizes in "
                                             "ascending order"},
        {"1 MiB: 0.5 GB/s, 2 MiB: 1.5 GB/s", "'curve' reaches 1.5 GB/s, expected at most the bandwidth, 1 GB/s"},
        {"1 MiB", NULL},
        {"1 MiB: 0.5 GB/s,", NULL},
        {"1 MiB: 0 GB/s", NULL},
        {"0 B: 1 GB/s", NULL},
        {"-1 B: 1 GB/s", NULL},
        {"1 MiB: 0.5 GB", NULL},
        {"1: 0.5 GB/s", NULL},
        {": 0.5 GB/s", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, NODE "size = 2\nkind = mesh\n" LINK "curve = %s\n", cases[i].value);
        if (cases[i].message)
            snprintf(message, sizeof message, "t.ini:8: %s\n", cases[i].message);
        else
            snprintf(message, sizeof message, "t.ini:8: 'curve' is '%s', expected %s\n", cases[i].value, form);
        assert_refused(text, message);
    }
}

static void what_a_library_makes_of_links_is_read(void **state)
{
    (void)state;
    struct topology t;
    read_text(&t, NODE "size = 2\nkind = mesh\n" LINK
                       "medium = network\nchannels = 16\nchannels_per_peer = 2\nchannel_bandwidth = 0.2 GB/s\n"
                       "channel_latency = 5 us\nll_bandwidth = 50 MB/s\nmessage_bandwidth = 0.7 GB/s\n"
                       "fan_bandwidth = 1.5 GB/s\n"
                       "collectives = 12 us + 1.5 us: 0.4 GB/s,36us:1 GB/s\n");
    const struct level *level = &t.levels[0];
    assert_int_equal(level->medium, MEDIUM_NETWORK);
    assert_int_equal(level->channels, 16);
    assert_int_equal(level->channels_per_peer, 2);
    assert_true(level->channel_bytes_per_s == 0.2e9 && level->ll_bytes_per_s == 50e6);
    assert_true(level->channel_seconds == 5e-6 && level->message_bytes_per_s == 0.7e9);
    assert_true(level->fan_bytes_per_s == 1.5e9);
    assert_int_equal(level->n_protocols, 2);
    assert_true(level->protocols[0].start_seconds == 12e-6 && level->protocols[0].member_seconds == 1.5e-6);
    assert_true(level->protocols[0].bytes_per_s == 0.4e9 && level->protocols[1].bytes_per_s == 1e9);
    assert_true(level->protocols[1].start_seconds == 36e-6 && level->protocols[1].member_seconds == 0);
    topology_fini(&t);
}

static void what_a_library_cannot_make_of_links_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *message;
    } cases[] = {
        {"channels = 24\nchannel_bandwidth = 1 MB/s", "'channels' is 24, expected a power of two"},
        {"channels = 16", "'channels' without 'channel_bandwidth', expected both"},
        {"ll_bandwidth = 1 MB/s", "'ll_bandwidth' has no effect without 'channels', expected both"},
        {"medium = network", "'medium' has no effect without 'channels', expected both"},
        {"collectives = 1 us: 2 GB/s", "'collectives' is 2 GB/s, expected at most the bandwidth, 1 GB/s"},
        {"collectives = 1 us: 0.5 GB/s, 2 us: 0.4 GB/s",
         "'collectives' is '1 us: 0.5 GB/s, 2 us: 0.4 GB/s', expected rates in ascending order, the protocol for small "
         "collectives first"},
        {"fan_bandwidth = 3 GB/s", "'fan_bandwidth' is 3 GB/s, expected at most the bandwidth of all members, 2 GB/s"},
        {"fan_bandwidth = 3",
         "'fan_bandwidth' is '3', expected a rate such as 450 GB/s or 400 Gb/s (k M G T P, Ki Mi Gi Ti)"},
        {"collectives = 1 us", "'collectives' is '1 us', expected up to 4 protocols such as 12 us + 1.3 us: 140 GB/s, "
                               "36 us: 320 GB/s"},
        {"collectives = 1 us +: 1 GB/s", "'collectives' is '1 us +: 1 GB/s', expected up to 4 protocols such as "
                                         "12 us + 1.3 us: 140 GB/s, 36 us: 320 GB/s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300], message[300];
        snprintf(text, sizeof text, NODE "size = 2\nkind = mesh\n" LINK "%s\n", cases[i].lines);
        snprintf(message, sizeof message, "t.ini:8: %s\n", cases[i].message);
        assert_refused(text, message);
    }
}

static void a_level_name_is_a_plain_word(void **state)
{
    (void)state;
    assert_refused("[cluster]\ndevice = toy\n[level a.b]\nsize = 2\nkind = mesh\n" LINK,
                   "t.ini:3: level name 'a.b', expected 1 to 39 letters, digits, '-' or '_'\n");
    assert_refused("[cluster]\ndevice = toy\n[level 1234567890123456789012345678901234567890]\nsize = 2\n"
                   "kind = mesh\n" LINK,
                   "t.ini:3: level name '1234567890123456789012345678901234567890', expected 1 to 39 letters, digits, "
                   "'-' or '_'\n");
    assert_refused(NODE "size = 2\nkind = mesh\n" LINK "[level node]\nsize = 2\nkind = mesh\n" LINK,
                   "t.ini:8: section [level node] a second time, expected once (first on line 3)\n");
}

static void too_large_a_cluster_is_refused(void **state)
{
    (void)state;
    assert_refused(NODE "size = 16777216\nkind = switch\n" LINK "[level b]\nsize = 2\nkind = switch\n" LINK,
                   "t.ini: the levels make more than 16777216 GPUs\n");
    char text[2048] = "[cluster]\ndevice = toy\n";
    for (int k = 0; k < 9; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "[level l%d]\nsize = 1\nkind = mesh\n" LINK, k);
    assert_refused(text, "t.ini:43: one level more than 8, expected fewer\n");
}

struct listing {
    char text[4096];
};

static void list_value(void *context, const char *section, const char *key, const char *value)
{
    struct listing *listing = context;
    size_t used = strlen(listing->text);
    snprintf(listing->text + used, sizeof listing->text - used, "%s.%s=%s\n", section, key, value);
}

static void every_effective_value_is_listed_and_reads_back(void **state)
{
    (void)state;
    struct topology t, again;
    read_text(&t, NODE "size = 2\nkind = switch\nbandwidth = 400 Gb/s\nlatency = 2 us\ncurve = 1 MiB: 30 GB/s\n"
                       "channels = 8\nchannel_bandwidth = 2 GB/s\nll_bandwidth = 1 GB/s\n"
                       "collectives = 1 us + 2 us: 5 GB/s\n"
                       "[level pod]\nsize = 6\nkind = torus:3x2\nbandwidth = 1 GB/s\nlatency = 1 ms\n");
    struct listing listing = {0}, second = {0};
    topology_each_value(&t, list_value, &listing);
    assert_string_equal(listing.text,
                        "cluster.device=toy\ncluster.ranks_per_device=1\nlevel node.size=2\nlevel node.kind=switch\n"
                        "level node.bandwidth=50000000000 B/s\nlevel node.latency=2e-06 s\n"
                        "level node.duplex=full\nlevel node.curve=1048576 B: 30000000000 B/s\n"
                        "level node.medium=nvlink\nlevel node.channels=8\n"
                        "level node.channel_bandwidth=2000000000 B/s\nlevel node.ll_bandwidth=1000000000 B/s\n"
                        "level node.collectives=1e-06 s + 2e-06 s: 5000000000 B/s\n"
                        "level pod.size=6\nlevel pod.kind=torus:3x2\nlevel pod.bandwidth=1000000000 B/s\n"
                        "level pod.latency=0.001 s\nlevel pod.attach=rail\nlevel pod.duplex=full\n");

    const char *overrides[32];
    size_t n = 0;
    char lines[sizeof listing.text], *rest = lines;
    strcpy(lines, listing.text);
    for (char *line; (line = strsep(&rest, "\n")) && *line;)
        overrides[n++] = line;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(topology_read(&again, "/dev/null", overrides, n, &diag));
    topology_each_value(&again, list_value, &second);
    assert_string_equal(second.text, listing.text);
    topology_fini(&t);
    topology_fini(&again);
    diagnostics_fini(&diag);
}

static void an_override_replaces_and_is_named_when_bad(void **state)
{
    (void)state;
    const char *path = CPSIM_SOURCE_DIR "/topologies/dgx-h100-4.ini";
    struct topology t;
    struct diagnostics diag;
    diagnostics_init(&diag);
    const char *good[] = {"level cluster.bandwidth=800 Gb/s", "level cluster.size=16"};
    assert_true(topology_read(&t, path, good, 2, &diag));
    assert_true(t.levels[1].bytes_per_s == 100e9);
    assert_int_equal(t.n_gpus, 128);
    topology_fini(&t);
    const char *bad[] = {"level cluster.bandwidth=0 Gb/s"};
    assert_false(topology_read(&t, path, bad, 1, &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.lines[0], "--set level cluster.bandwidth=0 Gb/s: 'bandwidth' is '0 Gb/s', expected "
                                       "1 kB/s to 1 PB/s");
    diagnostics_fini(&diag);
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct topology t;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(topology_read(&t, "/nonexistent/t.ini", NULL, 0, &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.lines[0], "/nonexistent/t.ini: cannot be read: No such file or directory");
    diagnostics_fini(&diag);
}

static void every_shipped_topology_reads_and_routes(void **state)
{
    (void)state;
    glob_t files;
    assert_int_equal(glob(CPSIM_SOURCE_DIR "/topologies/*.ini", 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 14);
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct route route;
    route_init(&route);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct topology t;
        bool ok = topology_read(&t, files.gl_pathv[i], NULL, 0, &diag);
        diagnostics_print(&diag, stderr, "");
        assert_true(ok);
        uint64_t stride = 1 + t.n_gpus / 150; /* all pairs, of large ones a sample */
        for (uint64_t from = 0; from < t.n_gpus; from += stride) {
            for (uint64_t to = stride == 1 ? 0 : from % 3; to < t.n_gpus; to += stride == 1 ? 1 : stride + 2) {
                if (from == to)
                    continue;
                assert_true(topology_route(&t, from, to, &route, &diag));
                assert_true(route.bytes_per_s > 0 && isfinite(route.bytes_per_s));
                assert_true(route.alpha_seconds > 0 && route.alpha_seconds < 1e-3);
                assert_true(route.n_links > 0);
            }
        }
        topology_fini(&t);
    }
    route_fini(&route);
    globfree(&files);
    diagnostics_fini(&diag);
}

static void nvlink_is_given_one_way(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double bytes_per_s;
        uint64_t gpus;
    } machines[] = {{"dgx-a100-4", 300e9, 32}, {"dgx-h100-4", 450e9, 32}, {"hgx-h200-4", 450e9, 32},
                    {"hgx-h800-1", 200e9, 8},  {"dgx-b200-4", 900e9, 32}, {"gb200-nvl72", 900e9, 72}};
    struct diagnostics diag;
    diagnostics_init(&diag);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        char path[512];
        snprintf(path, sizeof path, CPSIM_SOURCE_DIR "/topologies/%s.ini", machines[i].name);
        struct topology t;
        assert_true(topology_read(&t, path, NULL, 0, &diag));
        assert_true(t.levels[0].bytes_per_s == machines[i].bytes_per_s);
        assert_int_equal(t.n_gpus, machines[i].gpus);
        topology_fini(&t);
    }
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(a_bandwidth_that_is_none_is_refused_with_its_line),
        cmocka_unit_test(bits_and_bytes_are_told_apart),
        cmocka_unit_test(a_latency_that_is_none_is_refused),
        cmocka_unit_test(all_problems_come_at_once),
        cmocka_unit_test(a_torus_needs_lengths_that_make_its_size),
        cmocka_unit_test(a_curve_ascends_and_stays_within_the_bandwidth),
        cmocka_unit_test(what_a_library_makes_of_links_is_read),
        cmocka_unit_test(what_a_library_cannot_make_of_links_is_refused),
        cmocka_unit_test(a_level_name_is_a_plain_word),
        cmocka_unit_test(too_large_a_cluster_is_refused),
        cmocka_unit_test(every_effective_value_is_listed_and_reads_back),
        cmocka_unit_test(an_override_replaces_and_is_named_when_bad),
        cmocka_unit_test(a_file_that_is_not_there_is_an_error),
        cmocka_unit_test(every_shipped_topology_reads_and_routes),
        cmocka_unit_test(nvlink_is_given_one_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
