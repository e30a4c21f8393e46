/* Files of clusters that say what cannot be: one line each, with where, what and what was expected; exit status 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

/* Lines 1 to 2, 3 to 7 and 8 to 12 of the file. */
#define CLUSTER "[cluster]\ndevice = toy\n"
#define NODE "[level node]\nsize = 4\nkind = switch\nbandwidth = 100 GB/s\nlatency = 2 us\n"
#define NET "[level net]\nsize = 4\nkind = switch\nbandwidth = 50 GB/s\nlatency = 3 us\n"
#define NET_WITHOUT "[level net]\nsize = 4\nkind = switch\nattach = node\nlatency = 3 us\n"
#define BASE CLUSTER NODE NET
#define GPU_LINK(A, B) "[link " #A " " #B "]\nbandwidth = 1 GB/s\nlatency = 1 us\n"

static const struct {
    const char *file, *said;
} cases[] = {
    {CLUSTER "routing = ecmp\n" NODE NET, ":3: 'routing' has no effect, expected a level with 'uplinks'"},
    {CLUSTER "seed = 3\nrouting = shortest\n" NODE NET "uplinks = 2\n", ":3: 'seed' has no effect without routing by"},
    {BASE "routing = ecmp\n", ":13: 'routing' has no effect without 'uplinks', expected both"},
    {BASE "uplinks = 2\nrouting = quick\n", ":14: 'routing' is 'quick', expected ecmp, shortest or adaptive"},
    {BASE "nics = 5\n", ":13: 'nics' is 5, expected at most one for each of a member's 4 GPUs"},
    {BASE "cross_rail = spine\n", ":13: 'cross_rail' is 'spine', expected a level outside this one"},
    {BASE "global_latency = 3 us\n", ":13: 'global_latency' has no effect in a switch"},
    {CLUSTER NODE "sizes = 4x3\n" NET, ":8: 'sizes' is of 3 instances, expected as many as there are, 4"},
    {CLUSTER NODE "sizes = 4x3, 9\n" NET, ":8: 'sizes' has 9, expected at most the size, 4"},
    {BASE "oversubscription = 2:1\n", ":13: 'oversubscription' beside 'bandwidth', expected one of them"},
    {CLUSTER NODE NET_WITHOUT "oversubscription = 2\n", ":13: 'oversubscription' is '2', expected a ratio such as 2:1"},
    {CLUSTER NODE NET_WITHOUT, ":8: [level net] has no key 'bandwidth', expected a rate"},
    {CLUSTER
     "[level net]\nsize = 4\nkind = dragonfly:1x4\nbandwidth = 50 GB/s\nlatency = 3 us\nglobal_latency = 3 us\n",
     ":8: 'global_latency' has no effect in one group, expected several groups"},
    {CLUSTER "routing = adaptive\n" GPU_LINK(gpu0, gpu1), ":3: 'routing' is 'adaptive', expected ecmp or shortest"},
    {CLUSTER NODE GPU_LINK(gpu0, gpu1), ":8: [link gpu0 gpu1] beside [level node], expected either levels or links"},
    {CLUSTER GPU_LINK(gpu0, gpu0), ":3: the link joins 'gpu0' to itself, expected two ends"},
    {CLUSTER "[link gpu0 a gpu1]\nbandwidth = 1 GB/s\nlatency = 1 us\n",
     ":3: section [link gpu0 a gpu1], expected two"},
    {CLUSTER GPU_LINK(gpu0, gpu2), ": gpu1 is at no link, expected all of gpu0 to gpu2"},
    {CLUSTER GPU_LINK(gpu0, gpu1) GPU_LINK(gpu1, gpu0), ":6: [link gpu0 gpu1] joins the same ends, expected one"},
    {CLUSTER GPU_LINK(gpu0, left) GPU_LINK(gpu1, left) GPU_LINK(gpu1, lefs),
     ":9: switch 'lefs' is a dead end, did you mean 'left'?"},
    {CLUSTER "[link gpu0 gpu1]\nbandwidth = 1 GB\nlatency = 1 us\n", ":4: 'bandwidth' is '1 GB', expected a rate"},
    {BASE "[override a]\nfactor = 0.5\n", ":13: [override a] says neither what link nor what GPU it is about"},
    {BASE "[override a]\nlink = net: gpu 3 up\ngpu = 3\nspeed = 0.5\n", ":15: [override a] says both, expected one"},
    {BASE "[override a]\nlink = net: gpu 3 up\n", ":13: [override a] changes nothing, expected 'bandwidth', 'factor'"},
    {BASE "[override a]\nlink = net: gpu 3 up\nspeed = 0.5\nfactor = 2\n", ":15: 'speed' has no effect on a link"},
    {BASE "[override a]\nlink = net: gpu 33 up\nfactor = 2\n",
     ":14: no link is called 'net: gpu 33 up', did you mean 'net: gpu 13 up'?"},
    {BASE "[override a]\nlink = net: gpu 3 *\nfactor = 2\n[override b]\nlink = net: gpu 3 up\nfactor = 3\n",
     ":17: link 'net: gpu 3 up' is overridden a second time, expected once (first by [override a])"},
    {BASE "[override a]\nlink = node: gpu 3 up\nmissing = yes\n", ":15: 'node: gpu 3 up' is no NIC's, expected a port"},
    {BASE "[override a]\nlink = net: gpu [0-3] up\nmissing = yes\n", ":15: no NIC is left in node 0, expected one"},
    {CLUSTER NODE "sizes = 4x3, 3\n" NET "[override a]\nlink = net: absent 15 *\nfactor = 2\n",
     ":15: 'link' is 'net: absent 15 *', links of GPUs that are not there only, expected others"},
    {BASE "[override a]\ngpu = 12-99\nspeed = 2\n", ":14: 'gpu' has 99, expected 0 to 15"},
    {BASE "[override a]\ngpu = 5-3\nspeed = 2\n", ":14: 'gpu' is '5-3', expected at most 16 GPUs or ranges of them"},
    {BASE "[override a]\ngpu = 5\nspeed = 0\n", ":15: 'speed' is '0', expected 0.001 to 100"},
    {BASE "[override]\ngpu = 5\nspeed = 2\n", ":13: section [override], expected [override NAME]"},
};

