/* Every algorithm under everything that can be asked of it, run by both engines: what is accepted runs to its end, and
 * its report adds up. The algorithms are those of the register, whichever these are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/result/report.h"
#include "models/result/step_path.h"
#include "models/result/steps.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/mask.h"
#include "sim/engine.h"
#include "sim/path_costs.h"
#include "tests/random_experiment.h"
#include "tests/random_implementation.h"

#ifdef __SANITIZE_ADDRESS__
#define CASES 9 /* of each algorithm, for each engine */
#else
#define CASES 25
#endif

struct machine {
    struct topology topology;
    struct device device;
};

/* A cluster of `gpus` in nodes of two, with or without channels and collectives, and devices that need a while for a
 * launch. */
static void machine_init(struct machine *machine, struct dice *dice, uint32_t gpus)
{
    char text[800];
    const char *channels =
        dice_chance(dice, 2) ? "channels = 8\nchannel_bandwidth = 20 MB/s\nll_bandwidth = 9 MB/s\n" : "";
    const char *network = *channels ? "medium = network\nchannels = 4\nchannels_per_peer = 2\n"
                                      "channel_bandwidth = 30 MB/s\n"
                                    : "";
    const char *collectives = dice_chance(dice, 2) ? "collectives = 3 us + 1 us: 60 MB/s, 9 us: 90 MB/s\n" : "";
    snprintf(text, sizeof text,
             "[cluster]\ndevice = toy\n"
             "[level node]\nsize = 2\nkind = switch\nbandwidth = %u MB/s\nlatency = 2 us\n%s%s"
             "[level cluster]\nsize = %u\nkind = switch\nattach = rail\nbandwidth = 100 MB/s\nlatency = 5 us\n%s%s",
             100 + dice_below(dice, 900), channels, collectives, gpus < 4 ? 2 : (gpus + 1) / 2, network,
             dice_chance(dice, 2) ? collectives : "");
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = topology_read_text(&machine->topology, "test", text, &diag);
    char *path = good ? topology_device_path(&machine->topology, &diag) : NULL;
    good = path && device_read(&machine->device, path, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    free(path);
    machine->device.launch_seconds = 1e-6 * dice_below(dice, 8);
    machine->device.peak_flops_per_s = 100e12;
    machine->device.transfer_slowdown = dice_chance(dice, 3) ? 0.3 : 0;
    diagnostics_fini(&diag);
}

static void machine_fini(struct machine *machine)
{
    topology_fini(&machine->topology);
    device_fini(&machine->device);
}

static bool attends_in_all_phases(const struct program *program, bool train)
{
    bool attends[PHASE_COUNT] = {false, !train};
    for (uint32_t i = 0; i < program->n_ops; i++)
        attends[program_phase(program, i)] |= op_is_attention(&program->ops[i]);
    return attends[PHASE_FORWARD] && attends[PHASE_BACKWARD];
}

/* What the report claims of a rank; the step table holds all its waiting, if it attends at all. */
static bool rank_adds_up(const struct report *report, const struct step_list *steps, uint32_t rank, bool attends)
{
    const struct rank_report *r = &report->ranks[rank];
    double step = report->seconds, waits = 0;
    for (size_t i = 0; i < steps->count; i++)
        if (steps->rows[i].rank == rank)
            waits += steps->rows[i].exposed_seconds + steps->rows[i].exposed_after_seconds +
                     steps->rows[i].idle_seconds + steps->rows[i].idle_after_seconds;
    return fabs(r->compute_seconds + r->exposed_seconds + r->idle_seconds - step) <= 1e-12 * step &&
           r->exposed_seconds >= 0 && r->idle_seconds >= 0 && r->seconds <= step &&
           r->overlapped_seconds + r->exposed_seconds <= r->communication_seconds * (1 + 1e-12) + 1e-15 &&
           r->overlapped_seconds <= r->compute_seconds * (1 + 1e-12) && r->peak_bytes >= r->resident_bytes &&
           (!attends || fabs(waits - r->exposed_seconds - r->idle_seconds) <= 1e-9 * step);
}

static bool adds_up(const struct report *report, const struct step_list *steps, const struct schedule *schedule,
                    const struct program *programs, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    bool good = true;
    for (uint32_t r = 0; r < report->n_ranks; r++)
        if (!rank_adds_up(report, steps, r, attends_in_all_phases(&programs[r], experiment->train)))
            good = diagnostics_add(
                diag,
                "rank %u: computes %.17g, exposed %.17g, idle %.17g, communicates %.17g, both %.17g, ends %.17g, peak "
                "%llu, resident %llu",
                r, report->ranks[r].compute_seconds, report->ranks[r].exposed_seconds, report->ranks[r].idle_seconds,
                report->ranks[r].communication_seconds, report->ranks[r].overlapped_seconds, report->ranks[r].seconds,
                (unsigned long long)report->ranks[r].peak_bytes, (unsigned long long)report->ranks[r].resident_bytes);
    uint64_t pairs = 0;
    struct sharding whole = {.kind = SHARDING_CONTIGUOUS, .seq_len = experiment->seq_len, .ranks = 1, .joined = 1};
    uint64_t new_tokens = experiment->new_tokens ? experiment->new_tokens : experiment->seq_len;
    struct block keys = {0, 0, (uint32_t)experiment->seq_len},
                 queries = {0, (uint32_t)(experiment->seq_len - new_tokens), (uint32_t)new_tokens};
    pairs = mask_block_pairs(&experiment->mask, &whole, queries, keys);
    if (experiment->skip != SKIP_NONE && report->visible_pairs != pairs)
        good = diagnostics_add(diag, "%llu visible pairs are %llu", (unsigned long long)report->visible_pairs,
                               (unsigned long long)pairs);
    if (report->compute_bound_seconds > report->seconds * (1 + 1e-9))
        good = diagnostics_add(diag, "the bound of computing is beaten");
    return good;
}

static bool holds_sms(const struct plan *plan)
{
    for (size_t p = 0; p < plan->first_path[plan->simulation->ensemble->n_instances]; p++)
        if (cost_message_sms(plan->simulation->cost, &plan->paths[p].cost) > 0)
            return true;
    return false;
}

/* What nothing but certain mechanisms can have brought about. */
static bool path_is_explained(const struct plan *plan, const struct timeline *timeline, const struct path_piece *piece)
{
    const struct cost *cost = plan->simulation->cost;
    double grain = 1e-8 * timeline->phase_end[PHASE_COUNT - 1];
    return (cost_waits(cost) || piece->seconds[PATH_WAITING] <= grain) &&
           (!timeline->unshared || piece->seconds[PATH_SHARED] <= grain) &&
           (cost->device->transfer_slowdown > 0 || holds_sms(plan) || piece->seconds[PATH_SLOWED] <= grain);
}

/* The critical path's pieces meet, their parts add up to them, and they to the step. */
static bool path_adds_up(const struct simulation *simulation, const struct timeline *timeline, struct diagnostics *diag)
{
    struct plan plan;
    if (!plan_init(&plan, simulation, diag))
        return false;
    struct step_path path;
    path_of_simulation(&path, &plan, simulation->ensemble, timeline);
    double step = timeline->phase_end[PHASE_COUNT - 1], at = 0, sum = 0;
    bool good = true;
    for (size_t i = 0; i < path.count; i++) {
        const struct path_piece *piece = &path.pieces[i];
        double parts = 0;
        for (int kind = 0; kind < PATH_KIND_COUNT; kind++) {
            parts += piece->seconds[kind];
            good &= piece->seconds[kind] >= 0;
        }
        good &= fabs(piece->begin - at) <= 0 && piece->end >= at && fabs(parts - (piece->end - at)) <= 1e-12 * step;
        good &= path_is_explained(&plan, timeline, piece);
        good &= piece->end <= timeline->phase_end[piece->phase];
        if (!good) {
            diagnostics_add(
                diag,
                "piece %zu of %zu of the path, %s, from %.17g to %.17g behind %.17g: parts %.17g (waiting %g, "
                "shared %g, slowed %g)",
                i, path.count, path_cause_name(piece->cause), piece->begin, piece->end, at, parts,
                piece->seconds[PATH_WAITING], piece->seconds[PATH_SHARED], piece->seconds[PATH_SLOWED]);
            break;
        }
        at = piece->end;
        sum += parts;
    }
    if (good && (fabs(at - step) > 0 || fabs(sum - step) > 1e-9 * step))
        good = diagnostics_add(diag, "the path ends at %.17g and adds up to %.17g, the step is %.17g", at, sum, step);
    step_path_fini(&path);
    plan_fini(&plan);
    return good;
}

/* Runs one experiment that was accepted. */
static bool run(const struct engine_ops *engine, const struct schedule *schedule, const struct machine *machine,
                struct diagnostics *diag)
{
    struct cost cost;
    struct placement placement;
    if (!cost_init(&cost, &machine->device, &machine->topology, schedule, diag) ||
        !placement_init(&placement, schedule->experiment, &machine->topology, diag))
        return false;
    struct program *programs = schedule_build_all(schedule);
    struct timeline timeline;
    timeline_init(&timeline, programs, schedule->ranks, 1);
    struct simulation simulation = {.cost = &cost, .placement = &placement};
    struct execution *execution = execution_create(programs, schedule->ranks, 1, diag);
    simulation.ensemble = execution ? execution_ensemble(execution) : NULL;
    struct report report;
    const struct report_input input = {.schedule = schedule,
                                       .ensemble = simulation.ensemble,
                                       .cost = &cost,
                                       .placement = &placement,
                                       .timeline = &timeline};
    bool good = execution && engine->run(&simulation, &timeline, diag) && report_init(&report, &input, diag);
    if (good) {
        struct step_list steps;
        steps_of(&steps, &input);
        good = adds_up(&report, &steps, schedule, programs, diag) && path_adds_up(&simulation, &timeline, diag);
        free(steps.rows);
        report_fini(&report);
    }
    execution_destroy(execution);
    timeline_fini(&timeline);
    schedule_free_programs(schedule, programs);
    return good;
}

static bool run_and_print(const struct engine_ops *engine, const struct schedule *schedule,
                          const struct machine *machine)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = run(engine, schedule, machine, &diag);
    diagnostics_print(&diag, stderr, "  ");
    diagnostics_fini(&diag);
    return good;
}

