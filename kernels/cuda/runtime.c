/* runtime.c - runtime.h by the CUDA runtime (checked with 13.0). No other file of C calls it.
 *
 * The runtime also keeps the latest error of each thread, until it is asked for it. Launches ask for it, as they have
 * no other way to learn of theirs; so every function here that returns an error has it forgotten, lest a later launch
 * be blamed for it. Errors that break a device stay: every later call returns them anew.
 */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "kernels/cuda/runtime.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static int told(cudaError_t error)
{
    if (error != cudaSuccess)
        cudaGetLastError();
    return error;
}

/* ---- devices ---- */

#define MAJOR_MIN 8

/* Streams share the connections from host to device, 8 unless this is set, and those that share one wait for each other
 * where nobody asked for it. Ranks on one GPU have more streams than that together. 32 is the most there can be; what
 * the user says stands. The driver looks when it starts: with whoever asks for devices first. */
static void ask_for_connections(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int cuda_devices(char *reason, size_t size)
{
    char nowhere[1];
    reason = reason && size ? reason : nowhere;
    size = reason == nowhere ? sizeof nowhere : size;
    int count = 0, usable = 0;
    ask_for_connections();
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (told(error)) {
        snprintf(reason, size, "CUDA finds none: %s", cudaGetErrorString(error));
        return 0;
    }
    for (; usable < count; usable++) {
        int major = 0;
        if (told(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, usable)) || major < MAJOR_MIN)
            break;
    }
    snprintf(reason, size, "%s", usable ? "" : count ? "the first one is older than compute capability 8.0" : "none");
    return usable;
}

int cuda_use(int device)
{
    return told(cudaSetDevice(device));
}

/* Of the current device. */
static cudaError_t describe_memory(struct cuda_device *description)
{
    size_t free = 0, total = 0;
    const cudaError_t error = cudaMemGetInfo(&free, &total);
    description->memory_bytes = total;
    description->free_bytes = free;
    return error;
}

/* Only with a context on a device can one ask for its memory: some hundred MiB of it are then the context's. */
static cudaError_t describe_memory_of(int device, struct cuda_device *description)
{
    int before = 0;
    cudaError_t error = cudaGetDevice(&before);
    if (error)
        return error;
    error = cudaSetDevice(device);
    if (!error)
        error = describe_memory(description);
    const cudaError_t restored = cudaSetDevice(before);
    return error ? error : restored;
}

int cuda_describe(int device, struct cuda_device *description)
{
    struct cudaDeviceProp properties;
    *description = (struct cuda_device){.driver = 0};
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (!error)
        error = cudaDriverGetVersion(&description->driver);
    if (!error)
        error = cudaRuntimeGetVersion(&description->runtime);
    if (!error)
        error = describe_memory_of(device, description);
    if (error)
        return told(error);
    snprintf(description->name, sizeof description->name, "%.95s", properties.name);
    snprintf(description->bus, sizeof description->bus, "%08x:%02x:%02x.0", (unsigned)properties.pciDomainID,
             (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
    description->major = properties.major;
    description->minor = properties.minor;
    description->processors = (uint32_t)properties.multiProcessorCount;
    return 0;
}

/* ---- memory ---- */

int cuda_allocate(void **memory, size_t bytes)
{
    return told(cudaMalloc(memory, bytes));
}

int cuda_release(void *memory)
{
    return told(cudaFree(memory));
}

int cuda_host_allocate(void **memory, size_t bytes)
{
    return told(cudaHostAlloc(memory, bytes, cudaHostAllocDefault));
}

int cuda_host_release(void *memory)
{
    return told(cudaFreeHost(memory));
}

/* In the default stream, which streams that do not block do not wait for, nor it for them. From memory of the host that
 * is not page-locked, the copy may still be on its way from where it was staged when cudaMemcpy returns ("API
 * synchronization behavior" in NVIDIA's reference), and another stream would not wait for it. */
int cuda_write(void *device, const void *host, size_t bytes)
{
    const cudaError_t error = cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
    return told(error ? error : cudaStreamSynchronize(cudaStreamLegacy));
}

int cuda_read(void *host, const void *device, size_t bytes)
{
    return told(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

/* ---- streams ---- */

int cuda_stream_create(void **stream, bool urgent)
{
    int least = 0, greatest = 0;
    cudaStream_t made = NULL;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (!error)
        error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgent ? greatest : least);
    *stream = made;
    return told(error);
}

int cuda_stream_destroy(void *stream)
{
    return told(cudaStreamDestroy(stream));
}

int cuda_copy(void *to, const void *from, size_t bytes, void *stream)
{
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

/* What cudaMemcpy2DAsync takes, on every GPU so far (cudaDevAttrMaxPitch). Rows further apart are few: the parts of K
 * and of V of a long sequence, say. */
#define PITCH_MAX INT32_MAX

static cudaError_t copy_each(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t rows,
                             cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t row = 0; row < rows && !error; row++)
        error = cudaMemcpyAsync(to + row * to_pitch, from + row * from_pitch, width, cudaMemcpyDefault, stream);
    return error;
}

int cuda_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                   void *stream)
{
    if (to_pitch > PITCH_MAX || from_pitch > PITCH_MAX)
        return told(copy_each(to, to_pitch, from, from_pitch, width, rows, stream));
    return told(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, stream));
}

int cuda_fill(void *memory, int byte, size_t bytes, void *stream)
{
    return told(cudaMemsetAsync(memory, byte, bytes, stream));
}

int cuda_wait(void)
{
    return told(cudaDeviceSynchronize());
}

int cuda_stream_wait(void *stream)
{
    return told(cudaStreamSynchronize(stream));
}

/* ---- events ---- */

int cuda_event_create(void **event, bool timed)
{
    cudaEvent_t made = NULL;
    const cudaError_t error = cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming);
    *event = made;
    return told(error);
}

int cuda_event_destroy(void *event)
{
    return told(cudaEventDestroy(event));
}

int cuda_event_record(void *event, void *stream)
{
    return told(cudaEventRecord(event, stream));
}

int cuda_event_wait(void *stream, void *event)
{
    return told(cudaStreamWaitEvent(stream, event, 0));
}

int cuda_event_passed(void *event, bool *passed)
{
    const cudaError_t error = cudaEventQuery(event);
    *passed = error == cudaSuccess;
    told(error);
    return error == cudaErrorNotReady ? 0 : (int)error;
}

int cuda_event_seconds(void *from, void *to, double *seconds)
{
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, from, to);
    *seconds = 1e-3 * (double)milliseconds;
    return told(error);
}

/* ---- graphs ---- */

int cuda_record_begin(void *stream)
{
    return told(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
}

static cudaError_t make_ready(cudaGraph_t recorded, cudaStream_t stream, cudaGraphExec_t *ready)
{
    cudaError_t error = cudaGraphInstantiate(ready, recorded, 0);
    if (!error)
        error = cudaGraphUpload(*ready, stream);
    const cudaError_t destroyed = cudaGraphDestroy(recorded);
    return error ? error : destroyed;
}

int cuda_record_end(void *stream, void **graph)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t error = cudaStreamEndCapture(stream, &recorded);
    if (!error)
        error = make_ready(recorded, stream, &ready);
    if (error && ready) {
        cudaGraphExecDestroy(ready); /* what failed first is what to tell */
        ready = NULL;
    }
    *graph = ready;
    return told(error);
}

int cuda_graph_launch(void *graph, void *stream)
{
    return told(cudaGraphLaunch(graph, stream));
}

int cuda_graph_destroy(void *graph)
{
    return told(cudaGraphExecDestroy(graph));
}

const char *cuda_error_text(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}
