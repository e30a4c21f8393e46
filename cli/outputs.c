/* outputs.c - every result is a function that writes to a stream; write_to() alone decides where that stream ends. */
#include "cli/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/algorithms.h"
#include "cli/compare_writers.h"
#include "cli/plot_algorithms.h"
#include "cli/plot_explanation.h"
#include "cli/plot_sensitivity.h"
#include "cli/plot_style.h"
#include "cli/plot_validation.h"
#include "cli/plots.h"
#include "cli/result_file.h"
#include "cli/sweep_json.h"
#include "cli/writers.h"

/* What is written: a run, a sweep, a comparison, a validation, a sensitivity, an explanation, a longest sequence or a
 * check, by one of the functions below.
 */
struct result {
    const struct options *options;
    const struct prediction *prediction; /* of a run */
    struct progress *progress;           /* NULL: it does not take long */
    const json_t *sweep;                 /* of a sweep, whose JSON and CSV are written (sweep_files.h) */
    const struct comparison *comparison;
    const struct validation *validation;
    const struct sensitivity *sensitivity;
    const struct explanation *explanation;
    const struct longest *longest;
    const struct advice *advice;
    const struct check_result *check;
};

/* A drawing cannot say that it is of a part only, so none is made of one. */
static bool is_complete(const struct result *result)
{
    return !(result->validation && result->validation->n_left) &&
           !(result->sensitivity && result->sensitivity->n_left) && !(result->advice && result->advice->signal) &&
           (!result->sweep || sweep_is_complete(result->sweep));
}

typedef bool write_function(const struct result *result, FILE *stream);

static bool write_json(const struct result *result, FILE *stream)
{
    if (result->prediction)
        return run_json_write(result->prediction, result->options->operations, stream);
    json_t *json = result->comparison    ? compare_to_json(result->comparison)
                   : result->validation  ? validation_to_json(result->validation)
                   : result->sensitivity ? sensitivity_to_json(result->sensitivity)
                   : result->explanation ? explanation_to_json(result->explanation)
                   : result->longest     ? longest_to_json(result->longest)
                   : result->advice      ? advice_to_json(result->advice)
                                         : topology_report_to_json(&result->check->topologies[0]->report);
    bool fine = json_print(json, stream);
    json_decref(json);
    return fine;
}

static bool write_csv(const struct result *result, FILE *stream)
{
    if (result->comparison)
        return compare_csv_write(result->comparison, stream);
    if (result->validation)
        return validation_csv_write(result->validation, stream);
    if (result->sensitivity)
        return sensitivity_csv_write(result->sensitivity, stream);
    if (result->advice)
        return advice_csv_write(result->advice, stream);
    if (result->explanation)
        return explanation_csv_write(result->explanation, stream);
    return csv_write_run(result->prediction, stream);
}

static bool write_trace(const struct result *result, FILE *stream)
{
    return trace_write(result->prediction, stream);
}

static bool write_table(const struct result *result, FILE *stream)
{
    if (result->comparison)
        return compare_table_write(result->comparison, result->options->details, stream);
    if (result->validation)
        return validation_table_write(result->validation, result->options->details, stream);
    if (result->sensitivity)
        return sensitivity_table_write(result->sensitivity, stream);
    if (result->explanation)
        return explanation_table_write(result->explanation, result->options->details, stream);
    if (result->advice)
        return advice_table_write(result->advice, result->options->details, stream);
    if (result->longest)
        return longest_table_write(result->longest, stream);
    if (result->check)
        return check_print_topologies(result->check, stream);
    if (result->options->mode == COMMAND_ALGORITHMS)
        return algorithms_table_write(result->sweep, stream);
    return result->sweep ? sweep_table_write(result->sweep, stream)
                         : table_write(result->prediction, result->options->details, stream);
}

#define WIDTH_DEFAULT 100
#define WIDTH_MIN 60
#define WIDTH_MAX 240

static int terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
}

static bool write_plot(const struct result *result, const struct plot_target *target, FILE *stream)
{
    if (result->comparison)
        return plot_script_compare(result->comparison, target, terminal_width(), stream);
    if (result->validation)
        return plot_script_validation(result->validation, target, terminal_width(), stream);
    if (result->sensitivity)
        return plot_script_sensitivity(result->sensitivity, target, terminal_width(), stream);
    if (result->explanation)
        return plot_script_explanation(result->explanation, target, terminal_width(), stream);
    if (result->advice)
        return plot_script_advice(result->advice, target, terminal_width(), stream);
    if (result->check)
        return plot_script_topology(&result->check->topologies[0]->report, target, terminal_width(), stream);
    if (target->kind == PLOT_ALGORITHMS)
        return plot_script_algorithms(result->sweep, target, terminal_width(), stream);
    return result->sweep ? plot_script_sweep(result->sweep, target, terminal_width(), stream)
                         : plot_script_run(result->prediction, target, terminal_width(), stream);
}

