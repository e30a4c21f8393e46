/* gpu_watches.h - watches the GPUs of several ranks, each GPU once. */
#ifndef CPSIM_HW_GPU_WATCHES_H
#define CPSIM_HW_GPU_WATCHES_H

#include "hw/gpu_watch.h"
#include "hw/machine.h"

struct gpu_watches;

/* `machines` has an element for each of `n_ranks` ranks of this process; those that compute on the CPU have none. */
struct gpu_watches *gpu_watches_create(const struct machine *machines, uint32_t n_ranks);
void gpu_watches_destroy(struct gpu_watches *watches);
void gpu_watches_sample(struct gpu_watches *watches);

/* Of the samples so far, an element for each of the ranks. */
void gpu_watches_record(const struct gpu_watches *watches, struct gpu_record *records);

#endif
