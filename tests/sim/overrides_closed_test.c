/* What an override slows, and what it does not, against closed forms, by both engines.
 *
 * P nodes of GPUS GPUs, and GPUS rings at once, ring i of the i-th GPUs of all nodes, each GPU with its own NIC. A step
 * computes for c seconds, a message takes m = alpha + B / W; a ring takes (P - 1) max(c, m) + c. With one link on which
 * its messages take s > m instead, P - 1 of them one after the other, it takes (P - 1) max(c, s) + c, and no other ring
 * is touched. With one GPU that takes r times c it takes P r c, where that is the longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "sim/plan.h"
#include "tests/sim/scene.h"

#define EXACT 1e-9
#define NODES 5
#define GPUS 4 /* of a node */
#define ROWS 64
#define BLOCK_BYTES (ROWS * 4096.0) /* K and V of 8 heads of 128 in bf16 */
#define NIC 10e9
#define ALPHA 2e-6
#define MESSAGE (ALPHA + BLOCK_BYTES / NIC)

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

/* The rings, on a cluster with these overrides. */
static void ask_rings(struct scene *scene, const char *overrides, double compute_seconds)
{
    char topology[900], experiment[400];
    snprintf(topology, sizeof topology,
             "[cluster]\ndevice = toy\n"
             "[level node]\nsize = %d\nkind = switch\nbandwidth = 1 TB/s\nlatency = 0 s\n"
             "[level net]\nsize = %d\nkind = switch\nbandwidth = 10 GB/s\nlatency = 2 us\n%s",
             GPUS, NODES, overrides);
    snprintf(experiment, sizeof experiment,
             "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
             "[workload]\nseq_len = %d\nbatch = 1\nmask = full\npass = forward\n"
             "[parallel]\ncp = %d\ndp = %d\norder = tp,dp,cp\n"
             "[schedule]\nalgorithm = ring\nsharding = contiguous\noverlap = yes\nbuffers = 2\n",
             NODES * ROWS, NODES, GPUS);
    scene_ask(scene, topology, experiment);
    scene->device.launch_seconds = compute_seconds / ((double)ROWS * ROWS);
}

/* When the last operation of ring `ring` ends. */
static double ring_end(const struct scene *scene, const struct outcome *outcome, uint32_t ring)
{
    double end = 0;
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        for (uint32_t op = 0; op < scene->programs[rank].n_ops; op++)
            end = fmax(end, moment_of(outcome, ring * scene->ranks + rank, op).end);
    return end;
}

static double ring_seconds(double compute, double message)
{
    return (NODES - 1) * fmax(compute, message) + compute;
}

