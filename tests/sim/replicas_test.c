/* What is slow holds up the replica that it is in, over both phases, and no other: forward, its ring alone; backward,
 * all rings of its replica, which begin it together. Folded and whole, with both engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>

#include "tests/predict.h"

#define CP 4
#define TP 2
#define DP 3

/* Each ring has a node of its own. */
static char *cluster(const char *overrides)
{
    return memory_format(
        "[cluster]\ndevice = toy\n"
        "[level node]\nsize = %d\nkind = switch\nbandwidth = 100 GB/s\nlatency = 1 us\n"
        "[level net]\nsize = %d\nkind = switch\nattach = node\nbandwidth = 10 GB/s\nlatency = 5 us\n%s",
        CP, TP * DP, overrides);
}

static char *experiment(void)
{
    return memory_format("[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
                         "[workload]\nseq_len = 8192\nbatch = 1\nmask = causal\npass = train\n"
                         "[parallel]\ncp = %d\ntp = %d\ndp = %d\norder = cp,tp,dp\n"
                         "[schedule]\nalgorithm = ring\nsharding = zigzag\n",
                         CP, TP, DP);
}

struct times {
    double seconds, forward_seconds;
    double forward[TP * DP], backward_begins[TP * DP], ends[TP * DP]; /* of each group */
};

/* The moments of a group: when its ranks' last forward operation ended, when their first backward one began. */
static void take_group(const struct prediction *p, uint32_t group, struct times *times)
{
    times->backward_begins[group] = INFINITY;
    for (uint32_t rank = 0; rank < CP; rank++) {
        uint32_t place = group * CP + rank;
        const struct program *program = ensemble_program(&p->whole, place);
        const struct moment *moments = p->timeline.moments[prediction_instance(p, place)];
        for (uint32_t op = 0; op < program->n_ops; op++) {
            if (op < program->phase_end[PHASE_FORWARD])
                times->forward[group] = fmax(times->forward[group], moments[op].end);
            else
                times->backward_begins[group] = fmin(times->backward_begins[group], moments[op].begin);
        }
        times->ends[group] = fmax(times->ends[group], p->report.ranks[place].seconds);
    }
}

static bool run(const char *overrides, const struct engine_ops *engine, bool no_fold, struct times *times)
{
    char *topology_text = cluster(overrides), *experiment_text = experiment();
    char *topology = temporary_file(topology_text), *path = temporary_file(experiment_text);
    const struct question question = {
        .topology_path = topology, .experiment_path = path, .engine = engine, .no_fold = no_fold};
    struct prediction prediction;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = prediction_prepare(&prediction, &question, &diag) == PREDICTION_DONE &&
                prediction_run(&prediction, &question, &diag) == PREDICTION_DONE;
    diagnostics_print(&diag, stderr, "  ");
    if (good) {
        *times =
            (struct times){.seconds = prediction.report.seconds, .forward_seconds = prediction.report.forward_seconds};
        for (uint32_t group = 0; group < TP * DP; group++)
            take_group(&prediction, group, times);
    }
    prediction_fini(&prediction);
    diagnostics_fini(&diag);
    unlink(topology);
    unlink(path);
    free(topology);
    free(path);
    free(topology_text);
    free(experiment_text);
    return good;
}

/* The same in a process of its own, as SimGrid wants it. */
static struct times times_of(const char *overrides, const struct engine_ops *engine, bool no_fold)
{
    struct times times = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(run(overrides, engine, no_fold, &times) && write(ends[1], &times, sizeof times) == sizeof times ? 0 : 1);
    close(ends[1]);
    assert_int_equal(read(ends[0], &times, sizeof times), sizeof times);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return times;
}

static void expect_near(double actual, double expected)
{
    if (fabs(actual - expected) > 1e-9 * expected)
        fail_msg("%.12g s, expected %.12g", actual, expected);
}

/* Group 2, the first of replica 1, has a GPU of half the speed. */
static void a_slow_gpu_holds_up_its_replica_alone(void **state)
{
    (void)state;
    static const char slow[] = "[override lame]\ngpu = 9\nspeed = 0.5\n";
    for (int e = 0; engines[e]; e++) {
        for (int no_fold = 0; no_fold < 2; no_fold++) {
            struct times even = times_of("", engines[e], no_fold), uneven = times_of(slow, engines[e], no_fold);
            for (uint32_t group = 0; group < TP * DP; group++) {
                expect_near(even.ends[group], even.seconds);
                if (group != 2)
                    expect_near(uneven.forward[group], even.forward[group]);
                if (group / TP != 1)
                    expect_near(uneven.ends[group], even.seconds);
            }
            assert_true(uneven.forward[2] > 1.2 * even.forward[2]);
            expect_near(uneven.backward_begins[3], uneven.forward[2]);
            expect_near(uneven.ends[3] - uneven.forward[2], even.seconds - even.forward_seconds);
            expect_near(uneven.seconds, uneven.ends[2]);
            expect_near(uneven.forward_seconds, uneven.forward[2]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_gpu_holds_up_its_replica_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
