/* Whole predictions of rings over nodes against an exact recurrence, a small program over the ring's links.
 *
 * P ranks forward blocks of B bytes around a ring; the link from rank r to the next takes a_r + B / w_r. In step s = 0,
 * 1, ... P - 2 rank r sends the block that came to it in step s - 1 (its own in step 0) and receives one, posted
 * together; in between it computes c seconds on each block that it has, P times. Received blocks have n buffers, used
 * in turn. With M(r, s) the end of rank r's message of step s and C(r, j) the end of its j-th computation, both 0
 * before the first,
 *
 *     M(r, s) = max(M(r - 1, s - 1), M(r, s - 1), M(r + 1, s - 1), C(r + 1, s - n + 1)) + a_r + B / w_r
 *     C(r, j) = max(C(r, j - 1), M(r - 1, j - 1), M(r, j - 1)) + c
 *
 * (r modulo P): both ends of a message are done with the step before, as senders and as receivers, and the receiver's
 * buffer has been attended; messages posted together also finish together, so a block can be attended when its
 * receiver's own message has gone, too. The forward pass ends at the largest C(r, P - 1). In this max-plus recurrence
 * the pace is the slowest link's, or the computation's if that is slower: (P - 1) max(c, a + B / w) + c, however few of
 * the links are slow; but who waits for whom on the way is another matter, so every M and C is compared, not only the
 * end.
 *
 * The device is made for this: attention takes c whatever it attends, launches nothing; and merges are left out of the
 * cost model. Otherwise the whole way is tested, from INI to the timeline.
 */
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

#define EXACT 1e-9
#define RANKS_MAX 64
#define ROWS 8192                        /* of a rank */
#define BLOCK_BYTES (32.0 * 1024 * 1024) /* K and V of 8 heads of 128 in bf16 */
#define STEP_FLOPS (4.0 * ROWS * ROWS * 8 * 128)
#define GIB (1024.0 * 1024 * 1024)

/* ---- the recurrence ---- */

struct link {
    double alpha_seconds, bytes_per_s;
};

struct ring {
    uint32_t ranks, buffers;
    double step_seconds;
    struct link links[RANKS_MAX]; /* [r]: from rank r to the next */
};

/* What the recurrence says: [step][rank]. */
struct course {
    double sent[RANKS_MAX][RANKS_MAX], computed[RANKS_MAX][RANKS_MAX];
};

static double latest(double a, double b, double c, double d)
{
    return fmax(fmax(a, b), fmax(c, d));
}

/* Fills `course`; returns when the last computation ends. */
static double recurrence(const struct ring *ring, struct course *course)
{
    double end = 0, (*sent)[RANKS_MAX] = course->sent, (*computed)[RANKS_MAX] = course->computed;
    uint32_t ranks = ring->ranks, n = ring->buffers;
    for (uint32_t s = 0; s < ranks; s++) {
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t previous = (r + ranks - 1) % ranks;
            double ready = s ? latest(computed[s - 1][r], sent[s - 1][previous], sent[s - 1][r], 0) : 0;
            computed[s][r] = ready + ring->step_seconds;
            end = fmax(end, computed[s][r]);
        }
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t previous = (r + ranks - 1) % ranks, next = (r + 1) % ranks;
            double attended = s + 1 > n ? computed[s + 1 - n][next] : 0;
            double begin = s ? latest(sent[s - 1][previous], sent[s - 1][r], sent[s - 1][next], attended) : 0;
            sent[s][r] = begin + ring->links[r].alpha_seconds + BLOCK_BYTES / ring->links[r].bytes_per_s;
        }
    }
    return end;
}

/* ---- the same by cpsim ---- */

/* Nodes of `gpus`, joined by a NIC for each GPU or, `shared`, by one for a node. One node: a switch. */
struct cluster {
    uint32_t nodes, gpus;
    bool shared;
    struct link inner, outer;
};