static void each_is_told_in_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = memory_format("%s/bad.ini", test_folder());
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].file, file);
        fclose(file);
        char *said = memory_format("cpsim: bad.ini%s", cases[i].said);
        struct outcome outcome = shell("cd $DIR; $CPSIM --check bad.ini");
        const char *end = strchr(outcome.err, '\n');
        if (outcome.status != 2 || strncmp(outcome.err, said, strlen(said)) != 0 || !end || end[1] != '\0' ||
            *outcome.out)
            fail_msg("%s\nended with %d, said: %s%s\nexpected: %s", cases[i].file, outcome.status, outcome.out,
                     outcome.err, said);
        outcome_fini(&outcome);
        free(said);
        free(path);
    }
}

/* All of a file at once. */
static void every_error_of_a_file_is_told(void **state)
{
    (void)state;
    expect(
        "printf '[cluster]\\ndevice = toy\\n[link gpu0 gpu1]\\nbandwidth = 1 GB\\nlatency = 1\\ncount = 0\\nduplex = "
        "no\\ncolour = red\\n' >$DIR/bad.ini; $CPSIM --check $DIR/bad.ini 2>&1 | grep -c 'bad.ini:[45678]: '",
        0, "5\n", "");
    expect_misuse("toy-2 two-owners --set 'override slow.factor=0.5'", "[override slow] says neither what link nor");
    expect_misuse("toy-2 two-owners --set 'override slow.gpu=0' --set 'override slow.speed=-1'", "'speed' is '-1'");
}

static int tidy(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_told_in_one_line),
        cmocka_unit_test(every_error_of_a_file_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, tidy);
}
