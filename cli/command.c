/* command.c - what commands have in common: see command.h. */
#include "cli/command.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/idle_overrides.h"

enum exit_status exit_status_of(enum prediction_status status)
{
    return status == PREDICTION_DONE ? EXIT_DONE : status == PREDICTION_BAD_INPUT ? EXIT_BAD_INPUT : EXIT_FAILED;
}

struct question question_of(const struct options *options)
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

void question_follow(struct question *question, struct progress *progress)
{
    question->progress = progress->stream ? progress_show : NULL;
    question->phase = progress->stream ? progress_phase : NULL;
    question->progress_context = progress;
}

void print_idle_overrides(const struct prediction *prediction, const struct question *question)
{
    struct diagnostics notes;
    diagnostics_init(&notes);
    idle_overrides_note(prediction, question, &notes);
    diagnostics_print(&notes, stderr, "cpsim: note: ");
    diagnostics_fini(&notes);
}

uint32_t workers_of(const struct options *options, const struct processes *processes)
{
    bool bound = (long)options->jobs < sysconf(_SC_NPROCESSORS_ONLN);
    if (!processes || options->jobs_given || bound)
        return options->jobs;
    uint32_t share = options->jobs / processes_on_host(processes);
    return share > 0 ? share : 1;
}

void speak_once(struct processes *processes, bool complete, struct diagnostics *diag)
{
    if (processes_here(processes) == 0)
        diagnostics_print(diag, stderr, "cpsim: ");
    diagnostics_fini(diag);
    diagnostics_init(diag);
    fflush(NULL);
    processes_close(processes, complete);
}
