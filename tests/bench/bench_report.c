#include "tests/bench/bench_report.h"

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

static double number_in(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static bool read_here(const char *path, struct bench_report *report)
{
    const json_t *run = json_load_file(path, 0, NULL), *step = json_object_get(run, "step");
    if (!step)
        return false;
    report->step_seconds = number_in(step, "seconds", 0);
    report->compute_seconds = number_in(step, "compute_seconds", 0);
    report->transfers = number_in(step, "messages_sent", 0);
    report->classes = number_in(json_object_get(run, "engine"), "simulated_ranks", -1);
    return true;
}

bool bench_report_read(const char *path, struct bench_report *report)
{
    int ends[2];
    if (pipe(ends))
        return false;
    pid_t child = fork();
    if (child == 0) {
        bool good = read_here(path, report) && write(ends[1], report, sizeof *report) == (ssize_t)sizeof *report;
        _exit(good ? 0 : 1);
    }
    close(ends[1]);
    bool good = child > 0 && read(ends[0], report, sizeof *report) == (ssize_t)sizeof *report;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return good;
}
