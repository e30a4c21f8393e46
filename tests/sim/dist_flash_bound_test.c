/* Balance by helping, simulated with links that cost nothing: the time is that of the busiest rank, P + 1 halves of a
 * shard's square for even P and P for odd, against 2P - 1 in a contiguous ring and P^2 on one rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

#define ROWS 512

/* Seconds, in pairs, of the causal forward pass with `ROWS` rows a rank. */
static double pairs_time(const struct engine_ops *engine, unsigned ranks, unsigned rows, const char *algorithm)
{
    char topology[256], experiment[512];
    snprintf(topology, sizeof topology,
             "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = 1e6 GB/s\nlatency = 0 us\n",
             ranks > 1 ? ranks : 2);
    snprintf(experiment, sizeof experiment,
             "[model]\nq_heads = 1\nkv_heads = 1\nhead_dim = 1\ndtype = bf16\n"
             "[workload]\nseq_len = %u\nmask = causal\npass = forward\n[parallel]\ncp = %u\n"
             "[schedule]\nalgorithm = %s\n",
             rows, ranks, algorithm);
    struct scene scene;
    scene_ask(&scene, topology, experiment);
    scene.device.launch_seconds = 1;
    double seconds = scene_seconds(engine, &scene);
    scene_fini(&scene);
    return seconds;
}

static void helping_reaches_its_bound_when_links_are_free(void **state)
{
    (void)state;
    static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};
    for (unsigned p = 2; p <= 16; p++) {
        for (int e = 0; e < 2; e++) {
            double one = pairs_time(both[e], 1, ROWS * p, "ring");
            double helped = pairs_time(both[e], p, ROWS * p, "dist-flash");
            double ring = pairs_time(both[e], p, ROWS * p, "ring");
            double square = ROWS * (double)ROWS / 2, diagonal = ROWS / 2.0;
            assert_near(helped, (p % 2 ? p : p + 1) * square + diagonal, 1e-9);
            assert_near(ring, (2 * p - 1) * square + diagonal, 1e-9);
            /* The diagonal's s/2 more pairs are all that is between the speed-up and its bound. */
            assert_near(one / helped, p % 2 ? p : (double)p * p / (p + 1), 2.0 / ROWS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(helping_reaches_its_bound_when_links_are_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
