/* ranges.h - names for stretches of a thread's time, which profilers of NVIDIA (Nsight Systems) show above what GPUs do
 * meanwhile. Without NVTX in the build they do nothing, and without a profiler next to nothing.
 *
 * A range is pushed and popped by one thread; ranges nest.
 */
#ifndef CPSIM_HW_RANGES_H
#define CPSIM_HW_RANGES_H

void range_push(const char *name);
void range_pop(void);

#endif
