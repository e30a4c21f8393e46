/* Which of two algorithms is faster, and from where on: simulated with links so slow, or kernels so fast, that a closed
 * form says where the order turns. Both engines, where nothing shares a link; SimGrid alone where streams share a port.
 * (Keys against queries as the cache hit rate rises: prefill_crossover_test.c. Helping: helping_bound_test.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

#define ROWS 64 /* of a rank */
#define DIM 128

struct asked {
    const char *topology;
    unsigned q_heads, kv_heads, cp;
    const char *mask, *pass, *schedule;
    double pair_seconds; /* 0: kernels are free */
};

struct seconds {
    double forward, backward;
};

static struct seconds simulate(const struct engine_ops *engine, const struct asked *a)
{
    char experiment[640];
    snprintf(experiment, sizeof experiment,
             "[model]\nq_heads = %u\nkv_heads = %u\nhead_dim = %u\ndtype = bf16\n"
             "[workload]\nseq_len = %u\nmask = %s\npass = %s\n[parallel]\ncp = %u\n[schedule]\n%s\n",
             a->q_heads, a->kv_heads, DIM, ROWS * a->cp, a->mask, a->pass, a->cp, a->schedule);
    struct scene scene;
    struct outcome outcome;
    scene_ask(&scene, a->topology, experiment);
    scene.device.launch_seconds = a->pair_seconds;
    run_scene(&outcome, engine, &scene);
    assert_string_equal(outcome.messages, "");
    assert_true(outcome.good);
    const double *ends = outcome.timeline.phase_end;
    struct seconds seconds = {ends[PHASE_FORWARD], ends[PHASE_BACKWARD] - ends[PHASE_FORWARD]};
    outcome_fini(&outcome);
    scene_fini(&scene);
    return seconds;
}

/* One switch, all links alike. */
static const char *one_level(char *text, size_t size, unsigned ranks, const char *bandwidth)
{
    snprintf(text, size,
             "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = %s\nlatency = 0 us\n",
             ranks > 1 ? ranks : 2, bandwidth);
    return text;
}

/* ---- all-to-all against a ring ---- */

#define SLOW_BYTES_PER_S 10e6

/* A ring sends (P-1) KV, the all-to-all (P-1)/P (2Q + KV + L): with KV = 2Q Hk/Hq and L = 2Q/d less from P = 1 + Hq/Hk
 * (1 + 1/d) on. Many KV heads turn to the all-to-all soon, grouped ones late. */
