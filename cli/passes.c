/* passes.c - one child, a copy of this process, so that its report comes back as it lies in memory: how it went, then
 * the report and what it points to, or the messages.
 */
#include "cli/passes.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/worker_pool.h"
#include "models/base/memory.h"

struct work {
    const struct prediction *prediction;
    const struct question *question;
};

static void write_report(const struct report *report, FILE *stream)
{
    fwrite(report, sizeof *report, 1, stream);
    fwrite(report->ranks, sizeof *report->ranks, report->n_ranks, stream);
    fwrite(report->links, sizeof *report->links, report->n_links, stream);
}

static void work_on_pass(void *context, size_t task, FILE *stream)
{
    (void)task;
    const struct work *work = context;
    struct question question = *work->question;
    question.progress = NULL;
    question.phase = NULL;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct report report;
    enum prediction_status status = prediction_run_pass(work->prediction, &question, &report, &diag);
    fputc((int)status, stream);
    if (status == PREDICTION_DONE) {
        write_report(&report, stream);
        report_fini(&report);
    } else {
        diagnostics_print(&diag, stream, "");
    }
    diagnostics_fini(&diag);
}

/* Takes `size` bytes of the text, from `at` on. */
static bool take(const struct worker_result *result, size_t *at, void *to, size_t size)
{
    if (result->size - *at < size)
        return false;
    if (size)
        memcpy(to, result->text + *at, size);
    *at += size;
    return true;
}

static bool read_report(const struct worker_result *result, struct report *report)
{
    size_t at = 1;
    if (!take(result, &at, report, sizeof *report))
        return false;
    report->ranks = memory_zeroed(report->n_ranks, sizeof *report->ranks);
    report->links = memory_zeroed(report->n_links, sizeof *report->links);
    if (take(result, &at, report->ranks, report->n_ranks * sizeof *report->ranks) &&
        take(result, &at, report->links, report->n_links * sizeof *report->links))
        return true;
    report_fini(report);
    return false;
}

static void pass_on_messages(const struct worker_result *result, struct diagnostics *diag)
{
    for (const char *line = result->text + 1, *end = result->text + result->size; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = newline ? (size_t)(newline - line) : (size_t)(end - line);
        diagnostics_add(diag, "%.*s", (int)length, line);
        line += length + 1;
    }
}

/* What has come of it. */
static enum prediction_status read_result(const struct worker_result *result, struct report *report,
                                          struct diagnostics *diag)
{
    if (result->wait_status == -1)
        diagnostics_add(diag, "a process could not be started: %s", strerror(result->start_errno));
    else if (WIFSIGNALED(result->wait_status))
        diagnostics_add(diag, "the prediction of a micro-batch was ended by signal %d (%s)",
                        WTERMSIG(result->wait_status), strsignal(WTERMSIG(result->wait_status)));
    else if (!result->text || result->size == 0)
        diagnostics_add(diag, "the prediction of a micro-batch ended without a result");
    else if (result->text[0] != PREDICTION_DONE)
        pass_on_messages(result, diag);
    else if (read_report(result, report))
        return PREDICTION_DONE;
    else
        diagnostics_add(diag, "the prediction of a micro-batch ended before all of its result was there");
    return result->size > 0 && result->text[0] == PREDICTION_BAD_INPUT ? PREDICTION_BAD_INPUT : PREDICTION_FAILED;
}

enum prediction_status passes_report(const struct prediction *prediction, const struct question *question,
                                     struct report *report, struct diagnostics *diag)
{
    struct work work = {prediction, question};
    const struct worker_pool pool = {.n_tasks = 1, .jobs = 1, .work = work_on_pass, .context = &work};
    struct worker_result result;
    int signal_number = worker_pool_run(&pool, &result);
    if (signal_number)
        raise(signal_number);
    enum prediction_status status = read_result(&result, report, diag);
    free(result.text);
    return status;
}
