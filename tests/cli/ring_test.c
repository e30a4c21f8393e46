/* parallel.ring on the command line: what it makes of a step, where it is said, and where it has no effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

/* Sixteen ranks over two nodes, whose rings are bound by what leaves a node. */
#define ASK                                                                                                            \
    "printf '[model]\\nq_heads = 8\\nkv_heads = 8\\nhead_dim = 128\\n[workload]\\nseq_len = 32Ki\\n[parallel]\\ncp = " \
    "16\\n[schedule]\\nalgorithm = ring\\nsharding = zigzag\\n' > $DIR/e.ini; $CPSIM dgx-h100-4 $DIR/e.ini "

static double seconds_of(const char *options)
{
    char *text = memory_format(ASK "--json - %s", options);
    json_t *json = json_of(text);
    double seconds = json_number_value(json_object_get(json_object_get(json, "step"), "seconds"));
    json_decref(json);
    free(text);
    return seconds;
}

/* Two rings' worth of steps cross for natural and snake; lane after lane all of eight leave at once. */
static void the_order_decides_what_shares_an_uplink(void **state)
{
    (void)state;
    double natural = seconds_of("--set 'level cluster.attach=node'");
    double snake = seconds_of("--set 'level cluster.attach=node' --set parallel.ring=snake");
    double rail = seconds_of("--set 'level cluster.attach=node' --set parallel.ring=rail");
    double listed = seconds_of("--set 'level cluster.attach=node' --set parallel.ring=0,8,1,9,2,10,3,11,4,12,5,13,6,14,"
                               "7,15");
    assert_true(snake < 1.001 * natural && natural < 1.001 * snake);
    assert_true(rail > 4 * natural);
    assert_true(listed == rail); /* which is that list */
}

static void results_say_it(void **state)
{
    (void)state;
    expect(ASK "--engine analytic --set parallel.ring=snake", 0, "; cp 16, tp 1, dp 1, ring snake\n", "");
    expect(ASK "--engine analytic --set parallel.ring=1,0,$(seq -s, 2 15)", 0, ", ring as listed\n", "");
    expect(ASK "--engine analytic", 0, "; cp 16, tp 1, dp 1\n", "");
    json_t *json = json_of(ASK "--engine analytic --set parallel.ring=rail --json -");
    const json_t *parallel = json_object_get(json_object_get(json, "experiment"), "parallel");
    assert_string_equal(json_string_value(json_object_get(parallel, "ring")), "rail");
    json_decref(json);
}

static void without_effect_it_is_refused(void **state)
{
    (void)state;
    expect(ASK "--set parallel.cp=1 --set parallel.ring=snake", 2, NULL, "'ring' has no effect with cp = 1");
    expect(ASK "--set parallel.cp=8 --set parallel.ring=snake", 2, NULL, "this is the natural order of the GPUs");
    expect(ASK "--check --set parallel.ring=node-major", 2, NULL, "this is the natural order of the GPUs");
    expect(ASK "--sweep parallel.ring=natural,node-major,snake --engine analytic", 0, "snake",
           "note: point parallel.ring=node-major: --set parallel.ring=node-major: 'ring' has no effect");
    expect_misuse("--hw cpu-small --set parallel.ring=snake", "'ring' has no effect without a topology");
    expect_misuse("--events two-owners --set parallel.ring=1,0", "'ring' has no effect without a topology");
}

/* As any key of a level that nothing crosses. */
static void an_override_of_an_idle_level_is_noted(void **state)
{
    (void)state;
    expect(ASK "--engine analytic --set 'level cluster.bandwidth=40 GB/s' --set parallel.cp=8", 2, NULL, "expected at");
    expect(
        ASK "--engine analytic --set 'level cluster.bandwidth=40 GB/s'", 2, NULL,
        "expected at most the bandwidth, 40 GB/s: set it too, or ask for slower links by an [override] with a factor");
    expect(ASK "--engine analytic --set 'override net.link=cluster: *' --sweep 'override net.factor=0.25,0.5,1'", 0,
           "0.25", "");
    expect(ASK "--engine analytic --set 'level cluster.bandwidth=60 GB/s' --set parallel.cp=8", 0, NULL,
           "cpsim: note: --set level cluster.bandwidth=60 GB/s: has no effect, no message crosses level 'cluster'\n");
    expect(ASK "--engine analytic --set 'level cluster.size=5' --set 'level node.latency=9 us'", 0, NULL, "");
    struct outcome outcome = shell(ASK "--engine analytic --set 'level cluster.bandwidth=60 GB/s' --quiet");
    assert_string_equal(outcome.err, "");
    outcome_fini(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_decides_what_shares_an_uplink),
        cmocka_unit_test(results_say_it),
        cmocka_unit_test(without_effect_it_is_refused),
        cmocka_unit_test(an_override_of_an_idle_level_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
