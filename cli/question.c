/* question.c - names that mean files, overrides that belong to files, and the command that asks it all again. */
#include "cli/question.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"

/* A shipped file below the working directory reads better without that in front. Takes over `path`. */
static char *shortened(char *path)
{
    char *here = getcwd(NULL, 0);
    size_t length = here ? strlen(here) : 0;
    bool below = length > 1 && strncmp(path, here, length) == 0 && path[length] == '/' && path[length + 1] != '/';
    free(here);
    if (!below)
        return path;
    char *rest = memory_text(path + length + 1);
    free(path);
    return rest;
}

char *question_file(const char *folder, const char *name, struct diagnostics *diag)
{
    char *path = data_path_find(folder, name);
    if (path)
        return strcmp(path, name) == 0 ? path : shortened(path);
    size_t length = strlen(name);
    bool is_path = strchr(name, '/') || (length > 4 && strcmp(name + length - 4, ".ini") == 0);
    if (is_path)
        return memory_text(name); /* whoever reads it says what is wrong with it */
    char **names = data_path_list(folder);
    const char *nearest = key_table_nearest(name, (const char *const *)names);
    char *hint = nearest ? memory_format(", did you mean '%s'?", nearest) : memory_text("");
    diagnostics_add(diag, "no file '%s' and nothing of that name among the shipped %s%s (see cpsim --list %s)", name,
                    folder, hint, folder);
    free(hint);
    for (size_t i = 0; names[i]; i++)
        free(names[i]);
    free(names);
    return NULL;
}

struct question_overrides question_overrides(const struct question *question, const struct file_spec *file)
{
    struct question_overrides mine = {memory_zeroed(question->n_overrides, sizeof *mine.items), 0};
    for (size_t i = 0; i < question->n_overrides; i++)
        if (key_table_owns_override(file, question->overrides[i]))
            mine.items[mine.count++] = question->overrides[i];
    return mine;
}

/* An override that no section of either file can have. */
static bool report_stray(const char *text, struct diagnostics *diag)
{
    if (!strchr(text, '='))
        return diagnostics_add(diag, "--set %s: not understood, expected section.key=value", text);
    const char *names[16] = {NULL};
    size_t n = 0;
    const struct file_spec *const files[] = {&experiment_file, &topology_file};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (size_t i = 0; files[f]->sections[i] && n + 1 < sizeof names / sizeof *names; i++)
            if (!files[f]->sections[i]->aside)
                names[n++] = files[f]->sections[i]->name;
    char *word = memory_format("%.*s", (int)strcspn(text, " .="), text);
    char *hint = key_table_suggestion(word, names);
    diagnostics_add(diag, "--set %s: no such section in a topology or an experiment%s (see cpsim --list keys)", text,
                    hint);
    free(hint);
    free(word);
    return false;
}

/* Every override must belong to a file that is read; the file's reader judges the rest. */
bool question_check_overrides(const struct question *question, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < question->n_overrides; i++) {
        const char *text = question->overrides[i];
        bool of_experiment = key_table_owns_override(&experiment_file, text);
        if (!of_experiment && !key_table_owns_override(&topology_file, text))
            fine = report_stray(text, diag);
        else if (!of_experiment && !question->topology_path)
            fine = diagnostics_add(diag, "--set %s: has no effect without a topology", text);
    }
    return fine;
}

void question_print_word(FILE *stream, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, stream);
        return;
    }
    fputc('\'', stream);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", stream);
        else
            fputc(*word, stream);
    }
    fputc('\'', stream);
}

void question_print_without(FILE *stream, mechanism_set without)
{
    for (int m = 0; m < MECHANISM_COUNT; m++)
        if (!mechanism_counts(without, (enum mechanism)m))
            fprintf(stream, " --without %s", mechanism_name((enum mechanism)m));
}

char *question_command(const struct question *question, const char *const *sweeps, size_t n_sweeps)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("cpsim");
    fputs("cpsim", stream);
    if (question->topology_path) {
        fputc(' ', stream);
        question_print_word(stream, question->topology_path);
    }
    fputc(' ', stream);
    question_print_word(stream, question->experiment_path);
    for (size_t i = 0; i < question->n_overrides; i++) {
        fputs(" --set ", stream);
        question_print_word(stream, question->overrides[i]);
    }
    if (question->engine && question->engine != engines[0])
        fprintf(stream, " --engine %s", question->engine->name);
    question_print_without(stream, question->without);
    if (question->no_fold)
        fputs(" --no-fold", stream);
    for (size_t i = 0; i < n_sweeps; i++) {
        fputs(" --sweep ", stream);
        question_print_word(stream, sweeps[i]);
    }
    fclose(stream);
    return text;
}
