/* What transfers take from attention by the SMs they hold, and what the host's time to issue operations makes of a
 * step: closed forms that both engines must give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

static void init_ranks(struct scene *scene, uint32_t ranks)
{
    scene_init(scene,
               "[cluster]\ndevice = toy\n[level node]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 7 us\n",
               ranks, 1);
    scene->device.processors = 8;
    scene_sms = 0;
    scene_pairs = false;
    scene_host_seconds = 0;
    scene_synchronizes = false;
    scene_waits = false;
}

static void add_local(struct scene *scene, uint32_t rank, enum op_kind kind, uint64_t nanoseconds)
{
    uint32_t buffer = new_buffer(scene, rank);
    struct op op = {.kind = (uint8_t)kind, .stream = STREAM_COMPUTE, .q = {0, 0, 0}, .pairs = nanoseconds};
    program_add_op(&scene->programs[rank], op, NULL, 0, &buffer, 1);
}

static void end_both(struct scene *scene)
{
    end_phase(scene, PHASE_FORWARD);
    end_phase(scene, PHASE_BACKWARD);
}

/* --- SMs ---------------------------------------------------------------------------------------------------------- */

/* A message moves from 7000 to 7400 ns and holds 2 of 8 SMs of both ends; beside it a device may be slow besides. */
static void a_transfer_takes_its_sms_from_attention_while_it_moves(void **state)
{
    (void)state;
    static const double slowdowns[] = {0, 0.5};
    for (size_t s = 0; s < 2; s++) {
        for (uint32_t sms = 0; sms <= 4; sms += 2) {
            struct scene scene;
            init_ranks(&scene, 2);
            scene_sms = sms;
            scene.device.transfer_slowdown = slowdowns[s];
            for (uint32_t r = 0; r < 2; r++)
                add_local(&scene, r, OP_ATTEND, 9000);
            add_message(&scene, STREAM_EXCHANGE, 0, 1, 400);
            end_both(&scene);
            double left = (1 - slowdowns[s]) * (1 - sms / 8.0);
            for (int e = 0; e < 2; e++)
                assert_near(scene_seconds(both[e], &scene) * 1e9, 9000 + (1 - left) * 400, 1e-8);
            scene_fini(&scene);
        }
    }
}

static void what_streams_memory_keeps_its_speed(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    scene_sms = 4;
    add_local(&scene, 0, OP_MERGE, 9000);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 400);
    end_both(&scene);
    for (int e = 0; e < 2; e++)
        assert_near(scene_seconds(both[e], &scene) * 1e9, 9000, 1e-9);
    scene_fini(&scene);
}

/* A message there and one back: in one stream they are one kernel's and share its SMs, in two their SMs add up; also
 * where each two ranks have a communicator, for then what is sent and what is received are kernels of their own. */
static void messages_of_one_kernel_share_sms_and_kernels_add_theirs(void **state)
{
    (void)state;
    static const struct {
        enum stream back;
        bool pairs;
        double sms;
    } cases[] = {{STREAM_EXCHANGE, false, 2},
                 {STREAM_GRADIENT, false, 4},
                 {STREAM_EXCHANGE, true, 4},
                 {STREAM_GRADIENT, true, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct scene scene;
        init_ranks(&scene, 2);
        scene_sms = 2;
        scene_pairs = cases[c].pairs;
        add_local(&scene, 0, OP_ATTEND, 9000);
        uint32_t groups[2] = {program_new_group(&scene.programs[0]), program_new_group(&scene.programs[1])};
        add_message(&scene, STREAM_EXCHANGE, 0, 1, 400);
        add_message(&scene, cases[c].back, 1, 0, 400);
        for (int r = 0; r < 2 && cases[c].back == STREAM_EXCHANGE; r++) /* posted together: they move together */
            for (uint32_t i = 0; i < scene.programs[r].n_ops; i++)
                if (op_is_message(&scene.programs[r].ops[i]))
                    scene.programs[r].ops[i].group = groups[r];
        end_both(&scene);
        for (int e = 0; e < 2; e++)
            assert_near(scene_seconds(both[e], &scene) * 1e9, 9000 + cases[c].sms / 8 * 400, 1e-8);
        scene_fini(&scene);
    }
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

static double of_kernels(const struct engine_ops *engine, uint32_t kernels, double host, double kernel,
                         bool synchronizes)
{
    struct scene scene;
    init_ranks(&scene, 1);
    for (uint32_t i = 0; i < kernels; i++)
        add_local(&scene, 0, OP_ATTEND, (uint64_t)kernel);
    end_both(&scene);
    scene_host_seconds = host * 1e-9;
    scene_synchronizes = synchronizes;
    double seconds = scene_seconds(engine, &scene);
    scene_fini(&scene);
    return seconds * 1e9;
}

/* n kernels of w, each h to issue. Starting from rest the first waits for its issue, and then the slower of both sets
 * the pace. A host that runs ahead is hidden where the device is the slower. */
static void the_slower_of_host_and_device_sets_the_pace(void **state)
{
    (void)state;
    static const double hosts[] = {0, 20, 80, 150};
    const double n = 10, w = 100;
    for (int e = 0; e < 2; e++) {
        for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
            double h = hosts[i], from_rest = h < w ? h + n * w : n * h + w;
            assert_near(of_kernels(both[e], 10, h, w, true), from_rest, 1e-8);
            assert_near(of_kernels(both[e], 10, h, w, false), h < w ? n * w : n * h + w, 1e-8);
        }
    }
}

/* Both ends are posted when the slower host has got to it. */
static void a_message_waits_for_the_hosts_of_both_ends(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    for (uint32_t i = 0; i < 3; i++)
        add_local(&scene, 1, OP_MERGE, 0);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 400);
    end_both(&scene);
    scene_host_seconds = 50e-9;
    scene_synchronizes = true;
    for (int e = 0; e < 2; e++) /* the fourth that rank 1 issues */
        assert_near(scene_seconds(both[e], &scene) * 1e9, 4 * 50 + 7000 + 400, 1e-8);
    scene_fini(&scene);
}

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % bound);
}

