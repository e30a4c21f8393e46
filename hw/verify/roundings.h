/* roundings.h - how often a number that a run ends with has been rounded to bf16 while it was summed up: what its error
 * may be, follows from that. */
#ifndef CPSIM_HW_VERIFY_ROUNDINGS_H
#define CPSIM_HW_VERIFY_ROUNDINGS_H

#include "hw/run/executor.h"

/* The most additions in bf16 that any number of an output goes through, on whatever ranks (`programs`: all of them): of
 * parts of O, of gradients that are kept or travel in bf16. What is summed in fp32 is rounded once and not counted. */
uint32_t roundings_of_sums(const struct schedule *schedule, const struct program *programs, enum output output);

#endif
