/* micro_batches.h - a step of several forward and backward passes, put together from two that were run.
 *
 * Of n micro-batches the first n - 1 only add to the gradients; the last one's gradients are summed over the replicas,
 * and the optimizer runs. Every pass begins when the one before has ended everywhere. So the step is n - 1 times the
 * one kind of pass and once the other. Memory is that of the last pass, which has all that the others have.
 */
#ifndef CPSIM_MODELS_RESULT_MICRO_BATCHES_H
#define CPSIM_MODELS_RESULT_MICRO_BATCHES_H

#include "models/result/report.h"

/* Adds `times` passes that `pass` is the report of to `report`, that of the last pass, of the same ranks: seconds,
 * bytes, messages, FLOPs and what follows from them. Links are those of both together; of hot links those of the last
 * pass stay, with shares of its own time. */
void report_add_passes(struct report *report, const struct report *pass, uint32_t times);

#endif
