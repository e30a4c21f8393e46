/* What cannot run: it is said, with ranks and operations, and nothing aborts, hangs or prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <sys/mman.h>

#include "tests/sim/scene.h"

static const char pair[] = "[cluster]\ndevice = toy\n"
                           "[level node]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 2 us\n";

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

/* After some work and a message that pass, both ranks send before they receive, in one stream. */
static void build_deadlock(struct scene *scene)
{
    scene_init(scene, pair, 2, 1);
    add_work(scene, 0, STREAM_COMPUTE, new_buffer(scene, 0), 1000);
    add_work(scene, 0, STREAM_GRADIENT, new_buffer(scene, 0), 1000);
    add_message(scene, STREAM_EXCHANGE, 0, 1, 1000);
    for (uint32_t r = 0; r < 2; r++) {
        add_send(scene, r, STREAM_EXCHANGE, new_buffer(scene, r), 1 - r, 1000);
        add_receive(scene, r, STREAM_EXCHANGE, new_buffer(scene, r), 1 - r, 1000);
    }
    end_phase(scene, PHASE_FORWARD);
}

static void a_deadlock_names_ranks_and_operations(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        build_deadlock(&scene);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_false(outcome.good);
        assert_non_null(strstr(outcome.messages, "deadlock"));
        assert_non_null(strstr(outcome.messages, "rank 0, exchange stream: 'send b to rank 1"));
        assert_non_null(strstr(outcome.messages, "rank 1, exchange stream: 'send b to rank 0"));
        assert_true(moment_of(&outcome, 1, 0).end > 0); /* what could run did */
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void nothing_to_start_with_is_a_deadlock_too(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, pair, 2, 1);
        for (uint32_t r = 0; r < 2; r++) {
            add_receive(&scene, r, STREAM_EXCHANGE, new_buffer(&scene, r), 1 - r, 1000);
            add_send(&scene, r, STREAM_EXCHANGE, new_buffer(&scene, r), 1 - r, 1000);
        }
        end_phase(&scene, PHASE_FORWARD);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_false(outcome.good);
        assert_non_null(strstr(outcome.messages, "deadlock"));
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void simgrid_prints_nothing_itself(void **state)
{
    (void)state;
    struct scene scene;
    build_deadlock(&scene);
    int saved = dup(STDERR_FILENO), caught = memfd_create("stderr", 0);
    assert_true(saved >= 0 && caught >= 0);
    dup2(caught, STDERR_FILENO);
    struct outcome outcome;
    run_scene(&outcome, &engine_simgrid, &scene);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char text[256] = "";
    assert_true(pread(caught, text, sizeof text - 1, 0) >= 0);
    close(caught);
#ifndef __SANITIZE_ADDRESS__ /* it warns of stacks that are not the thread's */
    assert_string_equal(text, "");
#endif
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void ranks_without_a_gpu_are_named(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, pair, 4, 1); /* four ranks on two GPUs */
        for (uint32_t r = 0; r < 3; r++)
            add_message(&scene, STREAM_EXCHANGE, r, r + 1, 1000);
        end_phase(&scene, PHASE_FORWARD);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_false(outcome.good);
        assert_string_equal(
            outcome.messages,
            "rank 1 of group 0 cannot send to rank 2: no route from gpu 1 to gpu 2: the topology has 2\n"
            "rank 2 of group 0 cannot send to rank 3: no route from gpu 2 to gpu 3: the topology has 2\n");
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void many_pairs_without_a_path_are_counted(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, pair, 2, 21);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 1000);
    end_phase(&scene, PHASE_FORWARD);
    struct outcome outcome;
    run_scene(&outcome, &engine_analytic, &scene);
    assert_false(outcome.good);
    assert_non_null(
        strstr(outcome.messages, "rank 0 of group 8 cannot send to rank 1: no route from gpu 16 to gpu 17"));
    assert_null(strstr(outcome.messages, "of group 9 "));
    assert_non_null(strstr(outcome.messages, "20 pairs of ranks cannot send; the first 8 are listed"));
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void a_message_to_oneself_is_refused(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, pair, 2, 1);
        add_send(&scene, 1, STREAM_EXCHANGE, new_buffer(&scene, 1), 1, 1000);
        add_receive(&scene, 1, STREAM_GRADIENT, new_buffer(&scene, 1), 1, 1000);
        scene.programs[1].ops[1].stream = STREAM_EXCHANGE;
        scene.programs[1].ops[0].group = scene.programs[1].ops[1].group = program_new_group(&scene.programs[1]);
        end_phase(&scene, PHASE_FORWARD);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_false(outcome.good);
        assert_string_equal(outcome.messages, "rank 1 of group 0 cannot send to rank 1: "
                                              "no route from gpu 1 to gpu 1: they are the same\n");
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void a_second_simgrid_run_in_a_process_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, pair, 2, 1);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 1000);
    end_phase(&scene, PHASE_FORWARD);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct outcome first, second;
        timeline_init(&first.timeline, scene.programs, 2, 1);
        timeline_init(&second.timeline, scene.programs, 2, 1);
        outcome_run(&first, &engine_simgrid, &scene);
        outcome_run(&second, &engine_simgrid, &scene);
        _exit(!first.good || second.good || !strstr(second.messages, "one simulation in a process"));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(engine_simgrid.once);
    assert_false(engine_analytic.once);
    scene_fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadlock_names_ranks_and_operations),
        cmocka_unit_test(nothing_to_start_with_is_a_deadlock_too),
        cmocka_unit_test(simgrid_prints_nothing_itself),
        cmocka_unit_test(ranks_without_a_gpu_are_named),
        cmocka_unit_test(many_pairs_without_a_path_are_counted),
        cmocka_unit_test(a_message_to_oneself_is_refused),
        cmocka_unit_test(a_second_simgrid_run_in_a_process_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
