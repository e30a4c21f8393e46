/* command.h - for tests: runs the built command through a shell, and keeps what it printed. */
#ifndef CPSIM_TESTS_CLI_COMMAND_H
#define CPSIM_TESTS_CLI_COMMAND_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/base/memory.h"

struct outcome {
    int status; /* exit status; 128 + signal */
    char *out, *err;
};

/* The whole file; "" when there is none. The caller frees it. */
static inline char *file_text(const char *path)
{
    char *text = NULL;
    size_t count = 0, capacity = 0;
    FILE *file = fopen(path, "r");
    for (int c; file && (c = fgetc(file)) != EOF;) {
        memory_grow(text, count, capacity);
        text[count++] = (char)c;
    }
    if (file)
        fclose(file);
    memory_grow(text, count, capacity);
    text[count] = '\0';
    return text;
}

/* An empty folder of the test's own, made once, with a trailing slash left out. */
static inline const char *test_folder(void)
{
    static char folder[] = "/tmp/cpsim-cli-XXXXXX";
    static bool made;
    if (!made && !mkdtemp(folder))
        abort();
    made = true;
    return folder;
}

static inline void remove_test_folder(void)
{
    char *command = memory_format("rm -rf '%s'", test_folder());
    if (system(command) != 0)
        fprintf(stderr, "%s is left over\n", test_folder());
    free(command);
}

/* The same as a group's teardown. */
static inline int remove_test_files(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

/* Runs `text` in a shell, in which $CPSIM is the command and $DIR the test's folder. */
static inline struct outcome shell(const char *text)
{
    const char *folder = test_folder();
    char *out = memory_format("%s/stdout", folder), *err = memory_format("%s/stderr", folder);
    char *script = memory_format("CPSIM='%s'; DIR='%s'; { %s\n} >'%s' 2>'%s'", CPSIM_COMMAND, folder, text, out, err);
    int status = system(script);
    struct outcome outcome = {
        .status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
        .out = file_text(out),
        .err = file_text(err),
    };
    free(out);
    free(err);
    free(script);
    return outcome;
}

static inline void outcome_fini(struct outcome *outcome)
{
    free(outcome->out);
    free(outcome->err);
}

/* The file `name` of the test's folder. */
static inline char *made_file(const char *name)
{
    char *path = memory_format("%s/%s", test_folder(), name), *text = file_text(path);
    free(path);
    return text;
}

static inline bool made_file_exists(const char *name)
{
    char *path = memory_format("%s/%s", test_folder(), name);
    bool exists = access(path, F_OK) == 0;
    free(path);
    return exists;
}

#endif
