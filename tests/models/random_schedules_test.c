/* Every algorithm under everything that can be asked of it: what it accepts is proved to compute attention exactly
 * once, and what it refuses, it refuses with numbers. The algorithms are those of the register, whichever these are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/checker.h"
#include "models/schedule/schedule.h"
#include "tests/random_experiment.h"

#define CASES 150

static bool has_digit(const char *text)
{
    return text[strcspn(text, "0123456789")] != '\0';
}

/* True if it was accepted. */
static bool try_one(const struct experiment *experiment, const char *what)
{
    struct schedule schedule;
    struct diagnostics diag, unused;
    diagnostics_init(&diag);
    diagnostics_init(&unused);
    bool accepted = schedule_init(&schedule, experiment, &unused, &diag);
    if (accepted) {
        struct program *programs = schedule_build_all(&schedule);
        if (!checker_check(&schedule, programs, &diag)) {
            diagnostics_print(&diag, stderr, "  ");
            fail_msg("%s", what);
        }
        schedule_free_programs(&schedule, programs);
        schedule_fini(&schedule);
    } else {
        if (diag.count == 0)
            fail_msg("refused without a word: %s", what);
        for (size_t i = 0; i < diag.count; i++)
            if (!has_digit(diag.lines[i]) && !strstr(diag.lines[i], "expected"))
                fail_msg("refused without a number: '%s': %s", diag.lines[i], what);
    }
    diagnostics_fini(&diag);
    diagnostics_fini(&unused);
    return accepted;
}

static void what_is_accepted_is_proved(void **state)
{
    (void)state;
    const struct random_bounds bounds = {.ranks_max = 16, .rows_max = 9, .dtype = DTYPE_BF16};
    for (size_t a = 0; algorithms[a]; a++) {
        struct dice dice = {.state = 2026};
        unsigned accepted = 0, tried = 0;
        for (; accepted < CASES && tried < 20 * CASES; tried++) {
            char what[512];
            struct experiment experiment = random_experiment(&dice, algorithms[a]->name, &bounds);
            random_experiment_describe(&experiment, what, sizeof what);
            accepted += try_one(&experiment, what);
            random_experiment_fini(&experiment);
        }
        if (accepted < CASES)
            fail_msg("'%s' accepted only %u of %u", algorithms[a]->name, accepted, tried);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_accepted_is_proved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
