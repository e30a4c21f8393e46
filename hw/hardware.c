/* hardware.c - opens transport and backend for the ranks of this process. How they run: hardware_run.c. */
#include "hw/hardware.h"

#include <stdlib.h>
#include <string.h>

#include "hw/agreement.h"
#include "hw/hardware_parts.h"
#include "hw/layout.h"
#include "hw/run/rank_threads.h"
#include "hw/verify/verify_layer.h"
#include "models/base/memory.h"

/* ---- opening ---- */

/* Plans the calls of collectives, or finds that they are to be messages. */
static bool plan_collectives(struct hardware *hw, struct diagnostics *diag)
{
    const enum collective_mode mode = hw->settings.collectives;
    bool has_calls = hw->compute_ops->queues ? hw->transport->queue_collective && !hw->settings.serial
                                             : hw->transport->post_collective != NULL;
    if (mode == COLLECTIVES_LIBRARY && !has_calls)
        return diagnostics_add(diag, "transport '%s' has no collectives of its own%s, expected --collectives messages",
                               hw->transport->name, hw->compute_ops->queues ? " for this" : "");
    if (hw->schedule->experiment->step.scope != SCOPE_ATTENTION)
        return mode == COLLECTIVES_DEFAULT ||
               diagnostics_add(diag, "--collectives has no effect: those of a layer are always messages");
    bool good = collective_plan_init(&hw->plan, hw->schedule, hw->programs, diag);
    if (good && mode != COLLECTIVES_DEFAULT && collective_plan_is_empty(&hw->plan))
        return diagnostics_add(diag, "--collectives has no effect: the programs of '%s' have no collectives",
                               hw->schedule->experiment->algorithm);
    hw->calls = has_calls && mode != COLLECTIVES_MESSAGES ? memory_zeroed(hw->n_ends, sizeof *hw->calls) : NULL;
    return good;
}

static bool open_rank(struct hardware *hw, uint32_t e, struct diagnostics *diag)
{
    const uint32_t rank = hw->first_rank + e;
    struct compute_settings kernels = hw->settings.kernels;
    if (!rank_device(&hw->settings, hw->compute_ops, hw->transport, hw->ends[e], &hw->devices[e], diag))
        return false;
    kernels.device = hw->devices[e];
    if (hw->sources) {
        rank_source_init(&hw->sources[e], hw->transport, hw->ends[e]);
        kernels.memory = &hw->sources[e].source;
    }
    const struct layers_place place = rank_programs_place(hw->schedule, rank);
    hw->computes[e] = hw->compute_ops->open(hw->schedule, place.rank, &kernels, diag);
    if (!hw->computes[e])
        return false;
    hw->executors[e] = executor_create(hw->schedule, &hw->programs[rank], hw->compute_ops, hw->computes[e],
                                       hw->transport, hw->ends[e]);
    executor_set_place(hw->executors[e], rank, place);
    if (hw->settings.serial)
        executor_take_turns(hw->executors[e], &hw->turns);
    if (hw->settings.graph)
        executor_use_graphs(hw->executors[e], &hw->recording, e);
    if (hw->calls)
        hw->calls[e] = rank_calls_create(&hw->plan, rank, executor_order(hw->executors[e]), diag);
    return !hw->calls || hw->calls[e];
}

static bool open_ranks(struct hardware *hw, struct diagnostics *diag)
{
    bool good = rank_programs_prove(hw->schedule, hw->programs, diag);
    for (uint32_t r = 0; r < hw->ranks && good; r++)
        good = layout_check(hw->schedule, &hw->programs[r], diag);
    if (good)
        good = (hw->execution = execution_create(hw->programs, hw->ranks, 1, diag)) != NULL;
    good =
        good && rank_devices_check(&hw->settings, hw->compute_ops, hw->transport, diag) && plan_collectives(hw, diag);
    for (uint32_t e = 0; e < hw->n_ends && good; e++)
        good = open_rank(hw, e, diag);
    return good;
}

