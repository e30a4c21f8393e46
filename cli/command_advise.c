/* command_advise.c - which layout? The first process asks, and says what was found; those that a launcher has started
 * with it do what it hands out.
 */
#include "cli/advice.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "hw/transport.h"

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
    question_follow(&question, &progress);
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

int command_advise(const struct options *options, struct diagnostics *diag)
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