static char *device_text(double step_seconds)
{
    const char *pass = "dtype = any\nheads = 1\nbatch = 1\nfull = 1024: ";
    return memory_format("[device]\nname = steps\nmemory = 1000 GB\nmemory_bandwidth = 1000 TB/s\n"
                         "memory_efficiency = 1\nlaunch = 0 s\nprocessors = 1\ntile_rows = 1\nkernel = steps\n"
                         "[attention steps forward any]\n%s%.17g FLOP/s\nsource = made up\n"
                         "[attention steps backward any]\n%s%.17g FLOP/s\nsource = made up\n",
                         pass, STEP_FLOPS / step_seconds, pass, STEP_FLOPS / step_seconds);
}

static char *cluster_text(const struct cluster *cluster, const char *device_path)
{
    char *outer = memory_text("");
    if (cluster->nodes > 1) {
        free(outer);
        outer = memory_format("[level cluster]\nsize = %u\nkind = switch\nattach = %s\nbandwidth = %.17g B/s\n"
                              "latency = %.17g s\n",
                              cluster->nodes, cluster->shared ? "node" : "rail", cluster->outer.bytes_per_s,
                              cluster->outer.alpha_seconds);
    }
    char *text =
        memory_format("[cluster]\ndevice = %s\n[level node]\nsize = %u\nkind = switch\nbandwidth = %.17g B/s\n"
                      "latency = %.17g s\n%s",
                      device_path, cluster->gpus, cluster->inner.bytes_per_s, cluster->inner.alpha_seconds, outer);
    free(outer);
    return text;
}

static bool near(double actual, double expected, double tolerance)
{
    return fabs(actual - expected) <= tolerance * expected;
}

/* Whether each message and each computation of a rank ends when the recurrence says. */
static bool rank_follows(const struct prediction *prediction, uint32_t rank, const struct course *course)
{
    const struct program *program = ensemble_program(&prediction->whole, rank);
    uint32_t sent = 0, computed = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        double end = prediction->timeline.moments[prediction_instance(prediction, rank)][i].end, expected = end;
        if (op->kind == OP_SEND)
            expected = course->sent[sent++][rank];
        else if (op_is_attention(op))
            expected = course->computed[computed++][rank];
        if (near(end, expected, EXACT))
            continue;
        fprintf(stderr, "operation %u of rank %u ends at %.12g, not %.12g\n", i, rank, end, expected);
        return false;
    }
    return computed == prediction->schedule.ranks && sent + 1 == computed;
}

/* Merges and the other passes over memory are left out. */
static bool prediction_follows(const struct engine_ops *engine, const char *topology_path, const char *experiment_path,
                               const struct course *course, double end)
{
    const struct question question = {.topology_path = topology_path,
                                      .experiment_path = experiment_path,
                                      .engine = engine,
                                      .without = 1U << MECHANISM_STEPS};
    struct diagnostics diag;
    struct prediction prediction;
    diagnostics_init(&diag);
    bool good = prediction_prepare(&prediction, &question, &diag) == PREDICTION_DONE &&
                prediction_run(&prediction, &question, &diag) == PREDICTION_DONE;
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    if (!good)
        return false;
    for (uint32_t r = 0; r < prediction.schedule.ranks; r++)
        good = good && rank_follows(&prediction, r, course);
    good = good && near(prediction.timeline.phase_end[PHASE_FORWARD], end, EXACT);
    prediction_fini(&prediction);
    return good;
}

static bool engine_follows(const struct engine_ops *engine, const struct cluster *cluster, const struct ring *ring,
                           const struct course *course, double end)
{
    char schedule[100];
    snprintf(schedule, sizeof schedule, "algorithm = ring\nsharding = contiguous\noverlap = yes\nbuffers = %u",
             ring->buffers);
    struct toy toy = {8, 8, 128, (uint64_t)ROWS * ring->ranks, "full", "forward", ring->ranks, schedule};
    char *device = device_text(ring->step_seconds), *device_path = temporary_file(device);
    char *topology = cluster_text(cluster, device_path), *topology_path = temporary_file(topology);
    char *experiment = toy_experiment(&toy), *experiment_path = temporary_file(experiment);
    bool good = prediction_follows(engine, topology_path, experiment_path, course, end);
    char *texts[] = {device, topology, experiment}, *paths[] = {device_path, topology_path, experiment_path};
    for (int i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
        free(texts[i]);
    }
    return good;
}

