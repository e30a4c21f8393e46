/* options_judge.c - see options_judge.h. */
#include "cli/options_judge.h"

#include <stdlib.h>
#include <string.h>

#include "cli/gpu_options.h"
#include "cli/list.h"
#include "cli/options_plots.h"
#include "cli/result_places.h"
#include "hw/measure.h"

static void forbid(struct diagnostics *diag, bool typed, const char *option, const char *mode)
{
    if (typed)
        diagnostics_add(diag, "%s has no effect with %s", option, mode);
}

/* Options that only a prediction or a sweep has a use for. */
static void forbid_predicting(const struct options *options, const struct given_options *given, const char *mode,
                              struct diagnostics *diag)
{
    forbid(diag, options->operations, "--operations", mode);
    forbid(diag, options->sweeps.count, "--sweep", mode);
    forbid(diag, given->jobs, "--jobs", mode);
    forbid(diag, given->engine, "--engine", mode);
    forbid(diag, given->without, "--without", mode);
    forbid(diag, options->no_fold, "--no-fold", mode);
}

/* Files and tables, which only a run, many or a comparison of them have; --quiet aside. */
static void forbid_results(const struct options *options, const struct given_options *given, const char *mode,
                           struct diagnostics *diag)
{
    forbid(diag, options->json, "--json", mode);
    forbid(diag, options->csv, "--csv", mode);
    forbid(diag, options->trace, "--trace", mode);
    forbid(diag, options->n_plots, "--plot", mode);
    forbid(diag, options->script, "--script", mode);
    forbid(diag, options->details, "--details", mode);
    forbid_predicting(options, given, mode, diag);
}

/* The same of modes that print nothing but what they are asked for. */
static void forbid_all_results(const struct options *options, const struct given_options *given, const char *mode,
                               struct diagnostics *diag)
{
    forbid_results(options, given, mode, diag);
    forbid(diag, options->quiet, "--quiet", mode);
}

/* Options that only --hw has a use for. */
static void require_hardware(const struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    const struct {
        bool given;
        const char *name;
    } mine[] = {{options->hardware.transport, "--transport"},
                {given->compute, "--compute"},
                {options->hardware.collectives != COLLECTIVES_DEFAULT, "--collectives"},
                {given->iterations, "--iterations"},
                {given->warmup, "--warmup"},
                {options->seed_given, "--seed"},
                {options->profile, "--calibrate"}};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (mine[i].given)
            diagnostics_add(diag, "%s has no effect without --hw", mine[i].name);
    for (size_t i = 0; i < GPU_OPTIONS; i++)
        if (gpu_option_is_set(&options->hardware, i))
            diagnostics_add(diag, "%s has no effect without --hw", gpu_option_name(i));
}

/* Those of the options for GPUs that do nothing with the backend and the transport that were typed. What is chosen
 * because nothing was typed is judged when it is known (cli/measured.c). */
static void judge_gpu_options(const struct options *options, struct diagnostics *diag)
{
    const struct hardware_settings *hardware = &options->hardware;
    const struct transport_ops *transport = hardware->transport ? transport_find(hardware->transport) : NULL;
    if (hardware->compute)
        gpu_options_check_compute(hardware, hardware->compute, NULL, diag);
    if (transport)
        gpu_options_check_transport(hardware, transport, diag);
}

static void judge_hardware(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    options->mode = COMMAND_HARDWARE;
    size_t files = options->files.count;
    if (files != 1)
        diagnostics_add(diag, "%zu files given, expected one: an experiment (with --hw this machine is the topology)",
                        files);
    if (options->sweeps.count)
        diagnostics_add(diag, "--hw cannot --sweep yet: measure each point by a run of its own, with --set");
    forbid(diag, given->jobs, "--jobs", "--hw");
    forbid(diag, given->engine, "--engine", "--hw");
    forbid(diag, given->without, "--without", "--hw");
    forbid(diag, options->no_fold, "--no-fold", "--hw");
    judge_gpu_options(options, diag);
}

static void judge_calibration(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    static const char mode[] = "--calibrate";
    options->mode = COMMAND_CALIBRATE;
    forbid(diag, options->files.count, "a file", mode);
    forbid(diag, options->overrides.count, "--set", mode);
    forbid_results(options, given, mode, diag);
    forbid(diag, options->hardware.collectives != COLLECTIVES_DEFAULT, "--collectives", mode);
    forbid(diag, given->iterations, "--iterations", mode);
    forbid(diag, given->warmup, "--warmup", mode);
    forbid(diag, options->seed_given, "--seed", mode);
    for (size_t i = 0; i < GPU_OPTIONS; i++)
        forbid(diag, gpu_option_is_for_runs(i) && gpu_option_is_set(&options->hardware, i), gpu_option_name(i), mode);
    if (given->ranks && transport_launched() > 1)
        diagnostics_add(diag, "--ranks has no effect under an MPI launcher, which has started the ranks");
    if (strcmp(options->profile ? options->profile : "", "-") == 0)
        diagnostics_add(diag, "--calibrate '-', expected a file: it writes two");
}

