/* gpu_launches.c - what it costs a GPU, and the host, to launch a kernel at all: rows of tiny ones, which do next to
 * nothing, in the ways in which kernels follow each other.
 */
#include "hw/calibrate/gpu/gpu.h"

#include <math.h>

struct tiny {
    struct gpu *gpu;
    float *numbers;
    struct cuda_hold *hold;
    void *graph;
};

static struct cuda_array array_at(float *numbers)
{
    return (struct cuda_array){numbers, {8, 8}, DTYPE_FP32};
}

static int queue_tiny(void *context, void *stream)
{
    const struct tiny *tiny = context;
    const struct cuda_extent extent = {.rows = 1, .items = 1, .heads = 1, .dim = 8};
    return cuda_accumulate(extent, array_at(tiny->numbers), array_at(tiny->numbers + 8), 1, stream);
}

static bool queue_row(struct tiny *tiny)
{
    bool good = true;
    for (uint32_t i = 0; i < tiny->gpu->grid->tiny_kernels && good; i++)
        good = GPU_CHECK(tiny->gpu, queue_tiny(tiny, tiny->gpu->stream), "queueing a tiny kernel");
    return good;
}

/* A row of tiny kernels while the host launches them. */
static bool run_launched(struct tiny *tiny)
{
    struct gpu *gpu = tiny->gpu;
    return gpu_record(gpu, 0, gpu->stream) && queue_row(tiny) && gpu_record(gpu, 1, gpu->stream);
}

/* The same, all of them being in the stream before the first runs. */
static bool run_held(struct tiny *tiny)
{
    struct gpu *gpu = tiny->gpu;
    const uint32_t release = 1;
    return gpu_hold_reset(gpu, tiny->hold) &&
           GPU_CHECK(gpu, cuda_occupy(1, tiny->hold, gpu->stream), "holding up a stream") && run_launched(tiny) &&
           GPU_CHECK(gpu, cuda_write(&tiny->hold->release, &release, sizeof release), "letting a stream go on");
}

static bool run_graph(struct tiny *tiny)
{
    struct gpu *gpu = tiny->gpu;
    return gpu_record(gpu, 0, gpu->stream) &&
           GPU_CHECK(gpu, cuda_graph_launch(tiny->graph, gpu->stream), "launching a graph") &&
           gpu_record(gpu, 1, gpu->stream);
}

static bool wait_for(struct gpu *gpu, uint32_t event, void *stream)
{
    return GPU_CHECK(gpu, cuda_event_wait(stream, gpu->events[event]), "waiting for an event in a stream");
}

/* Tiny kernels in two streams, each waiting for the one before in the other. */
static bool run_hops(struct tiny *tiny)
{
    struct gpu *gpu = tiny->gpu;
    void *const streams[2] = {gpu->stream, gpu->beside};
    bool good = gpu_record(gpu, 0, gpu->stream);
    for (uint32_t i = 0; i < gpu->grid->tiny_kernels && good; i++) {
        const uint32_t event = 2 + i % (GPU_EVENTS_MAX - 2);
        good = GPU_CHECK(gpu, queue_tiny(tiny, streams[i % 2]), "queueing a tiny kernel") &&
               gpu_record(gpu, event, streams[i % 2]) && wait_for(gpu, event, streams[(i + 1) % 2]);
    }
    /* The clock stops when both streams are done. */
    return good && gpu_record(gpu, 2, gpu->beside) && wait_for(gpu, 2, gpu->stream) && gpu_record(gpu, 1, gpu->stream);
}

/* Seconds of one of the tiny kernels that `run` queues a row of, between events 0 and 1. */
static bool measure_row(struct tiny *tiny, bool (*run)(struct tiny *tiny), struct measured *measured)
{
    struct gpu *gpu = tiny->gpu;
    struct samples samples = {0};
    bool good = true;
    for (uint32_t i = 0; i <= gpu->grid->repeats && good; i++) { /* the first does not count */
        double seconds = 0;
        good = run(tiny) && GPU_CHECK(gpu, cuda_wait(), "running tiny kernels") && gpu_seconds(gpu, 0, 1, &seconds);
        if (i > 0)
            samples_add_seconds(&samples, seconds / gpu->grid->tiny_kernels);
    }
    *measured = samples_result(&samples);
    samples_fini(&samples);
    return good;
}

static bool measure_launches(struct gpu *gpu, struct tiny *tiny)
{
    struct calibration *c = gpu->part->calibration;
    struct measured hop = {0};
    bool good = measure_row(tiny, run_launched, &c->launch) && measure_row(tiny, run_held, &c->gpu.gap) &&
                measure_row(tiny, run_hops, &hop) &&
                GPU_CHECK(gpu, cuda_record_begin(gpu->stream), "beginning a graph") && queue_row(tiny) &&
                GPU_CHECK(gpu, cuda_record_end(gpu->stream, &tiny->graph), "making a graph") &&
                measure_row(tiny, run_graph, &c->gpu.graph);
    c->gpu.event_wait = (struct measured){fmax(0, hop.value - c->launch.value), hop.spread};
    if (tiny->graph)
        GPU_CHECK(gpu, cuda_graph_destroy(tiny->graph), "destroying a graph");
    return good || gpu_fail(gpu, "launches could not be measured");
}

/* The executor's host, which is ahead of the GPU unless operations are shorter than this. */
static bool measure_executor(struct gpu *gpu)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    const struct compute_settings kernels = gpu->compute->settings;
    bool good = calibration_measure_executor(&compute_cuda, &kernels, DTYPE_BF16, 64, (int)gpu->grid->tiny_kernels,
                                             &gpu->part->calibration->gpu.executor, &diag);
    if (!good)
        gpu_fail(gpu, diag.count ? diag.lines[0] : "the executor could not be measured");
    diagnostics_fini(&diag);
    return good;
}

bool gpu_launches(struct gpu *gpu)
{
    struct tiny tiny = {.gpu = gpu};
    bool good = (tiny.numbers = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, 16)) &&
                (tiny.hold = gpu_memory(gpu, sizeof *tiny.hold)) && measure_launches(gpu, &tiny) &&
                measure_executor(gpu);
    gpu_free(gpu, tiny.numbers);
    gpu_free(gpu, tiny.hold);
    return good;
}
