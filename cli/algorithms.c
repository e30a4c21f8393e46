/* algorithms.c - asking every algorithm: the sweep's key, the list with reasons, the notes, the order. */
#include "cli/algorithms.h"

#include <stdlib.h>
#include <string.h>

#include "cli/sweep_json.h"
#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"

char *algorithms_sweep_key(void)
{
    char *key = memory_text("schedule.algorithm=");
    for (size_t i = 0; algorithms[i]; i++) {
        char *longer = memory_format("%s%s%s", key, i ? "," : "", algorithms[i]->name);
        free(key);
        key = longer;
    }
    return key;
}

/* ---- the list ---- */

/* The message without the place that it is about: "FILE:LINE: " or "--set KEY=VALUE: ". */
static const char *without_place(const char *line, const char *path)
{
    size_t length = strlen(path);
    if (strncmp(line, path, length) == 0 && line[length] == ':') {
        const char *rest = line + length + 1 + strspn(line + length + 1, "0123456789:");
        return *rest == ' ' ? rest + 1 : line;
    }
    const char *colon = strncmp(line, "--set ", 6) == 0 ? strstr(line, ": ") : NULL;
    return colon ? colon + 2 : line;
}

/* Reads the experiment as if it had asked for `algorithm`. */
static bool read_for(const struct algorithm_ops *algorithm, const struct question *question, const char *path,
                     struct experiment *experiment, struct diagnostics *diag)
{
    const char **overrides = memory_zeroed(question->n_overrides + 1, sizeof *overrides);
    for (size_t i = 0; i < question->n_overrides; i++)
        overrides[i] = question->overrides[i];
    char *choice = memory_format("schedule.algorithm=%s", algorithm->name);
    overrides[question->n_overrides] = choice;
    bool good = experiment_read(experiment, path, overrides, question->n_overrides + 1, diag);
    free(choice);
    free(overrides);
    return good;
}

static void list_one(const struct algorithm_ops *algorithm, const struct question *question, const char *path,
                     FILE *stream)
{
    struct diagnostics why, unused;
    diagnostics_init(&why);
    diagnostics_init(&unused);
    struct experiment experiment;
    struct schedule schedule;
    if (read_for(algorithm, question, path, &experiment, &why)) {
        if (schedule_init(&schedule, &experiment, &unused, &why))
            schedule_fini(&schedule);
        experiment_fini(&experiment);
    }
    fprintf(stream, "%-17s %s%s\n", algorithm->name, why.count ? "does not apply: " : "applies",
            why.count ? without_place(why.lines[0], path) : "");
    for (size_t i = 1; i < why.count; i++)
        fprintf(stream, "%-17s and %s\n", "", without_place(why.lines[i], path));
    fprintf(stream, "%-17s %s\n", "", algorithm->summary);
    if (algorithm->constraint)
        fprintf(stream, "%-17s needs %s\n", "", algorithm->constraint);
    diagnostics_fini(&why);
    diagnostics_fini(&unused);
}

bool algorithms_list(const struct question *question, FILE *stream, struct diagnostics *diag)
{
    static const char key[] = "schedule.algorithm";
    for (size_t i = 0; i < question->n_overrides; i++)
        if (strncmp(question->overrides[i], key, sizeof key - 1) == 0)
            return diagnostics_add(diag, "--set %s has no effect with --list algorithms, which asks all of them",
                                   question->overrides[i]);
    char *path = question_file("experiments", question->experiment_path, diag);
    struct experiment experiment;
    bool good = path && read_for(algorithms[0], question, path, &experiment, diag);
    if (good) /* what is wrong with the experiment itself has been said; what is left is between it and each */
        experiment_fini(&experiment);
    for (size_t i = 0; good && algorithms[i]; i++)
        list_one(algorithms[i], question, path, stream);
    free(path);
    return good;
}

/* ---- notes ---- */

#define WITH " with algorithm = "

/* A key without effect, and the algorithms for which that was said. */
struct useless {
    char *what, *names;
};

static void add_name(struct useless *useless, const char *name, size_t length)
{
    char *longer =
        memory_format("%s%s%.*s", useless->names ? useless->names : "", useless->names ? ", " : "", (int)length, name);
    free(useless->names);
    useless->names = longer;
}

void algorithms_join_notes(const struct diagnostics *notes, struct diagnostics *joined)
{
    struct useless *list = memory_zeroed(notes->count, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < notes->count; i++) {
        const char *line = notes->lines[i];
        const char *behind_point = strncmp(line, "point ", 6) == 0 ? strstr(line, ": ") : NULL;
        const char *what = behind_point ? behind_point + 2 : line, *with = strstr(what, WITH);
        if (!with) {
            diagnostics_add(joined, "%s", line);
            continue;
        }
        size_t length = (size_t)(with - what), at = 0;
        while (at < count && (strlen(list[at].what) != length || strncmp(list[at].what, what, length) != 0))
            at++;
        if (at == count)
            list[count++].what = memory_format("%.*s", (int)length, what);
        add_name(&list[at], with + strlen(WITH), strcspn(with + strlen(WITH), " "));
    }
    for (size_t i = 0; i < count; i++) {
        diagnostics_add(joined, "%s with %s", list[i].what, list[i].names);
        free(list[i].what);
        free(list[i].names);
    }
    free(list);
}

/* ---- order ---- */

struct ranked {
    size_t index, question; /* the first point that asks the same */
    int standing;           /* 0 fits, 1 does not, 2 did not run */
    double seconds;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->question != b->question)
        return a->question < b->question ? -1 : 1;
    if (a->standing != b->standing)
        return a->standing - b->standing;
    if (a->seconds < b->seconds || a->seconds > b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

size_t *algorithms_order(const json_t *sweep)
{
    const json_t *points = json_object_get(sweep, "points");
    size_t count = json_array_size(points), *first = sweep_first_alike(sweep, sweep_is_question);
    struct ranked *ranked = memory_zeroed(count, sizeof *ranked);
    for (size_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(points, i), *step = sweep_step(point);
        bool fits = json_is_true(json_object_get(step, "fits"));
        ranked[i] = (struct ranked){i, first[i], !step ? 2 : !fits, sweep_number(step, "seconds")};
    }
    free(first);
    if (count)
        qsort(ranked, count, sizeof *ranked, compare_ranked);
    size_t *order = memory_zeroed(count, sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = ranked[i].index;
    free(ranked);
    return order;
}
