/* validation_row.h - the prediction of one published measurement: a step of an experiment, or a transfer. */
#ifndef CPSIM_CLI_VALIDATION_ROW_H
#define CPSIM_CLI_VALIDATION_ROW_H

#include "cli/prediction.h"
#include "cli/validation_set.h"

struct row_prediction {
    double seconds;   /* of what the metric is about */
    double low, high; /* the interval of that; both 0: none */
    double work;      /* a rate is this over seconds: 1, or TFLOP or tokens of a rank; 0: the metric is no rate */
    double bytes;     /* the high-water mark of the rank that holds most; of a transfer 0 */
};

/* How all rows are predicted. */
struct row_settings {
    const struct engine_ops *engine;
    mechanism_set without;
};

/* Predicts `row`. `notes` gets the keys that had no effect. */
enum prediction_status validation_row_predict(const struct validation_set *set, const struct validation_row *row,
                                              const struct row_settings *settings, struct row_prediction *prediction,
                                              struct diagnostics *notes, struct diagnostics *diag);

/* The command that predicts a row of attention or of a step alone; NULL for a transfer, for which there is none. The
 * caller frees it. */
char *validation_row_command(const struct validation_set *set, const struct validation_row *row,
                             const struct row_settings *settings);

#endif
