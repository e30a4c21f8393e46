/* Measurements: what the times add up to, who shares a core, and what is refused. No time is compared with a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "hw/measure.h"
#include "hw/memory_need.h"
#include "tests/hw/scene.h"

/* ---- statistics ---- */

static void a_spread_is_made_of_values_that_occurred(void **state)
{
    (void)state;
    double one[] = {7}, two[] = {2, 1}, ten[] = {10, 1, 9, 2, 8, 3, 7, 4, 6, 5},
           eleven[] = {0, 9, 1, 8, 2, 7, 3, 6, 4, 5, 100};
    struct spread spread = spread_of(one, 1);
    assert_true(spread.low == 7 && spread.median == 7 && spread.high == 7);
    spread = spread_of(two, 2);
    assert_true(spread.low == 1 && spread.median == 1 && spread.high == 2);
    spread = spread_of(ten, 10);
    assert_true(spread.low == 2 && spread.median == 5 && spread.high == 9);
    spread = spread_of(eleven, 11);
    assert_true(spread.low == 1 && spread.median == 5 && spread.high == 9);
}

/* ---- cores ---- */

static struct machine make_machine(const char *boot, uint64_t cores)
{
    struct machine machine = {.core_quota = MACHINE_CORES_MAX};
    snprintf(machine.boot, sizeof machine.boot, "%s", boot);
    snprintf(machine.host, sizeof machine.host, "host-%s", boot);
    memcpy(machine.core_bits, &cores, sizeof cores); /* little-endian, as all machines that this runs on */
    return machine;
}

static void ranks_are_oversubscribed_when_one_has_no_core_of_its_own(void **state)
{
    (void)state;
    struct machine all[] = {make_machine("a", 3), make_machine("a", 3), make_machine("a", 3)};
    assert_false(machine_is_oversubscribed(all, 2));
    assert_true(machine_is_oversubscribed(all, 3));
    assert_int_equal(machine_cores(all, 3), 2);
    const struct machine bound_alike[] = {make_machine("a", 1), make_machine("a", 1)};
    assert_true(machine_is_oversubscribed(bound_alike, 2));
    const struct machine must_move[] = {make_machine("a", 3), make_machine("a", 6), make_machine("a", 1)};
    assert_false(machine_is_oversubscribed(must_move, 3)); /* cores 1, 2, 0 */
    assert_int_equal(machine_cores(must_move, 3), 3);
    const struct machine apart[] = {make_machine("a", 1), make_machine("b", 1)};
    assert_false(machine_is_oversubscribed(apart, 2));
    assert_int_equal(machine_cores(apart, 2), 2);
    struct machine throttled[] = {make_machine("a", 15), make_machine("a", 15)};
    throttled[0].core_quota = throttled[1].core_quota = 1;
    assert_true(machine_is_oversubscribed(throttled, 2));
    assert_int_equal(machine_cores(throttled, 2), 1);
}

static void this_machine_has_a_name_a_core_and_memory(void **state)
{
    (void)state;
    struct machine machine;
    machine_read(&machine);
    assert_true(machine.boot[0] && machine.host[0] && machine.cpu[0]);
    assert_in_range(machine_cores(&machine, 1), 1, MACHINE_CORES_MAX);
    assert_in_range(machine.available_bytes, 1, machine.memory_bytes);
}

/* ---- memory ---- */

