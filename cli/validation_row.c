/* validation_row.c - a row of attention is a question like any other, a row of a transfer a program of its own. */
#include "cli/validation_row.h"

#include <stdlib.h>
#include <string.h>

#include "cli/validation_work.h"
#include "models/base/memory.h"
#include "sim/interval.h"

/* The keys that a row overrides, as a command line has them. */
struct row_overrides {
    char **items;
    size_t count;
};

static struct row_overrides overrides_of(const struct validation_set *set, const struct validation_row *row)
{
    struct row_overrides overrides = {memory_zeroed(set->n_columns, sizeof *overrides.items), 0};
    for (size_t i = 0; i < set->n_columns; i++)
        if (*row->cells[i])
            overrides.items[overrides.count++] = memory_format("%s=%s", set->columns[i], row->cells[i]);
    return overrides;
}

static void overrides_free(struct row_overrides *overrides)
{
    for (size_t i = 0; i < overrides->count; i++)
        free(overrides->items[i]);
    free(overrides->items);
}

static struct question question_of(const struct validation_set *set, const struct row_overrides *overrides,
                                   const struct row_settings *settings)
{
    return (struct question){
        .topology_path = set->topology,
        .experiment_path = set->path,
        .overrides = (const char *const *)overrides->items,
        .n_overrides = overrides->count,
        .engine = settings->engine,
        .without = settings->without,
    };
}

/* ---- attention, and whole steps ---- */

static bool is_of_backward(enum metric metric)
{
    return metric == METRIC_BACKWARD_SECONDS || metric == METRIC_BACKWARD_TFLOPS_PER_RANK;
}

static bool is_of_forward(enum metric metric)
{
    return metric == METRIC_FORWARD_SECONDS || metric == METRIC_FORWARD_TFLOPS_PER_RANK;
}

/* The interval is known for the step; a pass of it is taken to be as uncertain. */
static struct row_prediction answer_of(enum metric metric, const struct prediction *prediction)
{
    const struct report *report = &prediction->report;
    struct row_prediction answer = {.seconds = is_of_forward(metric)    ? report->forward_seconds
                                               : is_of_backward(metric) ? report->backward_seconds
                                                                        : report->seconds,
                                    .work = validation_work(metric, prediction),
                                    .bytes = (double)report->peak_bytes};
    if (report->seconds_high > report->seconds_low && report->seconds > 0) {
        answer.low = answer.seconds * report->seconds_low / report->seconds;
        answer.high = answer.seconds * report->seconds_high / report->seconds;
    }
    return answer;
}

/* Whether the experiment is one that such a set is about. */
static bool check_experiment(const struct validation_set *set, const struct validation_row *row,
                             const struct experiment *experiment, struct diagnostics *diag)
{
    if (is_of_backward(row->metric) && !experiment->train)
        return diagnostics_add(diag, "'metric' is '%s' with pass = forward, expected pass = train",
                               metric_name(row->metric));
    if (validation_set_is_steps(set) && experiment->step.scope != SCOPE_MODEL)
        return experiment_complain(experiment, "workload", "scope", diag,
                                   "'scope' of a set with kind = steps, expected scope = model");
    if (!validation_set_is_steps(set) && experiment->step.scope != SCOPE_ATTENTION)
        return experiment_complain(experiment, "workload", "scope", diag,
                                   "'scope' of a set with kind = attention, expected kind = steps, or no such key");
    return true;
}

static enum prediction_status predict_step(const struct validation_set *set, const struct validation_row *row,
                                           const struct question *question, struct row_prediction *answer,
                                           struct diagnostics *diag)
{
    struct prediction prediction;
    enum prediction_status status = prediction_prepare(&prediction, question, diag);
    if (status == PREDICTION_DONE && !check_experiment(set, row, &prediction.experiment, diag))
        status = PREDICTION_BAD_INPUT;
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, question, diag);
    if (status == PREDICTION_DONE)
        *answer = answer_of(row->metric, &prediction);
    prediction_fini(&prediction);
    return status;
}

/* ---- transfers ---- */

static bool run_transfer(const struct simulation *simulation, const struct engine_ops *engine,
                         struct row_prediction *answer, struct diagnostics *diag)
{
    struct timeline timeline;
    timeline_of(&timeline, simulation->ensemble);
    bool good = engine->run(simulation, &timeline, diag);
    *answer = (struct row_prediction){.seconds = timeline.phase_end[PHASE_COUNT - 1]};
    timeline_fini(&timeline);
    struct interval_seconds interval = {0, 0};
    good = good && interval_of(simulation, answer->seconds, &interval, diag);
    answer->low = interval.low;
    answer->high = interval.high;
    return good;
}

static enum prediction_status simulate_transfer(const struct validation_row *row, const struct topology *topology,
                                                const struct device *device, const struct row_settings *settings,
                                                struct row_prediction *answer, struct diagnostics *diag)
{
    struct benchmark benchmark;
    struct placement placement;
    benchmark_init(&benchmark, row->pattern, row->ranks, row->bytes);
    enum prediction_status status = PREDICTION_BAD_INPUT;
    if (placement_init(&placement, &benchmark.experiment, topology, diag)) {
        struct cost cost;
        cost_init_transfers(&cost, device, topology, &benchmark.schedule);
        cost.without = settings->without;
        struct execution *execution = execution_create(benchmark.programs, row->ranks, 1, diag);
        status = PREDICTION_FAILED;
        if (execution) {
            const struct simulation simulation = {
                .ensemble = execution_ensemble(execution), .cost = &cost, .placement = &placement};
            if (run_transfer(&simulation, settings->engine, answer, diag))
                status = PREDICTION_DONE;
            execution_destroy(execution);
        }
        placement_fini(&placement);
    }
    benchmark_fini(&benchmark);
    return status;
}

static enum prediction_status predict_transfer(const struct validation_row *row, const struct question *question,
                                               const struct row_settings *settings, struct row_prediction *answer,
                                               struct diagnostics *diag)
{
    char *path = question_file("topologies", question->topology_path, diag);
    struct topology topology;
    if (!path || !topology_read(&topology, path, question->overrides, question->n_overrides, diag)) {
        free(path);
        return PREDICTION_BAD_INPUT;
    }
    free(path);
    struct device device;
    char *device_path = topology_device_path(&topology, diag);
    enum prediction_status status = PREDICTION_BAD_INPUT;
    if (device_path && device_read(&device, device_path, diag)) {
        status = simulate_transfer(row, &topology, &device, settings, answer, diag);
        device_fini(&device);
    }
    free(device_path);
    topology_fini(&topology);
    return status;
}

/* ---- both ---- */

enum prediction_status validation_row_predict(const struct validation_set *set, const struct validation_row *row,
                                              const struct row_settings *settings, struct row_prediction *prediction,
                                              struct diagnostics *notes, struct diagnostics *diag)
{
    struct row_overrides overrides = overrides_of(set, row);
    struct question question = question_of(set, &overrides, settings);
    question.lenient = notes;
    enum prediction_status status = validation_set_is_links(set)
                                        ? predict_transfer(row, &question, settings, prediction, diag)
                                        : predict_step(set, row, &question, prediction, diag);
    overrides_free(&overrides);
    return status;
}

char *validation_row_command(const struct validation_set *set, const struct validation_row *row,
                             const struct row_settings *settings)
{
    if (validation_set_is_links(set))
        return NULL;
    struct row_overrides overrides = overrides_of(set, row);
    struct question question = question_of(set, &overrides, settings);
    char *command = question_command(&question, NULL, 0);
    overrides_free(&overrides);
    return command;
}