static void random_program(struct scene *scene, uint64_t *random)
{
    static const enum stream streams[] = {STREAM_COMPUTE, STREAM_COMPUTE_2, STREAM_COMPUTE};
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t rank = below(random, 3), buffer = new_buffer(scene, rank);
        struct op op = {.kind = below(random, 3) ? OP_ATTEND : OP_MERGE,
                        .stream = (uint8_t)streams[below(random, 3)],
                        .q = {0, 0, below(random, 300)},
                        .k = {0, 0, below(random, 6000)},
                        .pairs = 300 + below(random, 9000)};
        program_add_op(&scene->programs[rank], op, NULL, 0, &buffer, 1);
        bool back = below(random, 2); /* every stream has its links to itself, so that nothing is shared */
        if (below(random, 2))
            add_message(scene, back ? STREAM_GRADIENT : STREAM_EXCHANGE, rank, (rank + (back ? 2 : 1)) % 3,
                        1 + below(random, 20000));
    }
    end_both(scene);
}

static void random_programs_run_alike_in_both_engines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed;
        struct scene scene;
        scene_init(&scene,
                   "[cluster]\ndevice = toy\n[level node]\nsize = 3\nkind = mesh\nbandwidth = 3 GB/s\nlatency = 1 us\n",
                   3, 1);
        random_program(&scene, &random);
        scene.device.processors = 8;
        scene.device.transfer_slowdown = seed % 3 == 0 ? 0.3 : 0;
        scene_sms = (uint32_t)(seed % 7);
        scene_host_seconds = seed % 2 ? 1e-9 * (double)(317 + 101 * (seed % 5)) : 0;
        scene_synchronizes = seed % 4 < 2;
        scene_waits = seed % 5 < 3;
        struct outcome shared, alone;
        run_scene(&shared, &engine_simgrid, &scene);
        run_scene(&alone, &engine_analytic, &scene);
        assert_string_equal(shared.messages, "");
        assert_true(shared.good && alone.good);
        for (uint32_t r = 0; r < scene.ranks; r++) {
            for (uint32_t i = 0; i < scene.programs[r].n_ops; i++) {
                assert_near(moment_of(&shared, r, i).begin, moment_of(&alone, r, i).begin, 1e-8);
                assert_near(moment_of(&shared, r, i).end, moment_of(&alone, r, i).end, 1e-8);
            }
        }
        outcome_fini(&shared);
        outcome_fini(&alone);
        scene_fini(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_takes_its_sms_from_attention_while_it_moves),
        cmocka_unit_test(what_streams_memory_keeps_its_speed),
        cmocka_unit_test(messages_of_one_kernel_share_sms_and_kernels_add_theirs),
        cmocka_unit_test(the_slower_of_host_and_device_sets_the_pace),
        cmocka_unit_test(a_message_waits_for_the_hosts_of_both_ends),
        cmocka_unit_test(random_programs_run_alike_in_both_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
