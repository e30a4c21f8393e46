/* result_places.c - see result_places.h. */
#include "cli/result_places.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"

struct place {
    const char *option, *path;
};

bool place_is_stdout(const char *path)
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
    a = place_is_stdout(a) ? "/dev/stdout" : a;
    b = place_is_stdout(b) ? "/dev/stdout" : b;
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
        if (named[i].path && (terminal_too || !place_is_stdout(named[i].path)))
            places[(*count)++] = named[i];
    size_t terminal_plots = 0;
    for (size_t i = 0; i < options->n_plots; i++) {
        bool terminal = place_is_stdout(options->plots[i].path);
        if (terminal && (!terminal_too || options->script || terminal_plots++ || options->table))
            continue; /* drawings may follow each other, and the table, in the terminal */
        places[(*count)++] = (struct place){"--plot", options->plots[i].path};
    }
    return places;
}

bool result_places_spare(const struct options *options, const char *path, struct diagnostics *diag)
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

void result_places_judge(const struct options *options, struct diagnostics *diag)
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
