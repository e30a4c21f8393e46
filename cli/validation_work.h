/* validation_work.h - what a published rate counts, so that it stands for a time: the work over the rate. */
#ifndef CPSIM_CLI_VALIDATION_WORK_H
#define CPSIM_CLI_VALIDATION_WORK_H

#include "cli/prediction.h"
#include "cli/validation_set.h"

/* What is done in the time that the metric is about, of a prediction that has run: 1, or TFLOP or tokens of a rank; 0
 * where the metric is no rate. */
double validation_work(enum metric metric, const struct prediction *prediction);

#endif
