/* profile_gpu.h - what the profile of a GPU says beyond the keys that a prediction reads, as comments; collectives. */
#ifndef CPSIM_HW_CALIBRATE_PROFILE_GPU_H
#define CPSIM_HW_CALIBRATE_PROFILE_GPU_H

#include <stdio.h>

#include "hw/calibrate/calibrate.h"

/* Comments: how the figures were measured, and what else was. */
void profile_gpu_write_notes(const struct calibration *calibration, FILE *stream);

/* A row for each collective, team and size, with algorithm and bus bandwidth as nccl-tests defines them. False when the
 * stream cannot be written. */
bool profile_gpu_write_collectives(const struct calibration *calibration, FILE *stream);

#endif
