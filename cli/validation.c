/* validation.c - the rows, a process each; what they hand back, put together; and the bounds. */
#include "cli/validation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/json_set.h"
#include "cli/validation_statistics.h"
#include "cli/worker_pool.h"
#include "models/base/memory.h"

/* ---- a row, in the child ---- */

/* Which row of which set. */
struct place {
    size_t set, row;
};

static struct place place_of(const struct validation *validation, size_t task)
{
    size_t set = 0;
    for (; task >= validation->sets.sets[set].n_rows; set++)
        task -= validation->sets.sets[set].n_rows;
    return (struct place){set, task};
}

static json_t *lines_to_json(const struct diagnostics *diag)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < diag->count; i++)
        json_array_append_new(lines, json_text(diag->lines[i]));
    return lines;
}

static void work_on_row(void *context, size_t task, FILE *stream)
{
    const struct validation *validation = context;
    struct place place = place_of(validation, task);
    const struct validation_set *set = &validation->sets.sets[place.set];
    struct diagnostics errors, notes;
    diagnostics_init(&errors);
    diagnostics_init(&notes);
    struct row_prediction prediction = {0};
    enum prediction_status status =
        validation_row_predict(set, &set->rows[place.row], &validation->settings, &prediction, &notes, &errors);
    json_t *answer = json_object();
    json_set_count(answer, "status", (uint64_t)status);
    json_set_real(answer, "seconds", prediction.seconds);
    json_set_real(answer, "low", prediction.low);
    json_set_real(answer, "high", prediction.high);
    json_set_real(answer, "work", prediction.work);
    json_set_real(answer, "bytes", prediction.bytes);
    json_object_set_new(answer, "errors", lines_to_json(&errors));
    json_object_set_new(answer, "notes", lines_to_json(&notes));
    json_dumpf(answer, stream, JSON_REAL_PRECISION(17));
    json_decref(answer);
    diagnostics_fini(&errors);
    diagnostics_fini(&notes);
}

/* ---- the whole, in the parent ---- */

/* Lines that rows of a set have said. */
struct said {
    char **lines;
    int *first;     /* the line of the first row that said it */
    size_t *counts; /* rows that did */
    size_t count;
};

static void said_add(struct said *said, const char *line, int row_line)
{
    for (size_t i = 0; i < said->count; i++) {
        if (strcmp(said->lines[i], line) == 0) {
            said->counts[i]++;
            return;
        }
    }
    said->lines = memory_resized(said->lines, said->count + 1, sizeof *said->lines);
    said->first = memory_resized(said->first, said->count + 1, sizeof *said->first);
    said->counts = memory_resized(said->counts, said->count + 1, sizeof *said->counts);
    said->lines[said->count] = memory_text(line);
    said->first[said->count] = row_line;
    said->counts[said->count++] = 1;
}

static void said_add_json(struct said *said, const json_t *lines, int row_line)
{
    size_t index;
    const json_t *line;
    json_array_foreach(lines, index, line) said_add(said, json_string_value(line), row_line);
}

static void said_fini(struct said *said)
{
    for (size_t i = 0; i < said->count; i++)
        free(said->lines[i]);
    free(said->lines);
    free(said->first);
    free(said->counts);
}

/* Each line once; alone when all rows of the set said it, for then it is not about a row. */
static void said_report(const struct said *said, const struct validation_set *set, struct diagnostics *diag)
{
    for (size_t i = 0; i < said->count; i++) {
        if (said->counts[i] == set->n_rows && set->n_rows > 1)
            diagnostics_add(diag, "%s", said->lines[i]);
        else if (said->counts[i] == 1)
            diagnostics_at(diag, set->rows_path, said->first[i], "%s", said->lines[i]);
        else
            diagnostics_at(diag, set->rows_path, said->first[i], "and %zu more rows: %s", said->counts[i] - 1,
                           said->lines[i]);
    }
}

/* A key that no row of a set has a use for is as wrong as in a single run. */
static bool report_useless_keys(const struct said *notes, const struct validation_set *set, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < notes->count; i++)
        if (notes->counts[i] == set->n_rows)
            fine = diagnostics_add(diag, "%s", notes->lines[i]);
    return fine;
}

