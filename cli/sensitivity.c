/* sensitivity.c - the runs, one process each, and the slopes between them.
 *
 * Run 0 is the question as it is, 1 and 2 have all constants moved, then two for each constant: lowered, raised.
 */
#include "cli/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/idle_overrides.h"
#include "cli/worker_pool.h"
#include "models/base/memory.h"

enum { RUN_GIVEN, RUN_ALL_LOWERED, RUN_ALL_RAISED, RUN_CONSTANTS };

/* ---- a run, in the child ---- */

struct work {
    struct sensitivity *sensitivity;
    const struct question *question;
};

/* What a constant's slope counts for in the sum: a faster machine has higher rates and shorter times. */
static double sign_of(const struct constant *constant)
{
    return constant->kind == CONSTANT_RATE ? 1 : constant->kind == CONSTANT_TIME ? -1 : 0;
}

static void scale_all(const struct constants *constants, double factor)
{
    for (size_t i = 0; i < constants->count; i++)
        constant_scale(&constants->items[i], pow(factor, sign_of(&constants->items[i])));
}

static void scale_for(const struct constants *constants, size_t run)
{
    const double up = 1 + SENSITIVITY_STEP;
    if (run == RUN_ALL_LOWERED || run == RUN_ALL_RAISED)
        scale_all(constants, run == RUN_ALL_RAISED ? up : 1 / up);
    else if (run >= RUN_CONSTANTS)
        constant_scale(&constants->items[(run - RUN_CONSTANTS) / 2], (run - RUN_CONSTANTS) % 2 ? up : 1 / up);
}

/* A '1' for each level that a message crosses, a '0' for each other. */
static void write_levels(const struct prediction *prediction, FILE *stream)
{
    fputc(' ', stream);
    for (uint32_t k = 0; k < prediction->topology.n_levels; k++) {
        bool crossed = false;
        for (uint32_t i = 0; i < prediction->report.n_links; i++)
            crossed |= strcmp(prediction->report.links[i].name, prediction->topology.levels[k].name) == 0;
        fputc(crossed ? '1' : '0', stream);
    }
}

/* Writes the seconds of the step, and the first time the levels, or lines that say what went wrong. */
static void work_on_run(void *context, size_t run, FILE *stream)
{
    const struct work *work = context;
    struct prediction *prediction = &work->sensitivity->prediction;
    struct question question = *work->question;
    struct diagnostics diag;
    diagnostics_init(&diag);
    question.progress = NULL;
    question.phase = NULL;
    question.spares_interval = question.figures_only = true;
    scale_for(&work->sensitivity->constants, run);
    if (prediction_make_costs(prediction, &question, &diag) &&
        prediction_run(prediction, &question, &diag) == PREDICTION_DONE) {
        fprintf(stream, "%.17g", prediction->report.seconds);
        if (run == RUN_GIVEN)
            write_levels(prediction, stream);
    } else {
        diagnostics_print(&diag, stream, "");
    }
    diagnostics_fini(&diag);
}

/* ---- the whole, in the parent ---- */

/* The seconds that a run has written, and the levels into `crosses`; false with what it says instead, or what became of
 * it. */
static bool read_run(const struct worker_result *worker, double *seconds, bool *crosses, struct diagnostics *diag)
{
    if (worker->wait_status == -1)
        return diagnostics_add(diag, "a process could not be started: %s", strerror(worker->start_errno));
    if (WIFSIGNALED(worker->wait_status))
        return diagnostics_add(diag, "a run was ended by signal %d (%s)", WTERMSIG(worker->wait_status),
                               strsignal(WTERMSIG(worker->wait_status)));
    char *text = memory_format("%.*s", (int)worker->size, worker->text ? worker->text : ""), *end;
    *seconds = strtod(text, &end);
    bool fine = WEXITSTATUS(worker->wait_status) == 0 && end > text && (*end == '\0' || *end == ' ');
    for (size_t k = 0; fine && *end && end[1 + k]; k++)
        crosses[k] = end[1 + k] == '1';
    if (!fine) {
        text[strcspn(text, "\n")] = '\0';
        diagnostics_add(diag, "%s", *text ? text : "a run ended without a result");
    }
    free(text);
    return fine;
}

