/* measure.c - runs, and what their times add up to. */
#include "hw/measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "hw/gpu_watches.h"
#include "hw/memory_need.h"
#include "models/base/memory.h"
#include "models/base/statistics.h"

/* The runs of an iteration: the first N_BARE, and on an asynchronous backend all, the first then bare. */
static const enum run_mode run_modes[] = {RUN_ALL, RUN_COMPUTE, RUN_MESSAGES, RUN_ALL, RUN_COMPUTE};
#define N_BARE 3
#define N_RUNS (sizeof run_modes / sizeof *run_modes)

/* ---- statistics ---- */

struct spread spread_of(double *values, size_t count)
{
    sort_ascending(values, count);
    double last = (double)(count - 1);
    return (struct spread){
        .median = values[(count - 1) / 2], .low = values[lround(0.1 * last)], .high = values[lround(0.9 * last)]};
}

/* What is taken from each iteration, `n` numbers of each kind. */
struct series {
    double *values; /* [number][iteration] */
    size_t n, iterations;
};

static struct series series_make(size_t n, size_t iterations)
{
    return (struct series){memory_zeroed(n * iterations, sizeof(double)), n, iterations};
}

static void series_set(struct series *series, size_t number, size_t iteration, double value)
{
    series->values[number * series->iterations + iteration] = value;
}

static struct spread series_spread(struct series *series, size_t number)
{
    return spread_of(series->values + number * series->iterations, series->iterations);
}

/* ---- one run ---- */

static double local_seconds(const struct program *program, const struct moment *moments)
{
    double seconds = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (!op_is_message(&program->ops[i]))
            seconds += moments[i].end - moments[i].move;
    return seconds;
}

/* Seconds between the last operations of the first rank to finish a phase and of the last; ranks without any aside. */
static double phase_skew(const struct program *programs, const struct timeline *timeline, int phase)
{
    double first = INFINITY, last = -INFINITY;
    for (uint32_t r = 0; r < timeline->n_instances; r++) {
        double end = -INFINITY;
        for (uint32_t i = phase ? programs[r].phase_end[phase - 1] : 0; i < programs[r].phase_end[phase]; i++)
            end = fmax(end, timeline->moments[r][i].end);
        if (end >= 0) {
            first = fmin(first, end);
            last = fmax(last, end);
        }
    }
    return last > first ? last - first : 0;
}

/* ---- all runs ---- */

struct measuring {
    const struct measure_settings *settings;
    struct measurement *out;
    struct diagnostics *diag;
    const struct program *programs;
    uint32_t n_runs;           /* of an iteration */
    struct hardware_run *runs; /* [iteration], of RUN_ALL, traced */
    struct series steps[N_RUNS], computes[N_RUNS], phases, skews;
    struct gpu_watches *watches; /* of the GPUs of this process */
    uint32_t done, planned;      /* runs */
};

static void show_progress(struct measuring *m)
{
    if (m->settings->progress)
        m->settings->progress(m->settings->progress_context, (double)m->done / m->planned);
}

static bool is_bare(const struct measuring *m, uint32_t kind)
{
    return m->n_runs > N_BARE && kind < N_BARE;
}

/* The traced kind of a mode. */
static uint32_t traced(const struct measuring *m, enum run_mode mode)
{
    return (m->n_runs > N_BARE ? N_BARE : 0) + (uint32_t)mode;
}

static bool run_once(struct measuring *m, uint32_t kind, bool verify, struct hardware_run *run)
{
    show_progress(m);
    m->done++;
    const struct hardware_step step = {
        .mode = run_modes[kind], .seed = m->out->seed, .verify = verify, .bare = is_bare(m, kind)};
    bool good = hardware_run(m->settings->hardware, &step, run, m->diag);
    for (uint32_t r = 0; run->timeline.moments && r < run->n_ranks; r++)
        m->out->clock_error_seconds = fmax(m->out->clock_error_seconds, run->ranks[r].clock_error_seconds);
    return good;
}

/* On an asynchronous backend, once without messages: what is taken for the first time then is there, memory above all,
 * before kernels of a communication library run that wait for other ranks. To take it may be to wait for those. */
static bool run_without_messages(struct measuring *m)
{
    struct hardware_run run;
    if (!m->out->asynchronous)
        return true;
    bool good = run_once(m, traced(m, RUN_COMPUTE), false, &run);
    hardware_run_fini(&run);
    return good;
}

/* A wrong result does not end the measurement; a rank that fails does. */
static bool run_verified(struct measuring *m)
{
    struct hardware_run run;
    bool good = run_once(m, traced(m, RUN_ALL), true, &run);
    m->out->verification = run.verification;
    hardware_run_fini(&run);
    return good || m->out->verification.kind != CHECK_NONE;
}