static void ulysses_overtakes_a_ring_as_ranks_grow(void **state)
{
    (void)state;
    static const struct {
        unsigned q_heads, kv_heads, ranks[6]; /* that the heads divide into */
    } cases[] = {{30, 30, {2, 3, 5, 6, 10}},
                 {60, 30, {2, 3, 5, 6, 10}},
                 {120, 30, {2, 3, 5, 6, 10}},
                 {84, 12, {2, 3, 4, 6, 12}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ratio = (double)cases[i].q_heads / cases[i].kv_heads, turns = 1 + ratio * (1 + 1.0 / DIM);
        double q = ROWS * cases[i].q_heads * DIM * 2.0, kv = 2 * q / ratio, l = 2 * q / DIM;
        for (const unsigned *p = cases[i].ranks; *p; p++) {
            char topology[256];
            struct asked a = {one_level(topology, sizeof topology, *p, "10 MB/s"),
                              cases[i].q_heads,
                              cases[i].kv_heads,
                              *p,
                              "full",
                              "forward",
                              NULL,
                              0};
            for (int e = 0; e < 2; e++) {
                a.schedule = "algorithm = ring";
                double ring = simulate(both[e], &a).forward;
                a.schedule = "algorithm = ulysses";
                double ulysses = simulate(both[e], &a).forward;
                assert_near(ring, (*p - 1) * kv / SLOW_BYTES_PER_S, 1e-9);
                assert_near(ulysses, (*p - 1.0) / *p * (2 * q + kv + l) / SLOW_BYTES_PER_S, 1e-9);
                assert_int_equal(ulysses<ring, *p> turns);
            }
        }
    }
}

/* ---- a ring of rings against one ring ---- */

static const char slow_between[] =
    "[cluster]\ndevice = toy\n[level node]\nsize = 4\nkind = switch\nbandwidth = 100 GB/s\nlatency = 0 us\n"
    "[level cluster]\nsize = 3\nkind = switch\nattach = rail\nbandwidth = 10 GB/s\nlatency = 0 us\n";

/* Three nodes of four. One ring goes at the pace of its slowest hop: P-1 messages between nodes. Windows of a node send
 * W-1 of them, each beside the messages inside, on the ways out of all four ranks: the last window's w-1 messages are
 * all that is left behind them. */
static void a_double_ring_is_faster_where_outer_links_are_slow(void **state)
{
    (void)state;
    const double kv = 2.0 * ROWS * 8 * DIM * 2, outer = kv / 10e9, inner = kv / 100e9;
    struct asked a = {slow_between, 8, 8, 12, "full", "forward", NULL, 0};
    for (int e = 0; e < 2; e++) {
        a.schedule = "algorithm = ring";
        double ring = simulate(both[e], &a).forward;
        a.schedule = "algorithm = double-ring\nring_window = 4";
        double windows = simulate(both[e], &a).forward;
        assert_near(ring, 11 * outer, 1e-9);
        assert_near(windows, 2 * outer + 3 * inner, 1e-9);
    }
}

/* One switch: both go out through the same port of each rank, and are the same P-1 messages. */
static void a_double_ring_gains_nothing_where_links_are_equal(void **state)
{
    (void)state;
    char topology[256];
    const double kv = 2.0 * ROWS * 8 * DIM * 2;
    struct asked a = {one_level(topology, sizeof topology, 12, "10 GB/s"), 8, 8, 12, "full", "forward", NULL, 0};
    a.schedule = "algorithm = ring";
    double ring = simulate(&engine_simgrid, &a).forward;
    a.schedule = "algorithm = double-ring\nring_window = 4";
    assert_near(ring, 11 * kv / 10e9, 1e-9);
    assert_near(simulate(&engine_simgrid, &a).forward, ring, 1e-9);
}

/* ---- queries against keys, backward ---- */

/* Seconds of a backward pass, in those that the bytes of one Q take. */
static double backward_in_q(const char *schedule, unsigned kv_heads, unsigned ranks)
{
    char topology[256];
    struct asked a = {
        one_level(topology, sizeof topology, ranks, "10 MB/s"), 8, kv_heads, ranks, "full", "train", schedule, 0};
    return simulate(&engine_simgrid, &a).backward / (ROWS * 8 * DIM * 2.0 / SLOW_BYTES_PER_S);
}

/* Each rank's one port carries, counted in Q: Burst's (P-1) (2 + 4/d) + P; the ring's (P-1) 2h + P 2hg, for h KV heads
 * per query head and gradients g times as wide as the model. So Burst is the faster for h above about 3 / (2 + 2g): 3/4
 * against gradients in bf16, which of heads that divide leaves h = 1; 1/2 against fp32, where h = 1/2 is a draw that
 * the one dKV decides that the ring sends more, up to P = d/4. */
static void burst_is_faster_backward_above_the_break_even_only(void **state)
{
    (void)state;
    for (unsigned p = 4; p <= 12; p += 4) {
        double burst = backward_in_q("algorithm = burst\ngradients = model", 8, p);
        assert_near(burst, (p - 1) * (2 + 4.0 / DIM) + p, 1e-9);
        for (unsigned kv_heads = 8; kv_heads >= 1; kv_heads /= 2) {
            double h = kv_heads / 8.0;
            double model = backward_in_q("algorithm = ring\ngradients = model", kv_heads, p);
            double fp32 = backward_in_q("algorithm = ring\ngradients = fp32", kv_heads, p);
            assert_near(model, (p - 1) * 2 * h + p * 2 * h, 1e-9);
            assert_near(fp32, (p - 1) * 2 * h + p * 4 * h, 1e-9);
            assert_int_equal(burst<model, h> 0.75);
            assert_int_equal(burst < fp32, h >= 0.5);
        }
    }
}

/* ---- contiguous against zigzag ---- */

/* Links that cost nothing: a causal mask gives the last of P contiguous ranks 2P - 1 halves of a shard's square, and
 * each zigzag one P; a full mask all of them 2P. (Pairs: the diagonal adds s/2.) */
static void zigzag_is_faster_for_causal_and_no_different_for_full(void **state)
{
    (void)state;
    static const char *const algorithms_asked[] = {"ring", "direct", "burst", "all-gather",
                                                   "double-ring\nring_window = 2"};
    const double half = ROWS * ROWS / 2.0;
    for (size_t i = 0; i < sizeof algorithms_asked / sizeof *algorithms_asked; i++) {
        for (unsigned p = 2; p <= 16; p *= 2) {
            char topology[256], contiguous[96], zigzag[96];
            snprintf(contiguous, sizeof contiguous, "algorithm = %s\nsharding = contiguous", algorithms_asked[i]);
            snprintf(zigzag, sizeof zigzag, "algorithm = %s\nsharding = zigzag", algorithms_asked[i]);
            struct asked a = {
                one_level(topology, sizeof topology, p, "1 PB/s"), 1, 1, p, "causal", "forward", contiguous, 1};
            double runs = simulate(&engine_analytic, &a).forward;
            a.schedule = zigzag;
            double balanced = simulate(&engine_analytic, &a).forward;
            assert_near(runs, (2 * p - 1) * half + ROWS / 2.0, 1e-6);
            assert_near(balanced, p * half + ROWS / 2.0, 1e-6);
            assert_near(runs / balanced, (2.0 * p - 1) / p, 1.0 / ROWS);
            a.mask = "full";
            double full = simulate(&engine_analytic, &a).forward;
            a.schedule = contiguous;
            assert_near(full, 2 * p * half, 1e-6);
            assert_near(simulate(&engine_analytic, &a).forward, full, 1e-9);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulysses_overtakes_a_ring_as_ranks_grow),
        cmocka_unit_test(a_double_ring_is_faster_where_outer_links_are_slow),
        cmocka_unit_test(a_double_ring_gains_nothing_where_links_are_equal),
        cmocka_unit_test(burst_is_faster_backward_above_the_break_even_only),
        cmocka_unit_test(zigzag_is_faster_for_causal_and_no_different_for_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
