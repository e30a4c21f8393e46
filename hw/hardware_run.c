/* hardware_run.c - runs the executors of this process and brings all ranks' results together in every process. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/clock.h"
#include "hw/hardware_parts.h"
#include "hw/run/composed_timeline.h"
#include "hw/run/measured_timeline.h"
#include "hw/run/rank_threads.h"
#include "hw/verify/verify_layer.h"
#include "models/base/memory.h"

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
    for (uint32_t r = 0; r < hw->ranks; r++)
        most = hw->programs[r].n_ops > most ? hw->programs[r].n_ops : most;
    return sizeof(struct parcel) + most * sizeof(struct moment);
}

/* `mine` has one parcel for each rank of this process; the result one for each rank. NULL when a rank has failed. */
static char *exchange(struct hardware *hw, const char *mine, size_t bytes)
{
    char *all = memory_zeroed(hw->ranks, bytes);
    if (!hw->transport->one_rank_a_process) {
        memcpy(all, mine, hw->ranks * bytes);
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
    memcpy(all, gathered, hw->ranks * bytes);
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

static void verify_layers(const struct hardware *hw, const struct verify_input *input,
                          struct verification *verification)
{
    struct layers_place *places = memory_zeroed(hw->n_ends, sizeof *places);
    for (uint32_t e = 0; e < hw->n_ends; e++)
        places[e] = rank_programs_place(hw->schedule, hw->first_rank + e);
    verify_layer(input, places, verification);
    free(places);
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
    if (schedule->experiment->step.scope != SCOPE_ATTENTION) {
        verify_layers(hw, &input, verification);
        free(outputs);
        return true;
    }
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
    uint32_t ranks = hw->ranks;
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
    uint32_t ranks = hw->ranks;
    struct rank_record *records = memory_zeroed(ranks, sizeof *records);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct parcel *parcel = (const struct parcel *)(const void *)(all + r * bytes);
        records[r] = parcel->record;
        records[r].moments = (struct moment *)(parcel + 1); /* read only */
        run->ranks[r].peak_bytes = parcel->record.peak_bytes;
        run->ranks[r].clock_error_seconds +=
            parcel->record.clock_error_seconds + (r ? records[0].clock_error_seconds : 0);
        run->ranks[r].wire = parcel->record.wire;
        if (r == 0)
            run->verification = parcel->verification;
        else if (hw->transport->one_rank_a_process) /* else all parcels have that of the process */
            verification_join(&run->verification, &parcel->verification);
    }
    run->composed = hw->settings.serial;
    if (run->composed)
        composed_timeline(&run->timeline, hw->programs, ranks, hw->execution, records, step->mode);
    else
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
    double *offsets = memory_zeroed(hw->ranks, sizeof *offsets);
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
    uint32_t ranks = hw->ranks;
    *run = (struct hardware_run){.ranks = memory_zeroed(ranks, sizeof *run->ranks), .n_ranks = ranks};
    bool verifies = step->verify && step->mode == RUN_ALL;
    struct worker *workers = memory_zeroed(hw->n_ends, sizeof *workers);
    for (uint32_t e = 0; e < hw->n_ends; e++) {
        workers[e] = (struct worker){.hw = hw};
        workers[e].step = (struct executor_step){.mode = step->mode,
                                                 .seed = step->seed,
                                                 .poison = verifies,
                                                 .bare = step->bare,
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
