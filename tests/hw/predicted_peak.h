/* predicted_peak.h - for tests: what a prediction says of a program's memory, to hold a run against. */
#ifndef CPSIM_TESTS_HW_PREDICTED_PEAK_H
#define CPSIM_TESTS_HW_PREDICTED_PEAK_H

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/result/memory.h"

/* The high-water mark in bytes, of any timeline: here all operations take no time. */
static inline uint64_t predicted_peak(const struct program *program)
{
    struct stream_order order;
    stream_order_init(&order, program);
    struct moment *moments = memory_zeroed(program->n_ops, sizeof *moments);
    const double phase_end[PHASE_COUNT] = {1, 2};
    uint64_t bytes = memory_peak(&order, moments, phase_end).bytes;
    free(moments);
    stream_order_fini(&order);
    return bytes;
}

#endif