static bool warm_up(struct measuring *m)
{
    bool good = true;
    for (uint32_t i = 0; i < m->out->warmup; i++) {
        for (uint32_t kind = 0; kind < m->n_runs && good; kind++) {
            struct hardware_run run;
            good = run_once(m, kind, false, &run);
            hardware_run_fini(&run);
        }
    }
    return good;
}

static void take_times(struct measuring *m, uint32_t kind, uint32_t iteration, const struct hardware_run *run)
{
    const double *phase_end = run->timeline.phase_end;
    series_set(&m->steps[kind], 0, iteration, phase_end[PHASE_COUNT - 1]);
    for (uint32_t r = 0; r < run->n_ranks && !is_bare(m, kind); r++)
        series_set(&m->computes[kind], r, iteration, local_seconds(&m->programs[r], run->timeline.moments[r]));
    for (int phase = 0; phase < PHASE_COUNT && kind == RUN_ALL; phase++)
        series_set(&m->phases, (size_t)phase, iteration, phase_end[phase] - (phase ? phase_end[phase - 1] : 0));
    for (int phase = 0; phase < PHASE_COUNT && kind == traced(m, RUN_ALL); phase++)
        series_set(&m->skews, (size_t)phase, iteration, phase_skew(m->programs, &run->timeline, phase));
}

static bool iterate(struct measuring *m, uint32_t iteration)
{
    bool good = true;
    gpu_watches_sample(m->watches);
    for (uint32_t turn = 0; turn < m->n_runs && good; turn++) {
        uint32_t kind = (iteration + turn) % m->n_runs;
        struct hardware_run passing, *run = kind == traced(m, RUN_ALL) ? &m->runs[iteration] : &passing;
        good = run_once(m, kind, false, run);
        if (good)
            take_times(m, kind, iteration, run);
        if (run == &passing)
            hardware_run_fini(&passing);
    }
    return good;
}

/* ---- what it adds up to ---- */

static bool has_messages(const struct measuring *m)
{
    for (uint32_t r = 0; r < m->out->n_ranks; r++)
        for (uint32_t i = 0; i < m->programs[r].n_ops; i++)
            if (op_is_message(&m->programs[r].ops[i]))
                return true;
    return false;
}

static double width(struct spread spread)
{
    return spread.high - spread.low;
}

/* Sets overlap_efficiency too; `least` is what there is to hide. */
static enum overlap_verdict judge_overlap(struct measurement *m, double least)
{
    m->overlap_efficiency = 0;
    if (!(least > 0))
        return OVERLAP_NOTHING;
    double noise = fmax(width(m->step), fmax(width(m->compute_only), width(m->messages_only))) / least;
    double efficiency = (m->compute_only.median + m->messages_only.median - m->step.median) / least;
    m->overlap_efficiency = fmin(1, fmax(0, efficiency));
    if (m->iterations == 1)
        return OVERLAP_ONE_ITERATION;
    if (noise >= 1)
        return OVERLAP_NOISE;
    return fabs(efficiency - m->overlap_efficiency) > noise ? OVERLAP_CONTRADICTED : OVERLAP_RESOLVED;
}

static void add_up_modes(struct measuring *m)
{
    struct measurement *out = m->out;
    double both = out->step.median, compute = out->compute_only.median, messages = out->messages_only.median;
    double least = has_messages(m) ? fmin(compute, messages) : 0, beside = 0, alone = 0;
    out->exposed_seconds = fmax(0, both - compute);
    out->overlap = judge_overlap(out, least);
    for (uint32_t r = 0; r < out->n_ranks; r++) {
        beside += out->rank_compute[r].median;
        alone += out->rank_compute_only[r].median;
    }
    out->contention = alone > 0 ? beside / alone : 1;
}

static void add_up(struct measuring *m)
{
    struct measurement *out = m->out;
    struct series *all = &m->steps[traced(m, RUN_ALL)];
    uint32_t chosen = 0;
    double *steps = memory_zeroed(out->iterations, sizeof *steps);
    memcpy(steps, all->values, out->iterations * sizeof *steps);
    out->traced = series_spread(all, 0);
    while (steps[chosen] < out->traced.median || steps[chosen] > out->traced.median)
        chosen++;
    free(steps);
    out->step = series_spread(&m->steps[RUN_ALL], 0);
    out->tracing_overhead = out->step.median > 0 ? out->traced.median / out->step.median - 1 : 0;
    out->run = m->runs[chosen];
    m->runs[chosen] = (struct hardware_run){0};
    out->compute_only = series_spread(&m->steps[RUN_COMPUTE], 0);
    out->messages_only = series_spread(&m->steps[RUN_MESSAGES], 0);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        out->phases[phase] = series_spread(&m->phases, (size_t)phase);
        out->skew[phase] = series_spread(&m->skews, (size_t)phase);
    }
    for (uint32_t r = 0; r < out->n_ranks; r++) {
        out->rank_compute[r] = series_spread(&m->computes[traced(m, RUN_ALL)], r);
        out->rank_compute_only[r] = series_spread(&m->computes[traced(m, RUN_COMPUTE)], r);
    }
    add_up_modes(m);
}

