/* Overrides of what a run does not use are said to have no effect: by --sensitivity, and where --set writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

/* Rings within the first two of four nodes; or, `across`, of one GPU a node. */
#define ASK                                                                                                            \
    "printf '[cluster]\\ndevice = toy\\n[level node]\\nsize = 4\\nkind = switch\\nbandwidth = 60 GB/s\\nlatency = 2 "  \
    "us\\n[level net]\\nsize = 4\\nkind = switch\\nbandwidth = 20 GB/s\\nlatency = 5 us\\n[override slow]\\nlink = "   \
    "net: "                                                                                                            \
    "gpu 1 *\\nfactor = 0.5\\n[override gone]\\nlink = net: gpu 2 up\\nmissing = yes\\n[override lame]\\ngpu = "       \
    "7\\nspeed = 0.9\\n[override far]\\ngpu = 8-15\\nspeed = 0.9\\n' >$DIR/t.ini; printf '[model]\\nq_heads = "        \
    "8\\nkv_heads = 8\\nhead_dim = 64\\n[workload]\\nseq_len = 8Ki\\npass = forward\\n[parallel]\\ncp = 4\\ndp = "     \
    "2\\n[schedule]\\nalgorithm = ring\\noverlap = no\\nsharding = zigzag\\n' >$DIR/e.ini; $CPSIM $DIR/t.ini "         \
    "$DIR/e.ini --engine analytic "
#define ACROSS "--set parallel.dp=4 --set parallel.order=dp,cp,tp "
#define IDLE(NAME) "no rank and no message uses what [override " NAME "] is about"

static void expect_idle(const char *options, const char *idle, bool expected)
{
    char *text = memory_format("%s%s", ASK, options);
    struct outcome outcome = shell(text);
    if (outcome.status != 0 || (strstr(outcome.out, idle) || strstr(outcome.err, idle)) != expected)
        fail_msg("'%s' ended with %d: %s%s", options, outcome.status, outcome.out, outcome.err);
    outcome_fini(&outcome);
    free(text);
}

static void sensitivities_name_them(void **state)
{
    (void)state;
    static const char *const lines[] = {IDLE("slow"), IDLE("gone"), IDLE("lame"), IDLE("far")};
    static const bool within[] = {true, true, false, true}, across[] = {false, false, false, false};
    for (int i = 0; i < 4; i++) {
        expect_idle("--sensitivity", lines[i], within[i]);
        expect_idle(ACROSS "--sensitivity", lines[i], across[i]);
    }
    expect_idle("--sensitivity", "override far.speed", false);
    expect_idle("--sensitivity", "override lame.speed", true);
    expect(ASK "--sensitivity --json - | tr -d ' \\n' | grep -o 'idle_overrides\":[^]]*]'", 0,
           "[\"overrideslow\",\"overridegone\",\"overridefar\"]", "");
}

static void what_is_set_is_noted(void **state)
{
    (void)state;
    expect_idle("--set 'override slow.factor=0.4'",
                "cpsim: note: --set override slow.factor=0.4: has no effect, " IDLE("slow") "\n", true);
    expect_idle("--set 'override gone.missing=yes'", IDLE("gone"), true);
    expect_idle("--set 'override far.speed=0.4'", IDLE("far"), true);
    expect_idle("--set 'override lame.speed=0.4'", "note: ", false);
    expect_idle(ACROSS "--set 'override slow.factor=0.4' --set 'override gone.missing=yes'", "note: ", false);
    expect_idle("", "note: ", false); /* a file serves many runs */
}

/* Of a graph's links too. */
static void links_of_a_graph_are_noted(void **state)
{
    (void)state;
    expect(
        "printf '[cluster]\\ndevice = toy\\n[link gpu0 gpu1]\\nbandwidth = 1 GB/s\\nlatency = 1 us\\n[link gpu1 "
        "gpu2]\\nbandwidth = 1 GB/s\\nlatency = 1 us\\n' >$DIR/g.ini; $CPSIM $DIR/g.ini two-owners --engine analytic "
        "--set 'link gpu0 gpu1.latency=2 us' --set 'link gpu1 gpu2.latency=3 us'",
        0, NULL,
        "note: --set link gpu1 gpu2.latency=3 us: has no effect, no rank and no message uses what [link gpu1 gpu2] "
        "is about\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sensitivities_name_them),
        cmocka_unit_test(what_is_set_is_noted),
        cmocka_unit_test(links_of_a_graph_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