static void an_experiment_too_large_for_a_host_is_refused_with_numbers(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 4096);
    struct schedule schedule;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, &experiment, NULL, &diag));
    struct program *programs = schedule_build_all(&schedule);
    struct memory_need need[2];
    for (int r = 0; r < 2; r++) {
        need[r] = memory_need_of(&schedule, &programs[r]);
        assert_true(need[r].buffers > 0 && need[r].outputs > 0 && need[r].verification > 0);
    }
    struct machine machines[] = {make_machine("a", 3), make_machine("a", 3)};
    double both = need[0].buffers + need[1].buffers + need[0].outputs + need[1].outputs;
    uint64_t once = (uint64_t)ceil(both + need[0].verification);
    machines[0].available_bytes = machines[1].available_bytes = once;
    assert_true(memory_need_check(&schedule, programs, machines, true, &diag));
    assert_false(memory_need_check(&schedule, programs, machines, false, &diag)); /* each process verifies */
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(diag.lines[0], "the experiment needs "));
    assert_non_null(strstr(diag.lines[0], "on host 'host-a' for 2 ranks"));
    assert_non_null(strstr(diag.lines[0], "are available"));
    machines[0].available_bytes = machines[1].available_bytes = once - 2;
    assert_false(memory_need_check(&schedule, programs, machines, true, &diag));
    machines[1] = make_machine("b", 3); /* two hosts with half the work each */
    machines[1].available_bytes = once;
    assert_true(memory_need_check(&schedule, programs, machines, false, &diag));
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void buffers_must_fit_on_the_gpu_and_the_rest_on_the_host(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 64);
    struct schedule schedule;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(schedule_init(&schedule, &experiment, NULL, &diag));
    struct program *programs = schedule_build_all(&schedule);
    struct memory_need need[2];
    double buffers = 0, others = 0;
    struct machine machines[] = {make_machine("a", 3), make_machine("a", 3)};
    for (int r = 0; r < 2; r++) {
        need[r] = memory_need_of(&schedule, &programs[r]);
        buffers += need[r].buffers;
        others += need[r].outputs;
        snprintf(machines[r].gpu.bus, sizeof machines[r].gpu.bus, "00000000:1B:00.0");
    }
    others += need[0].verification;
    machines[0].available_bytes = machines[1].available_bytes = (uint64_t)ceil(others); /* none of it for buffers */
    machines[0].gpu.free_bytes = machines[1].gpu.free_bytes = (uint64_t)buffers;
    assert_true(memory_need_check(&schedule, programs, machines, true, &diag));
    machines[1].gpu.free_bytes--; /* as one of two processes sees it */
    assert_false(memory_need_check(&schedule, programs, machines, true, &diag));
    assert_int_equal(diag.count, 1);
    assert_non_null(
        strstr(diag.lines[0], " on the GPU 00000000:1B:00.0 () of host 'host-a' for the buffers of 2 ranks"));
    machines[1].gpu.bus[9] = '2'; /* another GPU */
    assert_true(memory_need_check(&schedule, programs, machines, true, &diag));
    machines[0].available_bytes = machines[1].available_bytes = (uint64_t)others - 1;
    assert_false(memory_need_check(&schedule, programs, machines, true, &diag));
    assert_int_equal(diag.count, 2);
    assert_non_null(strstr(diag.lines[1], "(0 GiB of buffers, "));
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void ranks_share_a_gpu_when_bus_and_host_are_the_same(void **state)
{
    (void)state;
    struct machine machines[] = {make_machine("a", 3), make_machine("a", 3), make_machine("b", 3)};
    assert_false(machine_gpu_is_shared(machines, 3)); /* there are none */
    for (int r = 0; r < 3; r++)
        snprintf(machines[r].gpu.bus, sizeof machines[r].gpu.bus, "00000000:%02d:00.0", r % 2);
    assert_false(machine_gpu_is_shared(machines, 3));
    assert_false(machine_same_gpu(&machines[0], &machines[2])); /* another host's */
    machines[1].gpu = machines[0].gpu;
    assert_true(machine_gpu_is_shared(machines, 2));
    assert_false(machine_gpu_is_shared(machines + 1, 2));
}

/* ---- measuring ---- */

struct told {
    uint32_t times;
    double last;
};

static void note_progress(void *context, double share)
{
    struct told *told = context;
    assert_true(share >= told->last && share < 1);
    told->last = share;
    told->times++;
}

static bool measure_scene(struct scene *scene, struct measurement *measurement, uint32_t iterations, uint32_t warmup,
                          struct told *told)
{
    const struct measure_settings settings = {
        .hardware = scene->hardware,
        .schedule = &scene->schedule,
        .seed_given = true,
        .seed = 5,
        .iterations = iterations,
        .warmup = warmup,
        .progress = told ? note_progress : NULL,
        .progress_context = told,
    };
    assert_true(scene->opened);
    return measure(measurement, &settings, &scene->diag);
}

