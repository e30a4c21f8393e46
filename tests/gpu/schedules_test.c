/* Every algorithm on an emulated GPU, all ranks sharing it: outputs against the double reference, bytes and memory as
 * predicted, whatever the order in which the GPU does what its streams leave open. Kernels write into poison, so what
 * is read too early is NaN or old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "emulation.h"
#include "hw/measure.h"
#include "models/schedule/algorithms/algorithm.h"
#include "tests/hw/scene.h"

#ifdef __SANITIZE_ADDRESS__ /* it makes every change of emulated threads many times slower */
#define STRIDE 5            /* over the algorithms */
#else
#define STRIDE 2 /* what one setting leaves out the next one takes */
#endif
#define ORDERS 2 /* of the emulated streams, for each experiment */

static struct experiment gpu_experiment(const struct algorithm_ops *algorithm, uint32_t cp, uint64_t seq_len)
{
    struct experiment experiment = make_experiment_for(algorithm, cp, seq_len);
    experiment.model.head_dim = 64;
    experiment.dtype = DTYPE_BF16;
    return experiment;
}

static void open_scene(struct scene *scene, const struct experiment *experiment,
                       const struct hardware_settings *settings)
{
    struct hardware_settings all = *settings;
    *scene = (struct scene){0};
    diagnostics_init(&scene->diag);
    if (!schedule_init(&scene->schedule, experiment, NULL, &scene->diag))
        fail_msg("%s", scene->diag.lines[0]);
    all.schedule = &scene->schedule;
    all.transport = "local";
    all.stall_seconds = 60;
    scene->opened = hardware_open(&scene->hardware, &all, &scene->diag);
}

static void assert_good(const struct scene *scene, const struct experiment *experiment, const char *what)
{
    char text[256];
    if (scene->opened && scene->passed)
        return;
    fail_msg("%s, %s: %s", scene_describe(experiment, text), what, scene_message(scene));
}

/* Verified and traced in several orders; then the other kinds of run, and bare. */
static void run_one(const struct experiment *experiment, const struct hardware_settings *settings)
{
    struct scene scene;
    open_scene(&scene, experiment, settings);
    for (uint32_t order = 1; order <= ORDERS; order++) {
        char what[64];
        snprintf(what, sizeof what, "stream order %u", order);
        emulation_stream_order(order);
        scene_step(&scene, RUN_ALL, 1 + order / 2);
        assert_good(&scene, experiment, what);
    }
    for (int mode = RUN_COMPUTE; mode <= RUN_MESSAGES; mode++) {
        const struct hardware_step step = {.mode = (enum run_mode)mode, .seed = 5, .bare = mode == RUN_MESSAGES};
        hardware_run_fini(&scene.run);
        scene.passed = hardware_run(scene.hardware, &step, &scene.run, &scene.diag);
        assert_good(&scene, experiment, mode == RUN_COMPUTE ? "computing only" : "messages only");
    }
    for (int bare = 0; bare < 2; bare++) { /* what a bare run computes, and a traced one after many others */
        const struct hardware_step step = {.mode = RUN_ALL, .seed = 5, .verify = true, .bare = bare};
        hardware_run_fini(&scene.run);
        scene.passed = hardware_run(scene.hardware, &step, &scene.run, &scene.diag);
        assert_good(&scene, experiment, bare ? "bare" : "once more");
    }
    scene_close(&scene);
}

/* Every STRIDE-th algorithm from `first` on. */
static void run_algorithms(const struct hardware_settings *settings, uint32_t cp, enum mask_kind mask,
                           enum sharding_kind sharding, size_t first)
{
    unsigned accepted = 0;
    for (size_t a = 0; algorithms[a]; a++) {
        struct experiment experiment = gpu_experiment(algorithms[a], cp, cp == 2 ? 96 : 128);
        experiment.mask = make_mask(mask, experiment.seq_len, 40);
        experiment.sharding = sharding;
        if (a % STRIDE != first % STRIDE || !is_accepted(&experiment))
            continue;
        run_one(&experiment, settings);
        accepted++;
    }
    assert_true(accepted > (STRIDE > 2 ? 0 : 2));
}

static const struct hardware_settings on_gpu = {.compute = &compute_cuda};

static void two_ranks_causal_zigzag(void **state)
{
    (void)state;
    run_algorithms(&on_gpu, 2, MASK_CAUSAL, SHARDING_ZIGZAG, 0);
#ifndef __SANITIZE_ADDRESS__
    run_algorithms(&on_gpu, 2, MASK_CAUSAL, SHARDING_ZIGZAG, 1);
#endif
}

static inline void four_ranks_full_contiguous(void **state)
{
    (void)state;
    run_algorithms(&on_gpu, 4, MASK_FULL, SHARDING_CONTIGUOUS, 0);
}

