/* options_judge.c - see options_judge.h. Two results for one place are found by what the place is, not by its spelling.
 */
#include "cli/options_judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/gpu_options.h"
#include "cli/list.h"
#include "hw/measure.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"

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

static void judge_plots(struct options *options, struct diagnostics *diag)
{
    bool algorithms = options->mode == COMMAND_ALGORITHMS, sweep = options->mode == COMMAND_SWEEP || algorithms;
    bool sensitivity = options->mode == COMMAND_SENSITIVITY, explain = options->mode == COMMAND_EXPLAIN;
    bool compare = options->mode == COMMAND_COMPARE, validate = options->mode == COMMAND_VALIDATE;
    bool check = options->mode == COMMAND_CHECK, advise = options->mode == COMMAND_ADVISE;
    for (size_t i = 0; i < options->n_plots; i++) {
        struct plot_target *target = &options->plots[i];
        if (!target->kind_given)
            target->kind = algorithms            ? PLOT_ALGORITHMS
                           : sweep               ? PLOT_SCALING
                           : sensitivity         ? PLOT_TORNADO
                           : explain             ? PLOT_PATH
                           : advise              ? PLOT_PARETO
                           : compare || validate ? PLOT_SCATTER
                           : check               ? PLOT_TOPOLOGY
                                                 : PLOT_TIMELINE;
        bool compares = target->kind == PLOT_SCATTER || target->kind == PLOT_PHASES || target->kind == PLOT_TIMELINES;
        if (sensitivity && target->kind != PLOT_TORNADO)
            diagnostics_add(diag, "a sensitivity has no %s plot, expected tornado", plot_kind_name(target->kind));
        else if (target->kind == PLOT_TORNADO && !sensitivity)
            diagnostics_add(diag, "a tornado plot needs --sensitivity");
        else if (explain && target->kind != PLOT_PATH)
            diagnostics_add(diag, "an explanation has no %s plot, expected path", plot_kind_name(target->kind));
        else if (target->kind == PLOT_PATH && !explain)
            diagnostics_add(diag, "a path plot needs --explain");
        else if (advise && target->kind != PLOT_PARETO)
            diagnostics_add(diag, "an advice has no %s plot, expected pareto", plot_kind_name(target->kind));
        else if (target->kind == PLOT_PARETO && !advise)
            diagnostics_add(diag, "a pareto plot needs --advise");
        else if (compare && !compares)
            diagnostics_add(diag, "a comparison has no %s plot, expected scatter, phases or timelines",
                            plot_kind_name(target->kind));
        else if (validate && target->kind != PLOT_SCATTER)
            diagnostics_add(diag, "a validation has no %s plot, expected scatter", plot_kind_name(target->kind));
        else if (check && target->kind != PLOT_TOPOLOGY)
            diagnostics_add(diag, "a check has no %s plot, expected topology", plot_kind_name(target->kind));
        else if (!compare && !validate && compares && !sweep)
            diagnostics_add(diag, "a %s plot needs --compare", plot_kind_name(target->kind));
        else if (target->kind == PLOT_ALGORITHMS && !algorithms)
            diagnostics_add(diag, "an algorithms plot needs --compare-algorithms");
        else if (algorithms && target->kind != PLOT_ALGORITHMS && target->kind != PLOT_SCALING)
            diagnostics_add(diag, "a comparison of algorithms has no %s plot, expected algorithms or scaling",
                            plot_kind_name(target->kind));
        else if (sweep && target->kind != PLOT_SCALING && target->kind != PLOT_ALGORITHMS)
            diagnostics_add(diag, "a sweep has no %s plot, expected scaling", plot_kind_name(target->kind));
        else if (!sweep && !compare && !validate && target->kind == PLOT_SCALING)
            diagnostics_add(diag, "a scaling plot needs --sweep");
        else if (!check && !sweep && !compare && !validate && target->kind == PLOT_TOPOLOGY)
            diagnostics_add(diag, "a topology plot needs --check");
    }
    if (options->script && !options->n_plots)
        diagnostics_add(diag, "--script needs --plot, which says what the script draws");
}