static bool make_report(struct report *report, const struct scene *scene, const struct measurement *measurement,
                        struct diagnostics *diag)
{
    const struct measured_times times = measurement_times(measurement);
    const struct report_input input = {
        .schedule = &scene->schedule,
        .ensemble = execution_ensemble(hardware_execution(scene->hardware)),
        .timeline = &measurement->run.timeline,
        .measured = &times,
        .device_bytes = 1e12,
    };
    return report_init(report, &input, diag);
}

static bool is_spread(struct spread spread)
{
    return spread.low >= 0 && spread.low <= spread.median && spread.median <= spread.high;
}

static void the_three_kinds_of_runs_give_exposed_time_and_overlap(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 3, 96);
    struct scene scene;
    struct measurement m;
    struct told told = {0};
    scene_open(&scene, &experiment, NULL, "local");
    assert_true(measure_scene(&scene, &m, 4, 1, &told));
    assert_int_equal(told.times, 1 + 3 * (1 + 4));
    assert_true(m.verification.passed && m.seed == 5 && m.n_ranks == 3 && m.iterations == 4 && m.warmup == 1);
    double both = m.step.median, compute = m.compute_only.median, messages = m.messages_only.median;
    assert_true(both > 0 && compute > 0 && messages > 0);
    assert_true(m.exposed_seconds == fmax(0, both - compute));
    double efficiency = (compute + messages - both) / fmin(compute, messages);
    assert_true(m.overlap_efficiency == fmin(1, fmax(0, efficiency)));
    double width = fmax(m.step.high - m.step.low,
                        fmax(m.compute_only.high - m.compute_only.low, m.messages_only.high - m.messages_only.low)) /
                   fmin(compute, messages);
    bool contradicted = efficiency < -width || efficiency > 1 + width;
    assert_int_equal(m.overlap, width >= 1 ? OVERLAP_NOISE : contradicted ? OVERLAP_CONTRADICTED : OVERLAP_RESOLVED);
    assert_true(isnan(measurement_times(&m).overlap_efficiency) == (m.overlap != OVERLAP_RESOLVED));
    assert_true(m.run.timeline.phase_end[PHASE_COUNT - 1] == both);
    assert_true(is_spread(m.step) && is_spread(m.compute_only) && is_spread(m.messages_only));
    double beside = 0, alone = 0;
    for (uint32_t r = 0; r < 3; r++) {
        assert_true(is_spread(m.rank_compute[r]) && is_spread(m.rank_compute_only[r]));
        beside += m.rank_compute[r].median;
        alone += m.rank_compute_only[r].median;
    }
    assert_true(m.contention == beside / alone);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(is_spread(m.phases[phase]) && is_spread(m.skew[phase]) &&
                    m.skew[phase].low <= m.phases[phase].high);
    measurement_fini(&m);
    scene_close(&scene);
}

static void one_iteration_resolves_no_overlap(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 32);
    struct scene scene;
    struct measurement m;
    scene_open(&scene, &experiment, NULL, "local");
    assert_true(measure_scene(&scene, &m, 1, 0, NULL));
    assert_int_equal(m.overlap, OVERLAP_ONE_ITERATION);
    assert_true(isnan(measurement_times(&m).overlap_efficiency));
    measurement_fini(&m);
    scene_close(&scene);
}

static void a_single_rank_has_nothing_to_hide(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 1, 32);
    experiment.train = false;
    struct scene scene;
    struct measurement m;
    scene_open(&scene, &experiment, NULL, "local");
    assert_true(measure_scene(&scene, &m, 1, 0, NULL));
    assert_true(m.overlap_efficiency == 0 && m.overlap == OVERLAP_NOTHING);
    assert_true(m.phases[PHASE_BACKWARD].median == 0 && m.skew[PHASE_FORWARD].high == 0);
    measurement_fini(&m);
    scene_close(&scene);
}

