/* Keys of levels that do not go together: each is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/routes.h"

/* Lines 3 to 7, then 8 to 13 and the keys of a test from line 14 on. */
#define NODE "[level node]\nsize = 4\nkind = switch\n" RATE
#define LEAF "[level leaf]\nsize = 2\nkind = switch\n" RATE "duplex = full\n"
#define TORUS "[level leaf]\nsize = 4\nkind = torus:2x2\n" RATE "duplex = full\n"

struct refusal {
    const char *text, *lines;
};

static void assert_refusals(const struct refusal *refusals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[1024];
        snprintf(text, sizeof text, CLUSTER "%s", refusals[i].text);
        assert_refused_text(text, refusals[i].lines);
    }
}

static void keys_without_effect_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {NODE "nics = 2\n", "t.ini:8: 'nics' has no effect in the first level, expected it in outer levels only"},
        {NODE "cross_rail = nvlink\n",
         "t.ini:8: 'cross_rail' has no effect in the first level, expected it in outer levels only"},
        {NODE LEAF "attach = node\nnics = 2\n", "t.ini:15: 'nics' has no effect without attach = rail, expected both"},
        {NODE LEAF "attach = node\ncross_rail = nvlink\n",
         "t.ini:15: 'cross_rail' has no effect, expected several NICs per member"},
        {NODE LEAF "nics = 1\ncross_rail = nvlink\n",
         "t.ini:15: 'cross_rail' has no effect, expected several NICs per member"},
        {NODE LEAF "[level spine]\nsize = 2\nkind = switch\nattach = rail\ncross_rail = nvlink\n" RATE,
         "t.ini:18: 'cross_rail' has no effect, expected it where each GPU has a NIC (attach = rail)"},
        {NODE LEAF "routing = ecmp\n", "t.ini:14: 'routing' has no effect without 'uplinks', expected both"},
        {NODE TORUS "uplinks = 2\n", "t.ini:14: 'uplinks' has no effect in a torus, expected it in a switch"},
        {NODE TORUS "nics = 2\n", "t.ini:14: 'nics' has no effect in a torus, expected it in a switch"},
        {NODE TORUS "cross_rail = leaf\n", "t.ini:14: 'cross_rail' has no effect in a torus, expected it in a switch"},
        {NODE TORUS "global_latency = 1 us\n",
         "t.ini:14: 'global_latency' has no effect in a torus, expected it in a dragonfly"},
        {NODE "global_bandwidth = 1 GB/s\n",
         "t.ini:8: 'global_bandwidth' has no effect in a switch, expected it in a dragonfly"},
    };
    assert_refusals(cases, sizeof cases / sizeof *cases);
    assert_refused_text(CLUSTER "routing = ecmp\n" NODE,
                        "t.ini:3: 'routing' has no effect, expected a level with 'uplinks', or links of a graph");
    assert_refused_text(CLUSTER "routing = ecmp\n" NODE LEAF "uplinks = 2\nrouting = shortest\n",
                        "t.ini:3: 'routing' has no effect, expected a level with 'uplinks', or links of a graph");
    assert_refused_text(CLUSTER "seed = 3\n" NODE LEAF "uplinks = 2\nrouting = shortest\n",
                        "t.ini:3: 'seed' has no effect without routing by ecmp, expected both");
    assert_refused_text(CLUSTER "seed = 3\n" NODE,
                        "t.ini:3: 'seed' has no effect without routing by ecmp, expected both");
}

static void ports_that_hang_nowhere_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {NODE TORUS "attach = switch\n",
         "t.ini:14: 'attach' is 'switch', expected this level and the one before to be switches"},
        {NODE TORUS "[level out]\nsize = 2\nkind = switch\n" RATE "attach = switch\n",
         "t.ini:19: 'attach' is 'switch', expected this level and the one before to be switches"},
        {NODE LEAF "nics = 5\n", "t.ini:14: 'nics' is 5, expected at most one for each of a member's 4 GPUs"},
        {NODE LEAF "cross_rail = spine\n",
         "t.ini:14: 'cross_rail' is 'spine', expected a level outside this one with attach = switch"},
        {NODE LEAF "cross_rail = spine\n[level out]\nsize = 2\nkind = switch\n" RATE "attach = node\n",
         "t.ini:14: 'cross_rail' is 'spine', expected a level outside this one with attach = switch"},
    };
    assert_refusals(cases, sizeof cases / sizeof *cases);
}