/* In a process of its own where the engine asks for one. */
static bool run_alone(const struct engine_ops *engine, const struct schedule *schedule, const struct machine *machine)
{
    if (!engine->once)
        return run_and_print(engine, schedule, machine);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run_and_print(engine, schedule, machine) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* True if the experiment was accepted. */
static bool try_one(const struct engine_ops *engine, struct dice *dice, const char *algorithm)
{
    const struct random_bounds bounds = {.ranks_max = 12, .rows_max = 12, .dtype = DTYPE_BF16};
    struct experiment experiment = random_experiment(dice, algorithm, &bounds);
    experiment.implementation = random_implementation(dice);
    struct schedule schedule;
    struct diagnostics unused;
    diagnostics_init(&unused);
    bool accepted = schedule_init(&schedule, &experiment, &unused, &unused);
    if (accepted) {
        struct machine machine;
        machine_init(&machine, dice, experiment.degree[PARALLEL_CP]);
        if (!run_alone(engine, &schedule, &machine)) {
            char what[512];
            random_experiment_describe(&experiment, what, sizeof what);
            fail_msg("%s engine: %s", engine->name, what);
        }
        machine_fini(&machine);
        schedule_fini(&schedule);
    }
    diagnostics_fini(&unused);
    random_experiment_fini(&experiment);
    return accepted;
}

static void reports_of_every_algorithm_add_up(void **state)
{
    (void)state;
    for (size_t e = 0; engines[e]; e++) {
        for (size_t a = 0; algorithms[a]; a++) {
            struct dice dice = {.state = 7};
            unsigned accepted = 0, tried = 0;
            for (; accepted < CASES && tried < 20 * CASES; tried++)
                accepted += try_one(engines[e], &dice, algorithms[a]->name);
            assert_int_equal(accepted, CASES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports_of_every_algorithm_add_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
