/* advice.c - the search's rounds, done by a crew, and what they found put in order. */
#include "cli/advice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/advice_overrides.h"
#include "cli/advice_search.h"
#include "cli/input_cache.h"
#include "cli/longest.h"
#include "cli/sweep_crew.h"
#include "models/base/memory.h"

/* A task is a candidate and how deep to look at it. */
static size_t task_of(const struct advice_space *space, size_t candidate, enum advice_depth depth)
{
    return (size_t)depth * space->n_candidates + candidate;
}

struct crew_work {
    struct advice *advice;
    struct sweep_crew *crew;
    size_t *tasks, n_tasks, next, done; /* of the round */
};

/* In the worker, which keeps the files that it has read. */
static void work(void *context, size_t task, FILE *stream)
{
    struct advice *advice = ((struct crew_work *)context)->advice;
    size_t n = advice->space.n_candidates;
    if (!advice->question.cache)
        advice->question.cache = input_cache_create();
    advice_point_answer(&advice->space, &advice->question, task % n, (enum advice_depth)(task / n), stream);
}

static bool next(void *owner, size_t *task)
{
    struct crew_work *work = owner;
    if (work->next == work->n_tasks)
        return false;
    *task = work->tasks[work->next++];
    return true;
}

static void take(void *owner, size_t task, struct worker_result *result)
{
    struct crew_work *work = owner;
    struct advice *advice = work->advice;
    size_t n = advice->space.n_candidates;
    struct advice_answer *answer = &advice->entries[task % n].answer[task / n];
    free(answer->line);
    if (result->wait_status != 0 || !advice_answer_read(answer, result->text, result->size)) {
        *answer = (struct advice_answer){.status = ADVICE_FAILED};
        answer->line = WIFSIGNALED(result->wait_status) && result->wait_status != -1
                           ? memory_format("its process was ended by signal %d (%s)", WTERMSIG(result->wait_status),
                                           strsignal(WTERMSIG(result->wait_status)))
                           : memory_text("its process ended without a result");
    }
    free(result->text);
    work->done++;
    if (advice->question.progress)
        advice->question.progress(advice->question.progress_context, (double)work->done / (double)work->n_tasks);
}

static bool goes_on(void *owner)
{
    const struct crew_work *work = owner;
    return work->done < work->n_tasks;
}

static int look(void *context, const size_t *candidates, size_t n, enum advice_depth depth, const char *what)
{
    struct crew_work *work = context;
    struct advice *advice = work->advice;
    work->tasks = memory_zeroed(n, sizeof *work->tasks);
    work->n_tasks = n;
    work->next = work->done = 0;
    for (size_t i = 0; i < n; i++)
        work->tasks[i] = task_of(&advice->space, candidates[i], depth);
    if (advice->question.phase)
        advice->question.phase(advice->question.progress_context, what);
    const struct sweep_crew_owner owner = {next, take, goes_on, work};
    int ended_by = sweep_crew_run(work->crew, &owner);
    free(work->tasks);
    work->tasks = NULL;
    return ended_by;
}

static struct sweep_crew_settings crew_settings(struct crew_work *own)
{
    return (struct sweep_crew_settings){
        .workers = {.jobs = own->advice->settings.jobs, .work = work, .context = own},
        .processes = own->advice->settings.processes,
        .question = own->advice->command,
    };
}

/* ---- what was found ---- */

const struct advice_times *advice_times_of(const struct advice *advice, size_t candidate)
{
    const struct advice_entry *entry = &advice->entries[candidate];
    for (int depth = ADVICE_TRIAL; depth >= 0; depth--)
        if (entry->answer[depth].status == ADVICE_RAN)
            return &entry->answer[depth].times;
    return NULL;
}

struct ranked {
    double seconds, bytes;
    size_t candidate;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *first = a, *second = b;
    if (first->seconds != second->seconds)
        return first->seconds < second->seconds ? -1 : 1;
    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? -1 : 1;
    return first->candidate < second->candidate ? -1 : 1;
}