struct place {
    const char *option, *path;
};

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* The folder of `path` with all links resolved, and its last part behind it; NULL if there is no such folder. */
static char *future_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = memory_format("%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    char *resolved = realpath(folder, NULL), *future = NULL;
    if (resolved)
        future = memory_format("%s/%s", resolved, slash ? slash + 1 : path);
    free(resolved);
    free(folder);
    return future;
}

/* Whether both paths lead to one file, however it is spelled, and though it may not be there yet. */
static bool same_place(const char *a, const char *b)
{
    a = is_stdout(a) ? "/dev/stdout" : a;
    b = is_stdout(b) ? "/dev/stdout" : b;
    if (strcmp(a, b) == 0)
        return true;
    struct stat at_a, at_b;
    bool a_there = stat(a, &at_a) == 0, b_there = stat(b, &at_b) == 0;
    if (a_there && b_there)
        return S_ISREG(at_a.st_mode) && at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino;
    if (a_there || b_there)
        return false;
    char *future_a = future_path(a), *future_b = future_path(b);
    bool same = future_a && future_b && strcmp(future_a, future_b) == 0;
    free(future_a);
    free(future_b);
    return same;
}

/* The path of the file that is read for the name at `index`. */
static char *input_path(const struct options *options, size_t index)
{
    const char *name = options->files.items[index];
    if (options->mode == COMMAND_COMPARE || options->mode == COMMAND_VALIDATE) /* nothing of which is shipped */
        return memory_text(name);
    bool check = options->mode == COMMAND_CHECK; /* files of any kind in any order */
    char *path = data_path_find(check || index + 1 < options->files.count ? "topologies" : "experiments", name);
    if (!path && check)
        path = data_path_find("experiments", name);
    return path ? path : memory_text(name);
}

/* The files that results go to, and with `terminal_too` standard output; the caller frees the array. */
static struct place *result_places(const struct options *options, bool terminal_too, size_t *count)
{
    struct place *places = memory_zeroed(5 + options->n_plots, sizeof *places);
    const struct place named[] = {
        {"--json", options->json}, {"--csv", options->csv}, {"--trace", options->trace}, {"--script", options->script}};
    *count = 0;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].path && (terminal_too || !is_stdout(named[i].path)))
            places[(*count)++] = named[i];
    size_t terminal_plots = 0;
    for (size_t i = 0; i < options->n_plots; i++) {
        bool terminal = is_stdout(options->plots[i].path);
        if (terminal && (!terminal_too || options->script || terminal_plots++ || options->table))
            continue; /* drawings may follow each other, and the table, in the terminal */
        places[(*count)++] = (struct place){"--plot", options->plots[i].path};
    }
    return places;
}

bool options_spare_file(const struct options *options, const char *path, struct diagnostics *diag)
{
    size_t count;
    struct place *places = result_places(options, false, &count);
    bool fine = true;
    for (size_t i = 0; i < count; i++)
        if (same_place(places[i].path, path))
            fine = diagnostics_add(diag, "%s would overwrite '%s', which is read", places[i].option, path);
    free(places);
    return fine;
}

/* Two results must not go to one place, nor a result over one of the files that were read. */
static void judge_places(const struct options *options, struct diagnostics *diag)
{
    size_t count;
    struct place *places = result_places(options, true, &count);
    if (options->table && count > 0)
        places[count++] = (struct place){"the table", "-"};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++)
            if (same_place(places[i].path, places[k].path))
                diagnostics_add(diag, "%s and %s both write to '%s'", places[k].option, places[i].option,
                                places[k].path);
        for (size_t k = 0; k < options->files.count; k++) {
            char *input = input_path(options, k);
            if (same_place(places[i].path, input))
                diagnostics_add(diag, "%s would overwrite '%s', which is read", places[i].option,
                                options->files.items[k]);
            free(input);
        }
    }
    free(places);
}

void options_judge(struct options *options, const struct given_options *given, struct diagnostics *diag)
{
    judge_mode(options, given, diag);
    judge_plots(options, diag);
    bool claimed =
        is_stdout(options->json) || is_stdout(options->csv) || is_stdout(options->trace) || is_stdout(options->script);
    if (options->details && options->quiet)
        diagnostics_add(diag, "--details and --quiet exclude each other");
    else if (options->details && claimed)
        diagnostics_add(diag, "--details has no effect when another result goes to standard output");
    options->table = !options->quiet && !claimed;
    judge_places(options, diag);
}
