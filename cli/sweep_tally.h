/* sweep_tally.h - lines that several points of a sweep may say, said once each. */
#ifndef CPSIM_CLI_SWEEP_TALLY_H
#define CPSIM_CLI_SWEEP_TALLY_H

#include <jansson.h>

#include "cli/sweep.h"

/* Empty when zeroed. */
struct sweep_tally {
    char **lines;
    size_t *counts; /* points that said it */
    char **first;   /* the name of the first of them */
    size_t count;
    size_t others; /* said after so many different lines that they are not kept */
};

void sweep_tally_add(struct sweep_tally *tally, const json_t *lines, const struct sweep *sweep, size_t point);
/* Says each line once: alone when every one of `n_points` said it, else with the (first) point that did. */
void sweep_tally_report(const struct sweep_tally *tally, size_t n_points, struct diagnostics *diag);
/* Whether some line was said at every point: a key that no point has a use for is as wrong as in a single run. */
bool sweep_tally_any_at_all(const struct sweep_tally *tally, size_t n_points);
void sweep_tally_fini(struct sweep_tally *tally);

#endif
