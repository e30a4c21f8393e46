/* sweep_run.c - see sweep_run.h. An answer waits, goes out when it is its turn, and is then forgotten. */
#include "cli/sweep_run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/input_cache.h"
#include "cli/sweep_crew.h"
#include "cli/sweep_files.h"
#include "cli/sweep_point.h"
#include "cli/sweep_resume.h"
#include "cli/sweep_tally.h"
#include "models/base/memory.h"

#define WAITING_BYTES_MAX ((size_t)256 << 20)

/* An answer that waits for its turn. */
struct waiting {
    char *bytes; /* NULL: not there */
    size_t size;
};

/* A point of the file that is predicted once more. */
struct check {
    size_t point;
    char *text;  /* as in the file; NULL: none */
    char *bytes; /* the answer that it has now */
    size_t size;
};

struct run {
    const struct sweep *sweep;
    const struct question *base;
    const struct sweep_settings *settings;
    struct question question; /* in a worker: the base, with a cache */
    struct sweep_point_wish wish;
    char *head; /* how the JSON begins */
    struct sweep_files files;
    struct waiting *waiting; /* [n_points] */
    bool *there;             /* [n_points] its answer has come */
    size_t n_there, waiting_bytes;
    size_t next_out;          /* the first point that has not gone out */
    size_t next_task;         /* the first that has not been handed out */
    size_t n_out;             /* that have gone out */
    size_t in_file;           /* points before this one are in the JSON already */
    long kept_bytes;          /* so much of it */
    struct check first, last; /* that ran, of the points that the file has */
    size_t n_checked;
    json_t *common; /* the last kept point that says what all have in common */
    struct sweep_tally notes, errors;
    struct sweep_result *result;
    struct diagnostics *said, *diag; /* notes; what is wrong */
    bool stopped;                    /* a file could not be written, or is another question's */
};

/* In the worker, which keeps the files that it has read. */
static void work(void *context, size_t point, FILE *stream)
{
    struct run *run = context;
    if (!run->question.cache)
        run->question.cache = input_cache_create();
    sweep_point_answer(run->sweep, &run->question, &run->wish, point, stream);
}

/* What a worker keeps is mostly the experiment's. */
static size_t kind(void *context, size_t point)
{
    const struct run *run = context;
    return sweep_experiment(run->sweep, point);
}

/* ---- answers go out ---- */

static void keep(struct run *run, const struct sweep_answer *answer)
{
    json_t *point = json_loadb(answer->texts[SWEEP_KEPT], answer->sizes[SWEEP_KEPT], 0, NULL);
    json_array_append_new(json_object_get(run->result->json, "points"), point);
    if (!json_object_get(json_object_get(point, "run"), "topology"))
        return;
    if (run->common)
        sweep_point_drop_common(run->common);
    run->common = point;
}

static void add_lines(struct sweep_tally *tally, const struct run *run, size_t point, const char *text, size_t size)
{
    json_t *lines = size > strlen("[]") ? json_loadb(text, size, 0, NULL) : NULL;
    sweep_tally_add(tally, lines, run->sweep, point);
    json_decref(lines);
}

static void count(struct run *run, size_t point, const struct sweep_answer *answer)
{
    struct sweep_result *result = run->result;
    *(answer->status == PREDICTION_DONE        ? &result->done
      : answer->status == PREDICTION_BAD_INPUT ? &result->refused
                                               : &result->failed) += 1;
    add_lines(&run->notes, run, point, answer->texts[SWEEP_NOTES], answer->sizes[SWEEP_NOTES]);
    add_lines(&run->errors, run, point, answer->texts[SWEEP_ERRORS], answer->sizes[SWEEP_ERRORS]);
    if (result->json)
        keep(run, answer);
}

static void write_point(struct run *run, size_t point)
{
    struct waiting *waiting = &run->waiting[point];
    struct sweep_answer answer;
    if (!waiting->bytes || run->stopped)
        return;
    sweep_answer_read(&answer, waiting->bytes, waiting->size);
    run->stopped = !sweep_files_add(&run->files, &answer, point < run->in_file, run->diag);
    free(waiting->bytes);
    waiting->bytes = NULL;
}

