/* command_predict.c - commands that ask one question of one cluster: a prediction, what it hangs on, why it takes so
 * long, the longest sequence, and events of a tiny experiment.
 */
#include <stdio.h>

#include "cli/command.h"
#include "cli/explain.h"
#include "cli/longest.h"
#include "cli/outputs.h"
#include "cli/sensitivity.h"
#include "hw/verify/events.h"

int command_predict(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "simulating");
    struct question question = question_of(options);
    question_follow(&question, &progress);
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

int command_sensitivity(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "varying");
    struct question question = question_of(options);
    question_follow(&question, &progress);
    struct sensitivity sensitivity;
    enum prediction_status status = sensitivity_run(&sensitivity, &question, options->jobs, diag);
    progress_clear(&progress);
    int exit_status = sensitivity.signal ? EXIT_SIGNAL + sensitivity.signal : (int)exit_status_of(status);
    if (status == PREDICTION_DONE && !outputs_write_sensitivity(options, &sensitivity, diag) && !sensitivity.signal)
        exit_status = EXIT_FAILED;
    sensitivity_fini(&sensitivity);
    return exit_status;
}

int command_explain(const struct options *options, struct diagnostics *diag)
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

int command_longest(const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "trying lengths");
    struct question question = question_of(options);
    question_follow(&question, &progress);
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

int command_events(const struct options *options, struct diagnostics *diag)
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
