/* check.c - a file's kind is the one whose sections it has most of. */
#include "cli/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/summary.h"
#include "cli/validation_set.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/key_table.h"
#include "models/input/transformer.h"

/* How many of the document's sections a file of kind `spec` may have. */
static size_t sections_known(const struct ini_document *document, const struct file_spec *spec)
{
    size_t known = 0;
    for (size_t i = 0; i < document->n_sections; i++) {
        char *text = memory_format("%s.key=value", document->sections[i].name);
        known += key_table_owns_override(spec, text);
        free(text);
    }
    return known;
}

static const struct file_spec *recognise(const struct ini_document *document)
{
    const struct file_spec *best = NULL;
    size_t best_known = 0;
    for (const struct file_spec *const *spec = file_specs; *spec; spec++) {
        size_t known = sections_known(document, *spec);
        if (known > best_known) {
            best_known = known;
            best = *spec;
        }
    }
    return best;
}

/* The file that a typed name means, whatever its kind. */
static char *find_file(const char *name, struct diagnostics *diag)
{
    static const char *const folders[] = {"topologies", "experiments", "models/devices", "models/transformers",
                                          "models/implementations"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = data_path_find(folders[i], name);
        if (path)
            return path;
    }
    if (strchr(name, '/') || strstr(name, ".ini"))
        return memory_text(name);
    diagnostics_add(
        diag,
        "no file '%s' and nothing of that name among the shipped ones (see cpsim --list topologies, experiments, "
        "devices, transformers or implementations)",
        name);
    return NULL;
}

/* What is being checked, and what was found. */
struct check {
    const struct check_request *request;
    struct check_result *result;
    struct diagnostics *diag;
    const char *topology, *experiment; /* as typed; of the last file of that kind */
    size_t n_topologies, n_experiments;
};

static bool check_experiment(struct check *check, const char *path, const char *const *overrides, size_t n_overrides,
                             char *summary, size_t size)
{
    struct experiment experiment;
    if (!experiment_read(&experiment, path, overrides, n_overrides, check->diag))
        return false;
    summary_experiment(&experiment, summary, size);
    experiment_fini(&experiment);
    return true;
}

static bool check_topology(struct check *check, const char *name, const char *path, const char *const *overrides,
                           size_t n_overrides, char *summary, size_t size)
{
    struct check_result *result = check->result;
    struct checked_topology *checked = memory_zeroed(1, sizeof *checked);
    if (!topology_read(&checked->topology, path, overrides, n_overrides, check->diag)) {
        free(checked);
        return false;
    }
    memory_grow(result->topologies, result->n_topologies, result->capacity);
    result->topologies[result->n_topologies++] = checked;
    summary_topology(&checked->topology, summary, size);
    char *device = topology_device_path(&checked->topology, check->diag);
    bool fine = device != NULL;
    free(device);
    fine &= topology_report_make(&checked->report, &checked->topology, name, check->request->pairs,
                                 check->request->n_pairs, check->diag);
    return fine;
}

static bool check_device(struct check *check, const char *path, char *summary, size_t size)
{
    struct device device;
    if (!device_read(&device, path, check->diag))
        return false;
    summary_device(&device, summary, size);
    device_fini(&device);
    return true;
}

static bool check_transformer(struct check *check, const char *path, char *summary, size_t size)
{
    struct transformer transformer;
    if (!transformer_read(&transformer, path, check->diag))
        return false;
    summary_transformer(&transformer, summary, size);
    return true;
}

static bool check_implementation(struct check *check, const char *path, char *summary, size_t size)
{
    struct implementation implementation;
    if (!implementation_read(&implementation, path, check->diag))
        return false;
    snprintf(summary, size, "%s, attention by %s, messages over a communicator of the %s", implementation.name,
             *implementation.kernel ? implementation.kernel : "the device's kernel",
             implementation.communicator == COMMUNICATOR_PAIR ? "pair" : "group");
    return true;
}

static bool check_bounds(struct check *check, const char *path, char *summary, size_t size)
{
    struct overall_bounds bounds;
    if (!overall_bounds_read(&bounds, path, check->diag))
        return false;
    snprintf(summary, size, "of what --validate finds in its folder");
    return true;
}

/* One line about a file, unless standard output belongs to something else. */
static void say(const struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct check *check, const char *format, ...)
{
    if (!check->request->stream)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(check->request->stream, format, arguments);
    va_end(arguments);
}

static bool check_kind(struct check *check, const struct file_spec *kind, const char *name, const char *path)
{
    const struct check_request *request = check->request;
    const char **mine = memory_zeroed(request->n_overrides, sizeof *mine);
    size_t n_mine = 0;
    for (size_t i = 0; i < request->n_overrides; i++)
        if (key_table_owns_override(kind, request->overrides[i]))
            mine[n_mine++] = request->overrides[i];
    char summary[512] = "";
    bool fine;
    if (kind == &experiment_file) {
        check->experiment = name;
        check->n_experiments++;
        fine = check_experiment(check, path, mine, n_mine, summary, sizeof summary);
    } else if (kind == &topology_file) {
        check->topology = name;
        check->n_topologies++;
        fine = check_topology(check, name, path, mine, n_mine, summary, sizeof summary);
    } else if (kind == &device_file) {
        fine = check_device(check, path, summary, sizeof summary);
    } else if (kind == &implementation_file) {
        fine = check_implementation(check, path, summary, sizeof summary);
    } else if (kind == &bounds_file) {
        fine = check_bounds(check, path, summary, sizeof summary);
    } else {
        fine = check_transformer(check, path, summary, sizeof summary);
    }
    if (fine)
        say(check, "%s: %s, ok: %s\n", name, kind->name, summary);
    free(mine);
    return fine;
}

