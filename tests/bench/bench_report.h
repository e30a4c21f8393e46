/* bench_report.h - what the benchmark wants to know of a run that cpsim has written as JSON. */
#ifndef CPSIM_TESTS_BENCH_REPORT_H
#define CPSIM_TESTS_BENCH_REPORT_H

#include <stdbool.h>

struct bench_report {
    double step_seconds, compute_seconds, transfers;
    double classes; /* of ranks; below 0: not said */
};

/* False when there is no such file, or no run in it. Large reports do not stay in this process: a child starts with the
 * peak memory of its parent. */
bool bench_report_read(const char *path, struct bench_report *report);

#endif
