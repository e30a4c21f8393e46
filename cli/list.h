/* list.h - cpsim --list: what there is to choose from. */
#ifndef CPSIM_CLI_LIST_H
#define CPSIM_CLI_LIST_H

#include <stdbool.h>
#include <stdio.h>

#include "models/base/diagnostics.h"

#define LIST_SUBJECTS                                                                                                  \
    "algorithms, devices, transformers, topologies, experiments, engines, mechanisms, computes, "                      \
    "transports, gpus, keys"

bool list_knows(const char *subject);

/* Prints the list; `subject` is one of LIST_SUBJECTS. False, with messages, when a listed file cannot be read (the
 * others are listed all the same). */
bool list_print(const char *subject, FILE *stream, struct diagnostics *diag);

#endif
