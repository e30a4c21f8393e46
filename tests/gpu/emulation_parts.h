/* emulation_parts.h - what the files of the emulation want of each other. */
#ifndef CPSIM_TESTS_GPU_EMULATION_PARTS_H
#define CPSIM_TESTS_GPU_EMULATION_PARTS_H

#include "kernels/cuda/device.cuh"

/* ---- emulation.cpp, to the others ---- */

/* Says what is wrong; the kernel is given up. A thread that says it must not go on: emulation_fail never returns. */
void emulation_blame(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emulation_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The running thread waits until `ready`; `what` and `number` say for what, should that never be. */
typedef bool emulation_condition(const void *context);
void emulation_await(emulation_condition *ready, const void *context, const char *what, uint32_t number);

uint32_t emulation_threads();
/* One of `count`, another each time, as the order of turns has it; order 0 has the first. */
uint32_t emulation_pick(uint32_t count);
bool emulation_is_global(const void *address, size_t size);

/* Shared memory, as the async proxy sees it; NULL after blame if it is outside. */
unsigned char *emulation_shared_range(uint32_t at, size_t size);
/* Words that a copy is on its way to. */
bool emulation_is_awaited(uint32_t at, uint32_t bytes);
void emulation_set_awaited(uint32_t at, uint32_t bytes, bool awaited);

/* ---- emulated_hopper.cpp and emulated_wgmma.cpp, to emulation.cpp ---- */

void emulation_hopper_begin();              /* a block */
void emulation_hopper_end();                /* checks that nothing was left behind */
bool emulation_hopper_progress(bool stuck); /* does something that is on its way, if anything is; surely when stuck */
void emulation_hopper_stored(uint32_t at, uint32_t bytes);
void emulation_wgmma_begin();
void emulation_wgmma_end();

/* Rounds of turns that the block has had; somebody wants that many. */
uint32_t emulation_rounds();
void emulation_want_rounds(uint32_t rounds);

/* Whether the async proxy may use these bytes: nobody wrote them without a fence since. */
bool emulation_is_fenced(uint32_t at, uint32_t bytes);

#endif
