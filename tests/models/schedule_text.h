/* schedule_text.h - for tests: the schedule of an experiment that is given as text. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_SCHEDULE_TEXT_H
#define CPSIM_TESTS_MODELS_SCHEDULE_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/schedule/schedule.h"

/* Frees `text`. False with messages when the experiment, or its algorithm, is refused; there is nothing to free then.
 * Every key must have an effect. */
static inline bool schedule_of_text(struct experiment *experiment, struct schedule *schedule, char *text,
                                    struct diagnostics *diag)
{
    char path[] = "/tmp/cpsim-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    free(text);
    bool good = experiment_read(experiment, path, NULL, 0, diag);
    unlink(path);
    if (good && !schedule_init(schedule, experiment, NULL, diag)) {
        experiment_fini(experiment);
        good = false;
    }
    return good;
}

/* There is one message, and it has `words` in it; frees it. */
static inline void expect_one_message(struct diagnostics *diag, const char *words)
{
    if (diag->count != 1)
        diagnostics_print(diag, stderr, "  ");
    assert_int_equal(diag->count, 1);
    if (!strstr(diag->lines[0], words))
        fail_msg("'%s' does not say '%s'", diag->lines[0], words);
    diagnostics_fini(diag);
}

#endif
