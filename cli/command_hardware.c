/* command_hardware.c - what is done on this machine: a measured run, a calibration; and the end of a run that several
 * processes share.
 */
#include <stdio.h>

#include "cli/calibration.h"
#include "cli/command.h"
#include "cli/gpu_options.h"
#include "cli/measured.h"
#include "cli/outputs.h"
#include "hw/machine.h"
#include "hw/transport.h"

/* Messages are printed before this process stops holding up the others, and by one process only. */
static void end_measuring(struct measured_run *run, struct diagnostics *diag)
{
    if (measured_run_speaks(run)) {
        if (*run->note)
            fprintf(stderr, "cpsim: %s\n", run->note);
        diagnostics_print(diag, stderr, "cpsim: ");
    }
    diagnostics_fini(diag);
    diagnostics_init(diag);
    fflush(NULL);
    measured_run_fini(run);
}

int command_hardware(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "measuring");
    struct measured_question question = {
        .question = question_of(options),
        .hardware = options->hardware,
        .iterations = options->iterations,
        .warmup = options->warmup,
        .seed_given = options->seed_given,
        .seed = options->seed,
    };
    question.question.progress = progress.stream ? progress_show : NULL;
    question.question.progress_context = &progress;
    struct measured_run run;
    int exit_status = exit_status_of(measured_run_make(&run, &question, diag));
    progress_clear(&progress);
    if (run.reported && measured_run_speaks(&run) && !outputs_write_run(options, &run.prediction, NULL, diag))
        exit_status = EXIT_FAILED;
    end_measuring(&run, diag);
    return exit_status;
}

int command_refuse(const struct options *options, struct diagnostics *diag)
{
    if (options->mode == COMMAND_HARDWARE || options->mode == COMMAND_CALIBRATE) {
        struct measured_run run;
        measured_run_refuse(&run, diag);
        end_measuring(&run, diag);
    }
    bool sweeps =
        options->mode == COMMAND_SWEEP || options->mode == COMMAND_ALGORITHMS || options->mode == COMMAND_ADVISE;
    struct processes *processes = sweeps && transport_launched() > 1 ? processes_open(diag) : NULL;
    if (processes)
        speak_once(processes, true, diag);
    return EXIT_BAD_INPUT;
}

int command_calibrate(const struct options *options, struct diagnostics *diag)
{
    bool refused = false;
    struct progress progress;
    progress_init(&progress, stderr, "calibrating");
    const struct calibration_settings settings = {
        .compute = options->hardware.compute,
        .kernels = options->hardware.kernels,
        .carrying = options->hardware.carrying,
        .transport = options->hardware.transport,
        .ranks = options->ranks,
        .quick = options->quick,
        .progress = progress.stream ? progress_show : NULL,
        .progress_context = &progress,
        .refused = &refused,
    };
    char reason[192] = ""; /* why there is no GPU, where none was chosen */
    if (!options->hardware.compute)
        machine_gpus(reason, sizeof reason);
    if (!gpu_options_check_compute(&options->hardware, calibration_compute(&settings), *reason ? reason : NULL, diag))
        return command_refuse(options, diag);
    struct kernel_times times;
    if (!calibration_check_path(options->profile, diag))
        return command_refuse(options, diag);
    if (options->kernel_times && !kernel_times_read(&times, options->kernel_times, diag))
        return command_refuse(options, diag);
    bool speaks;
    bool good = calibration_run(options->profile, &settings, options->kernel_times ? &times : NULL,
                                options->quiet ? NULL : stdout, &speaks, diag);
    if (options->kernel_times)
        kernel_times_fini(&times);
    progress_clear(&progress);
    if (!speaks) {
        diagnostics_fini(diag);
        diagnostics_init(diag);
    }
    return good ? EXIT_DONE : refused ? EXIT_BAD_INPUT : EXIT_FAILED;
}