#define OVER "[level leaf]\nsize = 2\nkind = switch\nlatency = 1 us\n"

static void bandwidth_or_oversubscription_is_said(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {NODE LEAF "oversubscription = 2:1\n", "t.ini:14: 'oversubscription' beside 'bandwidth', expected one of them"},
        {NODE OVER "attach = node\n",
         "t.ini:8: [level leaf] has no key 'bandwidth', expected a rate such as 450 GB/s or 400 Gb/s"},
        {OVER "oversubscription = 2:1\n",
         "t.ini:7: 'oversubscription' has no effect in the first level, expected it in outer levels only"},
        {NODE OVER "oversubscription = 2:1\n",
         "t.ini:12: 'oversubscription' of ports that hang on no switch of the level before, expected 'bandwidth'"},
        {NODE TORUS "[level out]\nsize = 2\nkind = switch\nlatency = 1 us\nattach = node\noversubscription = 2:1\n",
         "t.ini:19: 'oversubscription' of ports that hang on no switch of the level before, expected 'bandwidth'"},
        {NODE OVER "attach = node\noversubscription = 2:1\nmessage_bandwidth = 3 GB/s\nchannels = 2\n"
                   "channel_bandwidth = 1 GB/s\n",
         "t.ini:14: 'message_bandwidth' is 3 GB/s, expected at most the bandwidth, 2 GB/s"},
    };
    assert_refusals(cases, sizeof cases / sizeof *cases);
    static const char *const bad[] = {"2", "2:", ":1", "2:1:1", "0:1", "2:0", "-2:1", "2/1", "1e9:1", "nan:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512], lines[512];
        snprintf(text, sizeof text, CLUSTER NODE OVER "attach = node\noversubscription = %s\n", bad[i]);
        snprintf(lines, sizeof lines,
                 "t.ini:13: 'oversubscription' is '%s', expected a ratio such as 2:1, of numbers from 0.001 to 1000",
                 bad[i]);
        assert_refused_text(text, lines);
    }
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {NODE LEAF "uplinks = 0\n", "t.ini:14: 'uplinks' is '0', expected 1 to 1024"},
        {NODE LEAF "uplinks = 1025\n", "t.ini:14: 'uplinks' is '1025', expected 1 to 1024"},
        {NODE LEAF "uplinks = 2\nrouting = random\n",
         "t.ini:15: 'routing' is 'random', expected ecmp, shortest or adaptive"},
        {NODE LEAF "attach = spine\n", "t.ini:14: 'attach' is 'spine', expected rail, node or switch"},
        {NODE LEAF "cross_rail = nvlnk\n", "t.ini:14: 'cross_rail' is 'nvlnk', did you mean 'nvlink'?"},
        {"[level f]\nsize = 12\nkind = dragonfly:3x5\n" RATE,
         "t.ini:5: 'kind' is 'dragonfly:3x5', expected lengths whose product is the size, 12"},
        {"[level f]\nsize = 12\nkind = dragonfly:12\n" RATE,
         "t.ini:5: 'kind' is 'dragonfly:12', expected switch, mesh, ring, torus:4x4 (2 to 4 dimensions) or "
         "dragonfly:9x4 (groups x routers)"},
        {"[level f]\nsize = 12\nkind = dragonfly:3x2x2\n" RATE,
         "t.ini:5: 'kind' is 'dragonfly:3x2x2', expected switch, mesh, ring, torus:4x4 (2 to 4 dimensions) or "
         "dragonfly:9x4 (groups x routers)"},
    };
    assert_refusals(cases, sizeof cases / sizeof *cases);
}

