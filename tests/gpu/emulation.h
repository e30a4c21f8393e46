/* emulation.h - what a test may ask of the emulated GPUs beyond kernels/cuda/runtime.h, and how another emulated
 * library queues work in their streams.
 *
 * The environment says what machine it is:
 *   CPSIM_EMULATED_GPUS        how many there are (1; 0 to 16)
 *   CPSIM_EMULATED_CAPABILITY  their compute capability (8.0)
 *   CPSIM_EMULATED_MEMORY      bytes of memory of each (1 GiB)
 *   CPSIM_EMULATION_ORDER      the order in which streams' work is done, and warps and lanes take turns: any number is
 *                              another one (1)
 */
#ifndef CPSIM_TESTS_GPU_EMULATION_H
#define CPSIM_TESTS_GPU_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which warps and lanes take turns: any number is another one. */
void emulation_order(uint32_t order);

/* The order in which streams' work is done, from now on: any number is another one. */
void emulation_stream_order(uint32_t order);

/* Another machine: reads the environment again. Nothing is left of what was allocated, made or queued, nor of an error
 * that sticks. */
void emulation_reset(void);

/* Where `bytes` bytes at `address` are: a device's number, EMULATION_HOST, or EMULATION_NOWHERE where they are not
 * inside one allocation. */
#define EMULATION_HOST (-1)
#define EMULATION_NOWHERE (-2)
int emulation_place(const void *address, size_t bytes);

/* Work that is neither a kernel nor a copy. */
struct emulation_work {
    /* Called while it is the stream's turn, with the emulation locked, until it returns true: then it is done.
     * `begin_ns`: when it may begin, in the stream's time; sets when it ended. */
    bool (*step)(void *context, double begin_ns, double *end_ns);
    void (*release)(void *context); /* when no step will be called any more; may be NULL */
    void *context;
};

/* Also into a graph that is being recorded: its step is then called anew in every launch. A refused one is released. */
int emulation_queue(const struct emulation_work *work, void *stream);

#ifdef __cplusplus
}
#endif
#endif
