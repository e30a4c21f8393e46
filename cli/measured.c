/* measured.c - opens the hardware, measures, and puts the result in the shape of a prediction. */
#include "cli/measured.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* The command of the question, with what only a run has. The seed is the one drawn: the inputs can be made again. */
static void complete_command(struct measured_run *run, const struct measured_question *question)
{
    char *typed = run->prediction.command, *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    fprintf(stream, "cpsim --hw%s --seed %" PRIu64, typed + strlen("cpsim"), run->measurement.seed);
    if (question->transport)
        fprintf(stream, " --transport %s", question->transport);
    if (question->compute != computes[0])
        fprintf(stream, " --compute %s", question->compute->name);
    if (question->collectives != COLLECTIVES_DEFAULT)
        fprintf(stream, " --collectives %s", question->collectives == COLLECTIVES_LIBRARY ? "library" : "messages");
    if (question->iterations != MEASURE_ITERATIONS)
        fprintf(stream, " --iterations %" PRIu32, question->iterations);
    if (question->warmup != MEASURE_WARMUP)
        fprintf(stream, " --warmup %" PRIu32, question->warmup);
    fclose(stream);
    run->prediction.command = text;
    free(typed);
}

/* The whole CPU where all ranks have the same, as is usual. */
static void name_device(struct measured_run *run)
{
    struct device *device = &run->prediction.device;
    const struct machine *machines = run->measurement.machines;
    bool alike = true;
    for (uint32_t r = 1; r < run->measurement.n_ranks; r++)
        alike = alike && strcmp(machines[r].cpu, machines[0].cpu) == 0;
    snprintf(device->name, sizeof device->name, "%.*s%s", (int)sizeof device->name - 16, machines[0].cpu,
             alike ? "" : " and others");
}

static uint64_t least_memory(const struct measurement *measurement)
{
    uint64_t bytes = measurement->machines[0].memory_bytes;
    for (uint32_t r = 1; r < measurement->n_ranks; r++)
        if (measurement->machines[r].memory_bytes < bytes)
            bytes = measurement->machines[r].memory_bytes;
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

static enum prediction_status open_hardware(struct measured_run *run, const struct measured_question *question,
                                            struct diagnostics *diag)
{
    enum prediction_status status = prediction_prepare_schedule(&run->prediction, &question->question, diag);
    if (status != PREDICTION_DONE)
        return status;
    const struct hardware_settings settings = {.schedule = &run->prediction.schedule,
                                               .compute = question->compute,
                                               .transport = question->transport,
                                               .collectives = question->collectives};
    return hardware_open(&run->hardware, &settings, diag) ? PREDICTION_DONE : PREDICTION_BAD_INPUT;
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
