/* sweep.c - sweeps: the points, what a child hands back, and the whole put together in order. */
#include "cli/sweep.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/json_set.h"
#include "cli/worker_pool.h"
#include "cli/writers.h"
#include "models/base/memory.h"

/* ---- keys and values ---- */

/* The next value of a list; moves `*list` behind it, to NULL after the last. */
static char *next_value(const char **list, char separator)
{
    const char *begin = *list, *end = strchrnul(begin, separator);
    *list = *end ? end + 1 : NULL;
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && end[-1] == ' ')
        end--;
    return memory_format("%.*s", (int)(end - begin), begin);
}

static bool has_value(const struct sweep_key *key, const char *value)
{
    for (size_t i = 0; i < key->n_values; i++)
        if (strcmp(key->values[i], value) == 0)
            return true;
    return false;
}

static bool key_init(struct sweep_key *key, const char *text, struct diagnostics *diag)
{
    const char *equals = strchr(text, '=');
    *key = (struct sweep_key){0};
    if (!equals || equals == text || !memchr(text, '.', (size_t)(equals - text)))
        return diagnostics_add(diag, "sweep '%s', expected section.key=v1,v2,...", text);
    const char *name_end = equals;
    while (name_end > text && name_end[-1] == ' ')
        name_end--;
    key->name = memory_format("%.*s", (int)(name_end - text), text);
    const char *list = equals + 1;
    char separator = strchr(list, ';') ? ';' : ',';
    bool fine = true;
    while (list) {
        char *value = next_value(&list, separator);
        bool trailing = !list && separator == ';' && key->n_values > 0 && *value == '\0'; /* "a,b;": one value */
        if (*value == '\0' && !trailing)
            fine = diagnostics_add(diag, "sweep '%s' has an empty value", text);
        else if (has_value(key, value))
            fine = diagnostics_add(diag, "sweep '%s' has the value '%s' twice", text, value);
        if (trailing) {
            free(value);
            break;
        }
        key->values = memory_resized(key->values, key->n_values + 1, sizeof *key->values);
        key->values[key->n_values++] = value;
    }
    return fine;
}

static bool overrides_key(const char *override, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(override, name, length) != 0)
        return false;
    const char *rest = override + length;
    return rest[strspn(rest, " ")] == '=';
}

/* A key has one list of values, and none of its own from --set. */
static bool check_unique(const struct sweep *sweep, const struct question *base, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < sweep->n_keys; i++) {
        const char *name = sweep->keys[i].name;
        for (size_t k = 0; name && k < i; k++)
            if (sweep->keys[k].name && strcmp(sweep->keys[k].name, name) == 0)
                fine = diagnostics_add(diag, "'%s' is swept twice", name);
        for (size_t k = 0; name && k < base->n_overrides; k++)
            if (overrides_key(base->overrides[k], name))
                fine = diagnostics_add(diag, "'%s' is both swept and set", name);
    }
    return fine;
}

/* Every point reads the files. */
static bool check_repeatable(const char *path, struct diagnostics *diag)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISFIFO(status.st_mode))
        return true;
    return diagnostics_at(diag, path, 0, "a pipe, which only one point of the sweep could read, expected a file");
}

bool sweep_init(struct sweep *sweep, const char *const *texts, size_t n_texts, const struct question *base,
                struct diagnostics *diag)
{
    *sweep = (struct sweep){
        .keys = memory_zeroed(n_texts, sizeof *sweep->keys), .n_keys = n_texts, .n_points = 1, .texts = texts};
    bool fine = true, small = true;
    for (size_t i = 0; i < n_texts; i++) {
        fine &= key_init(&sweep->keys[i], texts[i], diag);
        small = small && !__builtin_mul_overflow(sweep->n_points, sweep->keys[i].n_values, &sweep->n_points) &&
                sweep->n_points <= SWEEP_POINTS_MAX;
    }
    if (!small)
        fine = diagnostics_add(diag, "the sweep has more than %d points", SWEEP_POINTS_MAX);
    fine &= check_repeatable(base->topology_path, diag);
    fine &= check_repeatable(base->experiment_path, diag);
    return check_unique(sweep, base, diag) && fine;
}

void sweep_fini(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->n_keys; i++) {
        for (size_t k = 0; k < sweep->keys[i].n_values; k++)
            free(sweep->keys[i].values[k]);
        free(sweep->keys[i].values);
        free(sweep->keys[i].name);
    }
    free(sweep->keys);
}

const char *sweep_value(const struct sweep *sweep, size_t point, size_t key)
{
    size_t below = 1; /* points between two neighbouring values of this key */
    for (size_t i = key + 1; i < sweep->n_keys; i++)
        below *= sweep->keys[i].n_values;
    return sweep->keys[key].values[point / below % sweep->keys[key].n_values];
}