static bool open_teams_of(void *context, uint32_t e)
{
    struct hardware *hw = context;
    rank_calls_open(hw->calls[e], hw->transport, hw->ends[e], hw->compute_ops->queues != NULL);
    executor_use_calls(hw->executors[e], hw->calls[e]);
    return !hw->transport->failed(hw->ends[e]);
}

/* All processes are able and willing: now they may meet in calls that wait for each other. */
static bool open_teams(struct hardware *hw, struct diagnostics *diag)
{
    return !hw->calls || rank_threads_run(hw->transport, hw->ends, hw->n_ends, open_teams_of, hw) ||
           transport_complain(hw->transport, hw->ends[0], diag);
}

/* All that has been asked for, beside the experiment, and must be the same on all ranks. */
static char *options_of(const struct hardware *hw)
{
    const struct hardware_settings *settings = &hw->settings;
    const struct transport_settings *carrying = &settings->carrying;
    return memory_format("%s %d %s %d %d %d %u %d %d %d", hw->compute_ops ? hw->compute_ops->name : "",
                         (int)settings->collectives, settings->kernels.kernels ? settings->kernels.kernels : "",
                         settings->kernels.deterministic, settings->serial, settings->graph, carrying->max_ctas,
                         carrying->zero_cta, carrying->registered, carrying->through_library);
}

/* Compares notes with the other processes; `own` is what keeps this one. */
static bool agree(struct hardware *hw, uint32_t ranks, const struct diagnostics *own, struct diagnostics *diag)
{
    char *options = options_of(hw);
    const struct agreement_side side = {
        .transport = hw->transport,
        .end = hw->ends[0],
        .ranks = ranks,
        .experiment = hw->schedule ? hw->schedule->experiment : NULL,
        .options = options,
        .own = own,
    };
    bool good = agreement_reach(&side, diag);
    free(options);
    return good;
}

/* One step of opening, after which all processes compare notes: whoever goes on may then wait for the others. */
static bool together(struct hardware *hw, bool (*step)(struct hardware *hw, struct diagnostics *diag),
                     struct diagnostics *diag)
{
    if (!hw->transport->one_rank_a_process)
        return step(hw, diag);
    struct diagnostics own;
    diagnostics_init(&own);
    step(hw, &own);
    bool good = agree(hw, hw->ranks, &own, diag);
    diagnostics_fini(&own);
    return good;
}

static bool attach(struct hardware *hw, struct diagnostics *diag)
{
    return rank_devices_attach(&hw->settings, hw->compute_ops, hw->computes, hw->transport, hw->ends, hw->n_ends,
                               rank_devices_streams(hw->programs, hw->ranks), diag);
}

/* Each CP group's ranks beside each other in its own order; NULL: all are in rank order. */
static uint32_t *places_of_ranks(const struct hardware *hw)
{
    const struct schedule *schedule = hw->schedule;
    uint32_t *places = schedule->place_of_rank ? memory_zeroed(hw->ranks, sizeof *places) : NULL;
    for (uint32_t r = 0; places && r < hw->ranks; r++)
        places[r] = r - r % schedule->ranks + schedule->place_of_rank[r % schedule->ranks];
    return places;
}

/* What the experiment asks for beside attention. */
static bool check_scope(const struct schedule *schedule, const struct compute_ops *compute, struct diagnostics *diag)
{
    if (schedule->experiment->step.scope == SCOPE_ATTENTION)
        return true;
    if (!rank_programs_check(schedule, diag) || !verify_layer_check(schedule, diag))
        return false;
    return compute->layers ||
           diagnostics_add(diag,
                           "backend '%s' has no operations of layers, expected scope = attention, or --compute %s",
                           compute->name, computes[0]->name);
}

