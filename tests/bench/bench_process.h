/* bench_process.h - runs a command for its time and peak memory, with limits so that it ends in any case. */
#ifndef CPSIM_TESTS_BENCH_PROCESS_H
#define CPSIM_TESTS_BENCH_PROCESS_H

enum ending { ENDED_WELL, ENDED_BADLY, OUT_OF_TIME };

struct usage {
    enum ending ending;
    double wall_seconds, processor_seconds;
    double peak_mib;    /* of the command itself, not of processes that it started */
    char output[16384]; /* the beginning of what it wrote to standard output */
};

/* Runs argv[0] (a path) with arguments argv, NULL-terminated; it and all that it started are killed after `seconds`.
 * Its standard error is the caller's. */
struct usage process_run(char *const *argv, double seconds);

#endif
