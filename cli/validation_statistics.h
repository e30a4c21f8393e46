/* validation_statistics.h - how right the predictions of some rows are, put together. */
#ifndef CPSIM_CLI_VALIDATION_STATISTICS_H
#define CPSIM_CLI_VALIDATION_STATISTICS_H

#include "cli/validation.h"

/* What the prediction of a row says, beside its measured value. */
void validated_row_judge(struct validated_row *result, const struct validation_row *row);

/* Fills in the summary of each set, of each kind and of all. */
void validation_summarize(struct validation *validation);

#endif
