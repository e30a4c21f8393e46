/* bench_question.h - the clusters and experiments that the benchmark asks about, written as files. */
#ifndef CPSIM_TESTS_BENCH_QUESTION_H
#define CPSIM_TESTS_BENCH_QUESTION_H

#include <stdbool.h>

struct question {
    unsigned cp, dp;
    bool one_switch; /* round numbers (device toy) on a single switch; else H100s by eights on rails */
    bool train;
    const char *algorithm, *sharding, *mask;
};

/* A ring forward of as many ranks as `cp` on one switch: every block is attended by every rank. */
#define RING_BANDWIDTH 50e9
#define RING_LATENCY 2e-6
#define RING_BLOCK_BYTES (2.0 * 8192 * 8 * 128 * 2)

/* Writes topology.ini and experiment.ini in `directory`; exits with a message when it cannot. */
void question_write(const struct question *question, const char *directory);

#endif