static inline void four_ranks_window_contiguous(void **state)
{
    (void)state;
    run_algorithms(&on_gpu, 4, MASK_WINDOW, SHARDING_CONTIGUOUS, 1);
}

static inline void two_ranks_causal_striped(void **state)
{
    (void)state;
    run_algorithms(&on_gpu, 2, MASK_CAUSAL, SHARDING_STRIPED, 0);
}

/* ---- one rank's kernels at a time ---- */

static void kernels_that_take_turns_compute_the_same(void **state)
{
    (void)state;
    const struct hardware_settings settings = {.compute = &compute_cuda, .serial = true};
    run_algorithms(&settings, 4, MASK_CAUSAL, SHARDING_ZIGZAG, 0);
}

/* ---- graphs ---- */

static void a_phase_may_be_one_graph(void **state)
{
    (void)state;
    const struct hardware_settings settings = {.compute = &compute_cuda, .graph = true};
    run_algorithms(&settings, 2, MASK_CAUSAL, SHARDING_ZIGZAG, 0);
    run_algorithms(&settings, 4, MASK_FULL, SHARDING_CONTIGUOUS, STRIDE > 2 ? 0 : 1);
}

/* ---- measuring ---- */

static void measure_ring(const struct hardware_settings *settings, struct scene *scene, struct measurement *measurement,
                         struct report *report)
{
    static struct experiment experiment; /* outlives its schedule */
    experiment = make_experiment("ring", 2, 96);
    experiment.model.head_dim = 64;
    experiment.dtype = DTYPE_FP16;
    open_scene(scene, &experiment, settings);
    assert_true(scene->opened);
    const struct measure_settings how = {
        .hardware = scene->hardware, .schedule = &scene->schedule, .iterations = 3, .warmup = 1};
    if (!measure(measurement, &how, &scene->diag))
        fail_msg("%s", scene_message(scene));
    assert_true(measurement->verification.passed);
    const struct measured_times times = measurement_times(measurement);
    const struct report_input input = {.schedule = &scene->schedule,
                                       .ensemble = execution_ensemble(hardware_execution(scene->hardware)),
                                       .timeline = &measurement->run.timeline,
                                       .measured = &times,
                                       .device_bytes = 1e12};
    if (!report_init(report, &input, &scene->diag) || !measure_check_account(measurement, report, &scene->diag))
        fail_msg("%s", scene_message(scene));
}

static void steps_are_timed_bare_and_operations_traced(void **state)
{
    (void)state;
    struct scene scene;
    struct measurement m;
    struct report report;
    measure_ring(&on_gpu, &scene, &m, &report);
    assert_true(m.asynchronous && !m.composed);
    assert_true(m.step.median > 0 && m.compute_only.median > 0 && m.messages_only.median > 0);
    assert_true(report.seconds == m.step.median);
    assert_true(m.run.timeline.phase_end[PHASE_COUNT - 1] == m.traced.median);
    assert_true(fabs(m.traced.median / m.step.median - 1 - m.tracing_overhead) < 1e-12);
    for (uint32_t r = 0; r < 2; r++) {
        const struct moment *moments = m.run.timeline.moments[r];
        assert_true(m.rank_compute[r].median > 0 && m.rank_compute_only[r].median > 0);
        assert_true(m.run.ranks[r].clock_error_seconds > 0);
        for (uint32_t i = 0; i < hardware_programs(scene.hardware)[r].n_ops; i++)
            assert_true(moments[i].begin <= moments[i].move && moments[i].move <= moments[i].end &&
                        moments[i].end <= m.traced.median);
    }
    report_fini(&report);
    measurement_fini(&m);
    scene_close(&scene);
}

/* A rank of a ring that computes all the time takes the sum of its kernels. */
static void a_serial_step_is_composed_of_its_operations(void **state)
{
    (void)state;
    const struct hardware_settings settings = {.compute = &compute_cuda, .serial = true};
    struct scene scene;
    struct measurement m;
    struct report report;
    measure_ring(&settings, &scene, &m, &report);
    assert_true(m.asynchronous && m.composed && m.run.composed);
    assert_true(m.tracing_overhead == 0);
    double longest = 0;
    for (uint32_t r = 0; r < 2; r++) {
        longest = fmax(longest, m.rank_compute[r].median);
        assert_true(report.ranks[r].compute_seconds <= m.step.median);
    }
    assert_true(m.step.median >= 0.999 * longest);
    report_fini(&report);
    measurement_fini(&m);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_causal_zigzag),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(four_ranks_full_contiguous),
        cmocka_unit_test(four_ranks_window_contiguous),
        cmocka_unit_test(two_ranks_causal_striped),
#endif
        cmocka_unit_test(kernels_that_take_turns_compute_the_same),
        cmocka_unit_test(a_phase_may_be_one_graph),
        cmocka_unit_test(steps_are_timed_bare_and_operations_traced),
        cmocka_unit_test(a_serial_step_is_composed_of_its_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