static char *death_of(const struct worker_result *worker)
{
    if (worker->wait_status == -1)
        return memory_format("the process of this row could not be started: %s", strerror(worker->start_errno));
    if (WIFSIGNALED(worker->wait_status))
        return memory_format("the process of this row was ended by signal %d (%s)", WTERMSIG(worker->wait_status),
                             strsignal(WTERMSIG(worker->wait_status)));
    return memory_format("the process of this row ended with status %d and no result",
                         WEXITSTATUS(worker->wait_status));
}

static double number_of(const json_t *answer, const char *key)
{
    return json_number_value(json_object_get(answer, key));
}

/* What became of a row; its lines go to `errors` and `notes`. */
static enum prediction_status take_row(struct validated_row *result, const struct validation_row *row,
                                       const struct worker_result *worker, struct said *errors, struct said *notes)
{
    bool ended_well =
        worker->wait_status != -1 && WIFEXITED(worker->wait_status) && WEXITSTATUS(worker->wait_status) == 0;
    json_t *answer = ended_well ? json_loadb(worker->text ? worker->text : "", worker->size, 0, NULL) : NULL;
    if (!answer) {
        char *line = death_of(worker);
        said_add(errors, line, row->line);
        free(line);
        return PREDICTION_FAILED;
    }
    enum prediction_status status = (enum prediction_status)json_integer_value(json_object_get(answer, "status"));
    said_add_json(errors, json_object_get(answer, "errors"), row->line);
    said_add_json(notes, json_object_get(answer, "notes"), row->line);
    if (status == PREDICTION_DONE) {
        result->prediction = (struct row_prediction){.seconds = number_of(answer, "seconds"),
                                                     .low = number_of(answer, "low"),
                                                     .high = number_of(answer, "high"),
                                                     .work = number_of(answer, "work"),
                                                     .bytes = number_of(answer, "bytes")};
        validated_row_judge(result, row);
    }
    json_decref(answer);
    return status;
}

/* False when the set is bad input. */
static bool take_set(struct validation *validation, size_t index, const struct worker_result *workers,
                     struct diagnostics *diag)
{
    const struct validation_set *set = &validation->sets.sets[index];
    struct said errors = {0}, notes = {0};
    bool fine = true;
    for (size_t i = 0; i < set->n_rows; i++) {
        validation->rows[index][i].left = !worker_result_is_there(&workers[i]);
        if (validation->rows[index][i].left) {
            validation->n_left++;
            continue;
        }
        enum prediction_status status =
            take_row(&validation->rows[index][i], &set->rows[i], &workers[i], &errors, &notes);
        fine &= status != PREDICTION_BAD_INPUT;
        validation->n_failed += status == PREDICTION_FAILED;
    }
    said_report(&errors, set, diag);
    fine &= report_useless_keys(&notes, set, diag);
    said_fini(&errors);
    said_fini(&notes);
    return fine;
}

static enum validation_status take_all(struct validation *validation, const struct worker_result *workers,
                                       struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < validation->sets.count; i++) {
        fine &= take_set(validation, i, workers, diag);
        workers += validation->sets.sets[i].n_rows;
    }
    if (!fine)
        return VALIDATION_BAD_INPUT;
    validation_summarize(validation);
    return validation->signal ? VALIDATION_STOPPED : validation->n_failed ? VALIDATION_FAILED : VALIDATION_DONE;
}

bool validation_init(struct validation *validation, const char *path, const struct row_settings *settings,
                     struct diagnostics *diag)
{
    *validation = (struct validation){.path = path, .settings = *settings};
    return validation_sets_read(&validation->sets, path, diag);
}

enum validation_status validation_run(struct validation *validation, uint32_t jobs,
                                      void (*progress)(void *context, double share), void *progress_context,
                                      struct diagnostics *diag)
{
    const struct validation_sets *sets = &validation->sets;
    validation->rows = memory_zeroed(sets->count, sizeof *validation->rows);
    validation->summaries = memory_zeroed(sets->count, sizeof *validation->summaries);
    for (size_t i = 0; i < sets->count; i++)
        validation->rows[i] = memory_zeroed(sets->sets[i].n_rows, sizeof **validation->rows);
    const struct worker_pool pool = {
        .n_tasks = sets->n_rows,
        .jobs = jobs < sets->n_rows ? jobs : (uint32_t)sets->n_rows,
        .work = work_on_row,
        .context = validation,
        .progress = progress,
        .progress_context = progress_context,
    };
    struct worker_result *workers = memory_zeroed(sets->n_rows, sizeof *workers);
    validation->signal = worker_pool_run(&pool, workers);
    enum validation_status status = take_all(validation, workers, diag);
    if (validation->signal)
        diagnostics_add(diag, "stopped by signal %d (%s) after %zu of %zu rows", validation->signal,
                        strsignal(validation->signal), sets->n_rows - validation->n_left, sets->n_rows);
    for (size_t i = 0; i < sets->n_rows; i++)
        free(workers[i].text);
    free(workers);
    return status;
}

