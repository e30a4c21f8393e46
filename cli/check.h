/* check.h - cpsim --check: reads files of any kind, judges a topology and an experiment together, and looks at
 * clusters.
 */
#ifndef CPSIM_CLI_CHECK_H
#define CPSIM_CLI_CHECK_H

#include <stddef.h>
#include <stdio.h>

#include "cli/check_topology.h"
#include "cli/prediction.h"

struct check_request {
    const char *const *files;
    size_t n_files;
    const char *const *overrides; /* apply to the files they address */
    size_t n_overrides;
    const struct gpu_pair *pairs; /* --path */
    size_t n_pairs;
    bool one_topology; /* some result is of a topology: there must be exactly one */
    FILE *stream;      /* where the lines go; NULL: nowhere */
};

struct checked_topology {
    struct topology topology;
    struct topology_report report;
};

struct check_result {
    struct checked_topology **topologies; /* those that are right, in order */
    size_t n_topologies, capacity;
};

/* Prints a line for each file that is right: 'FILE: kind, ok: what it says', and one for the combination when there are
 * exactly one topology and one experiment. Every problem is in `diag`. Call check_result_fini in any case. */
enum prediction_status check_files(const struct check_request *request, struct check_result *result,
                                   struct diagnostics *diag);
void check_result_fini(struct check_result *result);

/* Prints what there is to see of each topology. False when the stream reported an error. */
bool check_print_topologies(const struct check_result *result, FILE *stream);

#endif