static struct elasticity slopes(double seconds, double lowered_seconds, double raised_seconds)
{
    const double step = log(1 + SENSITIVITY_STEP);
    return (struct elasticity){.lowered_seconds = lowered_seconds,
                               .raised_seconds = raised_seconds,
                               .lowered = log(seconds / lowered_seconds) / step,
                               .raised = log(raised_seconds / seconds) / step,
                               .both = log(raised_seconds / lowered_seconds) / (2 * step)};
}

/* Times this close are the same: the engines add up in another order. */
#define SAME 1e-12

static bool differ(double a, double b)
{
    return fabs(a - b) > SAME * fabs(b);
}

static int compare_rows(const void *a, const void *b)
{
    const struct sensitivity_row *first = a, *second = b;
    double steeper = fabs(first->elasticity.both) - fabs(second->elasticity.both);
    if (first->left != second->left)
        return first->left ? 1 : -1;
    if (first->has_effect != second->has_effect)
        return first->has_effect ? -1 : 1;
    if (first->has_effect && differ(steeper, 0))
        return steeper > 0 ? -1 : 1;
    return first->constant < second->constant ? -1 : 1;
}

static void make_rows(struct sensitivity *sensitivity, const double *seconds)
{
    sensitivity->seconds = seconds[RUN_GIVEN];
    sensitivity->all = slopes(seconds[RUN_GIVEN], seconds[RUN_ALL_LOWERED], seconds[RUN_ALL_RAISED]);
    sensitivity->n_rows = sensitivity->constants.count;
    sensitivity->rows = memory_zeroed(sensitivity->n_rows, sizeof *sensitivity->rows);
    for (size_t i = 0; i < sensitivity->n_rows; i++) {
        struct sensitivity_row *row = &sensitivity->rows[i];
        const double *two = &seconds[RUN_CONSTANTS + 2 * i];
        row->constant = &sensitivity->constants.items[i];
        row->left = isnan(two[0]) || isnan(two[1]);
        sensitivity->n_left += row->left;
        if (row->left)
            continue;
        row->elasticity = slopes(sensitivity->seconds, two[0], two[1]);
        row->has_effect = differ(two[0], sensitivity->seconds) || differ(two[1], sensitivity->seconds);
        row->kink = fabs(row->elasticity.raised - row->elasticity.lowered) > SENSITIVITY_KINK;
        sensitivity->n_effects += row->has_effect;
        sensitivity->sum += sign_of(row->constant) * row->elasticity.both;
    }
    if (sensitivity->n_left)
        sensitivity->sum = (double)NAN;
    qsort(sensitivity->rows, sensitivity->n_rows, sizeof *sensitivity->rows, compare_rows);
}

/* One message for each that is different. */
static void report_failures(const struct diagnostics *failures, struct diagnostics *diag)
{
    for (size_t i = 0; i < failures->count; i++) {
        size_t k = 0;
        while (strcmp(failures->lines[k], failures->lines[i]) != 0)
            k++;
        if (k == i)
            diagnostics_add(diag, "%s", failures->lines[i]);
    }
}