/* Files are made when the first point has run: without any there is no result. Those before it wait for that. */
static void put_out(struct run *run, size_t point)
{
    struct sweep_answer answer;
    sweep_answer_read(&answer, run->waiting[point].bytes, run->waiting[point].size);
    run->waiting_bytes -= run->waiting[point].size;
    count(run, point, &answer);
    run->n_out++;
    bool open = sweep_files_are_open(&run->files);
    if (!open && answer.status == PREDICTION_DONE) {
        run->stopped = !sweep_files_open(&run->files, run->sweep, run->head, run->kept_bytes, run->diag);
        for (size_t i = 0; i < point; i++)
            write_point(run, i);
        open = true;
    }
    if (open)
        write_point(run, point);
}

static void put_out_in_turn(struct run *run)
{
    while (run->next_out < run->sweep->n_points && run->waiting[run->next_out].bytes && !run->stopped)
        put_out(run, run->next_out++);
}

/* What came back before its turn, of a sweep that is stopped. */
static void put_out_rest(struct run *run)
{
    for (; run->next_out < run->sweep->n_points && !run->stopped; run->next_out++)
        if (run->waiting[run->next_out].bytes)
            put_out(run, run->next_out);
}

/* ---- answers come in ---- */

/* Takes over the bytes. */
static void take_answer(struct run *run, size_t point, char *bytes, size_t size)
{
    if (point >= run->sweep->n_points || run->there[point]) {
        free(bytes);
        return;
    }
    run->there[point] = true;
    run->n_there++;
    run->waiting[point] = (struct waiting){bytes, size};
    run->waiting_bytes += size;
    put_out_in_turn(run);
}

static char *death_line(const struct worker_result *result)
{
    if (result->wait_status == -1)
        return memory_format("the process of this point could not be started: %s", strerror(result->start_errno));
    if (WIFSIGNALED(result->wait_status))
        return memory_format("the process of this point was ended by signal %d (%s)", WTERMSIG(result->wait_status),
                             strsignal(WTERMSIG(result->wait_status)));
    return memory_format("the process of this point ended with status %d and no result",
                         WEXITSTATUS(result->wait_status));
}

/* The answer that a worker gave, or one that says why there is none. The caller owns the bytes. */
static char *answer_of(struct run *run, size_t point, struct worker_result *result, size_t *size)
{
    struct sweep_answer answer;
    if (result->wait_status == 0 && sweep_answer_read(&answer, result->text, result->size)) {
        *size = result->size;
        return result->text;
    }
    char *line = death_line(result), *bytes = NULL;
    FILE *stream = open_memstream(&bytes, size);
    if (stream) {
        sweep_point_answer_failure(run->sweep, &run->wish, point, line, stream);
        fclose(stream);
    }
    free(line);
    free(result->text);
    return bytes;
}

static void tell_progress(const struct run *run)
{
    if (run->base->progress)
        run->base->progress(run->base->progress_context, (double)run->n_there / (double)run->sweep->n_points);
}

static void take(void *owner, size_t point, struct worker_result *result)
{
    struct run *run = owner;
    size_t size = 0;
    char *bytes = answer_of(run, point, result, &size);
    take_answer(run, point, bytes, size);
    tell_progress(run);
}

static bool next(void *owner, size_t *point)
{
    struct run *run = owner;
    while (run->next_task < run->sweep->n_points && run->there[run->next_task])
        run->next_task++;
    bool wait = run->waiting_bytes > WAITING_BYTES_MAX && run->next_task > run->next_out;
    if (run->next_task == run->sweep->n_points || wait)
        return false;
    *point = run->next_task++;
    return true;
}

/* What has come is in the files before anybody waits. */
static bool goes_on(void *owner)
{
    struct run *run = owner;
    run->stopped = run->stopped || !sweep_files_flush(&run->files, run->diag);
    return !run->stopped && run->n_there < run->sweep->n_points;
}

/* ---- resuming ---- */

static void take_check(struct check *check, size_t point, const char *text)
{
    free(check->text);
    *check = (struct check){.point = point, .text = memory_text(text)};
}

/* First reading: how many points the file has from the first one on, and which to predict once more. */
static void survey_point(void *context, size_t point, const json_t *json, const char *text, long end)
{
    struct run *run = context;
    if (json_is_true(json_object_get(json, "failed")))
        return;
    if (point == run->in_file) {
        run->in_file++;
        run->kept_bytes = end;
    }
    if (!json_object_get(json, "run"))
        return;
    if (!run->first.text)
        take_check(&run->first, point, text);
    else
        take_check(&run->last, point, text);
}

