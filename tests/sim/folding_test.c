/* Folded equals unfolded: every rank's moments of every operation, and what every link carried and when, for random
 * experiments of every algorithm in random layouts on random clusters, by both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/algorithms/algorithm.h"
#include "tests/sim/random_pair.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 4 /* of each algorithm */
#else
#define CASES 20
#endif

/* Folds what the experiment's own schedule does. */
static bool pair_fold_schedule(struct pair *pair)
{
    pair->programs = schedule_build_all(&pair->schedule);
    pair->period = schedule_period(&pair->schedule);
    return pair_fold(pair);
}

/* True if the experiment was accepted and every message has a way. */
static bool random_pair(struct dice *dice, const char *algorithm, struct pair *pair)
{
    bool even = draw_experiment(dice, algorithm, dice_chance(dice, 4) ? 32 : 9, pair), accepted;
    if (!draw_schedule(pair))
        return false;
    find_machine(dice, pair, even);
    accepted = pair_fold_schedule(pair);
    if (!accepted)
        pair_fini(pair);
    return accepted;
}

static void folded_equals_whole(void **state)
{
    (void)state;
    unsigned folded = 0, turned = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        struct dice dice = {.state = 3};
        unsigned accepted = 0, tried = 0;
        for (; accepted < CASES && tried < 40 * CASES; tried++) {
            struct pair pair;
            if (!random_pair(&dice, algorithms[a]->name, &pair))
                continue;
            if (is_quick(&pair)) {
                compare(&pair);
                folded += pair.folding.ensemble.n_instances < pair.whole.n_instances;
                turned += pair.folding.ensemble.n_instances < pair.schedule.ranks;
                accepted++;
            }
            pair_fini(&pair);
        }
        assert_int_equal(accepted, CASES);
    }
    print_message("%u folded, %u within a group\n", folded, turned);
    assert_true(folded > 3 * CASES && turned > CASES / 4); /* it was no comparison of equal things */
}

/* A ring in full attention, forward: all of its ranks do the same. The caller calls pair_fini. */
static void ask(struct pair *pair, const char *topology, const char *parallel, uint32_t cp)
{
    *pair = (struct pair){0};
    char *text = memory_format("[model]\nq_heads = 2\nkv_heads = 2\nhead_dim = 64\ndtype = bf16\n"
                               "[workload]\nseq_len = %u\nbatch = 1\nmask = full\npass = forward\n"
                               "[parallel]\ncp = %u\n%s\n[schedule]\nalgorithm = ring\nsharding = contiguous\n",
                               16 * cp, cp, parallel);
    char path[] = "/tmp/cpsim-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = topology_read_text(&pair->topology, "test", topology, &diag) &&
                experiment_read(&pair->experiment, path, NULL, 0, &diag) &&
                schedule_init(&pair->schedule, &pair->experiment, NULL, &diag);
    char *device = topology_device_path(&pair->topology, &diag);
    good = good && device_read(&pair->device, device, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    diagnostics_fini(&diag);
    unlink(path);
    free(device);
    snprintf(pair->what, sizeof pair->what, "%s\n%s", text, topology);
    free(text);
    assert_true(pair_fold_schedule(pair));
}

#define NODES_OF_8                                                                                                     \
    "[cluster]\ndevice = toy\n"                                                                                        \
    "[level node]\nsize = 8\nkind = switch\nbandwidth = 400 MB/s\nlatency = 1 us\n"                                    \
    "[level net]\nsize = 128\nkind = switch\nbandwidth = 50 MB/s\nlatency = 4 us\n"

/* Of a ring over nodes of 8, a rank is like those at the same place in other nodes. What is slow tells apart all of the
 * ring that it is in, and nobody else. */
static void classes_are_as_few_as_can_be(void **state)
{
    (void)state;
    static const struct {
        const char *topology, *parallel;
        uint32_t cp, classes, first_stands_for;
    } cases[] = {
        {NODES_OF_8, "", 8, 1, 8},
        {NODES_OF_8, "", 32, 8, 4},
        {NODES_OF_8, "", 12, 12, 1},
        {NODES_OF_8, "dp = 2", 32, 8, 8},
        {NODES_OF_8, "dp = 8\norder = dp,cp,tp", 16, 1, 128},
        {NODES_OF_8 "attach = node\n", "dp = 8\norder = dp,cp,tp", 16, 1, 128},
        {NODES_OF_8 "[override slow]\nlink = net: gpu 39 up\nfactor = 0.5\n", "dp = 2", 32, 40, 4},
        {NODES_OF_8 "[override gone]\nlink = net: gpu 7 *\nmissing = yes\n", "dp = 2", 32, 40, 1},
        {NODES_OF_8 "[override unused]\nlink = net: gpu 38 up\nfactor = 0.5\n", "dp = 2", 32, 8, 8},
        {NODES_OF_8 "[override slow]\nlink = node: gpu 3 down\nlatency = 9 us\n", "dp = 3", 8, 9, 1},
        {NODES_OF_8 "attach = node\n[override slow]\nlink = net: node 3 up\nfactor = 0.9\n", "dp = 3", 16, 24, 4},
        {NODES_OF_8 "[override slow]\ngpu = 13\nspeed = 0.5\n", "dp = 3", 8, 9, 16},
        {NODES_OF_8 "[override unused]\ngpu = 24-1023\nspeed = 0.5\n", "dp = 3", 8, 1, 24},
        {NODES_OF_8 "[override all]\ngpu = 0-23\nspeed = 0.5\n", "dp = 3", 8, 1, 24},
        {NODES_OF_8 "[override gone]\nlink = net: gpu 9 up\nmissing = yes\n", "dp = 8\norder = dp,cp,tp", 4, 9, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        ask(&pair, cases[i].topology, cases[i].parallel, cases[i].cp);
        if (pair.folding.ensemble.n_instances != cases[i].classes ||
            pair.folding.ensemble.instances[0].stands_for != cases[i].first_stands_for)
            fail_msg("%u classes, the first stands for %u: %s", pair.folding.ensemble.n_instances,
                     pair.folding.ensemble.instances[0].stands_for, pair.what);
        compare(&pair);
        pair_fini(&pair);
    }
}

/* 1,024 ranks, whose rings stay within four nodes each, or cross nodes with every message. */
static void a_thousand_ranks_fold(void **state)
{
    (void)state;
    static const struct {
        const char *parallel;
        uint32_t classes;
    } cases[] = {{"dp = 32", 8}, {"dp = 32\norder = dp,cp,tp", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        ask(&pair, NODES_OF_8 "attach = node\n", cases[i].parallel, 32);
        assert_int_equal(pair.whole.n_instances, 1024);
        assert_int_equal(pair.folding.ensemble.n_instances, cases[i].classes);
        compare(&pair);
        pair_fini(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_as_few_as_can_be),
        cmocka_unit_test(a_thousand_ranks_fold),
        cmocka_unit_test(folded_equals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