/* Comparing reads results: whatever would change them is out of place. */
static void judge_compare(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    options->mode = COMMAND_COMPARE;
    forbid(diag, options->overrides.count, "--set", "--compare");
    forbid(diag, options->trace, "--trace", "--compare");
    forbid_predicting(options, given, "--compare", diag);
    size_t files = options->files.count;
    if (files < 2)
        diagnostics_add(diag, "%zu file%s given, expected two or more runs (JSON)", files, files == 1 ? "" : "s");
    for (size_t i = 0; i < files; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(options->files.items[i], options->files.items[k]) == 0)
                diagnostics_add(diag, "'%s' is given twice", options->files.items[i]);
}

/* Rows state all that they override. */
static void judge_validation(struct options *options, struct diagnostics *diag)
{
    static const char mode[] = "--validate";
    options->mode = COMMAND_VALIDATE;
    forbid(diag, options->overrides.count, "--set", mode);
    forbid(diag, options->sweeps.count, "--sweep", mode);
    forbid(diag, options->trace, "--trace", mode);
    forbid(diag, options->operations, "--operations", mode);
    size_t files = options->files.count;
    if (files != 1)
        diagnostics_add(diag, "%zu files given, expected one: a folder of published sets, or one set", files);
}

/* Options that only a sweep has a use for. */
static void judge_sweep_options(const struct options *options, const struct given_options *given,
                                struct diagnostics *diag)
{
    bool sweep = options->mode == COMMAND_SWEEP || options->mode == COMMAND_ALGORITHMS;
    if (!sweep && options->resume)
        diagnostics_add(diag, "--resume has no effect without --sweep");
    if (!sweep && given->points)
        diagnostics_add(diag, "--points has no effect without --sweep");
    if (sweep && given->points && !options->json)
        diagnostics_add(diag, "--points has no effect without --json");
    if (sweep && options->resume && (!options->json || strcmp(options->json, "-") == 0))
        diagnostics_add(diag, "--resume needs --json FILE, the file of the sweep that it is to go on with");
}

/* Prints lines about the files; other results are of the topology among them. */
static void judge_check(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    static const char mode[] = "--check";
    options->mode = COMMAND_CHECK;
    forbid(diag, options->csv, "--csv", mode);
    forbid(diag, options->trace, "--trace", mode);
    forbid(diag, options->details, "--details", mode);
    forbid(diag, options->quiet, "--quiet", mode);
    forbid_predicting(options, given, mode, diag);
    if (options->files.count == 0)
        diagnostics_add(diag, "--check needs a file");
    for (size_t i = 0; i < options->n_paths; i++)
        for (size_t k = 0; k < i; k++)
            if (options->paths[i].from == options->paths[k].from && options->paths[i].to == options->paths[k].to)
                diagnostics_add(diag, "--path '%s' is given twice", options->paths[i].text);
}

/* Nothing is simulated, so there is nothing to simulate otherwise, nor to draw. */
static void judge_longest(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    static const char mode[] = "--longest";
    options->mode = COMMAND_LONGEST;
    forbid(diag, options->csv, "--csv", mode);
    forbid(diag, options->trace, "--trace", mode);
    forbid(diag, options->n_plots, "--plot", mode);
    forbid(diag, options->script && options->n_plots, "--script", mode);
    forbid(diag, options->details, "--details", mode);
    forbid_predicting(options, given, mode, diag);
    size_t files = options->files.count;
    if (files != 2)
        diagnostics_add(diag, "%zu file%s given, expected two: a topology and an experiment", files,
                        files == 1 ? "" : "s");
}

/* Options that only an advice has a use for. */
static void require_advise(const struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    const struct {
        bool given;
        const char *name;
    } mine[] = {{options->vary.count, "--vary"},
                {options->fix.count, "--fix"},
                {given->gpus, "--gpus"},
                {given->best, "--best"},
                {options->exhaustive, "--exhaustive"}};
    for (size_t i = 0; i < sizeof mine / sizeof *mine && options->mode != COMMAND_ADVISE; i++)
        if (mine[i].given)
            diagnostics_add(diag, "%s has no effect without --advise", mine[i].name);
}

