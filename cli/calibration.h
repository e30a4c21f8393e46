/* calibration.h - `cpsim --hw --calibrate PROFILE.ini`: measures this machine, writes what a prediction needs of it,
 * and says what was measured. */
#ifndef CPSIM_CLI_CALIBRATION_H
#define CPSIM_CLI_CALIBRATION_H

#include <stdio.h>

#include "hw/calibrate/calibrate.h"

/* Measures, writes the profile `path` and beside it NAME-topology.ini, reads both back, and prints tables to `stream`
 * (NULL: none). False with messages. *speaks: whether this process is the one that writes and prints. */
bool calibration_run(const char *path, const struct calibration_settings *settings, FILE *stream, bool *speaks,
                     struct diagnostics *diag);

/* The topology's path for a profile's: "my/machine.ini" gives "my/machine-topology.ini". The caller frees it. */
char *calibration_topology_path(const char *path);

#endif
