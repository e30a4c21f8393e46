/* compare_runs.c - reads run files, and says what is wrong with them.
 *
 * Two runs are of one experiment when all of its effective values are equal, names apart: what a model is called, and
 * which file an experiment was read from, changes nothing that is computed.
 */
#include "cli/compare_runs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_read.h"
#include "models/base/memory.h"

/* ---- settings ---- */

static void add_setting(struct run_settings *settings, char *name, char *value)
{
    memory_grow(settings->items, settings->count, settings->capacity);
    settings->items[settings->count++] = (struct run_setting){name, value};
}

static void settings_fini(struct run_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->items[i].name);
        free(settings->items[i].value);
    }
    free(settings->items);
}

const char *run_setting(const struct run_settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].name, name) == 0)
            return settings->items[i].value;
    return NULL;
}

/* A scalar as text, the same for 8 and 8.0; NULL for what is none. */
static char *value_text(const json_t *value)
{
    if (json_is_string(value))
        return memory_text(json_string_value(value));
    if (json_is_integer(value))
        return memory_format("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (json_is_real(value))
        return memory_format("%.17g", json_real_value(value));
    if (json_is_boolean(value))
        return memory_text(json_is_true(value) ? "yes" : "no");
    return json_is_null(value) ? memory_text("") : NULL;
}

/* Adds {"section": {"key": value}, "key": value} as "section.key" and "key". False when something is nested deeper. */
static bool flatten(struct run_settings *settings, const char *prefix, const json_t *object)
{
    bool fine = true;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) /* which changes nothing */
    {
        char *name = *prefix ? memory_format("%s.%s", prefix, key) : memory_text(key);
        char *text = value_text(value);
        if (text) {
            add_setting(settings, name, text);
            continue;
        }
        fine = fine && !*prefix && json_is_object(value) && flatten(settings, name, value);
        free(name);
    }
    return fine;
}

static int compare_settings(const void *left, const void *right)
{
    const struct run_setting *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

bool run_setting_is_name(const char *name)
{
    return strcmp(name, "path") == 0 || strcmp(name, "name") == 0 || strcmp(name, "model.name") == 0;
}

static char *question_of(const struct run_settings *settings)
{
    const struct run_setting **sorted = memory_zeroed(settings->count, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; i < settings->count; i++)
        if (!run_setting_is_name(settings->items[i].name))
            sorted[count++] = &settings->items[i];
    qsort(sorted, count, sizeof *sorted, compare_settings);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    for (size_t i = 0; stream && i < count; i++)
        fprintf(stream, "%s=%zu:%s\n", sorted[i]->name, strlen(sorted[i]->value), sorted[i]->value);
    if (stream)
        fclose(stream);
    free(sorted);
    return text ? text : memory_text("");
}

/* ---- one run ---- */

/* Where a problem is: a file, and which point of a sweep. */
struct place {
    const char *file;
    size_t point;
    struct diagnostics *diag;
};

static bool complain(const struct place *place, const char *what)
{
    if (place->point)
        return diagnostics_at(place->diag, place->file, 0, "point %zu: %s", place->point, what);
    return diagnostics_at(place->diag, place->file, 0, "%s", what);
}

static bool complain_about(const struct place *place, const char *key, const char *what)
{
    char *text = memory_format("'step.%s' %s", key, what);
    complain(place, text);
    free(text);
    return false;
}

double compared_run_number(const struct compared_run *run, const char *key)
{
    const json_t *value = json_object_get(json_object_get(run->json, "step"), key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Every number that a comparison uses is there as a number not below 0, or not there (or null) at all. */
static bool check_numbers(const json_t *step, const struct place *place)
{
    static const char *const keys[] = {"forward_seconds", "backward_seconds", "exposed_seconds", "peak_bytes",
                                       "bytes_sent",      "seconds_low",      "seconds_high",    "spread_seconds"};
    bool fine = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(step, keys[i]);
        if (value && !json_is_null(value) && !(json_is_number(value) && json_number_value(value) >= 0))
            fine = complain_about(place, keys[i], "is not a number of 0 or more");
    }
    const json_t *seconds = json_object_get(step, "seconds");
    if (!json_is_number(seconds) || !(json_number_value(seconds) > 0))
        fine = complain_about(place, "seconds", seconds ? "is not a number above 0" : "is missing");
    return fine;
}

/* seconds_low and seconds_high, or interval_seconds [low, high], or spread_seconds to both sides. */
static bool read_interval(struct compared_run *run, const struct place *place)
{
    const json_t *pair = json_object_get(json_object_get(run->json, "step"), "interval_seconds");
    double spread = compared_run_number(run, "spread_seconds");
    run->low = compared_run_number(run, "seconds_low");
    run->high = compared_run_number(run, "seconds_high");
    if (isnan(run->low) != isnan(run->high))
        return complain_about(place, isnan(run->low) ? "seconds_low" : "seconds_high", "is missing beside the other");
    if (isnan(run->low) && pair && !json_is_null(pair)) {
        const json_t *low = json_array_get(pair, 0), *high = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_number(low) || !json_is_number(high))
            return complain_about(place, "interval_seconds", "is not [low, high]");
        run->low = json_number_value(low);
        run->high = json_number_value(high);
    } else if (isnan(run->low) && !isnan(spread)) {
        run->low = fmax(0, run->seconds - spread);
        run->high = run->seconds + spread;
    }
    if (run->low < 0 || run->low > run->high)
        return complain(place, "the step's interval begins below 0 or after its end");
    return true;
}

static bool read_settings(struct compared_run *run, const struct place *place)
{
    const json_t *experiment = json_object_get(run->json, "experiment"),
                 *topology = json_object_get(run->json, "topology");
    bool fine = true;
    if (!json_is_object(experiment) || !flatten(&run->experiment, "", experiment))
        fine = complain(place, "no 'experiment' of the form {\"section\": {\"key\": value}}");
    if (json_is_object(topology))
        flatten(&run->topology, "", topology); /* what is nested deeper tells nothing apart */
    else if (topology && !json_is_null(topology))
        fine = complain(place, "'topology' is not an object");
    return fine;
}

static bool read_kind(struct compared_run *run, const struct place *place)
{
    const char *kind = json_string_value(json_object_get(run->json, "kind"));
    run->measured = kind && strcmp(kind, "measured") == 0;
    if (run->measured || (kind && strcmp(kind, "simulated") == 0))
        return true;
    return complain(place, "'kind' is neither 'simulated' nor 'measured'");
}

/* Adds the run; false with every problem of it. */
static bool add_run(struct compared_runs *runs, size_t file, size_t point, const json_t *json,
                    struct diagnostics *notes, struct diagnostics *diag)
{
    const struct place place = {runs->files[file], point, diag};
    memory_grow(runs->runs, runs->count, runs->capacity);
    struct compared_run *run = &runs->runs[runs->count++];
    *run = (struct compared_run){.file = file, .point = point, .json = json, .low = NAN, .high = NAN};
    run->label = point ? memory_format("%s point %zu", place.file, point) : memory_text(place.file);
    const json_t *step = json_object_get(json, "step");
    bool fine = read_kind(run, &place);
    fine &= read_settings(run, &place);
    run->question = question_of(&run->experiment);
    if (!json_is_object(step))
        return complain(&place, "no 'step'");
    if (!check_numbers(step, &place))
        return false;
    run->seconds = compared_run_number(run, "seconds");
    fine &= read_interval(run, &place);
    if (json_is_false(json_object_get(json_object_get(json, "verification"), "passed")))
        diagnostics_add(notes, "'%s' failed its verification: its numbers are of a wrong result", run->label);
    return fine;
}

/* ---- files ---- */

static bool add_points(struct compared_runs *runs, size_t file, const json_t *sweep, struct diagnostics *notes,
                       struct diagnostics *diag)
{
    const json_t *points = json_object_get(sweep, "points");
    if (!json_is_array(points))
        return diagnostics_at(diag, runs->files[file], 0, "a sweep without 'points'");
    bool fine = true;
    size_t absent = 0;
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i), *run = json_object_get(point, "run");
        if (run)
            fine &= add_run(runs, file, i + 1, run, notes, diag);
        else if (json_object_get(point, "error"))
            absent++;
        else
            fine = diagnostics_at(diag, runs->files[file], 0, "point %zu: neither 'run' nor 'error'", i + 1);
    }
    if (absent)
        diagnostics_add(notes, "'%s': %zu of %zu points have no run", runs->files[file], absent,
                        json_array_size(points));
    return fine;
}

