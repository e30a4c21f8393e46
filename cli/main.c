/* main.c - the cpsim command: what was asked for, done, and its exit status. Only here is anything printed or exited.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/advice.h"
#include "cli/algorithms.h"
#include "cli/calibration.h"
#include "cli/check.h"
#include "cli/compare_operations.h"
#include "cli/explain.h"
#include "cli/gpu_options.h"
#include "cli/list.h"
#include "cli/measured.h"
#include "cli/options.h"
#include "cli/options_judge.h"
#include "cli/outputs.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/sensitivity.h"
#include "cli/sweep_run.h"
#include "cli/validation.h"
#include "hw/machine.h"
#include "hw/processes.h"
#include "hw/transport.h"
#include "hw/verify/events.h"
#include "models/base/memory.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_SIGNAL = 128 };

static enum exit_status exit_status_of(enum prediction_status status)
{
    return status == PREDICTION_DONE ? EXIT_DONE : status == PREDICTION_BAD_INPUT ? EXIT_BAD_INPUT : EXIT_FAILED;
}

static struct question question_of(const struct options *options)
{
    size_t n_files = options->files.count;
    return (struct question){
        .topology_path = n_files > 1 ? options->files.items[0] : NULL,
        .experiment_path = options->files.items[n_files - 1],
        .overrides = options->overrides.items,
        .n_overrides = options->overrides.count,
        .engine = options->engine,
        .without = options->without,
        .no_fold = options->no_fold,
    };
}

static void print_idle_overrides(const struct prediction *prediction, const struct question *question)
{
    struct diagnostics notes;
    diagnostics_init(&notes);
    prediction_note_idle(prediction, question, &notes);
    diagnostics_print(&notes, stderr, "cpsim: note: ");
    diagnostics_fini(&notes);
}

/* Progress and phases of the question go to a line on the terminal, if there is one. */
static void follow(struct question *question, struct progress *progress)
{
    question->progress = progress->stream ? progress_show : NULL;
    question->phase = progress->stream ? progress_phase : NULL;
    question->progress_context = progress;
}

static int predict(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "simulating");
    struct question question = question_of(options);
    follow(&question, &progress);
    struct prediction prediction;
    enum prediction_status status = prediction_prepare(&prediction, &question, diag);
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, &question, diag);
    progress_clear(&progress);
    if (status == PREDICTION_DONE)
        print_idle_overrides(&prediction, &question);
    int exit_status = exit_status_of(status);
    struct progress *writing = prediction_is_large(&prediction) ? &progress : NULL;
    if (status == PREDICTION_DONE && !outputs_write_run(options, &prediction, writing, diag))
        exit_status = EXIT_FAILED;
    prediction_fini(&prediction);
    return exit_status;
}

static int exit_status_of_sweep(const struct sweep_result *result)
{
    if (result->signal)
        return EXIT_SIGNAL + result->signal;
    if (result->bad_input)
        return EXIT_BAD_INPUT;
    return result->failed > 0 || result->unwritten ? EXIT_FAILED : result->done == 0 ? EXIT_BAD_INPUT : EXIT_DONE;
}

/* Workers of this process: a process of several has its share of the cores, or those that its launcher bound it to. */
static uint32_t workers_of(const struct options *options, const struct processes *processes)
{
    bool bound = (long)options->jobs < sysconf(_SC_NPROCESSORS_ONLN);
    if (!processes || options->jobs_given || bound)
        return options->jobs;
    uint32_t share = options->jobs / processes_on_host(processes);
    return share > 0 ? share : 1;
}

static struct sweep_settings sweep_settings_of(const struct options *options, struct processes *processes)
{
    return (struct sweep_settings){
        .jobs = workers_of(options, processes),
        .processes = processes,
        .summary = options->summary_points,
        .json = options->json,
        .csv = options->csv,
        .resume = options->resume,
        .kept = options->table || options->n_plots,
        .common = options->n_plots,
    };
}

/* One process says what there is to say, before any of them ends the others by its status, or is ended. */
static void speak_once(struct processes *processes, bool complete, struct diagnostics *diag)
{
    if (processes_here(processes) == 0)
        diagnostics_print(diag, stderr, "cpsim: ");
    diagnostics_fini(diag);
    diagnostics_init(diag);
    fflush(NULL);
    processes_close(processes, complete);
}