/* Second reading: they count as done. */
static void take_point(void *context, size_t point, const json_t *json, const char *text, long end)
{
    struct run *run = context;
    (void)end;
    if (json_is_true(json_object_get(json, "failed")) || run->waiting_bytes > WAITING_BYTES_MAX)
        return;
    struct check *check = point == run->first.point ? &run->first : point == run->last.point ? &run->last : NULL;
    if (check && check->bytes) {
        take_answer(run, point, check->bytes, check->size);
        check->bytes = NULL;
        return;
    }
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream)
        return;
    sweep_point_answer_again(&run->wish, json, text, stream);
    fclose(stream);
    take_answer(run, point, bytes, size);
}

static bool next_check(void *owner, size_t *point)
{
    struct run *run = owner;
    const struct check *check = run->n_checked == 0 ? &run->first : &run->last;
    if (run->n_checked == 2 || !check->text)
        return false;
    run->n_checked++;
    *point = check->point;
    return true;
}

static void take_checked(void *owner, size_t point, struct worker_result *result)
{
    struct run *run = owner;
    struct check *check = point == run->first.point ? &run->first : &run->last;
    check->bytes = answer_of(run, point, result, &check->size);
}

static bool checks_go_on(void *owner)
{
    const struct run *run = owner;
    return (run->first.text && !run->first.bytes) || (run->last.text && !run->last.bytes);
}

static bool compare_check(struct run *run, const struct check *check)
{
    struct sweep_answer answer;
    if (!check->text)
        return true;
    bool same = sweep_answer_read(&answer, check->bytes, check->size) &&
                answer.sizes[SWEEP_POINT] == strlen(check->text) &&
                memcmp(answer.texts[SWEEP_POINT], check->text, answer.sizes[SWEEP_POINT]) == 0;
    if (same)
        return true;
    char *name = sweep_point_name(run->sweep, check->point);
    diagnostics_at(
        run->diag, run->settings->json, 0,
        "point %s comes out otherwise now: what the sweep is made of has changed since, --resume cannot go on", name);
    free(name);
    return false;
}

static int resume(struct run *run, struct sweep_crew *crew)
{
    bool cut = false;
    const char *path = run->settings->json;
    run->result->bad_input = !sweep_resume_read(path, run->sweep, run->head, survey_point, run, &cut, run->diag);
    if (run->result->bad_input)
        return 0;
    const struct sweep_crew_owner owner = {next_check, take_checked, checks_go_on, run};
    int ended_by = sweep_crew_run(crew, &owner);
    if (ended_by)
        return ended_by;
    bool same = compare_check(run, &run->first);
    run->result->bad_input = !(compare_check(run, &run->last) && same);
    if (run->result->bad_input)
        return 0;
    if (!run->first.text || run->first.point >= run->in_file) { /* the beginning has no run: it is written anew */
        run->in_file = 0;
        run->kept_bytes = 0;
    }
    if (cut)
        diagnostics_add(run->said, "%s: cut short; what is behind its %zu whole points is done again", path,
                        run->in_file);
    sweep_resume_read(path, run->sweep, run->head, take_point, run, &cut, run->diag);
    tell_progress(run);
    return 0;
}

/* ---- the whole ---- */

static void run_init(struct run *run, const struct sweep *sweep, const struct question *base,
                     const struct sweep_settings *settings)
{
    *run = (struct run){
        .sweep = sweep,
        .base = base,
        .question = *base,
        .settings = settings,
        .wish = {.file = settings->json,
                 .summary = settings->summary,
                 .row = settings->csv,
                 .kept = settings->kept,
                 .layers = sweep->layers,
                 .common = settings->common},
        .head = sweep_head_text(sweep, base, settings->summary),
        .files = {.json_path = settings->json, .csv_path = settings->csv},
    };
}

static struct sweep_crew_settings crew_settings_of(struct run *run)
{
    const struct sweep_settings *settings = run->settings;
    size_t n_points = run->sweep->n_points;
    return (struct sweep_crew_settings){
        .workers = {.jobs = settings->jobs < n_points ? settings->jobs : (uint32_t)n_points,
                    .once = run->base->engine->once,
                    .work = work,
                    .kind = kind,
                    .context = run},
        .processes = settings->processes,
        .question = run->head,
    };
}

