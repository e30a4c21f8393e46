/* expect_lines.h - compares collected messages with the expected ones, line by line. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_EXPECT_LINES_H
#define CPSIM_TESTS_MODELS_EXPECT_LINES_H

#include "models/base/diagnostics.h"

/* `lines` is NULL-terminated. Empties `diag`. */
static inline void expect_lines(struct diagnostics *diag, const char *const *lines)
{
    size_t n = 0;
    while (lines[n])
        n++;
    for (size_t i = 0; i < n && i < diag->count; i++)
        assert_string_equal(diag->lines[i], lines[i]);
    if (diag->count > n)
        fail_msg("also reported: %s", diag->lines[n]);
    if (diag->count < n)
        fail_msg("not reported: %s", lines[diag->count]);
    diagnostics_fini(diag);
}

#define EXPECT_LINES(diag, ...) expect_lines(diag, (const char *const[]){__VA_ARGS__, NULL})

static inline void expect_no_lines(struct diagnostics *diag)
{
    expect_lines(diag, (const char *const[]){NULL});
}

#endif