static bool write_script(const struct result *result, FILE *stream)
{
    for (size_t i = 0; i < result->options->n_plots; i++)
        if (!write_plot(result, &result->options->plots[i], stream))
            return false;
    return true;
}

/* Writes to `path`, "-" for standard output. */
static bool write_to(const char *path, write_function *write, const struct result *result, struct diagnostics *diag)
{
    errno = 0;
    if (strcmp(path, "-") == 0) {
        bool fine = write(result, stdout);
        if (fflush(stdout) != 0 || !fine)
            return diagnostics_add(diag, "cannot write to standard output: %s", strerror(errno ? errno : EIO));
        return true;
    }
    struct result_file file;
    FILE *stream = result_file_open(&file, path, diag);
    if (!stream)
        return false;
    errno = 0;
    return result_file_close(&file, write(result, stream), diag);
}

static bool draw(const struct result *result, const struct plot_target *target, struct diagnostics *diag)
{
    char *script = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&script, &size);
    if (!stream)
        return diagnostics_add(diag, "cannot draw '%s': %s", target->path, strerror(errno));
    bool fine = write_plot(result, target, stream);
    fine = fclose(stream) == 0 && fine;
    fine = fine ? gnuplot_run(script, size, target, diag)
                : diagnostics_add(diag, "cannot draw '%s': its script could not be made", target->path);
    free(script);
    return fine;
}

static void tell_phase(const struct result *result, bool to_stdout, const char *phase)
{
    if (result->progress && !to_stdout)
        progress_phase(result->progress, phase);
}

/* The results that go to standard output, or those that go to files. */
static bool write_some(const struct result *result, bool to_stdout, struct diagnostics *diag)
{
    const struct options *options = result->options;
    const struct {
        const char *path;
        write_function *write;
        const char *phase;
    } outputs[] = {
        {result->sweep ? NULL : options->json, write_json, "writing JSON"},
        {result->sweep ? NULL : options->csv, write_csv, "writing CSV"},
        {options->trace, write_trace, "writing a trace"},
        {options->table ? "-" : NULL, write_table, NULL},
        {is_complete(result) ? options->script : NULL, write_script, "writing a script"},
    };
    bool fine = true;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i].path && (strcmp(outputs[i].path, "-") == 0) == to_stdout) {
            tell_phase(result, to_stdout, outputs[i].phase);
            fine &= write_to(outputs[i].path, outputs[i].write, result, diag);
        }
    for (size_t i = 0; i < options->n_plots && !options->script && is_complete(result); i++)
        if (plot_on_terminal(&options->plots[i]) == to_stdout) {
            tell_phase(result, to_stdout, "drawing");
            fine &= draw(result, &options->plots[i], diag);
        }
    return fine;
}

/* Files first: the reader of standard output may be gone, and this process with it. */
static bool write_all(const struct result *result, struct diagnostics *diag)
{
    bool fine = write_some(result, false, diag);
    if (result->progress)
        progress_clear(result->progress);
    if (!is_complete(result) && result->options->n_plots)
        diagnostics_add(diag, "no plot is drawn of an incomplete result");
    return write_some(result, true, diag) && fine;
}

bool outputs_write_run(const struct options *options, const struct prediction *prediction, struct progress *progress,
                       struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .prediction = prediction, .progress = progress}, diag);
}

bool outputs_write_sweep(const struct options *options, const json_t *sweep, struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .sweep = sweep}, diag);
}

bool outputs_write_comparison(const struct options *options, const struct comparison *comparison,
                              struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .comparison = comparison}, diag);
}

bool outputs_write_sensitivity(const struct options *options, const struct sensitivity *sensitivity,
                               struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .sensitivity = sensitivity}, diag);
}

bool outputs_write_explanation(const struct options *options, const struct explanation *explanation,
                               struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .explanation = explanation}, diag);
}

bool outputs_write_longest(const struct options *options, const struct longest *longest, struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .longest = longest}, diag);
}

bool outputs_write_advice(const struct options *options, const struct advice *advice, struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .advice = advice}, diag);
}

bool outputs_write_validation(const struct options *options, const struct validation *validation,
                              struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .validation = validation}, diag);
}

bool outputs_write_check(const struct options *options, const struct check_result *check, struct diagnostics *diag)
{
    return write_all(&(struct result){.options = options, .check = check}, diag);
}