/* Its kind; NULL, with messages, when it cannot be told. */
static const struct file_spec *find_kind(const char *path, struct diagnostics *diag)
{
    struct diagnostics found;
    diagnostics_init(&found);
    struct ini_document *document = ini_document_read(path, &found);
    const struct file_spec *kind = document ? recognise(document) : NULL;
    if (document && !kind)
        diagnostics_at(&found, path, 0,
                       "none of its sections is known, expected an experiment ([model], [workload], ...), a "
                       "topology ([cluster], [level NAME], ...) or a profile");
    for (size_t i = 0; !kind && i < found.count; i++) /* else the reader of that kind will say them */
        diagnostics_add(diag, "%s", found.lines[i]);
    ini_document_destroy(document);
    diagnostics_fini(&found);
    return kind;
}

/* A check reads its files more than once. */
static bool is_pipe(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

/* A file with published measurements is their set, and mostly an experiment beside. */
static bool check_published(struct check *check, const char *name, const char *path, bool *only)
{
    struct diagnostics ignored; /* who reads the file next will say them */
    diagnostics_init(&ignored);
    struct ini_document *document = ini_document_read(path, &ignored);
    diagnostics_fini(&ignored);
    bool there = document && !document->incomplete && published_is_there(document);
    *only = there && document->n_sections == 1;
    ini_document_destroy(document);
    if (!there)
        return true;
    struct validation_set set;
    bool fine = validation_set_read(&set, path, check->diag);
    *only = *only || set.published.kind == PUBLISHED_LINKS;
    if (fine)
        say(check, "%s: published set, ok: %zu rows, measured on %s\n", name, set.n_rows, set.topology);
    validation_set_fini(&set);
    return fine;
}

static bool check_file(struct check *check, const char *name)
{
    char *path = find_file(name, check->diag);
    if (!path)
        return false;
    bool fine = false;
    if (is_pipe(path)) {
        diagnostics_at(check->diag, path, 0, "a pipe, which can be read only once, expected a file");
    } else {
        bool only;
        fine = check_published(check, name, path, &only);
        const struct file_spec *kind = only ? NULL : find_kind(path, check->diag);
        fine &= only || (kind && check_kind(check, kind, name, path));
    }
    free(path);
    return fine;
}

static bool check_overrides(const struct check *check)
{
    bool fine = true;
    for (size_t i = 0; i < check->request->n_overrides; i++) {
        const char *text = check->request->overrides[i];
        if (!(check->n_experiments && key_table_owns_override(&experiment_file, text)) &&
            !(check->n_topologies && key_table_owns_override(&topology_file, text)))
            fine = diagnostics_add(check->diag, "--set %s: addresses none of the files given", text);
    }
    return fine;
}

static enum prediction_status check_combination(const struct check *check)
{
    const struct question question = {
        .topology_path = check->topology,
        .experiment_path = check->experiment,
        .overrides = check->request->overrides,
        .n_overrides = check->request->n_overrides,
        .engine = engines[0],
        .no_fold = true,
    };
    struct prediction prediction;
    enum prediction_status status = prediction_prepare(&prediction, &question, check->diag);
    if (status == PREDICTION_DONE) {
        uint64_t operations = 0, messages = 0;
        for (uint32_t rank = 0; rank < prediction.placement.cp; rank++) {
            const struct program *program = ensemble_program(&prediction.whole, rank);
            operations += program->n_ops;
            for (uint32_t i = 0; i < program->n_ops; i++)
                messages += program->ops[i].kind == OP_SEND;
        }
        say(check,
            "%s with %s: combination, ok: %" PRIu32 " CP group%s of %" PRIu32 " ranks on %" PRIu64 " GPUs; %" PRIu64
            " operations with %" PRIu64 " messages a group compute attention exactly once\n",
            check->topology, check->experiment, prediction.placement.groups,
            prediction.placement.groups == 1 ? "" : "s", prediction.placement.cp, prediction.topology.n_gpus,
            operations, messages);
    }
    prediction_fini(&prediction);
    return status;
}

enum prediction_status check_files(const struct check_request *request, struct check_result *result,
                                   struct diagnostics *diag)
{
    *result = (struct check_result){0};
    struct check check = {.request = request, .result = result, .diag = diag};
    bool fine = true;
    for (size_t i = 0; i < request->n_files; i++)
        fine &= check_file(&check, request->files[i]);
    fine &= check_overrides(&check);
    if (fine && request->one_topology && check.n_topologies != 1)
        fine = diagnostics_add(diag, "%zu topologies given, expected one: --path, --json and --plot are of a topology",
                               check.n_topologies);
    if (!fine)
        return PREDICTION_BAD_INPUT;
    return check.n_topologies == 1 && check.n_experiments == 1 ? check_combination(&check) : PREDICTION_DONE;
}

void check_result_fini(struct check_result *result)
{
    for (size_t i = 0; i < result->n_topologies; i++) {
        topology_report_fini(&result->topologies[i]->report);
        topology_fini(&result->topologies[i]->topology);
        free(result->topologies[i]);
    }
    free(result->topologies);
    *result = (struct check_result){0};
}

bool check_print_topologies(const struct check_result *result, FILE *stream)
{
    for (size_t i = 0; i < result->n_topologies; i++) {
        const struct topology_report *report = &result->topologies[i]->report;
        fputc('\n', stream);
        if (result->n_topologies > 1)
            fprintf(stream, "--- %s ---\n", report->name);
        topology_report_print(report, stream);
    }
    return !ferror(stream);
}