static void the_report_needs_no_topology_and_adds_up(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("all-gather", 2, 64);
    struct scene scene;
    struct measurement m;
    struct report report;
    scene_open(&scene, &experiment, NULL, "local");
    assert_true(measure_scene(&scene, &m, 3, 0, NULL));
    assert_true(make_report(&report, &scene, &m, &scene.diag));
    assert_true(report.seconds == m.step.median && report.seconds_low == m.step.low &&
                report.seconds_high == m.step.high);
    assert_true(report.forward_seconds == m.phases[PHASE_FORWARD].median);
    assert_true(report.exposed_seconds == m.exposed_seconds);
    assert_int_equal(report.n_links, 0);
    assert_true(report.fits && report.device_bytes == 1e12);
    assert_true(report.flops == 64 * 65 / 2 * 4 * 8 * (4 + 10)); /* pairs, heads, dim */
    for (uint32_t r = 0; r < 2; r++) {
        const struct rank_report *rank = &report.ranks[r];
        assert_int_equal(rank->gpu, r);
        assert_true(fabs(rank->compute_seconds + rank->exposed_seconds + rank->idle_seconds - report.seconds) <=
                    1e-9 * report.seconds);
    }
    assert_true(measure_check_account(&m, &report, &scene.diag));
    assert_int_equal(scene.diag.count, 0);
    m.run.ranks[0].peak_bytes++;
    m.run.ranks[1].wire.sent_messages[TRAFFIC_FORWARD_KV]++;
    assert_false(measure_check_account(&m, &report, &scene.diag));
    assert_int_equal(scene.diag.count, 2);
    assert_non_null(strstr(scene.diag.lines[0], "rank 0 took "));
    assert_non_null(strstr(scene.diag.lines[1], "rank 1 sent or received other messages"));
    report_fini(&report);
    measurement_fini(&m);
    scene_close(&scene);
}

/* ---- wrong results, and ranks that fail ---- */

static void forget_a_sum(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                         const struct between_tiles *between_tiles)
{
    if (program->rank == 1 && program->ops[op].kind == OP_ACCUMULATE)
        return;
    compute_cpu.run(compute, program, op, memory, between_tiles);
}

static void a_wrong_result_is_named_and_measured_all_the_same(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 64);
    struct compute_ops ops = compute_cpu;
    ops.run = forget_a_sum;
    struct scene scene;
    struct measurement m;
    scene_open(&scene, &experiment, &ops, "local");
    assert_true(measure_scene(&scene, &m, 2, 0, NULL));
    assert_false(m.verification.passed);
    assert_true(m.step.median > 0);
    bool named = false;
    for (size_t i = 0; i < scene.diag.count; i++)
        named = named || strstr(scene.diag.lines[i], "verification failed: dQ of rank 1");
    assert_true(named);
    measurement_fini(&m);
    scene_close(&scene);
}

static void *have_none(struct compute *compute, uint64_t bytes)
{
    (void)compute;
    (void)bytes;
    return NULL;
}

static void a_rank_that_fails_leaves_nothing_to_report(void **state)
{
    (void)state;
    struct experiment experiment = make_experiment("ring", 2, 64);
    struct compute_ops ops = compute_cpu;
    ops.allocate = have_none;
    struct scene scene;
    struct measurement m;
    scene_open(&scene, &experiment, &ops, "local");
    assert_false(measure_scene(&scene, &m, 2, 1, NULL));
    assert_false(m.refused);
    assert_int_equal(scene.diag.count, 1);
    assert_non_null(strstr(scene.diag.lines[0], "rank "));
    measurement_fini(&m);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spread_is_made_of_values_that_occurred),
        cmocka_unit_test(ranks_are_oversubscribed_when_one_has_no_core_of_its_own),
        cmocka_unit_test(this_machine_has_a_name_a_core_and_memory),
        cmocka_unit_test(an_experiment_too_large_for_a_host_is_refused_with_numbers),
        cmocka_unit_test(buffers_must_fit_on_the_gpu_and_the_rest_on_the_host),
        cmocka_unit_test(ranks_share_a_gpu_when_bus_and_host_are_the_same),
        cmocka_unit_test(the_three_kinds_of_runs_give_exposed_time_and_overlap),
        cmocka_unit_test(one_iteration_resolves_no_overlap),
        cmocka_unit_test(a_single_rank_has_nothing_to_hide),
        cmocka_unit_test(the_report_needs_no_topology_and_adds_up),
        cmocka_unit_test(a_wrong_result_is_named_and_measured_all_the_same),
        cmocka_unit_test(a_rank_that_fails_leaves_nothing_to_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
