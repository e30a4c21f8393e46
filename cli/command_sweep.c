/* command_sweep.c - predictions of many points, by this process and whoever a launcher has started with it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/algorithms.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "cli/sweep_run.h"
#include "hw/transport.h"
#include "models/base/memory.h"

static int exit_status_of_sweep(const struct sweep_result *result)
{
    if (result->signal)
        return EXIT_SIGNAL + result->signal;
    if (result->bad_input)
        return EXIT_BAD_INPUT;
    return result->failed > 0 || result->unwritten ? EXIT_FAILED : result->done == 0 ? EXIT_BAD_INPUT : EXIT_DONE;
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

int command_sweep(const struct options *options, struct diagnostics *diag)
{
    return sweep_over(options->sweeps.items, options->sweeps.count, "sweeping", options, diag);
}

/* The algorithms, and whatever else is swept. */
int command_algorithms(const struct options *options, struct diagnostics *diag)
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
