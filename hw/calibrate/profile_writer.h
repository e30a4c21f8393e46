/* profile_writer.h - a calibration as files that cpsim reads: a device profile and a topology. */
#ifndef CPSIM_HW_CALIBRATE_PROFILE_WRITER_H
#define CPSIM_HW_CALIBRATE_PROFILE_WRITER_H

#include <math.h>
#include <stdio.h>

#include "hw/calibrate/calibrate.h"
#include "models/input/device_values.h"

#define CALIBRATED_KERNEL "cpsim"

/* False when the stream cannot be written. */
bool profile_write(const struct calibration *calibration, FILE *stream);
bool profile_write_topology(const struct calibration *calibration, const char *device, FILE *stream);

/* What the tables, read back as `device`, foretell for every block that was measured; a table's spread becomes at least
 * the error that its fit leaves. False with messages when the profile lacks a table. */
bool profile_foretell(struct calibration *calibration, const struct device *device, struct diagnostics *diag);

/* A spread as files take it: on a machine that was taken away in between it may be any number. */
static inline double profile_spread(double spread)
{
    return fmin(spread, SPREAD_MAX);
}

/* The key `source` of a section: where and when it was measured. */
void profile_write_source(const struct calibration *calibration, FILE *stream);

#endif
