/* benchmark.h - programs that only move data: what the tables of communication benchmarks measure.
 *
 * Every rank has one row of bytes (or one for each rank), as an algorithm has rows of a sequence; so the programs are
 * written by the functions that write those of attention, and whatever the cost model says of a message or of a
 * collective holds here too. NCCL's collectives take as much from each rank: bytes that the ranks do not divide are
 * rounded up.
 */
#ifndef CPSIM_MODELS_SCHEDULE_BENCHMARK_H
#define CPSIM_MODELS_SCHEDULE_BENCHMARK_H

#include "models/schedule/schedule.h"

enum benchmark_pattern {
    BENCHMARK_RING_SHIFT,     /* every rank sends `bytes` to the next and receives from the one before, in one group */
    BENCHMARK_ALL_GATHER,     /* every rank ends with `bytes`, an equal part of each rank's */
    BENCHMARK_REDUCE_SCATTER, /* every rank has `bytes` and ends with the sum of an equal part of them */
    BENCHMARK_ALL_TO_ALL,     /* every rank has `bytes`, an equal part for each rank */
    BENCHMARK_ALL_REDUCE,     /* every rank has `bytes` and ends with the sum of all */
    BENCHMARK_PATTERNS,
};

const char *benchmark_pattern_name(enum benchmark_pattern pattern);
/* False when there is none of this name. */
bool benchmark_pattern_find(const char *name, enum benchmark_pattern *pattern);

#define BENCHMARK_RANKS_MAX 4096 /* of a collective, in which each of them has a message for every other */
/* A row of bytes is counted in 32 bits. */
#define BENCHMARK_ROW_BYTES_MAX UINT32_MAX

struct benchmark {
    struct experiment experiment; /* made up: so many ranks, rows of so many bytes */
    struct schedule schedule;
    struct program *programs;
};

/* Bytes of the row that each rank gives, or gives to each. */
uint64_t benchmark_row_bytes(enum benchmark_pattern pattern, uint32_t ranks, uint64_t bytes);

/* `ranks` is 2 to BENCHMARK_RANKS_MAX, the row's bytes are 1 to BENCHMARK_ROW_BYTES_MAX. Not to be moved: the schedule
 * points to the experiment. */
void benchmark_init(struct benchmark *benchmark, enum benchmark_pattern pattern, uint32_t ranks, uint64_t bytes);
void benchmark_fini(struct benchmark *benchmark);

#endif