/* Candidates of a depth with a status, by time, or by memory where there is none. The caller frees them. */
static size_t *rank(const struct advice *advice, enum advice_depth depth, enum advice_status status, size_t *n)
{
    struct ranked *all = memory_zeroed(advice->space.n_candidates, sizeof *all);
    *n = 0;
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const struct advice_answer *answer = &advice->entries[i].answer[depth];
        if (answer->status == status)
            all[(*n)++] = (struct ranked){status == ADVICE_RAN ? answer->times.seconds : 0, answer->peak_bytes, i};
    }
    qsort(all, *n, sizeof *all, compare_ranked);
    size_t *candidates = memory_zeroed(*n, sizeof *candidates);
    for (size_t i = 0; i < *n; i++)
        candidates[i] = all[i].candidate;
    free(all);
    return candidates;
}

/* What became of a candidate, at the deepest look. */
static enum advice_status status_of(const struct advice_entry *entry)
{
    enum advice_status trial = entry->answer[ADVICE_TRIAL].status;
    return trial != ADVICE_NOT_SEEN ? trial : entry->answer[ADVICE_SCREENING].status;
}

static void count(struct advice *advice)
{
    size_t *counts[] = {[ADVICE_NOT_SEEN] = &advice->n_skipped,
                        [ADVICE_RAN] = &advice->n_screened,
                        [ADVICE_NO_ROOM] = &advice->n_no_room,
                        [ADVICE_REFUSED] = &advice->n_refused,
                        [ADVICE_FAILED] = &advice->n_failed};
    for (size_t i = 0; i < advice->space.n_candidates; i++)
        (*counts[status_of(&advice->entries[i])])++;
}

#define NEAREST_MAX 3

static void put_in_order(struct advice *advice)
{
    count(advice);
    advice->tried = rank(advice, ADVICE_TRIAL, ADVICE_RAN, &advice->n_tried);
    size_t n = advice->n_tried;
    if (n == 0 && advice->signal) { /* the trials had not begun */
        free(advice->tried);
        advice->tried = rank(advice, ADVICE_SCREENING, ADVICE_RAN, &n);
    }
    advice->n_best = n < advice->settings.best ? n : advice->settings.best;
    advice->best = memory_zeroed(advice->n_best, sizeof *advice->best);
    if (advice->n_best)
        memcpy(advice->best, advice->tried, advice->n_best * sizeof *advice->best);
    enum advice_depth depth = advice->settings.exhaustive ? ADVICE_TRIAL : ADVICE_SCREENING;
    if (n == 0) {
        advice->nearest = rank(advice, depth, ADVICE_NO_ROOM, &advice->n_nearest);
        advice->n_nearest = advice->n_nearest < NEAREST_MAX ? advice->n_nearest : NEAREST_MAX;
    }
}

/* The longest sequence that the layout which needs least memory has room for. */
static void find_longest(struct advice *advice)
{
    struct question question = advice->question;
    struct diagnostics ignored;
    struct longest longest;
    size_t count;
    if (advice->n_nearest == 0 || advice->signal)
        return;
    char **overrides = advice_overrides(&advice->space, &advice->question, advice->nearest[0], &count);
    question.overrides = (const char *const *)overrides;
    question.n_overrides = count;
    diagnostics_init(&ignored);
    if (longest_find(&longest, &question, &ignored) == PREDICTION_DONE)
        advice->longest = longest.fits.seq_len;
    longest_fini(&longest);
    diagnostics_fini(&ignored);
    advice_overrides_free(overrides, count);
}

double advice_tokens_per_s(const struct advice *advice, const struct advice_times *times)
{
    const struct advice_space *space = &advice->space;
    uint64_t tokens = space->base.new_tokens ? space->base.new_tokens : space->base.seq_len;
    return (double)tokens * (double)space->sequences / (double)space->gpus / times->seconds;
}

double advice_mfu(const struct advice *advice, size_t candidate)
{
    const struct advice_entry *entry = &advice->entries[candidate];
    const struct advice_times *times = advice_times_of(advice, candidate);
    for (int depth = ADVICE_TRIAL; times && depth >= 0; depth--) {
        const struct advice_answer *answer = &entry->answer[depth];
        if (answer->status == ADVICE_RAN && answer->peak_flops_per_s > 0)
            return answer->model_flops / times->seconds / answer->peak_flops_per_s;
    }
    return 0;
}

/* ---- the whole ---- */