static void judge_mode(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    if (given->check + given->events + given->compare + given->hw + given->algorithms + given->validate +
            given->sensitivity + given->explain + given->advise + given->longest + (options->list != NULL) >
        1)
        diagnostics_add(diag, "--check, --events, --compare, --compare-algorithms, --sensitivity, --explain, --advise, "
                              "--longest, --validate, --hw and --list exclude each other");
    forbid(diag, given->path && !given->check, "--path", "anything but --check");
    if (!given->hw)
        require_hardware(options, given, diag);
    if (!options->profile) {
        forbid(diag, given->ranks, "--ranks", "anything but --calibrate");
        forbid(diag, options->quick, "--quick", "anything but --calibrate");
        forbid(diag, options->kernel_times, "--kernel-times", "anything but --calibrate");
    }
    size_t files = options->files.count;
    if (options->list) {
        options->mode = COMMAND_LIST;
        forbid_all_results(options, given, "--list", diag);
        bool judges = strcmp(options->list, "algorithms") == 0 && files > 0; /* them, by an experiment */
        forbid(diag, options->overrides.count && !judges, "--set", "--list without an experiment");
        forbid(diag, files && !judges, "a file", "--list of anything but algorithms");
        if (judges && files > 1)
            diagnostics_add(diag, "%zu files given, expected one: an experiment", files);
        if (!list_knows(options->list))
            diagnostics_add(diag, "--list '%s', expected one of: " LIST_SUBJECTS, options->list);
    } else if (given->check) {
        judge_check(options, given, diag);
    } else if (given->hw && options->profile) {
        judge_calibration(options, given, diag);
    } else if (given->hw) {
        judge_hardware(options, given, diag);
    } else if (given->compare) {
        judge_compare(options, given, diag);
    } else if (given->validate) {
        judge_validation(options, diag);
    } else if (given->longest) {
        judge_longest(options, given, diag);
    } else if (given->events) {
        options->mode = COMMAND_EVENTS;
        forbid_all_results(options, given, "--events", diag);
        if (files < 1 || files > 2)
            diagnostics_add(diag, "%zu files given, expected an experiment, or a topology and an experiment", files);
    } else {
        options->mode = given->algorithms       ? COMMAND_ALGORITHMS
                        : given->sensitivity    ? COMMAND_SENSITIVITY
                        : given->explain        ? COMMAND_EXPLAIN
                        : given->advise         ? COMMAND_ADVISE
                        : options->sweeps.count ? COMMAND_SWEEP
                                                : COMMAND_PREDICT;
        if (files != 2)
            diagnostics_add(diag, "%zu file%s given, expected two: a topology and an experiment", files,
                            files == 1 ? "" : "s");
    }
    bool many = options->mode == COMMAND_SWEEP || options->mode == COMMAND_ALGORITHMS;
    bool advise = options->mode == COMMAND_ADVISE;
    if (many || advise || options->mode == COMMAND_SENSITIVITY || options->mode == COMMAND_EXPLAIN) {
        const char *mode = given->sensitivity  ? "--sensitivity"
                           : given->explain    ? "--explain"
                           : given->advise     ? "--advise"
                           : given->algorithms ? "--compare-algorithms"
                                               : "--sweep";
        forbid(diag, options->sweeps.count && !many, "--sweep", mode);
        forbid(diag, options->trace, "--trace", mode);
        forbid(diag, options->details && options->mode != COMMAND_EXPLAIN && !advise, "--details", mode);
        forbid(diag, options->operations, "--operations", mode);
    } else if (options->mode == COMMAND_PREDICT) {
        forbid(diag, given->jobs, "--jobs", "a single prediction (it needs --sweep)");
    }
    judge_sweep_options(options, given, diag);
    require_advise(options, given, diag);
    options->jobs_given = given->jobs;
    bool run = options->mode == COMMAND_PREDICT || options->mode == COMMAND_HARDWARE;
    if (run && options->operations && !options->json)
        diagnostics_add(diag, "--operations has no effect without --json");
}

void options_judge(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    judge_mode(options, given, diag);
    options_judge_plots(options, diag);
    bool claimed = place_is_stdout(options->json) || place_is_stdout(options->csv) || place_is_stdout(options->trace) ||
                   place_is_stdout(options->script);
    if (options->details && options->quiet)
        diagnostics_add(diag, "--details and --quiet exclude each other");
    else if (options->details && claimed)
        diagnostics_add(diag, "--details has no effect when another result goes to standard output");
    options->table = !options->quiet && !claimed;
    result_places_judge(options, diag);
}
