/* steps.h - the step table: what the compute streams of a rank did from one attention operation to the next. */
#ifndef CPSIM_MODELS_RESULT_STEPS_H
#define CPSIM_MODELS_RESULT_STEPS_H

#include <stddef.h>

#include "models/result/rank_time.h"
#include "models/result/report.h"

struct step_list {
    struct step_row *rows;
    size_t count, capacity;
};

/* Appends the steps of one instance of `program`. */
void steps_append(struct step_list *steps, const struct program *program, const struct moment *moments,
                  const struct rank_time *time);

#endif