/* The command that asks this very question. */
static char *command_of(const struct question *question, const struct advice_settings *settings)
{
    char *text = NULL, *asked = question_command(question, NULL, 0);
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return asked;
    fprintf(stream, "%s --advise", asked);
    if (settings->wish.gpus)
        fprintf(stream, " --gpus %" PRIu64, settings->wish.gpus);
    for (size_t i = 0; i < settings->wish.n_vary; i++) {
        fputs(" --vary ", stream);
        question_print_word(stream, settings->wish.vary[i]);
    }
    for (size_t i = 0; i < settings->wish.n_fix; i++) {
        fputs(" --fix ", stream);
        question_print_word(stream, settings->wish.fix[i]);
    }
    if (settings->best != ADVICE_BEST_DEFAULT)
        fprintf(stream, " --best %zu", settings->best);
    if (settings->exhaustive)
        fputs(" --exhaustive", stream);
    fclose(stream);
    free(asked);
    return text;
}

static bool begin(struct advice *advice, const struct question *question, const struct advice_settings *settings,
                  struct diagnostics *diag)
{
    *advice = (struct advice){.question = *question, .settings = *settings};
    advice->command = command_of(question, settings);
    if (!advice_space_init(&advice->space, question, &settings->wish, diag))
        return false;
    advice->entries = memory_zeroed(advice->space.n_candidates, sizeof *advice->entries);
    return true;
}

/* Every look failed or was refused in the same way: that is what is wrong. */
static enum prediction_status judge(const struct advice *advice, struct diagnostics *diag)
{
    if (advice->n_best || advice->n_nearest)
        return PREDICTION_DONE;
    if (advice->signal)
        return PREDICTION_FAILED;
    diagnostics_add(diag, "none of the %zu candidates can be predicted; the first says:", advice->space.n_candidates);
    for (size_t i = 0; i < advice->space.n_candidates; i++)
        for (int depth = 0; depth < ADVICE_DEPTHS; depth++)
            if (advice->entries[i].answer[depth].line) {
                diagnostics_add(diag, "%s", advice->entries[i].answer[depth].line);
                return advice->n_failed ? PREDICTION_FAILED : PREDICTION_BAD_INPUT;
            }
    return PREDICTION_FAILED;
}

enum prediction_status advice_run(struct advice *advice, const struct question *question,
                                  const struct advice_settings *settings, struct diagnostics *diag)
{
    if (!begin(advice, question, settings, diag))
        return PREDICTION_BAD_INPUT;
    struct crew_work work = {.advice = advice};
    const struct sweep_crew_settings crew = crew_settings(&work);
    work.crew = sweep_crew_create(&crew);
    int ended_by = advice_search(advice, look, &work);
    const struct diagnostics *said = sweep_crew_notes(work.crew);
    for (size_t i = 0; i < said->count; i++)
        diagnostics_add(diag, "%s", said->lines[i]);
    advice->lost = sweep_crew_lost_any(work.crew);
    sweep_crew_destroy(work.crew);
    advice->signal = ended_by > 0 ? ended_by : 0;
    if (ended_by == CREW_REFUSED)
        return PREDICTION_BAD_INPUT;
    put_in_order(advice);
    find_longest(advice);
    if (advice->signal)
        diagnostics_add(diag, "stopped by signal %d (%s): what is said is the best of what had been looked at",
                        advice->signal, strsignal(advice->signal));
    return judge(advice, diag);
}

bool advice_help(const struct question *question, const struct advice_settings *settings, struct diagnostics *diag)
{
    struct advice advice;
    bool fine = begin(&advice, question, settings, diag);
    if (fine) {
        struct crew_work work = {.advice = &advice};
        const struct sweep_crew_settings crew = crew_settings(&work);
        fine = sweep_crew_help(&crew);
    } else {
        processes_close(settings->processes, true);
    }
    advice_fini(&advice);
    return fine;
}

void advice_fini(struct advice *advice)
{
    for (size_t i = 0; advice->entries && i < advice->space.n_candidates; i++)
        for (int depth = 0; depth < ADVICE_DEPTHS; depth++)
            free(advice->entries[i].answer[depth].line);
    free(advice->entries);
    free(advice->best);
    free(advice->tried);
    free(advice->nearest);
    free(advice->command);
    advice_space_fini(&advice->space);
}
