/* measured.c - opens the hardware, measures, and puts the result in the shape of a prediction. */
#include "cli/measured.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gpu_options.h"
#include "hw/rank_programs.h"
#include "kernels/attention.h"
#include "models/base/memory.h"

/* The command of the question, with what only a run has. The seed is the one drawn: the inputs can be made again; the
 * backend is the one that ran, whether it was chosen or typed. */
static void complete_command(struct measured_run *run, const struct measured_question *question)
{
    char *typed = run->prediction.command, *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    fprintf(stream, "cpsim --hw%s --seed %" PRIu64, typed + strlen("cpsim"), run->measurement.seed);
    const struct hardware_settings *hardware = &question->hardware;
    if (hardware->transport)
        fprintf(stream, " --transport %s", hardware->transport);
    fprintf(stream, " --compute %s", hardware_compute(run->hardware)->name);
    if (hardware->collectives != COLLECTIVES_DEFAULT)
        fprintf(stream, " --collectives %s", hardware->collectives == COLLECTIVES_LIBRARY ? "library" : "messages");
    gpu_options_print(hardware, stream);
    if (question->iterations != MEASURE_ITERATIONS)
        fprintf(stream, " --iterations %" PRIu32, question->iterations);
    if (question->warmup != MEASURE_WARMUP)
        fprintf(stream, " --warmup %" PRIu32, question->warmup);
    fclose(stream);
    run->prediction.command = text;
    free(typed);
}

static const char *processor_of(const struct machine *machine)
{
    return *machine->gpu.bus ? machine->gpu.name : machine->cpu;
}

/* The whole CPU, or the GPU, where all ranks have the same, as is usual. */
static void name_device(struct measured_run *run)
{
    struct device *device = &run->prediction.device;
    const struct machine *machines = run->measurement.machines;
    bool alike = true;
    for (uint32_t r = 1; r < run->measurement.n_ranks; r++)
        alike = alike && strcmp(processor_of(&machines[r]), processor_of(&machines[0])) == 0;
    snprintf(device->name, sizeof device->name, "%.*s%s", (int)sizeof device->name - 16, processor_of(&machines[0]),
             alike ? "" : " and others");
}

static uint64_t memory_of(const struct machine *machine)
{
    return *machine->gpu.bus ? machine->gpu.memory_bytes : machine->memory_bytes;
}

static uint64_t least_memory(const struct measurement *measurement)
{
    uint64_t bytes = memory_of(&measurement->machines[0]);
    for (uint32_t r = 1; r < measurement->n_ranks; r++)
        if (memory_of(&measurement->machines[r]) < bytes)
            bytes = memory_of(&measurement->machines[r]);
    return bytes;
}

static bool report(struct measured_run *run, const struct measured_question *question, struct diagnostics *diag)
{
    struct prediction *prediction = &run->prediction;
    struct measurement *measurement = &run->measurement;
    complete_command(run, question);
    name_device(run);
    prediction->measured = run;
    const struct measured_times times = measurement_times(measurement);
    run->reported = prediction_take_run(prediction, &measurement->run.timeline, &times,
                                        (double)least_memory(measurement), diag) == PREDICTION_DONE;
    return run->reported && measure_check_account(measurement, &prediction->report, diag) &&
           measurement->verification.passed;
}

/* Decides where it runs if nothing was typed, now that the experiment is known; false with messages when something that
 * was typed has no effect there. */
static bool choose(struct measured_run *run, struct hardware_settings *settings, struct diagnostics *diag)
{
    char reason[256] = "";
    const struct compute_ops *typed = settings->compute;
    if (!typed)
        settings->compute = compute_choose(settings->schedule, reason, sizeof reason);
    bool fine = gpu_options_check_compute(settings, settings->compute, *reason ? reason : NULL, diag);
    struct diagnostics unheard; /* hardware_open says it again */
    diagnostics_init(&unheard);
    const struct transport_ops *transport =
        transport_choose(settings->transport, rank_programs_count(settings->schedule), &unheard);
    if (fine && transport)
        fine = gpu_options_check_transport(settings, transport, diag);
    diagnostics_fini(&unheard);
    if (fine && *reason)
        snprintf(run->note, sizeof run->note, "%s: running on the CPU", reason);
    return fine;
}

static enum prediction_status open_hardware(struct measured_run *run, const struct measured_question *question,
                                            struct diagnostics *diag)
{
    enum prediction_status status = prediction_prepare_schedule(&run->prediction, &question->question, diag);
    if (status != PREDICTION_DONE)
        return status;
    run->settings = question->hardware;
    run->settings.schedule = &run->prediction.schedule;
    bool good = choose(run, &run->settings, diag) && hardware_open(&run->hardware, &run->settings, diag);
    return good ? PREDICTION_DONE : PREDICTION_BAD_INPUT;
}

enum prediction_status measured_run_make(struct measured_run *run, const struct measured_question *question,
                                         struct diagnostics *diag)
{
    *run = (struct measured_run){.hardware = NULL};
    enum prediction_status status = open_hardware(run, question, diag);
    if (!run->hardware)
        hardware_refuse(&run->hardware, diag);
    if (status != PREDICTION_DONE)
        return status;
    const struct measure_settings settings = {
        .hardware = run->hardware,
        .schedule = &run->prediction.schedule,
        .seed_given = question->seed_given,
        .seed = question->seed,
        .iterations = question->iterations,
        .warmup = question->warmup,
        .progress = question->question.progress,
        .progress_context = question->question.progress_context,
    };
    if (measure(&run->measurement, &settings, diag) && report(run, question, diag))
        return PREDICTION_DONE;
    return run->measurement.refused ? PREDICTION_BAD_INPUT : PREDICTION_FAILED;
}

void measured_run_refuse(struct measured_run *run, struct diagnostics *diag)
{
    *run = (struct measured_run){.hardware = NULL};
    hardware_refuse(&run->hardware, diag);
}

const char *measured_kernels(const struct measured_run *run)
{
    if (!run->settings.compute->queues)
        return attention_isa();
    return run->settings.kernels.kernels ? run->settings.kernels.kernels : machine_gpu_kernels();
}

bool measured_run_speaks(const struct measured_run *run)
{
    return hardware_speaks(run->hardware);
}

void measured_run_fini(struct measured_run *run)
{
    hardware_close(run->hardware);
    measurement_fini(&run->measurement);
    prediction_fini(&run->prediction);
    *run = (struct measured_run){.hardware = NULL};
}
