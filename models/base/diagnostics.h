/* diagnostics.h - the errors of one task, collected, so that a user sees all of them at once.
 *
 * Nobody but the command prints or exits. A function that can fail takes a `struct diagnostics *`, adds one line per
 * problem and returns false (or a negative count). Input errors read `file:line: what, what was expected`: lower case,
 * the subject quoted, no full stop.
 */
#ifndef CPSIM_MODELS_BASE_DIAGNOSTICS_H
#define CPSIM_MODELS_BASE_DIAGNOSTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diagnostics {
    char **lines; /* each without newline */
    size_t count;
};

void diagnostics_init(struct diagnostics *diag);
void diagnostics_fini(struct diagnostics *diag);

/* Adds one line about no particular place. Always returns false, so that callers can `return diagnostics_add(...)`. */
bool diagnostics_add(struct diagnostics *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds `file:line: ...`; with line 0, `file: ...`. Always returns false. */
bool diagnostics_at(struct diagnostics *diag, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints each line to `stream`, each after `prefix`. */
void diagnostics_print(const struct diagnostics *diag, FILE *stream, const char *prefix);

#endif