void validation_fini(struct validation *validation)
{
    for (size_t i = 0; i < validation->sets.count && validation->rows; i++)
        free(validation->rows[i]);
    free(validation->rows);
    free(validation->summaries);
    validation_sets_fini(&validation->sets);
}

/* ---- bounds ---- */

enum bound_verdict validation_bound(const struct validation_summary *summary, const struct bounds *bounds,
                                    enum bound bound)
{
    const struct {
        double limit;
        size_t judged; /* rows or pairs */
        bool kept;
    } verdicts[BOUNDS] = {
        [BOUND_MEDIAN] = {bounds->median, summary->n_rows, summary->median <= bounds->median},
        [BOUND_P90] = {bounds->p90, summary->n_rows, summary->p90 <= bounds->p90},
        [BOUND_ORDER] = {bounds->order, summary->pairs,
                         (double)summary->pairs_right >= bounds->order * (double)summary->pairs},
        [BOUND_MEMORY] = {bounds->memory, summary->n_memory, summary->memory_median <= bounds->memory},
    };
    if (isnan(verdicts[bound].limit) || verdicts[bound].judged == 0 || summary->n_left > 0)
        return BOUND_NONE;
    return verdicts[bound].kept ? BOUND_KEPT : BOUND_BROKEN;
}

/* `whose`: "set 'x'" or "all attention". */
static bool check_bounds(const char *whose, const struct validation_summary *summary, const struct bounds *bounds,
                         struct diagnostics *diag)
{
    bool fine = true;
    if (validation_bound(summary, bounds, BOUND_MEDIAN) == BOUND_BROKEN)
        fine = diagnostics_add(diag, "%s: a median error of %.1f %%, worse than its bound of %.4g %%", whose,
                               100 * summary->median, 100 * bounds->median);
    if (validation_bound(summary, bounds, BOUND_P90) == BOUND_BROKEN)
        fine = diagnostics_add(diag, "%s: a 90th percentile of %.1f %%, worse than its bound of %.4g %%", whose,
                               100 * summary->p90, 100 * bounds->p90);
    if (validation_bound(summary, bounds, BOUND_ORDER) == BOUND_BROKEN)
        fine = diagnostics_add(diag, "%s: %zu of %zu pairs in the right order, fewer than its bound of %.4g %%", whose,
                               summary->pairs_right, summary->pairs, 100 * bounds->order);
    if (validation_bound(summary, bounds, BOUND_MEMORY) == BOUND_BROKEN)
        fine = diagnostics_add(diag, "%s: a median error of memory of %.1f %%, worse than its bound of %.4g %%", whose,
                               100 * summary->memory_median, 100 * bounds->memory);
    return fine;
}

bool validation_check_bounds(const struct validation *validation, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        char *whose = memory_format("set '%s'", set->name);
        if (!validation_set_is_doubtful(set))
            fine &= check_bounds(whose, &validation->summaries[i], &set->published.bounds, diag);
        free(whose);
    }
    fine &= check_bounds("all attention", &validation->attention, &validation->sets.bounds.attention, diag);
    fine &= check_bounds("all steps", &validation->steps, &validation->sets.bounds.steps, diag);
    return check_bounds("all transfers", &validation->links, &validation->sets.bounds.links, diag) && fine;
}

/* ---- words ---- */

char *validation_command(const struct validation *validation)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("cpsim");
    fputs("cpsim --validate ", stream);
    question_print_word(stream, validation->path);
    if (validation->settings.engine != engines[0])
        fprintf(stream, " --engine %s", validation->settings.engine->name);
    question_print_without(stream, validation->settings.without);
    fclose(stream);
    return text;
}

const char *validation_title(const struct validation_set *set)
{
    return *set->published.title ? set->published.title : set->name;
}