static int run_sweep(const struct sweep *sweep, const struct options *options, const struct question *question,
                     struct processes *processes, struct progress *progress, struct diagnostics *diag)
{
    struct diagnostics notes, joined, errors;
    diagnostics_init(&notes);
    diagnostics_init(&joined);
    diagnostics_init(&errors);
    struct sweep_result result;
    const struct sweep_settings settings = sweep_settings_of(options, processes);
    progress_count(progress, "points", sweep->n_points);
    sweep_run(sweep, question, &settings, &result, &notes, &errors);
    progress_clear(progress);
    bool algorithms = options->mode == COMMAND_ALGORITHMS;
    if (algorithms)
        algorithms_join_notes(&notes, &joined);
    diagnostics_print(algorithms ? &joined : &notes, stderr, "cpsim: note: ");
    int exit_status = exit_status_of_sweep(&result);
    /* That an algorithm refuses the experiment is part of the answer, which the table gives: only points that failed
     * are errors, or if none ran. */
    for (size_t i = 0; i < errors.count && !(algorithms && exit_status == EXIT_DONE); i++)
        diagnostics_add(diag, "%s", errors.lines[i]);
    if (processes)
        speak_once(processes, !result.lost, diag);
    if (result.done > 0 && result.json && !outputs_write_sweep(options, result.json, diag) && !result.signal)
        exit_status = EXIT_FAILED;
    sweep_result_fini(&result);
    diagnostics_fini(&notes);
    diagnostics_fini(&joined);
    diagnostics_fini(&errors);
    return exit_status;
}

static int help_sweep(const struct sweep *sweep, const struct options *options, const struct question *question,
                      struct processes *processes, struct diagnostics *diag)
{
    const struct sweep_settings settings = sweep_settings_of(options, processes);
    if (sweep_help(sweep, question, &settings))
        return EXIT_DONE;
    diagnostics_add(diag, "process 0 is gone; --resume goes on with what it has written");
    return EXIT_FAILED;
}

/* Nothing may share a terminal with a line that overwrites itself. */
static bool streams_to_terminal(const struct options *options)
{
    bool streams =
        strcmp(options->json ? options->json : "", "-") == 0 || strcmp(options->csv ? options->csv : "", "-") == 0;
    return streams && isatty(STDOUT_FILENO);
}

/* The points of `texts`, done by this process and whoever a launcher has started with it. */
static int sweep_over(const char *const *texts, size_t n_texts, const char *what, const struct options *options,
                      struct diagnostics *diag)
{
    struct processes *processes = NULL;
    if (transport_launched() > 1 && !(processes = processes_open(diag)))
        return EXIT_BAD_INPUT;
    struct progress progress;
    progress_init(&progress, stderr, what);
    struct question question = question_of(options);
    question.progress = progress.stream && !streams_to_terminal(options) ? progress_show : NULL;
    question.progress_context = &progress;
    struct sweep points;
    int exit_status = EXIT_BAD_INPUT;
    if (!sweep_init(&points, texts, n_texts, &question, diag)) {
        if (processes)
            speak_once(processes, true, diag);
    } else if (processes && processes_here(processes) > 0)
        exit_status = help_sweep(&points, options, &question, processes, diag);
    else
        exit_status = run_sweep(&points, options, &question, processes, &progress, diag);
    sweep_fini(&points);
    return exit_status;
}

static int sweep(const struct options *options, struct diagnostics *diag)
{
    return sweep_over(options->sweeps.items, options->sweeps.count, "sweeping", options, diag);
}

/* A sweep over all algorithms, and whatever else is swept. */
static int compare_algorithms(const struct options *options, struct diagnostics *diag)
{
    size_t n_texts = 1 + options->sweeps.count;
    char *key = algorithms_sweep_key();
    const char **texts = memory_zeroed(n_texts, sizeof *texts);
    texts[0] = key;
    for (size_t i = 1; i < n_texts; i++)
        texts[i] = options->sweeps.items[i - 1];
    int exit_status = sweep_over(texts, n_texts, "comparing", options, diag);
    free(texts);
    free(key);
    return exit_status;
}

static int find_sensitivity(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "varying");
    struct question question = question_of(options);
    follow(&question, &progress);
    struct sensitivity sensitivity;
    enum prediction_status status = sensitivity_run(&sensitivity, &question, options->jobs, diag);
    progress_clear(&progress);
    int exit_status = sensitivity.signal ? EXIT_SIGNAL + sensitivity.signal : (int)exit_status_of(status);
    if (status == PREDICTION_DONE && !outputs_write_sensitivity(options, &sensitivity, diag) && !sensitivity.signal)
        exit_status = EXIT_FAILED;
    sensitivity_fini(&sensitivity);
    return exit_status;
}

static int explain(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "explaining");
    struct question question = question_of(options);
    question.progress = progress.stream ? progress_show : NULL;
    question.progress_context = &progress;
    struct explanation explanation;
    enum prediction_status status = explanation_run(&explanation, &question, options->jobs, diag);
    progress_clear(&progress);
    if (status == PREDICTION_DONE)
        print_idle_overrides(&explanation.prediction, &question);
    int exit_status = explanation.signal ? EXIT_SIGNAL + explanation.signal : (int)exit_status_of(status);
    if (status == PREDICTION_DONE && !outputs_write_explanation(options, &explanation, diag))
        exit_status = EXIT_FAILED;
    explanation_fini(&explanation);
    return exit_status;
}

