/* recorder.c - the end of an activity, for all who need to know: timeline, execution, progress. */
#include "sim/recorder.h"

#include <assert.h>
#include <string.h>

void recorder_init(struct recorder *recorder, const struct simulation *simulation, struct timeline *timeline)
{
    *recorder = (struct recorder){
        .simulation = simulation, .execution = execution_of(simulation->ensemble), .timeline = timeline};
    if (!timeline->moments)
        timeline_of(timeline, simulation->ensemble);
    for (uint32_t i = 0; i < simulation->ensemble->n_instances; i++)
        recorder->operations += ensemble_program(simulation->ensemble, i)->n_ops;
}

void recorder_fini(struct recorder *recorder)
{
    execution_destroy(recorder->execution);
}

static void note(struct recorder *recorder, struct activity activity, struct moment moment)
{
    const struct program *program = execution_program(recorder->execution, activity.instance);
    struct timeline *timeline = recorder->timeline;
    uint32_t replica = recorder->simulation->ensemble->instances[activity.instance].replica;
    double *phases = timeline->replica_end ? timeline->replica_end[replica] : timeline->phase_end;
    double *phase_end = &phases[program_phase(program, activity.op)];
    timeline->moments[activity.instance][activity.op] = moment;
    if (*phase_end < moment.end)
        *phase_end = moment.end;
    recorder->finished++;
}

void recorder_show_progress(struct recorder *recorder)
{
    const struct simulation *simulation = recorder->simulation;
    if (!recorder_has_progress(recorder))
        return;
    simulation->progress(simulation->progress_context, (double)recorder->finished / (double)recorder->operations);
    recorder->report_at = recorder->finished + recorder->operations / 100;
    if (recorder->report_at > recorder->operations)
        recorder->report_at = recorder->operations; /* the end is always shown */
}

void recorder_finish(struct recorder *recorder, struct activity activity, struct moment moment)
{
    struct execution *execution = recorder->execution;
    assert(moment.begin <= moment.move && moment.move <= moment.end);
    note(recorder, activity, moment);
    if (execution_program(execution, activity.instance)->ops[activity.op].kind == OP_SEND)
        note(recorder, execution_receive_of(execution, activity), moment);
    execution_finish(execution, activity);
}

/* An empty phase ends with the one before. */
static void close_phases(double phase_end[PHASE_COUNT])
{
    for (int p = 1; p < PHASE_COUNT; p++) {
        if (phase_end[p] < phase_end[p - 1])
            phase_end[p] = phase_end[p - 1];
    }
}

/* Moments this close, of the step, are the same: replicas that exchange messages end together, but for rounding. */
#define SAME 1e-9

/* The step's phases are those of the replica that ends last; of several, of the lowest. */
static void end_phases(struct timeline *timeline, uint32_t n_replicas)
{
    double end = 0, *phase_end = timeline->phase_end;
    for (uint32_t r = 0; timeline->replica_end && r < n_replicas; r++) {
        close_phases(timeline->replica_end[r]);
        double replica_end = timeline->replica_end[r][PHASE_COUNT - 1];
        end = replica_end > end ? replica_end : end;
        if (replica_end <= phase_end[PHASE_COUNT - 1] * (1 + SAME))
            continue;
        memcpy(phase_end, timeline->replica_end[r], sizeof timeline->phase_end);
        timeline->last_replica = r;
    }
    phase_end[PHASE_COUNT - 1] = end > phase_end[PHASE_COUNT - 1] ? end : phase_end[PHASE_COUNT - 1];
    close_phases(phase_end);
}

bool recorder_end(struct recorder *recorder, struct diagnostics *diag)
{
    end_phases(recorder->timeline, recorder->simulation->ensemble->n_replicas);
    if (execution_done(recorder->execution))
        return true;
    execution_explain(recorder->execution, diag);
    return false;
}
