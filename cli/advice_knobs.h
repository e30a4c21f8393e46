/* advice_knobs.h - the knobs of an advice: what was typed for --vary and --fix, and what the experiment has. */
#ifndef CPSIM_CLI_ADVICE_KNOBS_H
#define CPSIM_CLI_ADVICE_KNOBS_H

#include "cli/advice_space.h"

/* Reads both files into `space` and fills its knobs. False with every problem in `diag`. */
bool advice_knobs_read(struct advice_space *space, const struct question *question, const struct advice_wish *wish,
                       struct diagnostics *diag);

/* 1 + the index of `value` among the knob's values, to which it is added if it is not there. */
uint16_t advice_knob_intern(struct advice_knob *knob, const char *value);

/* Whether the experiment's file itself has the key, whatever overrides make of it. */
bool advice_is_in_file(const struct advice_space *space, const char *key);

/* Whether a count is among the values that were typed or fixed; true if none were. */
bool advice_knob_allows(const struct advice_knob *knob, uint64_t value);

#endif
