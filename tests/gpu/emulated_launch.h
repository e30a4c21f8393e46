/* emulated_launch.h - how kernels of emulated_device.h get into streams, and from there to emulation.cpp. */
#ifndef CPSIM_TESTS_GPU_EMULATED_LAUNCH_H
#define CPSIM_TESTS_GPU_EMULATED_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define CONTEXT_ALIGNMENT 128

/* Queues thread blocks; `context`, what `body` gets, is copied. 0 or an error number. */
int emulation_launch(void *stream, uint64_t blocks, uint32_t threads, size_t shared_bytes,
                     void (*body)(const void *context), const void *context, size_t context_bytes);

/* Whether a GPU could. */
bool emulation_can_run(uint64_t blocks, uint32_t threads, size_t shared_bytes);

/* Runs the blocks one after the other, on memory of the device. 0, or an error number after a message on standard
 * error. */
int emulation_run(int device, uint64_t blocks, uint32_t threads, size_t shared_bytes, void (*body)(const void *context),
                  const void *context);

/* Another order of turns of warps and lanes. */
void emulation_turns(uint32_t order);

/* Whether the bytes are inside one allocation of the device, and from where to where that goes. */
bool emulation_find(int device, const void *address, size_t bytes, const unsigned char **first,
                    const unsigned char **end);

#endif
