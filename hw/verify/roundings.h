/* roundings.h - how often a number that a run ends with has been rounded to 16 bits while it was summed up: what its
 * error may be, follows from that. */
#ifndef CPSIM_HW_VERIFY_ROUNDINGS_H
#define CPSIM_HW_VERIFY_ROUNDINGS_H

#include "hw/run/executor.h"

/* The most additions in 16 bits that any number of an output goes through, on whatever ranks (`programs`: all of them):
 * of parts of O, of gradients that are kept or travel in bf16 or fp16. What is summed in fp32 is rounded once and not
 * counted. */
uint32_t roundings_of_sums(const struct schedule *schedule, const struct program *programs, enum output output);

#endif
