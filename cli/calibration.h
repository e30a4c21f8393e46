/* calibration.h - `cpsim --hw --calibrate PROFILE.ini`: measures this machine, writes what a prediction needs of it,
 * and says what was measured. */
#ifndef CPSIM_CLI_CALIBRATION_H
#define CPSIM_CLI_CALIBRATION_H

#include <stdio.h>

#include "hw/calibrate/calibrate.h"

/* Whether the profile could be written, before minutes are spent on measuring. False with a message. */
bool calibration_check_path(const char *path, struct diagnostics *diag);

/* Measures, writes the profile `path` and beside it NAME-topology.ini (and NAME-collectives.csv where collectives could
 * be measured), reads the first two back, and prints tables to `stream` (NULL: none). `times` (NULL: none): tables of
 * other kernels that the profile is to hold too. False with messages. *speaks: whether this process is the one that
 * writes and prints. */
bool calibration_run(const char *path, const struct calibration_settings *settings, const struct kernel_times *times,
                     FILE *stream, bool *speaks, struct diagnostics *diag);

/* The topology's path for a profile's: "my/machine.ini" gives "my/machine-topology.ini". The caller frees it. */
char *calibration_topology_path(const char *path);
/* In the same way: "my/machine-collectives.csv". */
char *calibration_collectives_path(const char *path);

#endif