/* ---- a point, in the child ---- */

struct work {
    const struct sweep *sweep;
    const struct question *base;
};

static json_t *lines_to_json(const struct diagnostics *diag)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < diag->count; i++)
        json_array_append_new(lines, json_text(diag->lines[i]));
    return lines;
}

/* Writes { status, run, errors, notes }: what the parent makes a point of. */
static void work_on_point(void *context, size_t point, FILE *stream)
{
    const struct work *work = context;
    const struct question *base = work->base;
    size_t n_overrides = base->n_overrides + work->sweep->n_keys;
    char **overrides = memory_zeroed(n_overrides, sizeof *overrides);
    for (size_t i = 0; i < base->n_overrides; i++)
        overrides[i] = memory_text(base->overrides[i]);
    for (size_t i = 0; i < work->sweep->n_keys; i++)
        overrides[base->n_overrides + i] =
            memory_format("%s=%s", work->sweep->keys[i].name, sweep_value(work->sweep, point, i));

    struct diagnostics errors, notes;
    diagnostics_init(&errors);
    diagnostics_init(&notes);
    struct question question = *base;
    question.overrides = (const char *const *)overrides;
    question.n_overrides = n_overrides;
    question.lenient = &notes;
    question.progress = NULL;
    struct prediction prediction;
    enum prediction_status status = prediction_prepare(&prediction, &question, &errors);
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, &question, &errors);

    json_t *answer = json_object();
    json_set_count(answer, "status", (uint64_t)status);
    if (status == PREDICTION_DONE)
        json_object_set_new(answer, "run", run_to_json(&prediction));
    json_object_set_new(answer, "errors", lines_to_json(&errors));
    json_object_set_new(answer, "notes", lines_to_json(&notes));
    json_dumpf(answer, stream, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(answer);

    prediction_fini(&prediction);
    diagnostics_fini(&errors);
    diagnostics_fini(&notes);
    for (size_t i = 0; i < n_overrides; i++)
        free(overrides[i]);
    free(overrides);
}

/* ---- the whole, in the parent ---- */

static json_t *death_to_json(const struct worker_result *worker)
{
    char *line;
    if (worker->wait_status == -1)
        line = memory_format("the process of this point could not be started: %s", strerror(worker->start_errno));
    else if (WIFSIGNALED(worker->wait_status))
        line = memory_format("the process of this point was ended by signal %d (%s)", WTERMSIG(worker->wait_status),
                             strsignal(WTERMSIG(worker->wait_status)));
    else
        line = memory_format("the process of this point ended with status %d and no result",
                             WEXITSTATUS(worker->wait_status));
    json_t *lines = json_pack("[s]", line);
    free(line);
    return lines;
}

static json_t *point_settings(const struct sweep *sweep, size_t point)
{
    json_t *settings = json_object();
    for (size_t i = 0; i < sweep->n_keys; i++)
        json_set_text(settings, sweep->keys[i].name, sweep_value(sweep, point, i));
    return settings;
}

static char *point_name(const struct sweep *sweep, size_t point)
{
    char *name = memory_text("");
    for (size_t i = 0; i < sweep->n_keys; i++) {
        char *longer =
            memory_format("%s%s%s=%s", name, i ? ", " : "", sweep->keys[i].name, sweep_value(sweep, point, i));
        free(name);
        name = longer;
    }
    return name;
}

/* Lines that several points may say, and how many did. */
struct tally {
    char **lines;
    size_t *counts;
    char **first; /* the name of the first point that said it */
    size_t count;
    size_t others; /* said after TALLY_MAX different lines */
};

#define TALLY_MAX 32

static void tally_add(struct tally *tally, const char *line, const struct sweep *sweep, size_t point)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (strcmp(tally->lines[i], line) == 0) {
            tally->counts[i]++;
            return;
        }
    }
    if (tally->count == TALLY_MAX) {
        tally->others++;
        return;
    }
    tally->lines = memory_resized(tally->lines, tally->count + 1, sizeof *tally->lines);
    tally->counts = memory_resized(tally->counts, tally->count + 1, sizeof *tally->counts);
    tally->first = memory_resized(tally->first, tally->count + 1, sizeof *tally->first);
    tally->lines[tally->count] = memory_text(line);
    tally->counts[tally->count] = 1;
    tally->first[tally->count++] = point_name(sweep, point);
}

static void tally_add_json(struct tally *tally, const json_t *lines, const struct sweep *sweep, size_t point)
{
    size_t index;
    const json_t *line;
    json_array_foreach(lines, index, line) tally_add(tally, json_string_value(line), sweep, point);
}

