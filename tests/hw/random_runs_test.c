/* Every algorithm under everything that can be asked of it, run for real: all ranks here, every output verified, bytes
 * and memory as predicted. The algorithms are those of the register, whichever these are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/scene.h"
#include "tests/random_experiment.h"

static void run_one(const struct experiment *experiment, const char *what, uint64_t seed)
{
    struct scene scene;
    scene_open(&scene, experiment, &compute_cpu, "local");
    scene_step(&scene, RUN_ALL, seed);
    if (!scene.opened || !scene.passed) {
        diagnostics_print(&scene.diag, stderr, "  ");
        fail_msg("%s", what);
    }
    scene_close(&scene);
}

static void run_some(enum dtype dtype, unsigned cases, uint64_t seed)
{
    const struct random_bounds bounds = {.ranks_max = 8, .rows_max = 9, .dtype = dtype};
    for (size_t a = 0; algorithms[a]; a++) {
        struct dice dice = {.state = seed};
        unsigned ran = 0;
        for (unsigned tried = 0; ran < cases && tried < 100 * cases; tried++) {
            char what[512];
            struct experiment experiment = random_experiment(&dice, algorithms[a]->name, &bounds);
            random_experiment_describe(&experiment, what, sizeof what);
            if (is_accepted(&experiment)) {
                run_one(&experiment, what, seed + tried);
                ran++;
            }
            random_experiment_fini(&experiment);
        }
        if (ran < cases)
            fail_msg("'%s' accepted only %u of the experiments, expected %u", algorithms[a]->name, ran, cases);
    }
}

static void fp32_runs_are_right(void **state)
{
    (void)state;
    run_some(DTYPE_FP32, 25, 7);
}

static void bf16_runs_are_right(void **state)
{
    (void)state;
    run_some(DTYPE_BF16, 10, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fp32_runs_are_right), cmocka_unit_test(bf16_runs_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