static void say_what_stopped(struct run *run)
{
    const struct sweep_result *result = run->result;
    const char *path = run->settings->json;
    bool keeps = path && strcmp(path, "-") != 0 && result->done > 0;
    diagnostics_add(run->diag, "stopped by signal %d (%s) after %zu of %zu points%s%s%s", result->signal,
                    strsignal(result->signal), run->n_out, run->sweep->n_points, keeps ? ", which '" : "",
                    keeps ? path : "", keeps ? "' has; --resume goes on with it" : "");
}

/* All there was to do is done, or has been stopped. */
static void end_run(struct run *run)
{
    struct sweep_result *result = run->result;
    put_out_rest(run);
    result->left = run->sweep->n_points - run->n_out;
    bool complete = result->left == 0 && !run->stopped;
    bool useless_key = complete && !run->settings->resume && sweep_tally_any_at_all(&run->notes, run->n_out);
    if (!sweep_files_end(&run->files, complete, run->diag))
        run->stopped = true;
    sweep_tally_report(&run->notes, run->n_out, useless_key ? run->diag : run->said);
    sweep_tally_report(&run->errors, run->n_out, run->diag);
    if (useless_key) {
        sweep_files_remove(&run->files);
        result->refused += result->done;
        result->done = 0;
    }
    result->unwritten = run->stopped;
    if (result->signal)
        say_what_stopped(run);
    if (!complete && result->json)
        json_object_set_new(result->json, "complete", json_false());
}

static void run_fini(struct run *run)
{
    for (size_t i = 0; run->waiting && i < run->sweep->n_points; i++)
        free(run->waiting[i].bytes);
    struct check *checks[] = {&run->first, &run->last};
    for (size_t i = 0; i < 2; i++) {
        free(checks[i]->text);
        free(checks[i]->bytes);
    }
    free(run->waiting);
    free(run->there);
    free(run->head);
    sweep_tally_fini(&run->notes);
    sweep_tally_fini(&run->errors);
}

void sweep_run(const struct sweep *sweep, const struct question *base, const struct sweep_settings *settings,
               struct sweep_result *result, struct diagnostics *notes, struct diagnostics *errors)
{
    struct run run;
    *result = (struct sweep_result){0};
    run_init(&run, sweep, base, settings);
    run.result = result;
    run.said = notes;
    run.diag = errors;
    run.waiting = memory_zeroed(sweep->n_points, sizeof *run.waiting);
    run.there = memory_zeroed(sweep->n_points, sizeof *run.there);
    if (settings->kept) {
        result->json = sweep_head_json(sweep, base, settings->summary);
        json_object_set_new(result->json, "points", json_array());
    }
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN); /* a reader that goes away makes writing fail, no more */
    const struct sweep_crew_settings crew_settings = crew_settings_of(&run);
    struct sweep_crew *crew = sweep_crew_create(&crew_settings);
    int ended_by = settings->resume ? resume(&run, crew) : 0;
    const struct sweep_crew_owner owner = {next, take, goes_on, &run};
    if (!ended_by && !result->bad_input)
        ended_by = sweep_crew_run(crew, &owner);
    result->bad_input = result->bad_input || ended_by == CREW_REFUSED;
    result->signal = ended_by > 0 ? ended_by : 0;
    for (size_t i = 0; i < sweep_crew_notes(crew)->count; i++)
        diagnostics_add(ended_by == CREW_REFUSED ? errors : notes, "%s", sweep_crew_notes(crew)->lines[i]);
    if (!result->bad_input)
        end_run(&run);
    result->lost = sweep_crew_lost_any(crew);
    sweep_crew_destroy(crew);
    signal(SIGPIPE, pipe_before);
    run_fini(&run);
}

bool sweep_help(const struct sweep *sweep, const struct question *base, const struct sweep_settings *settings)
{
    struct run run;
    run_init(&run, sweep, base, settings);
    const struct sweep_crew_settings crew_settings = crew_settings_of(&run);
    bool heard = sweep_crew_help(&crew_settings);
    run_fini(&run);
    return heard;
}

void sweep_result_fini(struct sweep_result *result)
{
    json_decref(result->json);
}