/* The seconds of each ring. */
static void expect_rings(const char *overrides, double compute, const struct engine_ops *engine,
                         const double expected[GPUS])
{
    struct scene scene;
    struct outcome outcome;
    ask_rings(&scene, overrides, compute);
    run_scene(&outcome, engine, &scene);
    assert_string_equal(outcome.messages, "");
    double step = 0;
    for (uint32_t ring = 0; ring < GPUS; ring++) {
        double end = ring_end(&scene, &outcome, ring);
        if (fabs(end - expected[ring]) > EXACT * expected[ring])
            fail_msg("%s: ring %u takes %.12g s, expected %.12g: %s", engine->name, ring, end, expected[ring],
                     overrides);
        step = fmax(step, expected[ring]);
    }
    assert_near(seconds_of(&outcome), step, EXACT);
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static const double computes[] = {3e-6, MESSAGE, 1e-3};

/* Ring 2 alone has GPU 6; rings 1 and 3 have GPUs that are faster than the others, which helps neither. */
static void a_slow_gpu_sets_the_pace_of_its_ring_and_of_no_other(void **state)
{
    (void)state;
    static const char overrides[] = "[override lame]\ngpu = 6\nspeed = 0.125\n"
                                    "[override spry]\ngpu = 5, 7\nspeed = 2\n";
    for (int e = 0; e < 2; e++) {
        for (int i = 1; i < 3; i++) { /* eight times the compute is longer than any message */
            double others = ring_seconds(computes[i], MESSAGE);
            const double expected[GPUS] = {others, others, 8 * NODES * computes[i], others};
            expect_rings(overrides, computes[i], both[e], expected);
        }
    }
}

/* All that a GPU does, its launches too, and what of a kernel leaves transfers no SM; a slow one's host gets further
 * ahead of it. */
static void a_gpus_speed_divides_all_that_it_does(void **state)
{
    (void)state;
    static const double speeds[] = {0.5, 1};
    struct scene scene;
    struct diagnostics diag;
    diagnostics_init(&diag);
    scene_init(&scene,
               "[cluster]\ndevice = toy\n[level node]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 1 us\n"
               "[override slow]\ngpu = 0\nspeed = 0.5\n",
               2, 1);
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t buffer = new_buffer(&scene, r);
        struct op attend = {.kind = OP_ATTEND, .stream = STREAM_COMPUTE, .pairs = 1000, .q.count = 30, .k.count = 40};
        program_add_op(&scene.programs[r], attend, &buffer, 1, &buffer, 1);
        add_work(&scene, r, STREAM_COMPUTE, buffer, 500);
    }
    end_phase(&scene, PHASE_FORWARD);
    end_phase(&scene, PHASE_BACKWARD);
    scene.cost = (struct cost){.device = &scene.device, .topology = &scene.topology};
    struct simulation simulation = {.cost = &scene.cost, .placement = &scene.placement};
    struct execution *execution = execution_create(scene.programs, 2, 1, &diag);
    simulation.ensemble = execution_ensemble(execution);
    struct plan plan;
    scene_host_seconds = 1e-6;
    expect_good(plan_init(&plan, &simulation, &diag), &diag);
    for (uint32_t i = 0; i < 2; i++) {
        const struct activity attend = {i, 0}, work = {i, 1};
        assert_near(plan_seconds(&plan, attend), 1000e-9 / speeds[i], EXACT);
        assert_near(plan_fixed_seconds(&plan, attend), 30e-9 / speeds[i], EXACT);
        assert_near(plan_fill_seconds(&plan, attend), 960e-9 / speeds[i], EXACT);
        assert_near(plan_seconds(&plan, work), 500e-9 / speeds[i], EXACT);
        double ahead = fmax(0, 1500e-9 / speeds[i] - 2e-6); /* 3 us of work issued in 2; 1.5 us are not ahead at all */
        assert_near(plan_issued(&plan, work), 2e-6 - ahead, EXACT);
    }
    scene_host_seconds = 0;
    plan_fini(&plan);
    execution_destroy(execution);
    scene_fini(&scene);
}

/* One direction of one NIC: at a factor, at a bandwidth, or later. */
static void a_slow_link_slows_the_ring_that_uses_it_and_no_other(void **state)
{
    (void)state;
    static const struct {
        const char *override;
        double message;
    } cases[] = {
        {"[override slow]\nlink = net: gpu 9 up\nfactor = 0.25\n", ALPHA + BLOCK_BYTES / (NIC / 4)},
        {"[override slow]\nlink = net: gpu 9 down\nbandwidth = 1 GB/s\n", ALPHA + BLOCK_BYTES / 1e9},
        {"[override slow]\nlink = net: gpu 9 *\nlatency = 200 us\n", 200e-6 + BLOCK_BYTES / NIC},
        {"[override slow]\nlink = net: gpu 9 *\nlatency = 200 us\nfactor = 0.5\n", 200e-6 + BLOCK_BYTES / (NIC / 2)},
        {"[override idle]\nlink = node: gpu 9 *\nfactor = 0.001\n", MESSAGE}, /* no ring goes by the node's switch */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < 3; i++) {
            double others = ring_seconds(computes[i], MESSAGE);
            const double expected[GPUS] = {others, ring_seconds(computes[i], cases[c].message), others, others};
            for (int e = 0; e < 2; e++)
                expect_rings(cases[c].override, computes[i], both[e], expected);
        }
    }
}

/* GPU 9's messages go over GPU 10's NIC, which ring 2 uses too: each has half of it there. */
static void without_its_nic_a_ring_shares_the_neighbours(void **state)
{
    (void)state;
    static const char missing[] = "[override gone]\nlink = net: gpu 9 up\nmissing = yes\n";
    double shared = ALPHA + 2 * BLOCK_BYTES / NIC;
    for (int i = 0; i < 3; i++) {
        double alone = ring_seconds(computes[i], MESSAGE), together = ring_seconds(computes[i], shared);
        const double contended[GPUS] = {alone, together, together, alone}, apart[GPUS] = {alone, alone, alone, alone};
        expect_rings(missing, computes[i], &engine_simgrid, contended);
        expect_rings(missing, computes[i], &engine_analytic, apart); /* which knows no sharing */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_gpu_sets_the_pace_of_its_ring_and_of_no_other),
        cmocka_unit_test(a_gpus_speed_divides_all_that_it_does),
        cmocka_unit_test(a_slow_link_slows_the_ring_that_uses_it_and_no_other),
        cmocka_unit_test(without_its_nic_a_ring_shares_the_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