/* The whole document; NULL with a message. */
static json_t *read_document(const char *path, struct diagnostics *diag)
{
    FILE *stream = fopen(path, "r");
    if (!stream) {
        diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno));
        return NULL;
    }
    json_error_t error;
    errno = 0;
    json_t *document = run_read(stream, &error);
    if (!document && ferror(stream))
        diagnostics_add(diag, "cannot read '%s': %s", path, strerror(errno ? errno : EIO));
    else if (!document)
        diagnostics_at(diag, path, error.line > 0 ? error.line : 0, "not JSON: %s", error.text);
    fclose(stream);
    return document;
}

static bool read_file(struct compared_runs *runs, size_t file, struct diagnostics *notes, struct diagnostics *diag)
{
    json_t *document = runs->documents[file] = read_document(runs->files[file], diag);
    if (!document)
        return false;
    const char *schema = json_string_value(json_object_get(document, "schema"));
    if (schema && strcmp(schema, "cpsim.run/1") == 0)
        return add_run(runs, file, 0, document, notes, diag);
    if (schema && strcmp(schema, "cpsim.sweep/1") == 0 && json_object_get(document, "runs"))
        return diagnostics_at(diag, runs->files[file], 0,
                              "its runs are summaries (--points summary), expected full ones");
    if (schema && strcmp(schema, "cpsim.sweep/1") == 0)
        return add_points(runs, file, document, notes, diag);
    if (schema)
        return diagnostics_at(diag, runs->files[file], 0, "schema '%s', expected cpsim.run/1 or cpsim.sweep/1", schema);
    return diagnostics_at(diag, runs->files[file], 0, "no 'schema', expected cpsim.run/1 or cpsim.sweep/1");
}

bool compared_runs_init(struct compared_runs *runs, const char *const *files, size_t n_files, struct diagnostics *notes,
                        struct diagnostics *diag)
{
    *runs = (struct compared_runs){.files = files, .n_files = n_files};
    runs->documents = memory_zeroed(n_files, sizeof *runs->documents);
    bool fine = true;
    for (size_t i = 0; i < n_files; i++)
        fine &= read_file(runs, i, notes, diag);
    return fine;
}

void compared_runs_fini(struct compared_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        settings_fini(&runs->runs[i].experiment);
        settings_fini(&runs->runs[i].topology);
        free(runs->runs[i].label);
        free(runs->runs[i].question);
    }
    for (size_t i = 0; i < runs->n_files; i++)
        json_decref(runs->documents[i]);
    free(runs->runs);
    free(runs->documents);
}
