/* hardware.c - opens transport and backend, runs the executors, and brings their results together in every process. */
#include "hw/hardware.h"

#include <stdlib.h>
#include <string.h>

#include "hw/agreement.h"
#include "hw/clock.h"
#include "hw/layout.h"
#include "hw/run/measured_timeline.h"
#include "hw/run/rank_threads.h"
#include "models/base/memory.h"
#include "models/schedule/checker.h"

struct hardware {
    const struct schedule *schedule;
    double stall_seconds;
    const struct transport_ops *transport;
    const struct compute_ops *compute_ops;
    struct transport **ends;
    uint32_t n_ends, first_rank;
    struct compute **computes;   /* [n_ends] */
    struct executor **executors; /* [n_ends] */
    enum collective_mode collectives;
    struct collective_plan plan;
    struct rank_calls **calls; /* [n_ends]; NULL: collectives are messages */
    struct program *programs;  /* of all ranks */
    struct execution *execution;
};

/* ---- opening ---- */

/* Plans the calls of collectives, or finds that they are to be messages. */
static bool plan_collectives(struct hardware *hw, struct diagnostics *diag)
{
    bool has_calls = hw->transport->post_collective != NULL;
    if (hw->collectives == COLLECTIVES_LIBRARY && !has_calls)
        return diagnostics_add(diag, "transport '%s' has no collectives of its own, expected --collectives messages",
                               hw->transport->name);
    bool good = collective_plan_init(&hw->plan, hw->schedule, hw->programs, diag);
    if (good && hw->collectives != COLLECTIVES_DEFAULT && collective_plan_is_empty(&hw->plan))
        return diagnostics_add(diag, "--collectives has no effect: the programs of '%s' have no collectives",
                               hw->schedule->experiment->algorithm);
    hw->calls =
        has_calls && hw->collectives != COLLECTIVES_MESSAGES ? memory_zeroed(hw->n_ends, sizeof *hw->calls) : NULL;
    return good;
}

static bool open_ranks(struct hardware *hw, struct diagnostics *diag)
{
    bool good = checker_check(hw->schedule, hw->programs, diag);
    for (uint32_t r = 0; r < hw->schedule->ranks && good; r++)
        good = layout_check(hw->schedule, &hw->programs[r], diag);
    if (good)
        good = (hw->execution = execution_create(hw->programs, hw->schedule->ranks, 1, diag)) != NULL;
    good = good && plan_collectives(hw, diag);
    for (uint32_t e = 0; e < hw->n_ends && good; e++) {
        uint32_t rank = hw->first_rank + e;
        hw->computes[e] = hw->compute_ops->open(hw->schedule, rank, diag);
        good = hw->computes[e] != NULL;
        if (!good)
            break;
        hw->executors[e] = executor_create(hw->schedule, &hw->programs[rank], hw->compute_ops, hw->computes[e],
                                           hw->transport, hw->ends[e]);
        if (hw->calls)
            hw->calls[e] = rank_calls_create(&hw->plan, rank, executor_order(hw->executors[e]), diag);
        good = !hw->calls || hw->calls[e];
    }
    return good;
}

/* All processes are able and willing: now they may meet in calls that wait for each other. */
static void open_teams(struct hardware *hw)
{
    for (uint32_t e = 0; e < hw->n_ends && hw->calls; e++) {
        rank_calls_open(hw->calls[e], hw->transport, hw->ends[e]);
        executor_use_calls(hw->executors[e], hw->calls[e]);
    }
}

/* Compares notes with the other processes; `own` is what keeps this one. */
static bool agree(struct hardware *hw, uint32_t ranks, const struct diagnostics *own, struct diagnostics *diag)
{
    const struct agreement_side side = {
        .transport = hw->transport,
        .end = hw->ends[0],
        .ranks = ranks,
        .experiment = hw->schedule ? hw->schedule->experiment : NULL,
        .compute = hw->compute_ops ? hw->compute_ops->name : NULL,
        .collectives = (int)hw->collectives,
        .own = own,
    };
    return agreement_reach(&side, diag);
}

static bool open_all(struct hardware *hw, struct diagnostics *diag)
{
    uint32_t ranks = hw->schedule->ranks;
    if (!hw->transport->open(ranks, hw->schedule->place_of_rank, hw->ends, &hw->n_ends, &hw->first_rank, diag))
        return false;
    hw->computes = memory_zeroed(hw->n_ends, sizeof *hw->computes);
    hw->executors = memory_zeroed(hw->n_ends, sizeof *hw->executors);
    hw->programs = schedule_build_all(hw->schedule);
    struct diagnostics own;
    diagnostics_init(&own);
    bool good;
    if (hw->transport->one_rank_a_process) {
        open_ranks(hw, &own);
        good = agree(hw, ranks, &own, diag);
    } else {
        good = open_ranks(hw, diag);
    }
    diagnostics_fini(&own);
    if (good)
        open_teams(hw);
    return good;
}

