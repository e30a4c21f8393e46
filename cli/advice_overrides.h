/* advice_overrides.h - a candidate of an advice as the question that it is: overrides of the experiment, a command. */
#ifndef CPSIM_CLI_ADVICE_OVERRIDES_H
#define CPSIM_CLI_ADVICE_OVERRIDES_H

#include "cli/advice_space.h"

/* The overrides that make the experiment the candidate: those of `question`, but for knobs, then "key=value" of each
 * that is written, "key=" of each that is no more. The caller frees the items and the array. */
char **advice_overrides(const struct advice_space *space, const struct question *question, size_t candidate,
                        size_t *count);
void advice_overrides_free(char **overrides, size_t count);

/* The command that predicts the candidate; the caller frees it. */
char *advice_command(const struct advice_space *space, const struct question *question, size_t candidate);

#endif