/* ---- beginning and end ---- */

/* What each process says of itself. */
struct introduction {
    struct machine machine;
    bool seed_given;
    uint64_t seed;
    uint32_t iterations, warmup;
};

/* Small enough to be typed again. */
static uint64_t draw_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint32_t)(seconds_now() * 1e6);
    return seed;
}

/* Ranks that do not run the same number of times would wait for each other; of seeds only one can be used. */
static bool check_introductions(const struct introduction *all, uint32_t ranks, struct diagnostics *diag)
{
    bool fine = true;
    for (uint32_t r = 1; r < ranks; r++) {
        bool same_seed = all[r].seed_given == all[0].seed_given && (!all[r].seed_given || all[r].seed == all[0].seed);
        const char *differs = all[r].iterations != all[0].iterations ? "number of iterations"
                              : all[r].warmup != all[0].warmup       ? "number of warm-up iterations"
                              : !same_seed                           ? "seed"
                                                                     : NULL;
        if (differs)
            fine = diagnostics_add(diag, "rank %" PRIu32 " on host '%s' was given another %s than rank 0 on host '%s'",
                                   r, all[r].machine.host, differs, all[0].machine.host);
    }
    return fine;
}

static bool is_one_process(const struct measuring *m)
{
    return !hardware_transport(m->settings->hardware)->one_rank_a_process;
}

/* The first rank of this process. */
static uint32_t own_rank(const struct measuring *m)
{
    return hardware_first_rank(m->settings->hardware);
}

/* What a rank of this process computes on, if that is a GPU. */
static bool read_gpu(struct measuring *m, uint32_t rank, struct machine *machine)
{
    char reason[256];
    int device = hardware_device(m->settings->hardware, rank);
    return device < 0 || machine_gpu_read(&machine->gpu, device, reason, sizeof reason) ||
           diagnostics_add(m->diag, "GPU %d of host '%s': %s", device, machine->host, reason);
}

/* On GPUs the cores only queue what there is to do. */
static bool is_oversubscribed(const struct measuring *m)
{
    const struct measurement *out = m->out;
    if (hardware_compute(m->settings->hardware)->queues)
        return machine_gpu_is_shared(out->machines, out->n_ranks) && !hardware_is_serial(m->settings->hardware);
    return machine_is_oversubscribed(out->machines, out->n_ranks);
}

/* Begins to watch the GPUs of this process. */
static void watch_gpus(struct measuring *m)
{
    bool all = is_one_process(m);
    m->watches = gpu_watches_create(m->out->machines + (all ? 0 : own_rank(m)), all ? m->out->n_ranks : 1);
}

/* What was seen of them, and of those of the other processes. */
static bool record_gpus(struct measuring *m)
{
    struct gpu_record mine;
    gpu_watches_sample(m->watches);
    if (is_one_process(m)) {
        gpu_watches_record(m->watches, m->out->gpus);
        return true;
    }
    gpu_watches_record(m->watches, &mine);
    return hardware_gather(m->settings->hardware, &mine, sizeof mine, m->out->gpus, m->diag);
}

static bool introduce(struct measuring *m)
{
    struct measurement *out = m->out;
    struct introduction mine = {.seed_given = m->settings->seed_given,
                                .seed = m->settings->seed_given ? m->settings->seed : draw_seed(),
                                .iterations = out->iterations,
                                .warmup = out->warmup};
    machine_read(&mine.machine);
    bool one_process = is_one_process(m), able = one_process || read_gpu(m, own_rank(m), &mine.machine);
    struct introduction *all = memory_zeroed(out->n_ranks, sizeof *all);
    bool good = hardware_gather(m->settings->hardware, &mine, sizeof mine, all, m->diag) && able;
    for (uint32_t r = 0; r < out->n_ranks; r++) {
        out->machines[r] = all[r].machine;
        good = good && (!one_process || read_gpu(m, r, &out->machines[r]));
    }
    out->seed = all[0].seed;
    out->refused = good && !check_introductions(all, out->n_ranks, m->diag);
    free(all);
    if (!good || out->refused)
        return false;
    out->cores = machine_cores(out->machines, out->n_ranks);
    out->oversubscribed = is_oversubscribed(m);
    out->refused = !memory_need_check(m->settings->schedule, m->programs, out->machines, one_process, m->diag);
    return !out->refused;
}