/* The link of each hop of the ring in the order of GPUs. */
static void find_links(const struct cluster *cluster, struct ring *ring)
{
    for (uint32_t r = 0; r < ring->ranks; r++) {
        uint32_t next = (r + 1) % ring->ranks;
        ring->links[r] = cluster->inner;
        if (r / cluster->gpus == next / cluster->gpus)
            continue;
        ring->links[r] = cluster->outer;
        if (cluster->shared) { /* the GPU's own link on the way to the node's port */
            ring->links[r].alpha_seconds += cluster->inner.alpha_seconds;
            ring->links[r].bytes_per_s = fmin(cluster->inner.bytes_per_s, cluster->outer.bytes_per_s);
        }
    }
}

/* Both engines against the recurrence, and that against `expected` within `tolerance`, if there is one. In a process of
 * its own each, since SimGrid runs once in one. */
static void judge(const struct cluster *cluster, uint32_t buffers, double step_seconds, double expected,
                  double tolerance)
{
    static struct course course;
    struct ring ring = {cluster->nodes * cluster->gpus, buffers, step_seconds, {{0, 0}}};
    find_links(cluster, &ring);
    double end = recurrence(&ring, &course);
    if (expected > 0 && !near(end, expected, tolerance))
        fail_msg("the recurrence says %.9g s, not %.9g", end, expected);
    for (int e = 0; engines[e]; e++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(engine_follows(engines[e], cluster, &ring, &course, end) ? 0 : 1);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("%s: %u nodes of %u, %u buffers, steps of %g s", engines[e]->name, cluster->nodes, cluster->gpus,
                     buffers, step_seconds);
    }
}

/* 31 (2 us + 32 MiB / 50 GiB/s) + c: c is less than a message from node to node. */
static void a_ring_over_nodes_follows_the_recurrence(void **state)
{
    (void)state;
    const struct cluster cluster = {4, 8, false, {0.5e-6, 400 * GIB}, {2e-6, 50 * GIB}};
    judge(&cluster, 2, 50e-6, 19.487e-3, 1e-3);
    judge(&cluster, 2, 500e-6, 19.937e-3, 1e-3);
}

/* 31 (0.5 us + 32 MiB / 50 GiB/s) + 500 us: a message takes its time once on the way in and out of a switch, not once
 * in and once out, which would be 39.3 ms. */
static void a_switch_is_cut_through(void **state)
{
    (void)state;
    const struct cluster cluster = {1, 32, false, {0.5e-6, 50 * GIB}, {0, 0}};
    judge(&cluster, 2, 500e-6, 19.89e-3, 1e-4);
}

static uint32_t next_random(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static struct link random_link(uint64_t *state)
{
    return (struct link){1e-6 * next_random(state, 100), 1e9 * (10 + next_random(state, 400))};
}

static void rings_of_any_kind_follow_the_recurrence(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const int trials = 10;
#else
    const int trials = 60;
#endif
    uint64_t random = 1;
    for (int t = 0; t < trials; t++) {
        struct cluster cluster = {1 + next_random(&random, 4), 2 + next_random(&random, 4), next_random(&random, 2),
                                  random_link(&random), random_link(&random)};
        judge(&cluster, 2 + next_random(&random, 4), 1e-6 * (1 + next_random(&random, 3000)), 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_over_nodes_follows_the_recurrence),
        cmocka_unit_test(a_switch_is_cut_through),
        cmocka_unit_test(rings_of_any_kind_follow_the_recurrence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