static void a_bad_level_does_not_make_others_bad(void **state)
{
    (void)state;
    assert_refused_text(CLUSTER "[level node]\nsize = 0\nkind = switch\n" RATE OVER
                                "attach = node\noversubscription = 2:1\nnics = 3\n",
                        "t.ini:4: 'size' is '0', expected 1 to 16777216");
    assert_refused_text(
        CLUSTER "[level a]\nsize = 16777216\nkind = switch\n" RATE "[level b]\nsize = 16777216\nkind = switch\n" RATE
                "[level c]\nsize = 16777216\nkind = switch\n" RATE "[level d]\nsize = 16777216\nkind = switch\n" RATE,
        "t.ini: the levels make more than 16777216 GPUs");
}

static void collect(void *context, const char *section, const char *key, const char *value)
{
    char *text = context;
    snprintf(text + strlen(text), 4096 - strlen(text), "%s.%s=%s\n", section, key, value);
}

static void values_are_listed_and_read_back(void **state)
{
    (void)state;
    struct topology t, again;
    struct diagnostics diag;
    diagnostics_init(&diag);
    read_topology(&t,
                  CLUSTER "seed = 5\n[level node]\nsize = 4\nsizes = 4x7, 3\nkind = switch\n" RATE
                          "[level leaf]\nsize = 2\nkind = switch\nnics = 2\ncross_rail = nvlink\n" RATE
                          "[level spine]\nsize = 2\nkind = switch\nattach = switch\nuplinks = 2\nrouting = ecmp\n"
                          "oversubscription = 2:1\nlatency = 1 us\n"
                          "[level fly]\nsize = 2\nkind = dragonfly:2x1\nattach = node\nglobal_bandwidth = 2 GB/s\n" RATE
                          "[override a]\ngpu = 3\nspeed = 0.5\n");
    char text[4096] = "", second[4096] = "", lines[4096];
    topology_each_value(&t, collect, text);
    assert_string_equal(
        text,
        "cluster.device=toy\ncluster.ranks_per_device=1\ncluster.seed=5\n"
        "level node.size=4\nlevel node.kind=switch\nlevel node.sizes=4x7, 3x1\n"
        "level node.bandwidth=1000000000 B/s\nlevel node.latency=1e-06 s\nlevel node.duplex=full\n"
        "level leaf.size=2\nlevel leaf.kind=switch\nlevel leaf.bandwidth=1000000000 B/s\n"
        "level leaf.latency=1e-06 s\nlevel leaf.attach=rail\nlevel leaf.nics=2\nlevel leaf.cross_rail=nvlink\n"
        "level leaf.duplex=full\n"
        "level spine.size=2\nlevel spine.kind=switch\nlevel spine.bandwidth=500000000 B/s\n"
        "level spine.latency=1e-06 s\nlevel spine.attach=switch\nlevel spine.uplinks=2\nlevel spine.routing=ecmp\n"
        "level spine.duplex=full\n"
        "level fly.size=2\nlevel fly.kind=dragonfly:2x1\nlevel fly.bandwidth=1000000000 B/s\n"
        "level fly.latency=1e-06 s\nlevel fly.attach=node\nlevel fly.global_bandwidth=2000000000 B/s\n"
        "level fly.global_latency=1e-06 s\nlevel fly.duplex=full\n"
        "override a.gpu=3\noverride a.speed=0.5\n");
    const char *overrides[64];
    size_t n = 0;
    char *rest = strcpy(lines, text);
    for (char *line; (line = strsep(&rest, "\n")) && *line;)
        overrides[n++] = line;
    bool read = topology_read(&again, "/dev/null", overrides, n, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(read);
    topology_each_value(&again, collect, second);
    assert_string_equal(second, text);
    assert_int_equal(again.n_links, t.n_links);
    topology_fini(&t);
    topology_fini(&again);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_without_effect_are_refused),       cmocka_unit_test(ports_that_hang_nowhere_are_refused),
        cmocka_unit_test(bandwidth_or_oversubscription_is_said), cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(a_bad_level_does_not_make_others_bad),  cmocka_unit_test(values_are_listed_and_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
