/* kernel_times.h - rates of attention kernels that were measured elsewhere: a production FlashAttention, cuDNN.
 *
 * A file of [attention KERNEL forward|backward HEAD_DIM] sections, in the very format of device profiles, sources
 * included. They are checked, and go into a calibration's profile word for word; the first one's kernel becomes the
 * profile's default. For a slow kernel makes communication look easy to hide.
 */
#ifndef CPSIM_HW_CALIBRATE_KERNEL_TIMES_H
#define CPSIM_HW_CALIBRATE_KERNEL_TIMES_H

#include <stdbool.h>

#include "models/base/diagnostics.h"

struct kernel_times {
    char *path, *text;
    char kernel[32]; /* the first table's */
};

/* False with messages; kernel_times_fini need not follow then. */
bool kernel_times_read(struct kernel_times *times, const char *path, struct diagnostics *diag);
void kernel_times_fini(struct kernel_times *times);

#endif
