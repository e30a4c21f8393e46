/* Kernels of two compute streams on one device: what they hide, who waits for whom, and that both engines agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};
static const enum stream two_streams[] = {STREAM_COMPUTE, STREAM_COMPUTE_2};

static void init_ranks(struct scene *scene, uint32_t ranks)
{
    scene_init(scene,
               "[cluster]\ndevice = toy\n[level node]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 7 us\n",
               ranks, 1);
}

static uint32_t add_kernel(struct scene *scene, uint32_t rank, enum stream stream, uint32_t buffer, uint32_t launch,
                           uint64_t nanoseconds)
{
    struct op op = {.kind = OP_ATTEND, .stream = (uint8_t)stream, .q = {0, 0, launch}, .pairs = nanoseconds};
    return program_add_op(&scene->programs[rank], op, NULL, 0, &buffer, 1);
}

static void end_both(struct scene *scene)
{
    end_phase(scene, PHASE_FORWARD);
    end_phase(scene, PHASE_BACKWARD);
}

/* To a picosecond or so: an engine's grain. */
static void assert_moment(const struct outcome *outcome, uint32_t op, double begin, double move, double end)
{
    struct moment moment = moment_of(outcome, 0, op);
    assert_near(moment.begin * 1e9, begin, 1e-6);
    assert_near(moment.move * 1e9, move, 1e-6);
    assert_near(moment.end * 1e9, end, 1e-6);
}

/* As long as a launch takes no longer than the other stream's work: a stream is not ahead of itself. */
static void alternating_streams_hide_exactly_the_launches(void **state)
{
    (void)state;
    for (uint32_t launch = 0; launch <= 100; launch += 25) {
        for (uint32_t streams = 1; streams <= 2; streams++) {
            struct scene scene;
            init_ranks(&scene, 1);
            for (uint32_t i = 0; i < 9; i++)
                add_kernel(&scene, 0, two_streams[i % streams], new_buffer(&scene, 0), launch, 100);
            end_both(&scene);
            double hidden = streams == 2 ? 8.0 * (launch <= 50 ? launch : 50) : 0;
            for (int e = 0; e < 2; e++)
                assert_near(scene_seconds(both[e], &scene) * 1e9, 900 - hidden, 1e-9);
            scene_fini(&scene);
        }
    }
}

/* The second is launched long before the first, and waits; the third was ready when the first ended. */
static void turns_are_taken_in_the_order_of_becoming_ready(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 1);
    uint32_t first = add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 60, 100);
    uint32_t third = add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 1, 10);
    uint32_t second = add_kernel(&scene, 0, STREAM_COMPUTE_2, new_buffer(&scene, 0), 5, 50);
    end_both(&scene);
    for (int e = 0; e < 2; e++) {
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good);
        assert_moment(&outcome, first, 0, 0, 100);
        assert_moment(&outcome, second, 0, 95, 145);
        assert_moment(&outcome, third, 100, 144, 154);
        outcome_fini(&outcome);
    }
    scene_fini(&scene);
}

/* Ready at 95 while the other runs until 100: launched at 105, it waits for nothing. */
static void a_launch_that_outlasts_the_other_kernel_is_hidden_in_part(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 1);
    uint32_t buffer = new_buffer(&scene, 0);
    uint32_t long_one = add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 3, 100);
    add_work(&scene, 0, STREAM_GRADIENT, buffer, 95);
    uint32_t late = add_kernel(&scene, 0, STREAM_COMPUTE_2, buffer, 10, 30);
    uint32_t next = add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 4, 20);
    end_both(&scene);
    for (int e = 0; e < 2; e++) {
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good);
        assert_moment(&outcome, long_one, 0, 0, 100);
        assert_moment(&outcome, late, 95, 95, 125);
        assert_moment(&outcome, next, 100, 121, 141); /* it came later, though its launch is over sooner */
        outcome_fini(&outcome);
    }
    scene_fini(&scene);
}