bool hardware_open(struct hardware **hardware, const struct hardware_settings *settings, struct diagnostics *diag)
{
    const struct schedule *schedule = settings->schedule;
    *hardware = NULL;
    const struct transport_ops *transport = transport_choose(settings->transport, schedule->ranks, diag);
    if (!transport)
        return false;
    struct hardware *hw = *hardware = memory_zeroed(1, sizeof *hw);
    hw->schedule = schedule;
    hw->stall_seconds = settings->stall_seconds > 0 ? settings->stall_seconds : STALL_SECONDS;
    hw->transport = transport;
    hw->collectives = settings->collectives;
    hw->compute_ops = settings->compute ? settings->compute : computes[0];
    hw->ends = memory_zeroed(schedule->ranks, sizeof *hw->ends);
    return open_all(hw, diag);
}

void hardware_close(struct hardware *hw)
{
    if (!hw)
        return;
    hw->transport->close(hw->ends, hw->n_ends); /* first: after a failure messages may still come into the buffers */
    for (uint32_t e = 0; e < hw->n_ends && hw->executors; e++)
        executor_destroy(hw->executors[e]);
    for (uint32_t e = 0; e < hw->n_ends && hw->calls; e++)
        rank_calls_destroy(hw->calls[e]);
    collective_plan_fini(&hw->plan);
    free(hw->calls);
    for (uint32_t e = 0; e < hw->n_ends && hw->computes; e++)
        hw->compute_ops->close(hw->computes[e]);
    execution_destroy(hw->execution);
    schedule_free_programs(hw->schedule, hw->programs);
    free(hw->computes);
    free(hw->executors);
    free(hw->ends);
    free(hw);
}

void hardware_refuse(struct hardware **hardware, struct diagnostics *diag)
{
    *hardware = NULL;
    uint32_t ranks = transport_launched();
    struct diagnostics heard;
    diagnostics_init(&heard);
    const struct transport_ops *transport = ranks > 1 ? transport_choose(NULL, ranks, &heard) : NULL;
    if (transport) {
        struct hardware *hw = *hardware = memory_zeroed(1, sizeof *hw);
        hw->transport = transport;
        hw->ends = memory_zeroed(ranks, sizeof *hw->ends);
        if (transport->open(ranks, NULL, hw->ends, &hw->n_ends, &hw->first_rank, &heard) &&
            !agree(hw, ranks, diag, &heard) && heard.count) {
            diagnostics_fini(diag);
            *diag = heard;
            return;
        }
    }
    diagnostics_fini(&heard);
}

bool hardware_speaks(const struct hardware *hw)
{
    return !hw || hw->first_rank == 0;
}

const struct program *hardware_programs(const struct hardware *hw)
{
    return hw->programs;
}

const struct execution *hardware_execution(const struct hardware *hw)
{
    return hw->execution;
}

const struct transport_ops *hardware_transport(const struct hardware *hw)
{
    return hw->transport;
}

const struct compute_ops *hardware_compute(const struct hardware *hw)
{
    return hw->compute_ops;
}

const char *hardware_collectives(const struct hardware *hw)
{
    return collective_plan_is_empty(&hw->plan) ? "none" : hw->calls ? "library" : "messages";
}

/* ---- running ---- */

/* One rank of this process in a run. */
struct worker {
    struct hardware *hw;
    struct executor_step step;
    struct outputs outputs;
};

static bool work(void *context, uint32_t end)
{
    const struct worker *worker = (const struct worker *)context + end;
    return executor_run(worker->hw->executors[end], &worker->step);
}

/* ---- results of all ranks ---- */

/* A rank's results as they travel between processes, followed by its moments. */
struct parcel {
    struct rank_record record; /* its pointer means nothing elsewhere */
    struct verification verification;
};

static size_t parcel_bytes(const struct hardware *hw)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < hw->schedule->ranks; r++)
        most = hw->programs[r].n_ops > most ? hw->programs[r].n_ops : most;
    return sizeof(struct parcel) + most * sizeof(struct moment);
}