static bool open_all(struct hardware *hw, struct diagnostics *diag)
{
    uint32_t *places = places_of_ranks(hw);
    bool opened = hw->transport->open(hw->ranks, places, hw->ends, &hw->n_ends, &hw->first_rank, diag);
    free(places);
    if (!opened)
        return false;
    const bool queued = hw->compute_ops->queues != NULL;
    hw->devices = memory_zeroed(hw->n_ends, sizeof *hw->devices);
    hw->computes = memory_zeroed(hw->n_ends, sizeof *hw->computes);
    hw->executors = memory_zeroed(hw->n_ends, sizeof *hw->executors);
    if (hw->settings.graph)
        recording_init(&hw->recording, hw->n_ends);
    if (queued && hw->settings.carrying.registered)
        hw->sources = memory_zeroed(hw->n_ends, sizeof *hw->sources);
    hw->programs = rank_programs_build(hw->schedule);
    return together(hw, open_ranks, diag) && (!queued || together(hw, attach, diag)) && open_teams(hw, diag);
}

bool hardware_open(struct hardware **hardware, const struct hardware_settings *settings, struct diagnostics *diag)
{
    const struct schedule *schedule = settings->schedule;
    const struct compute_ops *compute = settings->compute ? settings->compute : compute_choose(schedule, NULL, 0);
    const uint32_t ranks = rank_programs_count(schedule);
    *hardware = NULL;
    if (!check_scope(schedule, compute, diag))
        return false;
    const struct transport_ops *transport = transport_choose(settings->transport, ranks, diag);
    if (!transport)
        return false;
    struct hardware *hw = *hardware = memory_zeroed(1, sizeof *hw);
    hw->schedule = schedule;
    hw->stall_seconds = settings->stall_seconds > 0 ? settings->stall_seconds : STALL_SECONDS;
    hw->transport = transport;
    hw->settings = *settings;
    pthread_mutex_init(&hw->turns.mutex, NULL);
    hw->compute_ops = compute;
    hw->ranks = ranks;
    hw->ends = memory_zeroed(ranks, sizeof *hw->ends);
    return open_all(hw, diag);
}

void hardware_close(struct hardware *hw)
{
    if (!hw)
        return;
    hw->transport->close(hw->ends, hw->n_ends); /* first: after a failure messages may still come into the buffers */
    for (uint32_t e = 0; e < hw->n_ends && hw->sources; e++)
        hw->sources[e].end = NULL;
    for (uint32_t e = 0; e < hw->n_ends && hw->executors; e++)
        executor_destroy(hw->executors[e]);
    for (uint32_t e = 0; e < hw->n_ends && hw->calls; e++)
        rank_calls_destroy(hw->calls[e]);
    collective_plan_fini(&hw->plan);
    free(hw->calls);
    for (uint32_t e = 0; e < hw->n_ends && hw->computes; e++)
        hw->compute_ops->close(hw->computes[e]);
    execution_destroy(hw->execution);
    if (hw->schedule)
        rank_programs_free(hw->schedule, hw->programs);
    free(hw->devices);
    free(hw->computes);
    free(hw->executors);
    free(hw->sources);
    if (hw->recording.queued)
        recording_fini(&hw->recording);
    pthread_mutex_destroy(&hw->turns.mutex);
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
        pthread_mutex_init(&hw->turns.mutex, NULL);
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

uint32_t hardware_ranks(const struct hardware *hw)
{
    return hw->ranks;
}

uint32_t hardware_first_rank(const struct hardware *hw)
{
    return hw->first_rank;
}

const char *hardware_library(const struct hardware *hw)
{
    return hw->transport->library ? hw->transport->library(hw->ends[0]) : NULL;
}

int hardware_device(const struct hardware *hw, uint32_t rank)
{
    return hw->compute_ops->queues ? hw->devices[rank - hw->first_rank] : -1;
}

bool hardware_is_serial(const struct hardware *hw)
{
    return hw->settings.serial;
}

const char *hardware_collectives(const struct hardware *hw)
{
    return collective_plan_is_empty(&hw->plan) ? "none" : hw->calls ? "library" : "messages";
}