static void sums_in_other_streams_have_no_turns(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 1);
    add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 10, 100);
    add_work(&scene, 0, STREAM_GRADIENT, new_buffer(&scene, 0), 100);
    add_work(&scene, 0, STREAM_EXCHANGE, new_buffer(&scene, 0), 100);
    end_both(&scene);
    for (int e = 0; e < 2; e++)
        assert_near(scene_seconds(both[e], &scene) * 1e9, 100, 1e-9);
    scene_fini(&scene);
}

static void each_rank_has_a_device_of_its_own(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 4; i++)
            add_kernel(&scene, r, two_streams[(i + r) % 2], new_buffer(&scene, r), 10, 100);
    end_both(&scene);
    for (int e = 0; e < 2; e++)
        assert_near(scene_seconds(both[e], &scene) * 1e9, 370, 1e-9);
    scene_fini(&scene);
}

/* A message moves from 7000 to 7400 ns; the compute of its ends takes half of that longer. Both kernels fill the device
 * from the begin, so it does not matter which of them is held up. */
static void transfers_slow_kernels_of_both_streams(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    scene.device.transfer_slowdown = 0.5;
    add_kernel(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 0, 7100);
    add_kernel(&scene, 0, STREAM_COMPUTE_2, new_buffer(&scene, 0), 0, 5000);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 400);
    end_both(&scene);
    for (int e = 0; e < 2; e++) {
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good);
        assert_moment(&outcome, 0, 0, 0, 7200);                       /* 100 of work took 200 */
        assert_moment(&outcome, 1, 0, 7200, 7200 + 5000 + 0.5 * 200); /* and 200 moved on */
        outcome_fini(&outcome);
    }
    scene_fini(&scene);
}

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % bound);
}

/* Kernels of both streams, sums beside them and messages, each pair of ranks with a cable and a stream of its own. */
static void random_programs(struct scene *scene, uint64_t *random)
{
    for (uint32_t r = 0; r < scene->ranks; r++)
        for (int i = 0; i < 5; i++)
            new_buffer(scene, r);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t from = below(random, scene->ranks),
                     to = (from + 1 + below(random, scene->ranks - 1)) % scene->ranks;
            uint32_t kind = below(random, 4);
            if (kind < 2) {
                uint32_t nanoseconds = below(random, 400000);
                add_kernel(scene, from, two_streams[kind], below(random, 5), below(random, nanoseconds + 1),
                           nanoseconds);
            } else if (kind == 2) {
                add_work(scene, from, STREAM_GRADIENT, below(random, 5), below(random, 100000));
            } else {
                uint64_t bytes = 1 + below(random, 400000);
                add_send(scene, from, STREAM_EXCHANGE, below(random, 5), to, bytes);
                add_receive(scene, to, STREAM_EXCHANGE, below(random, 5), from, bytes);
            }
        }
        end_phase(scene, (enum phase)phase);
    }
}

/* Fails if kernels `i` of rank `r` and `k` of rank `q`, which have one device, work at once. */
static void check_pair(const struct scene *scene, const struct outcome *outcome, uint32_t r, uint32_t i, uint32_t q,
                       uint32_t k)
{
    const struct op *op = &scene->programs[r].ops[i], *other_op = &scene->programs[q].ops[k];
    if (other_op->kind != OP_ATTEND || other_op->pairs == 0 || op->pairs == 0)
        return;
    struct moment moment = moment_of(outcome, r, i), other = moment_of(outcome, q, k);
    double work = moment.move + op->q.count * 1e-9, other_work = other.move + other_op->q.count * 1e-9;
    if (work > other_work ? work < other.end - 1e-12 : other_work < moment.end - 1e-12)
        fail_msg("operations %u of rank %u and %u of rank %u work at once", i, r, k, q);
}

