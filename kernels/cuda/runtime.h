/* runtime.h - GPUs, their memory and their streams, for C: what cpsim uses of the CUDA runtime, without its headers.
 *
 * Everything else that is for GPUs is written against this header and attention_cuda.h, so that it runs on a host too
 * when both are emulated (tests/gpu): runtime.c is the one file that calls the runtime.
 *
 * Functions return 0 or a CUDA error number, which may be that of something queued before; cuda_error_text names it.
 * Streams do not wait for the default stream, nor it for them. Everything may be called from any thread; each thread
 * has a current device, at first device 0, which memory, streams and events are made on. Kernels and fills are queued
 * in streams of the current device, copies in any; events are recorded in streams of their own device, and any may
 * wait.
 */
#ifndef CPSIM_KERNELS_CUDA_RUNTIME_H
#define CPSIM_KERNELS_CUDA_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices ---- */

/* GPUs that the kernels can run on (compute capability 8.0 and later): they are the first so many. With 0, `reason`
 * (may be NULL) says why: no driver, none in the machine, too old. */
int cuda_devices(char *reason, size_t size);

/* Makes `device` the calling thread's. */
int cuda_use(int device);

struct cuda_device {
    char name[96];
    char bus[24];        /* PCI address, as NVML takes it: "00000000:1B:00.0" */
    int major, minor;    /* compute capability */
    uint32_t processors; /* SMs */
    uint64_t memory_bytes, free_bytes;
    int driver, runtime; /* CUDA versions, 1000 major + 10 minor: what the driver can, what was linked */
};

int cuda_describe(int device, struct cuda_device *description);

/* ---- memory ---- */

/* Of the current device, at a multiple of 256 bytes; `bytes` above 0. */
int cuda_allocate(void **memory, size_t bytes);
int cuda_release(void *memory);

/* Of the host, which copies reach directly; they are then asynchronous. */
int cuda_host_allocate(void **memory, size_t bytes);
int cuda_host_release(void *memory);

/* Copies between host and device memory that are done on return. What is queued in streams is not waited for. */
int cuda_write(void *device, const void *host, size_t bytes);
int cuda_read(void *host, const void *device, size_t bytes);

/* ---- streams ---- */

/* `stream` is a cudaStream_t. `urgent`: its work comes before that of others, where a choice is left. */
int cuda_stream_create(void **stream, bool urgent);
int cuda_stream_destroy(void *stream);

/* Copies within a device, between devices, or to and from host memory of cuda_host_allocate. */
int cuda_copy(void *to, const void *from, size_t bytes, void *stream);
int cuda_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                   void *stream);
int cuda_fill(void *memory, int byte, size_t bytes, void *stream);

/* Waits for all that was queued on the current device. */
int cuda_wait(void);
/* Waits for the stream. */
int cuda_stream_wait(void *stream);

/* ---- events: places in streams ---- */

int cuda_event_create(void **event, bool timed);
int cuda_event_destroy(void *event);
int cuda_event_record(void *event, void *stream);
/* What is queued from now on in the stream waits for the event as it was recorded last; one never recorded counts as
 * passed. */
int cuda_event_wait(void *stream, void *event);
int cuda_event_passed(void *event, bool *passed);
/* Between timed events of one device that have passed. Resolution about half a microsecond. */
int cuda_event_seconds(void *from, void *to, double *seconds);

/* ---- graphs ---- */

/* From now on what is queued in `stream`, and in streams that wait for an event recorded there (or in one of those), by
 * any thread, is not done but kept. */
int cuda_record_begin(void *stream);
/* The other streams must have been joined: the stream waits for an event of each. Makes a graph that is ready to go. */
int cuda_record_end(void *stream, void **graph);
int cuda_graph_launch(void *graph, void *stream);
int cuda_graph_destroy(void *graph);

const char *cuda_error_text(int error);

#ifdef __cplusplus
}
#endif
#endif
