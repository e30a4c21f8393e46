/* Every algorithm on emulated GPUs, one for each rank, over an emulated NCCL: outputs against the double reference,
 * bytes and memory as predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "emulation.h"
#include "hw/measure.h"
#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/scene.h"

static bool has_collectives(const struct schedule *schedule)
{
    struct program program;
    schedule_build(schedule, 0, &program);
    const bool has = program.n_collectives > 0;
    program_fini(&program);
    return has;
}

static void run_one(const struct experiment *experiment, const struct hardware_settings *settings)
{
    struct scene scene = {0};
    struct hardware_settings all = *settings;
    char text[256];
    diagnostics_init(&scene.diag);
    if (!schedule_init(&scene.schedule, experiment, NULL, &scene.diag))
        fail_msg("%s", scene.diag.lines[0]);
    if (!has_collectives(&scene.schedule))
        all.collectives = COLLECTIVES_DEFAULT; /* others would have no effect */
    all.schedule = &scene.schedule;
    all.compute = &compute_cuda;
    all.transport = "nccl-threads";
    all.kernels.device = -1;
    all.carrying.library = FAKE_NCCL;
    all.stall_seconds = 60;
    scene.opened = hardware_open(&scene.hardware, &all, &scene.diag);
    for (uint32_t order = 1; order <= 2 && scene.opened; order++) {
        emulation_stream_order(order);
        scene_step(&scene, RUN_ALL, order);
        if (!scene.passed)
            fail_msg("%s: %s", scene_describe(experiment, text), scene_message(&scene));
    }
    if (scene.opened) { /* kernels take their time here, and are not what is tested */
        const struct hardware_step step = {.mode = RUN_MESSAGES, .seed = 5, .bare = true};
        hardware_run_fini(&scene.run);
        scene.passed = hardware_run(scene.hardware, &step, &scene.run, &scene.diag);
    }
    if (!scene.opened || !scene.passed)
        fail_msg("%s: %s", scene_describe(experiment, text), scene_message(&scene));
    scene_close(&scene);
}

/* Under the sanitizers half of the algorithms, from the first or from the second on. */
#ifdef __SANITIZE_ADDRESS__
#define APART 2
#else
#define APART 1
#endif

static void run_algorithms(const struct hardware_settings *settings, uint32_t cp, enum mask_kind mask,
                           enum sharding_kind sharding, size_t first)
{
    unsigned accepted = 0;
    size_t n = 0;
    while (algorithms[n])
        n++;
    char gpus[8];
    snprintf(gpus, sizeof gpus, "%u", cp % 100);
    setenv("CPSIM_EMULATED_GPUS", gpus, 1);
    emulation_reset();
    for (size_t a = first % APART; a < n; a += APART) {
        struct experiment experiment = make_experiment_for(algorithms[a], cp, 48 * cp);
        experiment.model.head_dim = 64;
        experiment.dtype = DTYPE_BF16;
        experiment.mask = make_mask(mask, experiment.seq_len, 40);
        experiment.sharding = sharding;
        if (!is_accepted(&experiment))
            continue;
        run_one(&experiment, settings);
        accepted++;
    }
    assert_true(accepted > 5 / APART);
}

static inline void two_ranks_by_messages(void **state)
{
    (void)state;
    run_algorithms(&(struct hardware_settings){.collectives = COLLECTIVES_MESSAGES}, 2, MASK_CAUSAL, SHARDING_ZIGZAG,
                   0);
}

static void two_ranks_by_calls(void **state)
{
    (void)state;
    run_algorithms(&(struct hardware_settings){.collectives = COLLECTIVES_DEFAULT}, 2, MASK_CAUSAL, SHARDING_STRIPED,
                   0);
}

static inline void four_ranks_by_calls(void **state)
{
    (void)state;
    run_algorithms(&(struct hardware_settings){.collectives = COLLECTIVES_DEFAULT}, 4, MASK_FULL, SHARDING_CONTIGUOUS,
                   0);
}

static void two_ranks_in_registered_memory(void **state)
{
    (void)state;
    run_algorithms(&(struct hardware_settings){.carrying = {.registered = true}}, 2, MASK_CAUSAL, SHARDING_ZIGZAG, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_by_calls),
#ifndef __SANITIZE_ADDRESS__ /* which makes every change of emulated threads many times slower */
        cmocka_unit_test(two_ranks_by_messages),
        cmocka_unit_test(four_ranks_by_calls),
#endif
        cmocka_unit_test(two_ranks_in_registered_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