/* Of each device's kernels: no two work at once, and each works as long as it should. */
static void check_turns(const struct scene *scene, const struct outcome *outcome)
{
    const uint32_t share = scene->topology.ranks_per_device;
    for (uint32_t r = 0; r < scene->ranks; r++) {
        const struct program *program = &scene->programs[r];
        for (uint32_t i = 0; i < program->n_ops; i++) {
            if (program->ops[i].kind != OP_ATTEND)
                continue;
            struct moment moment = moment_of(outcome, r, i);
            assert_near(moment.end - moment.move, (double)program->ops[i].pairs * 1e-9, 1e-6);
            for (uint32_t q = r / share * share; q <= r; q++)
                for (uint32_t k = 0; k < (q == r ? i : scene->programs[q].n_ops); k++)
                    check_pair(scene, outcome, r, i, q, k);
        }
    }
}

/* What ranks with a device of their own do at once, they do one after the other; launches are hidden. */
static void ranks_of_one_device_take_turns(void **state)
{
    (void)state;
    for (uint32_t share = 1; share <= 4; share *= 2) {
        struct scene scene;
        char text[256];
        snprintf(text, sizeof text,
                 "[cluster]\ndevice = toy\nranks_per_device = %u\n"
                 "[level node]\nsize = 4\nkind = switch\nbandwidth = 1 GB/s\nlatency = 7 us\n",
                 share);
        scene_init(&scene, text, 4, 1);
        for (uint32_t r = 0; r < 4; r++)
            for (uint32_t i = 0; i < 3; i++)
                add_kernel(&scene, r, STREAM_COMPUTE, new_buffer(&scene, r), 10, 100);
        end_both(&scene);
        double seconds = share == 1 ? 3 * 100 : share * 3 * 100 - (share * 3 - 1) * 10;
        for (int e = 0; e < 2; e++)
            assert_near(scene_seconds(both[e], &scene) * 1e9, seconds, 1e-9);
        scene_fini(&scene);
    }
}

#define NODE "[level node]\nsize = 3\nkind = mesh\nbandwidth = 3 GB/s\nlatency = 7 us\n"

static void random_programs_run_alike_in_both_engines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed;
        struct scene scene;
        scene_init(&scene,
                   seed % 4 == 0 ? "[cluster]\ndevice = toy\nranks_per_device = 3\n" NODE
                                 : "[cluster]\ndevice = toy\n" NODE,
                   3, 1);
        random_programs(&scene, &random);
        scene.device.transfer_slowdown = seed % 3 == 0 ? 0.4 : 0;
        struct outcome shared, alone;
        run_scene(&shared, &engine_simgrid, &scene);
        run_scene(&alone, &engine_analytic, &scene);
        assert_string_equal(shared.messages, "");
        assert_true(shared.good && alone.good);
        for (uint32_t r = 0; r < scene.ranks; r++) {
            for (uint32_t i = 0; i < scene.programs[r].n_ops; i++) {
                assert_near(moment_of(&shared, r, i).begin, moment_of(&alone, r, i).begin, 1e-9);
                assert_near(moment_of(&shared, r, i).move, moment_of(&alone, r, i).move, 1e-9);
                assert_near(moment_of(&shared, r, i).end, moment_of(&alone, r, i).end, 1e-9);
            }
        }
        if (scene.device.transfer_slowdown <= 0) {
            check_turns(&scene, &shared);
            check_turns(&scene, &alone);
        }
        outcome_fini(&shared);
        outcome_fini(&alone);
        scene_fini(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternating_streams_hide_exactly_the_launches),
        cmocka_unit_test(turns_are_taken_in_the_order_of_becoming_ready),
        cmocka_unit_test(a_launch_that_outlasts_the_other_kernel_is_hidden_in_part),
        cmocka_unit_test(sums_in_other_streams_have_no_turns),
        cmocka_unit_test(each_rank_has_a_device_of_its_own),
        cmocka_unit_test(transfers_slow_kernels_of_both_streams),
        cmocka_unit_test(ranks_of_one_device_take_turns),
        cmocka_unit_test(random_programs_run_alike_in_both_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