/* `mine` has one parcel for each rank of this process; the result one for each rank. NULL when a rank has failed. */
static char *exchange(struct hardware *hw, const char *mine, size_t bytes)
{
    char *all = memory_zeroed(hw->schedule->ranks, bytes);
    if (!hw->transport->one_rank_a_process) {
        memcpy(all, mine, hw->schedule->ranks * bytes);
    } else if (!hw->transport->all_gather(hw->ends[0], mine, bytes, all)) {
        free(all);
        all = NULL;
    }
    return all;
}

bool hardware_gather(struct hardware *hw, const void *mine, size_t bytes, void *all, struct diagnostics *diag)
{
    char *parcels = memory_zeroed(hw->n_ends, bytes);
    for (uint32_t e = 0; e < hw->n_ends; e++)
        memcpy(parcels + e * bytes, mine, bytes);
    char *gathered = exchange(hw, parcels, bytes);
    free(parcels);
    if (!gathered)
        return transport_complain(hw->transport, hw->ends[0], diag);
    memcpy(all, gathered, hw->schedule->ranks * bytes);
    free(gathered);
    return true;
}

/* Queries times lanes of a rank. */
static size_t queries_count(const struct schedule *schedule, uint32_t rank)
{
    struct lanes lanes = schedule_query_lanes(schedule, rank);
    return (size_t)schedule_queries(schedule, rank).count * lanes.items * lanes.heads;
}

/* Copies a rank's rows, of one number a lane, to where they are by position. */
static void place_rows(const struct schedule *schedule, uint32_t rank, const float *rows, float *whole)
{
    struct block block = schedule_queries(schedule, rank);
    struct lanes lanes = schedule_query_lanes(schedule, rank);
    size_t all = (size_t)schedule->experiment->batch * schedule->q_heads;
    size_t heads = (size_t)lanes.items * schedule->q_heads, first = (size_t)lanes.item * schedule->q_heads;
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(&schedule->sharding, block, spans);
    for (uint32_t s = 0; s < n_spans; s++)
        for (uint64_t i = 0; i < spans[s].count; i++, rows += heads)
            memcpy(whole + (spans[s].first + i * spans[s].stride) * all + first, rows, heads * sizeof *rows);
}

/* LSE and delta of all ranks, by position: what samples of dK and dV need. `whole` gets two arrays behind each other.
 */
static bool gather_rows(struct hardware *hw, const struct worker *workers, uint64_t seed, float **whole)
{
    const struct schedule *schedule = hw->schedule;
    size_t lanes = (size_t)schedule->experiment->batch * schedule->q_heads, width = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        size_t count = queries_count(schedule, r);
        width = count > width ? count : width;
    }
    size_t bytes = 2 * width * sizeof(float);
    char *mine = memory_zeroed(hw->n_ends, bytes);
    for (uint32_t e = 0; e < hw->n_ends; e++) {
        uint32_t rank = hw->first_rank + e;
        size_t count = queries_count(schedule, rank);
        float *delta = verify_delta(schedule, seed, rank, workers[e].outputs.tensors[OUTPUT_O]);
        memcpy(mine + e * bytes, workers[e].outputs.tensors[OUTPUT_LSE], count * sizeof(float));
        memcpy(mine + e * bytes + width * sizeof(float), delta, count * sizeof(float));
        free(delta);
    }
    char *all = exchange(hw, mine, bytes);
    free(mine);
    if (!all)
        return false;
    size_t rows = schedule->experiment->seq_len;
    *whole = memory_zeroed(2 * rows * lanes, sizeof **whole);
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        const float *lse = (const float *)(const void *)(all + r * bytes);
        place_rows(schedule, r, lse, *whole);
        place_rows(schedule, r, lse + width, *whole + rows * lanes);
    }
    free(all);
    return true;
}

static bool verify(struct hardware *hw, const struct worker *workers, const struct hardware_step *step,
                   struct verification *verification)
{
    const struct schedule *schedule = hw->schedule;
    struct outputs *outputs = memory_zeroed(hw->n_ends, sizeof *outputs);
    for (uint32_t e = 0; e < hw->n_ends; e++)
        outputs[e] = workers[e].outputs;
    float *rows = NULL;
    struct verify_input input = {.schedule = schedule,
                                 .programs = hw->programs,
                                 .seed = step->seed,
                                 .first_rank = hw->first_rank,
                                 .n_ranks = hw->n_ends,
                                 .outputs = outputs,
                                 .sampled = verify_is_sampled(schedule)};
    bool good = !input.sampled || !schedule->experiment->train || gather_rows(hw, workers, step->seed, &rows);
    if (rows) {
        input.all_lse = rows;
        input.all_delta = rows + schedule->experiment->seq_len * schedule->experiment->batch * schedule->q_heads;
    }
    if (good)
        verify_ranks(&input, verification);
    free(rows);
    free(outputs);
    return good;
}