static struct advice_settings advice_settings_of(const struct options *options, struct processes *processes)
{
    return (struct advice_settings){
        .wish = {options->vary.items, options->vary.count, options->fix.items, options->fix.count, options->gpus},
        .jobs = workers_of(options, processes),
        .best = options->best,
        .exhaustive = options->exhaustive,
        .processes = processes,
    };
}

/* Its process is the first, or the only one. */
static int give_advice(const struct options *options, struct processes *processes, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "advising");
    struct question question = question_of(options);
    follow(&question, &progress);
    const struct advice_settings settings = advice_settings_of(options, processes);
    struct advice advice;
    enum prediction_status status = advice_run(&advice, &question, &settings, diag);
    progress_clear(&progress);
    bool complete = !advice.lost, found = advice.n_best > 0;
    int exit_status = advice.signal ? EXIT_SIGNAL + advice.signal : (int)exit_status_of(status);
    if (status == PREDICTION_DONE && !outputs_write_advice(options, &advice, diag) && !advice.signal)
        exit_status = EXIT_FAILED;
    if (exit_status == EXIT_DONE && !found) {
        exit_status = EXIT_FAILED;
        diagnostics_add(diag, "no candidate fits the devices' memory");
    }
    if (processes)
        speak_once(processes, complete, diag);
    advice_fini(&advice);
    return exit_status;
}

static int advise(const struct options *options, struct diagnostics *diag)
{
    struct processes *processes = NULL;
    if (transport_launched() > 1 && !(processes = processes_open(diag)))
        return EXIT_BAD_INPUT;
    if (!processes || processes_here(processes) == 0)
        return give_advice(options, processes, diag);
    struct question question = question_of(options);
    const struct advice_settings settings = advice_settings_of(options, processes);
    struct diagnostics said; /* by the first process */
    diagnostics_init(&said);
    bool fine = advice_help(&question, &settings, &said);
    bool silent = !fine && said.count == 0;
    diagnostics_fini(&said);
    if (silent)
        diagnostics_add(diag, "process 0 is gone");
    return fine ? EXIT_DONE : silent ? EXIT_FAILED : EXIT_BAD_INPUT;
}

static int find_longest(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "trying lengths");
    struct question question = question_of(options);
    follow(&question, &progress);
    struct longest longest;
    int exit_status = exit_status_of(longest_find(&longest, &question, diag));
    progress_clear(&progress);
    bool done = exit_status == EXIT_DONE, found = longest.fits.seq_len > 0;
    if (done && !outputs_write_longest(options, &longest, diag))
        exit_status = EXIT_FAILED;
    if (done && !found) {
        exit_status = EXIT_FAILED;
        diagnostics_add(diag, "no length fits the device's memory");
    }
    longest_fini(&longest);
    return exit_status;
}

static int events(const struct options *options, struct diagnostics *diag)
{
    struct question question = question_of(options);
    struct prediction prediction;
    enum prediction_status status = prediction_prepare_schedule(&prediction, &question, diag);
    if (status == PREDICTION_DONE && !events_check(&prediction.schedule, diag))
        status = PREDICTION_BAD_INPUT;
    if (status == PREDICTION_DONE && !events_print(&prediction.schedule, prediction.programs, stdout, diag))
        status = PREDICTION_FAILED;
    prediction_fini(&prediction);
    return exit_status_of(status);
}

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

static int measure_here(const struct options *options, struct diagnostics *diag)
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

/* What was typed makes no sense; under a launcher every process was given it. */
static int refuse(const struct options *options, struct diagnostics *diag)
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

static int calibrate_here(const struct options *options, struct diagnostics *diag)
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
        return refuse(options, diag);
    struct kernel_times times;
    if (!calibration_check_path(options->profile, diag))
        return refuse(options, diag);
    if (options->kernel_times && !kernel_times_read(&times, options->kernel_times, diag))
        return refuse(options, diag);
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

static int check(const struct options *options, struct diagnostics *diag)
{
    const struct check_request request = {
        .files = options->files.items,
        .n_files = options->files.count,
        .overrides = options->overrides.items,
        .n_overrides = options->overrides.count,
        .pairs = options->paths,
        .n_pairs = options->n_paths,
        .one_topology = options->n_paths || options->json || options->n_plots,
        .stream = options->table ? stdout : NULL,
    };
    struct check_result result;
    int exit_status = exit_status_of(check_files(&request, &result, diag));
    if (exit_status == EXIT_DONE && !outputs_write_check(options, &result, diag))
        exit_status = EXIT_FAILED;
    check_result_fini(&result);
    return exit_status;
}