static enum prediction_status run_all(struct sensitivity *sensitivity, const struct question *question, uint32_t jobs,
                                      struct diagnostics *diag)
{
    struct work work = {sensitivity, question};
    if (question->phase && prediction_is_large(&sensitivity->prediction))
        question->phase(question->progress_context, "varying");
    size_t n_runs = RUN_CONSTANTS + 2 * sensitivity->constants.count;
    const struct worker_pool pool = {
        .n_tasks = n_runs,
        .jobs = jobs < n_runs ? jobs : (uint32_t)n_runs,
        .work = work_on_run,
        .context = &work,
        .progress = question->progress,
        .progress_context = question->progress_context,
    };
    struct worker_result *workers = memory_zeroed(n_runs, sizeof *workers);
    double *seconds = memory_zeroed(n_runs, sizeof *seconds);
    struct diagnostics failures;
    diagnostics_init(&failures);
    sensitivity->signal = worker_pool_run(&pool, workers);
    size_t n_done = 0;
    for (size_t i = 0; i < n_runs; i++) {
        seconds[i] = (double)NAN; /* nobody has got to it */
        if (worker_result_is_there(&workers[i]))
            n_done += read_run(&workers[i], &seconds[i], sensitivity->crosses, &failures);
    }
    bool fine = failures.count == 0 && !isnan(seconds[RUN_GIVEN]);
    if (fine && !(seconds[RUN_GIVEN] > 0))
        fine = diagnostics_add(&failures, "the step takes no time, so nothing can make it longer or shorter");
    if (fine)
        make_rows(sensitivity, seconds);
    report_failures(&failures, diag);
    if (sensitivity->signal)
        diagnostics_add(diag, "stopped by signal %d (%s) after %zu of %zu runs", sensitivity->signal,
                        strsignal(sensitivity->signal), n_done, n_runs);
    diagnostics_fini(&failures);
    for (size_t i = 0; i < n_runs; i++)
        free(workers[i].text);
    free(workers);
    free(seconds);
    return fine ? PREDICTION_DONE : PREDICTION_FAILED;
}

bool sensitivity_level_is_idle(const struct sensitivity *sensitivity, const struct constant *constant)
{
    const struct topology *topology = &sensitivity->prediction.topology;
    return constant->level < topology->n_levels && !sensitivity->crosses[constant->level];
}

bool sensitivity_override_is_idle(const struct sensitivity *sensitivity, const struct constant *constant)
{
    for (uint32_t number = 0; number < sensitivity->n_overrides; number++) {
        const char *name = overrides_name(&sensitivity->prediction.topology, number);
        size_t length = strlen(name);
        if (strncmp(constant->name, name, length) == 0 && constant->name[length] == '.')
            return sensitivity->idle_overrides[number];
    }
    return false;
}

static void find_idle_overrides(struct sensitivity *sensitivity)
{
    sensitivity->n_overrides = overrides_count(&sensitivity->prediction.topology);
    sensitivity->idle_overrides = memory_zeroed(sensitivity->n_overrides, sizeof *sensitivity->idle_overrides);
    for (uint32_t number = 0; number < sensitivity->n_overrides; number++)
        sensitivity->idle_overrides[number] = override_is_idle(&sensitivity->prediction, number);
}

enum prediction_status sensitivity_run(struct sensitivity *sensitivity, const struct question *question, uint32_t jobs,
                                       struct diagnostics *diag)
{
    *sensitivity = (struct sensitivity){.n_rows = 0};
    struct prediction *prediction = &sensitivity->prediction;
    enum prediction_status status = prediction_prepare(prediction, question, diag);
    if (status != PREDICTION_DONE)
        return status;
    const struct constant_holders holders = {&prediction->device, &prediction->topology,
                                             &prediction->experiment.implementation};
    constants_init(&sensitivity->constants, &holders, &prediction->cost, 1 + SENSITIVITY_STEP);
    sensitivity->crosses = memory_zeroed(prediction->topology.n_levels, sizeof *sensitivity->crosses);
    find_idle_overrides(sensitivity);
    return run_all(sensitivity, question, jobs, diag);
}

void sensitivity_fini(struct sensitivity *sensitivity)
{
    free(sensitivity->rows);
    free(sensitivity->crosses);
    free(sensitivity->idle_overrides);
    constants_fini(&sensitivity->constants);
    prediction_fini(&sensitivity->prediction);
}
