/* memory.h - a rank's high-water mark: the most bytes that its live buffers take at one moment. */
#ifndef CPSIM_MODELS_RESULT_MEMORY_H
#define CPSIM_MODELS_RESULT_MEMORY_H

#include "models/result/timeline.h"
#include "models/schedule/program.h"
#include "models/schedule/streams.h"

struct memory_peak {
    uint64_t bytes;
    uint64_t by_role[ROLE_COUNT]; /* what it was made of; sums to bytes */
    double at_seconds;            /* the first moment at which it was reached */
};

/* What of it the program alone decides, for all who run it. */
struct high_water {
    uint64_t bytes;
    uint64_t by_role[ROLE_COUNT];
    /* When: at the begin of a phase; or when operation `first` begins; or when the last of `n_ops` operations ends. */
    enum { HIGH_AT_PHASE, HIGH_AT_BEGIN, HIGH_AT_END } at;
    int phase; /* PHASE_COUNT: the end of the step */
    uint32_t first, *ops, n_ops;
};

/* The operation of the compute stream at which it was reached. */
struct water_moment {
    uint32_t op;   /* NO_OPERATION: the begin of `phase`, or the end of the step */
    uint8_t phase; /* enum phase; PHASE_COUNT: the end of the step */
    bool finish;   /* when it had finished, and others took their memory; else at its start */
};

#define NO_OPERATION UINT32_MAX

void high_water_init(struct high_water *water, const struct stream_order *order);
void high_water_fini(struct high_water *water);

/* When an instance of the program that the mark is of reached it. */
double high_water_seconds(const struct high_water *water, const struct instance_times *times,
                          const double phase_end[PHASE_COUNT]);

struct water_moment high_water_moment(const struct high_water *water, const struct program *program);

/* Both: the high-water mark of one instance of a program, by the rule of lifetimes.h. The timeline only says when it is
 * reached. */
struct memory_peak memory_peak(const struct stream_order *order, const struct moment *moments,
                               const double phase_end[PHASE_COUNT]);

#endif
