/* option_values.h - what one option's argument says: a number in its range, a name that there is, a place for a result.
 *
 * Each function takes an argument into the options and adds a message if it is none, or if the option may be given once
 * and was given before. What options mean together is judged afterwards (options_judge.h).
 */
#ifndef CPSIM_CLI_OPTION_VALUES_H
#define CPSIM_CLI_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options_judge.h"

/* What has been taken so far. */
struct option_state {
    struct options *options;
    struct given_options given;
    struct diagnostics *diag;
};

/* A text as it is, such as a file's name. */
void option_take_text(struct option_state *state, const char **target, const char *name, const char *value);

/* A whole number from `least` to `most`; `least` where it is none. */
uint64_t option_take_number(struct option_state *state, const char *name, bool *given, const char *text, uint64_t least,
                            uint64_t most);

void option_take_engine(struct option_state *state, const char *text);
void option_take_without(struct option_state *state, const char *text);
void option_take_compute(struct option_state *state, const char *text);
void option_take_collectives(struct option_state *state, const char *text);
void option_take_transport(struct option_state *state, const char *text);
void option_take_kernels(struct option_state *state, const char *text);
void option_take_points(struct option_state *state, const char *text);
void option_take_plot(struct option_state *state, const char *text);
void option_take_path(struct option_state *state, const char *text);

#endif