static void make_room(struct measuring *m)
{
    struct measurement *out = m->out;
    out->machines = memory_zeroed(out->n_ranks, sizeof *out->machines);
    out->gpus = memory_zeroed(out->n_ranks, sizeof *out->gpus);
    out->rank_compute = memory_zeroed(out->n_ranks, sizeof *out->rank_compute);
    out->rank_compute_only = memory_zeroed(out->n_ranks, sizeof *out->rank_compute_only);
    m->runs = memory_zeroed(out->iterations, sizeof *m->runs);
    m->phases = series_make(PHASE_COUNT, out->iterations);
    m->skews = series_make(PHASE_COUNT, out->iterations);
    for (uint32_t kind = 0; kind < m->n_runs; kind++) {
        m->steps[kind] = series_make(1, out->iterations);
        m->computes[kind] = series_make(out->n_ranks, out->iterations);
    }
}

static void clear_room(struct measuring *m)
{
    for (uint32_t i = 0; i < m->out->iterations; i++)
        hardware_run_fini(&m->runs[i]);
    free(m->runs);
    free(m->phases.values);
    free(m->skews.values);
    for (uint32_t kind = 0; kind < m->n_runs; kind++) {
        free(m->steps[kind].values);
        free(m->computes[kind].values);
    }
}

bool measure(struct measurement *measurement, const struct measure_settings *settings, struct diagnostics *diag)
{
    *measurement = (struct measurement){
        .iterations = settings->iterations, .warmup = settings->warmup, .n_ranks = hardware_ranks(settings->hardware)};
    struct measuring m = {
        .settings = settings,
        .out = measurement,
        .diag = diag,
        .programs = hardware_programs(settings->hardware),
    };
    measurement->asynchronous = hardware_compute(settings->hardware)->queues != NULL;
    measurement->composed = hardware_is_serial(settings->hardware);
    m.n_runs = measurement->asynchronous && !measurement->composed ? N_RUNS : N_BARE;
    m.planned = 1 + measurement->asynchronous + m.n_runs * (settings->warmup + settings->iterations);
    make_room(&m);
    bool good = introduce(&m) && run_without_messages(&m) && run_verified(&m) && warm_up(&m);
    if (good)
        watch_gpus(&m);
    for (uint32_t i = 0; i < settings->iterations && good; i++)
        good = iterate(&m, i);
    good = good && record_gpus(&m);
    gpu_watches_destroy(m.watches);
    if (good)
        add_up(&m);
    clear_room(&m);
    return good;
}

void measurement_fini(struct measurement *measurement)
{
    hardware_run_fini(&measurement->run);
    free(measurement->machines);
    free(measurement->gpus);
    free(measurement->rank_compute);
    free(measurement->rank_compute_only);
    *measurement = (struct measurement){0};
}

struct measured_times measurement_times(const struct measurement *m)
{
    bool is_number = m->overlap == OVERLAP_RESOLVED || m->overlap == OVERLAP_NOTHING;
    return (struct measured_times){
        .seconds = m->step.median,
        .seconds_low = m->step.low,
        .seconds_high = m->step.high,
        .forward_seconds = m->phases[PHASE_FORWARD].median,
        .backward_seconds = m->phases[PHASE_BACKWARD].median,
        .exposed_seconds = m->exposed_seconds,
        .overlap_efficiency = is_number ? m->overlap_efficiency : (double)NAN,
    };
}

static bool same_traffic(const struct wire_count *wire, const struct rank_report *rank)
{
    uint64_t sent = 0, received = 0;
    for (int kind = 0; kind < TRAFFIC_COUNT; kind++) {
        sent += wire->sent_messages[kind];
        received += wire->received_messages[kind];
    }
    return sent == rank->messages_sent && received == rank->messages_received &&
           memcmp(wire->sent_bytes, rank->sent_bytes_by_kind, sizeof wire->sent_bytes) == 0 &&
           memcmp(wire->received_bytes, rank->received_bytes_by_kind, sizeof wire->received_bytes) == 0;
}

bool measure_check_account(const struct measurement *measurement, const struct report *report, struct diagnostics *diag)
{
    bool fine = true;
    for (uint32_t r = 0; r < measurement->n_ranks; r++) {
        const struct rank_result *counted = &measurement->run.ranks[r];
        const struct rank_report *expected = &report->ranks[r];
        if (counted->peak_bytes != expected->peak_bytes)
            fine = diagnostics_add(
                diag, "rank %" PRIu32 " took %" PRIu64 " bytes of memory at most, but its program %" PRIu64, r,
                counted->peak_bytes, expected->peak_bytes);
        if (!same_traffic(&counted->wire, expected))
            fine = diagnostics_add(diag, "rank %" PRIu32 " sent or received other messages than its program has", r);
    }
    return fine;
}