static bool find_offsets(struct hardware *hw, double *offsets, struct hardware_run *run)
{
    uint32_t ranks = hw->schedule->ranks;
    if (!hw->transport->one_rank_a_process)
        return true;
    struct clock_offset *clocks = memory_zeroed(ranks, sizeof *clocks);
    bool good = clock_offsets(hw->transport, hw->ends[0], hw->first_rank, ranks, false, clocks);
    for (uint32_t r = 0; r < ranks; r++) {
        offsets[r] = clocks[r].seconds;
        run->ranks[r].clock_error_seconds = clocks[r].error_seconds;
    }
    free(clocks);
    return good;
}

static void unpack(struct hardware *hw, const char *all, size_t bytes, const struct hardware_step *step,
                   const double *offsets, struct hardware_run *run)
{
    uint32_t ranks = hw->schedule->ranks;
    struct rank_record *records = memory_zeroed(ranks, sizeof *records);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct parcel *parcel = (const struct parcel *)(const void *)(all + r * bytes);
        records[r] = parcel->record;
        records[r].moments = (struct moment *)(parcel + 1); /* read only */
        run->ranks[r].peak_bytes = parcel->record.peak_bytes;
        run->ranks[r].wire = parcel->record.wire;
        if (r == 0)
            run->verification = parcel->verification;
        else if (hw->transport->one_rank_a_process) /* else all parcels have that of the process */
            verification_join(&run->verification, &parcel->verification);
    }
    measured_timeline(&run->timeline, hw->programs, ranks, hw->execution, records, offsets, step->mode);
    free(records);
}

static bool collect(struct hardware *hw, const struct worker *workers, const struct hardware_step *step,
                    struct hardware_run *run)
{
    size_t bytes = parcel_bytes(hw);
    struct verification verification = {.kind = CHECK_NONE};
    if (workers[0].step.outputs && !verify(hw, workers, step, &verification))
        return false;
    double *offsets = memory_zeroed(hw->schedule->ranks, sizeof *offsets);
    char *mine = memory_zeroed(hw->n_ends, bytes), *all = NULL;
    for (uint32_t e = 0; e < hw->n_ends; e++) {
        struct parcel *parcel = (struct parcel *)(void *)(mine + e * bytes);
        *parcel = (struct parcel){*executor_record(hw->executors[e]), verification};
        memcpy(parcel + 1, parcel->record.moments,
               hw->programs[hw->first_rank + e].n_ops * sizeof *parcel->record.moments);
    }
    if (find_offsets(hw, offsets, run) && (all = exchange(hw, mine, bytes)))
        unpack(hw, all, bytes, step, offsets, run);
    bool good = all;
    free(offsets);
    free(mine);
    free(all);
    return good;
}

bool hardware_run(struct hardware *hw, const struct hardware_step *step, struct hardware_run *run,
                  struct diagnostics *diag)
{
    uint32_t ranks = hw->schedule->ranks;
    *run = (struct hardware_run){.ranks = memory_zeroed(ranks, sizeof *run->ranks), .n_ranks = ranks};
    bool verifies = step->verify && step->mode == RUN_ALL;
    struct worker *workers = memory_zeroed(hw->n_ends, sizeof *workers);
    for (uint32_t e = 0; e < hw->n_ends; e++) {
        workers[e] = (struct worker){.hw = hw};
        workers[e].step = (struct executor_step){.mode = step->mode,
                                                 .seed = step->seed,
                                                 .poison = verifies,
                                                 .stall_seconds = hw->stall_seconds,
                                                 .outputs = verifies ? &workers[e].outputs : NULL};
    }
    bool good =
        (rank_threads_run(hw->transport, hw->ends, hw->n_ends, work, workers) && collect(hw, workers, step, run)) ||
        transport_complain(hw->transport, hw->ends[0], diag);
    for (uint32_t e = 0; e < hw->n_ends; e++)
        outputs_fini(&workers[e].outputs);
    free(workers);
    return good && (run->verification.kind == CHECK_NONE || verification_judge(&run->verification, diag));
}

void hardware_run_fini(struct hardware_run *run)
{
    timeline_fini(&run->timeline);
    free(run->ranks);
    *run = (struct hardware_run){0};
}