static int list(const struct options *options, struct diagnostics *diag)
{
    if (options->files.count) {
        struct question question = question_of(options);
        return algorithms_list(&question, stdout, diag) ? EXIT_DONE : EXIT_BAD_INPUT;
    }
    return list_print(options->list, stdout, diag) ? EXIT_DONE : EXIT_FAILED;
}

static bool draws_timelines(const struct options *options)
{
    for (size_t i = 0; i < options->n_plots; i++)
        if (options->plots[i].kind == PLOT_TIMELINES)
            return true;
    return false;
}

static int compare(const struct options *options, struct diagnostics *diag)
{
    struct diagnostics notes;
    diagnostics_init(&notes);
    struct comparison comparison;
    int exit_status = EXIT_BAD_INPUT;
    bool fine = comparison_init(&comparison, options->files.items, options->files.count, &notes, diag);
    diagnostics_print(&notes, stderr, "cpsim: note: ");
    diagnostics_fini(&notes);
    if (fine && (!draws_timelines(options) || compare_check_timelines(&comparison, diag)))
        exit_status = outputs_write_comparison(options, &comparison, diag) ? EXIT_DONE : EXIT_FAILED;
    comparison_fini(&comparison);
    return exit_status;
}

/* What sets are made of must not be written over either. */
static bool spare_sets(const struct options *options, const struct validation_sets *sets, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < sets->count; i++) {
        fine &= options_spare_file(options, sets->sets[i].path, diag);
        fine &= options_spare_file(options, sets->sets[i].rows_path, diag);
    }
    if (sets->bounds_path)
        fine &= options_spare_file(options, sets->bounds_path, diag);
    return fine;
}

static int run_validation(struct validation *validation, const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "validating");
    progress_count(&progress, "rows", validation->sets.n_rows);
    enum validation_status status =
        validation_run(validation, options->jobs, progress.stream ? progress_show : NULL, &progress, diag);
    progress_clear(&progress);
    bool fine = status == VALIDATION_DONE;
    if (status != VALIDATION_BAD_INPUT && validation->n_left < validation->sets.n_rows) {
        fine &= outputs_write_validation(options, validation, diag);
        fine &= validation_check_bounds(validation, diag);
    }
    if (validation->signal)
        return EXIT_SIGNAL + validation->signal;
    return status == VALIDATION_BAD_INPUT ? EXIT_BAD_INPUT : fine ? EXIT_DONE : EXIT_FAILED;
}

static int validate(const struct options *options, struct diagnostics *diag)
{
    const struct row_settings settings = {.engine = options->engine, .without = options->without};
    struct validation validation;
    int exit_status = EXIT_BAD_INPUT;
    if (validation_init(&validation, options->files.items[0], &settings, diag) &&
        spare_sets(options, &validation.sets, diag))
        exit_status = run_validation(&validation, options, diag);
    validation_fini(&validation);
    return exit_status;
}

static int run_mode(const struct options *options, struct diagnostics *diag)
{
    switch (options->mode) {
    case COMMAND_PREDICT:
        return predict(options, diag);
    case COMMAND_SWEEP:
        return sweep(options, diag);
    case COMMAND_ALGORITHMS:
        return compare_algorithms(options, diag);
    case COMMAND_SENSITIVITY:
        return find_sensitivity(options, diag);
    case COMMAND_EXPLAIN:
        return explain(options, diag);
    case COMMAND_ADVISE:
        return advise(options, diag);
    case COMMAND_LONGEST:
        return find_longest(options, diag);
    case COMMAND_EVENTS:
        return events(options, diag);
    case COMMAND_HARDWARE:
        return measure_here(options, diag);
    case COMMAND_CALIBRATE:
        return calibrate_here(options, diag);
    case COMMAND_CHECK:
        return check(options, diag);
    case COMMAND_LIST:
        return list(options, diag);
    case COMMAND_COMPARE:
        return compare(options, diag);
    case COMMAND_VALIDATE:
        return validate(options, diag);
    }
    return EXIT_FAILED;
}

/* A file opened later must not take the place of a closed standard input, output or error, or its reader and writer
 * would be the wrong ones: a closed one gets a descriptor that fails. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            break; /* as it was, then */
}

/* A reader that goes away and a file that may not grow make writing fail, which is told like any other reason why. */
static void take_write_errors(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    take_write_errors();
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct options options;
    int exit_status = options_parse(&options, argc, argv, &diag) ? run_mode(&options, &diag) : refuse(&options, &diag);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (exit_status == EXIT_DONE) {
            diagnostics_add(&diag, "cannot write to standard output");
            exit_status = EXIT_FAILED;
        }
    }
    diagnostics_print(&diag, stderr, "cpsim: ");
    diagnostics_fini(&diag);
    options_fini(&options);
    return exit_status;
}