/* Says each line once: alone when every point said it, else with the (first) point that did. */
static void tally_report(const struct tally *tally, size_t n_points, struct diagnostics *diag)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (tally->counts[i] == n_points)
            diagnostics_add(diag, "%s", tally->lines[i]);
        else if (tally->counts[i] == 1)
            diagnostics_add(diag, "point %s: %s", tally->first[i], tally->lines[i]);
        else
            diagnostics_add(diag, "point %s and %zu more: %s", tally->first[i], tally->counts[i] - 1, tally->lines[i]);
    }
    if (tally->others)
        diagnostics_add(diag, "and %zu more messages of other points", tally->others);
}

static void tally_fini(struct tally *tally)
{
    for (size_t i = 0; i < tally->count; i++) {
        free(tally->lines[i]);
        free(tally->first[i]);
    }
    free(tally->lines);
    free(tally->counts);
    free(tally->first);
}

/* A key that no point has a use for is as wrong as in a single run. */
static bool any_at_all_points(const struct tally *tally, size_t n_points)
{
    for (size_t i = 0; i < tally->count; i++)
        if (tally->counts[i] == n_points)
            return true;
    return false;
}

static json_t *make_point(const struct sweep *sweep, size_t point, const struct worker_result *worker,
                          struct sweep_result *result, struct tally *notes, struct tally *errors)
{
    bool ended_well =
        worker->wait_status != -1 && WIFEXITED(worker->wait_status) && WEXITSTATUS(worker->wait_status) == 0;
    json_t *answer = ended_well ? json_loadb(worker->text ? worker->text : "", worker->size, 0, NULL) : NULL;
    json_t *made = json_object();
    json_object_set_new(made, "set", point_settings(sweep, point));
    json_t *lines = NULL, *run = json_object_get(answer, "run");
    if (run) {
        json_object_set(made, "run", run);
        result->done++;
    } else if (answer) {
        bool bad_input = json_integer_value(json_object_get(answer, "status")) == PREDICTION_BAD_INPUT;
        *(bad_input ? &result->refused : &result->failed) += 1;
        lines = json_incref(json_object_get(answer, "errors"));
    } else {
        result->failed++;
        lines = death_to_json(worker);
    }
    if (lines) {
        json_object_set(made, "error", lines);
        tally_add_json(errors, lines, sweep, point);
        json_decref(lines);
    }
    tally_add_json(notes, json_object_get(answer, "notes"), sweep, point);
    json_decref(answer);
    return made;
}

static json_t *sweep_head(const struct sweep *sweep, const struct question *base)
{
    json_t *json = json_object();
    json_set_text(json, "schema", "cpsim.sweep/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    char *command = question_command(base, sweep->texts, sweep->n_keys);
    json_set_text(json, "command", command);
    free(command);
    json_t *keys = json_array();
    for (size_t i = 0; i < sweep->n_keys; i++)
        json_array_append_new(keys, json_string(sweep->keys[i].name));
    json_object_set_new(json, "keys", keys);
    return json;
}

void sweep_run(const struct sweep *sweep, const struct question *base, uint32_t jobs, struct sweep_result *result,
               struct diagnostics *notes, struct diagnostics *errors)
{
    *result = (struct sweep_result){0};
    struct work work = {sweep, base};
    const struct worker_pool pool = {
        .n_tasks = sweep->n_points,
        .jobs = jobs < sweep->n_points ? jobs : (uint32_t)sweep->n_points,
        .work = work_on_point,
        .context = &work,
        .progress = base->progress,
        .progress_context = base->progress_context,
    };
    struct worker_result *workers = memory_zeroed(sweep->n_points, sizeof *workers);
    result->signal = worker_pool_run(&pool, workers);
    struct tally note_tally = {0}, error_tally = {0};
    if (result->signal == 0) {
        result->json = sweep_head(sweep, base);
        json_t *points = json_array();
        json_object_set_new(result->json, "points", points);
        for (size_t i = 0; i < sweep->n_points; i++)
            json_array_append_new(points, make_point(sweep, i, &workers[i], result, &note_tally, &error_tally));
        bool useless_key = any_at_all_points(&note_tally, sweep->n_points);
        tally_report(&note_tally, sweep->n_points, useless_key ? errors : notes);
        tally_report(&error_tally, sweep->n_points, errors);
        if (useless_key) {
            result->refused += result->done;
            result->done = 0;
        }
    }
    for (size_t i = 0; i < sweep->n_points; i++)
        free(workers[i].text);
    free(workers);
    tally_fini(&note_tally);
    tally_fini(&error_tally);
}

void sweep_result_fini(struct sweep_result *result)
{
    json_decref(result->json);
}
