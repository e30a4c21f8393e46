/* What runs on a GPU and goes wrong: a device that fails, one that never gets there, and what is refused before. The
 * backend is the real one, but for one function each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdatomic.h>

#include "tests/hw/scene.h"

static struct experiment experiment; /* outlives its schedule */

static void open_scene(struct scene *scene, struct hardware_settings settings)
{
    experiment = make_experiment("ring", 2, 64);
    experiment.model.head_dim = 64;
    experiment.dtype = DTYPE_BF16;
    *scene = (struct scene){0};
    diagnostics_init(&scene->diag);
    assert_true(schedule_init(&scene->schedule, &experiment, NULL, &scene->diag));
    settings.schedule = &scene->schedule;
    settings.transport = "local";
    scene->opened = hardware_open(&scene->hardware, &settings, &scene->diag);
}

static void assert_said(const struct scene *scene, const char *text)
{
    for (size_t i = 0; i < scene->diag.count; i++)
        if (strstr(scene->diag.lines[i], text))
            return;
    fail_msg("'%s' was not said, but '%s'", text, scene_message(scene));
}

/* ---- a device that fails ---- */

static atomic_int until_failure; /* operations of all ranks */

static void run_counted(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                        const struct between_tiles *between_tiles)
{
    atomic_fetch_sub(&until_failure, 1);
    compute_cuda.run(compute, program, op, memory, between_tiles);
}

static const char *fail_then(struct compute *compute)
{
    return atomic_load(&until_failure) <= 0 ? "multiplying (device.c:7): it burns" : compute_cuda.failure(compute);
}

static void a_device_that_fails_ends_the_run_with_its_reason(void **state)
{
    (void)state;
    struct compute_ops ops = compute_cuda;
    struct scene scene;
    ops.run = run_counted;
    ops.failure = fail_then;
    atomic_store(&until_failure, 5);
    open_scene(&scene, (struct hardware_settings){.compute = &ops, .stall_seconds = 60});
    scene_step(&scene, RUN_ALL, 1);
    assert_false(scene.passed);
    assert_said(&scene, ": multiplying (device.c:7): it burns");
    scene_close(&scene);
}

/* ---- one that never gets there ---- */

/* Longer than whoever else uses the machine may hold up a step that is well. */
#ifdef __SANITIZE_ADDRESS__
#define STALL_LIMIT 2
#define MOMENTS_APART 100 /* each lasts that long: before, and after the clock is read */
#else
#define STALL_LIMIT 1
#define MOMENTS_APART 50
#endif
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static atomic_int until_stall; /* times that a mark is asked for and passed */

static bool pass_for_a_while(struct compute *compute, const struct mark *mark)
{
    return compute_cuda.queues->passed(compute, mark) && atomic_fetch_sub(&until_stall, 1) > 0;
}

static void stall(struct scene *scene, int after, bool bare, bool graph)
{
    struct compute_ops ops = compute_cuda;
    struct queue_ops queues = *compute_cuda.queues;
    queues.passed = pass_for_a_while;
    ops.queues = &queues;
    atomic_store(&until_stall, 1000000);
    open_scene(scene, (struct hardware_settings){.compute = &ops, .graph = graph, .stall_seconds = STALL_LIMIT});
    scene_step(scene, RUN_ALL, 1);
    assert_true(scene->passed);
    atomic_store(&until_stall, after);
    const struct hardware_step step = {.mode = RUN_ALL, .seed = 1, .bare = bare};
    hardware_run_fini(&scene->run);
    scene->passed = hardware_run(scene->hardware, &step, &scene->run, &scene->diag);
    assert_false(scene->passed);
    scene_close(scene);
}

static void a_device_that_stalls_is_given_up(void **state)
{
    (void)state;
    for (int after = 0; after < 120; after += MOMENTS_APART) { /* before, while, and after the clock is read */
        struct scene scene;
        stall(&scene, after, after == 0, false);
    }
}

static void a_graph_that_stalls_is_given_up(void **state)
{
    (void)state;
    struct scene scene;
    stall(&scene, 21, true, true);
}

static void what_stalls_is_named(void **state)
{
    (void)state;
    struct compute_ops ops = compute_cuda;
    struct queue_ops queues = *compute_cuda.queues;
    struct scene scene;
    queues.passed = pass_for_a_while;
    ops.queues = &queues;
    atomic_store(&until_stall, 2 * 20); /* both ranks have read their clocks */
    open_scene(&scene, (struct hardware_settings){.compute = &ops, .stall_seconds = STALL_LIMIT});
    scene_step(&scene, RUN_ALL, 1);
    assert_false(scene.passed);
    assert_said(&scene, "waited " TEXT(STALL_LIMIT) " s for '");
    assert_said(&scene, "' in the forward phase and gave up");
    scene_close(&scene);
}

/* ---- refused ---- */

static void assert_refused(struct hardware_settings settings, const char *text)
{
    struct scene scene;
    open_scene(&scene, settings);
    assert_false(scene.opened);
    assert_said(&scene, text);
    scene_close(&scene);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    assert_refused((struct hardware_settings){.compute = &compute_cuda, .kernels.device = 3},
                   "there is no GPU 3 on this host: it has 1, counted from 0");
    assert_refused((struct hardware_settings){.compute = &compute_cuda, .carrying.registered = true},
                   "transport 'local' has no memory of its own to register");
    assert_refused((struct hardware_settings){.compute = &compute_cuda, .serial = true, .graph = true},
                   "with one rank at a time there is no step that could be one graph");
    assert_refused((struct hardware_settings){.compute = &compute_cuda, .collectives = COLLECTIVES_LIBRARY},
                   "transport 'local' has no collectives of its own for this, expected --collectives messages");
    assert_refused((struct hardware_settings){.compute = &compute_cpu, .serial = true},
                   "backend 'cpu' has no use for one rank at a time");
    assert_refused((struct hardware_settings){.compute = &compute_cpu, .graph = true},
                   "backend 'cpu' has no use for graphs");
    assert_refused((struct hardware_settings){.compute = &compute_cpu, .carrying.max_ctas = 4},
                   "backend 'cpu' has no use for settings of how a device's memory is moved");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_fails_ends_the_run_with_its_reason),
        cmocka_unit_test(a_device_that_stalls_is_given_up),
        cmocka_unit_test(a_graph_that_stalls_is_given_up),
        cmocka_unit_test(what_stalls_is_named),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
