/* expect.h - for tests: what the command, and texts that are kept as files, are held against. Include after cmocka.h.
 */
#ifndef CPSIM_TESTS_CLI_EXPECT_H
#define CPSIM_TESTS_CLI_EXPECT_H

#include <jansson.h>

#include "tests/cli/command.h"

/* Runs `text` in a shell (command.h); `out` and `err` are parts of what it prints, NULL: anything. */
static inline void expect(const char *text, int status, const char *out, const char *err)
{
    struct outcome outcome = shell(text);
    if (outcome.status != status || (out && !strstr(outcome.out, out)) || (err && !strstr(outcome.err, err)))
        fail_msg("'%s' ended with %d, expected %d\n--- expected out: %s\n%s--- expected err: %s\n%s", text,
                 outcome.status, status, out ? out : "", outcome.out, err ? err : "", outcome.err);
    outcome_fini(&outcome);
}

/* Bad usage: status 2, nothing on standard output, and the message. */
static inline void expect_misuse(const char *arguments, const char *message)
{
    char *text = memory_format("$CPSIM %s", arguments);
    struct outcome outcome = shell(text);
    if (outcome.status != 2 || *outcome.out || !strstr(outcome.err, message))
        fail_msg("'%s' ended with %d, expected '%s', said '%s'", arguments, outcome.status, message, outcome.err);
    outcome_fini(&outcome);
    free(text);
}

/* What `text` prints, as JSON; it must succeed. */
static inline json_t *json_of(const char *text)
{
    struct outcome outcome = shell(text);
    if (outcome.status != 0)
        fail_msg("'%s' ended with %d: %s", text, outcome.status, outcome.err);
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    outcome_fini(&outcome);
    return json;
}

/* `text` is what the file of that name in tests/cli/golden holds; with CPSIM_REGENERATE=1 in the environment the file
 * is written first. Look at the difference before keeping it. */
static inline void expect_golden(const char *name, const char *text)
{
    char *path = memory_format("%s/tests/cli/golden/%s", CPSIM_SOURCE_DIR, name);
    if (getenv("CPSIM_REGENERATE")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    char *golden = file_text(path);
    if (strcmp(golden, text) != 0)
        fail_msg("%s is not what is written:\n%s", path, text);
    free(golden);
    free(path);
}

#endif
