/* check_path.h - --path A:B, two GPUs whose route is asked for. */
#ifndef CPSIM_CLI_CHECK_PATH_H
#define CPSIM_CLI_CHECK_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"

struct gpu_pair {
    const char *text; /* as typed */
    uint64_t from, to;
};

/* Reads two different numbers; whether there are such GPUs is for topology_report_make to say. */
bool gpu_pair_parse(const char *text, struct gpu_pair *pair, struct diagnostics *diag);

#endif
