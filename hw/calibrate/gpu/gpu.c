/* gpu.c - a GPU opened for calibration: memory, random numbers, times. */
#include "hw/calibrate/gpu/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hw/calibrate/profile_writer.h"
#include "hw/rank_devices.h"
#include "models/base/memory.h"

/* ---- opening ---- */

/* One GPU, or processes that share it, is of the transport 'local' as ever: messages are copies, and one rank can
 * measure for all. Several GPUs are for NCCL. */
static void choose(const struct calibration_settings *settings, const char **transport, uint32_t *ranks)
{
    const int gpus = cuda_devices(NULL, 0);
    const bool launched = transport_launched() > 1;
    const char *best = launched ? "nccl" : gpus > 1 ? "nccl-threads" : "local";
    *transport = settings->transport ? settings->transport : transport_find(best) ? best : launched ? NULL : "local";
    const struct transport_ops *ops = *transport ? transport_find(*transport) : NULL;
    *ranks = settings->ranks;
    if (!launched && ops && !ops->one_rank_a_device)
        *ranks = 1;
    else if (!launched && *ranks == 0)
        *ranks = gpus > 0 ? (uint32_t)gpus : 1;
}

bool gpu_fail(struct gpu *gpu, const char *reason)
{
    const struct crew *crew = gpu->part->crew;
    const char *failure = gpu->compute ? gpu->compute->failure : NULL;
    crew->transport->fail(crew->end, failure ? failure : reason);
    return false;
}

static void describe(struct gpu *gpu)
{
    struct calibration *c = gpu->part->calibration;
    const struct calibration_settings *settings = gpu->part->settings;
    const struct crew *crew = gpu->part->crew;
    snprintf(c->processor, sizeof c->processor, "%s", gpu->device.name);
    snprintf(c->isa, sizeof c->isa, "%s", gpu->compute->family->name);
    snprintf(c->kernel, sizeof c->kernel, "%s-%s", CALIBRATED_KERNEL, gpu->compute->family->name);
    c->on_gpu = true;
    c->oversubscribed = false; /* the cores only queue */
    c->memory_bytes = (double)gpu->device.memory_bytes;
    c->processors = gpu->device.processors;
    c->tile_rows = 128; /* of both families' forward kernels at head dim 128 */
    c->gpu.heads = gpu->grid->heads;
    c->gpu.kv_heads = gpu->grid->kv_heads;
    c->gpu.driver = gpu->device.driver;
    c->gpu.runtime = gpu->device.runtime;
    c->shared_gpu = !crew->transport->one_rank_a_device && crew->ranks == 1;
    if (c->shared_gpu)
        c->ranks = settings->ranks ? settings->ranks : GPU_SHARED_RANKS;
}

static bool open_backend(struct gpu *gpu, struct diagnostics *diag)
{
    const struct calibration_settings *settings = gpu->part->settings;
    const struct crew *crew = gpu->part->crew;
    const struct hardware_settings hardware = {.kernels = settings->kernels};
    struct compute_settings kernels = settings->kernels;
    if (!rank_device(&hardware, &compute_cuda, crew->transport, crew->end, &kernels.device, diag))
        return false;
    gpu->experiment = calibration_experiment(&gpu->nothing_written, DTYPE_BF16, 64);
    gpu->scheduled = schedule_init(&gpu->schedule, &gpu->experiment, NULL, diag);
    gpu->compute = gpu->scheduled ? compute_cuda.open(&gpu->schedule, 0, &kernels, diag) : NULL;
    if (!gpu->compute)
        return false;
    gpu->stream = gpu->compute->streams[STREAM_COMPUTE];
    gpu->beside = gpu->compute->streams[STREAM_EXCHANGE];
    bool good = GPU_CHECK(gpu, cuda_describe(kernels.device, &gpu->device), "asking what the GPU is") &&
                GPU_CHECK(gpu, cuda_use(kernels.device), "choosing a GPU");
    gpu->watch = gpu_watch_create(NULL, gpu->device.bus);
    for (int i = 0; i < GPU_EVENTS_MAX && good; i++)
        good = GPU_CHECK(gpu, cuda_event_create(&gpu->events[i], true), "making an event");
    return good;
}

static bool attach(struct gpu *gpu, struct diagnostics *diag)
{
    const struct crew *crew = gpu->part->crew;
    const struct transport_settings *carrying = &gpu->part->settings->carrying;
    if (crew->ranks == 1 && (carrying->library || carrying->max_ctas || carrying->zero_cta))
        return diagnostics_add(diag, "settings of NCCL have no effect on a rank alone, which sends no messages");
    if (crew->ranks == 1)
        return true;
    if (!crew->transport->attach || !crew->transport->queue_message)
        return diagnostics_add(diag, "transport '%s' does not move the memory of GPUs", crew->transport->name);
    gpu->attached =
        crew->transport->attach(crew->end, &compute_cuda, gpu->compute, 1U << STREAM_EXCHANGE, carrying, diag);
    return gpu->attached;
}

/* What all ranks can do. */
static bool agree(struct gpu *gpu)
{
    double lacks[2] = {-(double)gpu->device.free_bytes, -(double)gpu->device.processors};
    if (!crew_largest(gpu->part->crew, lacks, 2))
        return false;
    gpu->room_bytes = -lacks[0];
    gpu->processors = (uint32_t)-lacks[1];
    return true;
}

static bool open_gpu(struct calibration_part *part)
{
    const struct gpu_grid *grid = part->settings->grid;
    struct gpu *gpu = memory_zeroed(1, sizeof *gpu);
    *gpu = (struct gpu){.part = part, .grid = grid ? grid : part->quick ? &gpu_grid_quick : &gpu_grid_full};
    part->device = gpu;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = open_backend(gpu, &diag) && attach(gpu, &diag);
    if (good)
        describe(gpu);
    else
        gpu_fail(gpu, diag.count ? diag.lines[0] : "the GPU could not be opened");
    diagnostics_fini(&diag);
    return good && agree(gpu);
}

static void close_gpu(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    if (!gpu)
        return;
    if (gpu->compute) {
        GPU_CHECK(gpu, cuda_wait(), "waiting for the GPU");
        for (int i = 0; i < GPU_EVENTS_MAX; i++)
            if (gpu->events[i])
                GPU_CHECK(gpu, cuda_event_destroy(gpu->events[i]), "destroying an event");
    }
    gpu_watch_destroy(gpu->watch);
    compute_cuda.close(gpu->compute);
    if (gpu->scheduled)
        schedule_fini(&gpu->schedule);
    free(gpu);
    part->device = NULL;
}

const struct calibration_way calibration_way_cuda = {
    .choose = choose,
    .open = open_gpu,
    .close = close_gpu,
    .parts = {{gpu_steps, 0.1},
              {gpu_products, 0.05},
              {gpu_attention, 0.55},
              {gpu_describe_state, 0},
              {gpu_held, 0.1},
              {gpu_links, 0.15},
              {gpu_slowdown, 0.05}},
};

bool gpu_describe_state(struct calibration_part *part)
{
    struct gpu_figures *figures = &part->calibration->gpu;
    gpu_watch_record(gpu_of(part)->watch, &figures->state);
    return true;
}

/* ---- memory ---- */

void *gpu_memory(struct gpu *gpu, uint64_t bytes)
{
    char reason[128];
    void *memory = NULL;
    if (cuda_allocate(&memory, bytes) == 0)
        return memory;
    snprintf(reason, sizeof reason, "the GPU has no %.0f MB left, which calibration needs", (double)bytes / 1e6);
    gpu_fail(gpu, reason);
    return NULL;
}

void gpu_free(struct gpu *gpu, void *memory)
{
    if (memory)
        GPU_CHECK(gpu, cuda_release(memory), "freeing memory");
}

/* Numbers repeat after so many: not in step with rows of any usual length. */
#define PERIOD ((UINT64_C(1) << 20) + 24)

/* The first of them, of fp32, written by the host and rounded by the GPU. */
static bool fill_period(struct gpu *gpu, enum input input, enum dtype dtype, void *target, uint64_t count)
{
    float *numbers = memory_zeroed(count, sizeof *numbers);
    input_row(1, input, 0, 0, count, DTYPE_FP32, numbers);
    void *copy = gpu_memory(gpu, count * sizeof *numbers);
    const struct cuda_extent extent = {.rows = count / 8, .items = 1, .heads = 1, .dim = 8};
    const struct cuda_array to = {target, {8, 8}, dtype}, from = {copy, {8, 8}, DTYPE_FP32};
    bool good = copy && GPU_CHECK(gpu, cuda_write(copy, numbers, count * sizeof *numbers), "writing random numbers") &&
                GPU_CHECK(gpu, cuda_accumulate(extent, to, from, 1, gpu->stream), "rounding random numbers") &&
                GPU_CHECK(gpu, cuda_stream_wait(gpu->stream), "rounding random numbers");
    gpu_free(gpu, copy);
    free(numbers);
    return good;
}

void *gpu_numbers(struct gpu *gpu, enum input input, enum dtype dtype, uint64_t count)
{
    const uint64_t size = dtype_bytes(dtype), bytes = count * size;
    uint64_t done = count < PERIOD ? bytes : PERIOD * size;
    char *numbers = gpu_memory(gpu, bytes);
    if (!numbers)
        return NULL;
    bool good = fill_period(gpu, input, dtype, numbers, done / size);
    while (done < bytes && good) {
        const uint64_t more = done < bytes - done ? done : bytes - done;
        good = GPU_CHECK(gpu, cuda_copy(numbers + done, numbers, more, gpu->stream), "repeating random numbers");
        done += more;
    }
    if (good && GPU_CHECK(gpu, cuda_stream_wait(gpu->stream), "repeating random numbers"))
        return numbers;
    gpu_fail(gpu, "random numbers could not be made");
    gpu_free(gpu, numbers);
    return NULL;
}

/* ---- times ---- */

static bool queue_work(struct gpu *gpu, const struct gpu_work *work, uint32_t times)
{
    bool good = true;
    for (uint32_t i = 0; i < times && good; i++)
        good = GPU_CHECK(gpu, work->queue(work->context, gpu->stream), "queueing what is to be timed");
    return good;
}

bool gpu_record(struct gpu *gpu, uint32_t event, void *stream)
{
    return GPU_CHECK(gpu, cuda_event_record(gpu->events[event], stream), "recording an event");
}

bool gpu_seconds(struct gpu *gpu, uint32_t from, uint32_t to, double *seconds)
{
    return GPU_CHECK(gpu, cuda_event_seconds(gpu->events[from], gpu->events[to], seconds),
                     "reading the time between events");
}

/* Clocks are looked at while the GPU is at work. */
static bool wait_watching(struct gpu *gpu)
{
    gpu_watch_sample(gpu->watch);
    return GPU_CHECK(gpu, cuda_stream_wait(gpu->stream), "running what is to be timed");
}

/* Of one call, after which the stream is idle for a moment. */
static bool time_once(struct gpu *gpu, const struct gpu_work *work, double *seconds)
{
    return gpu_record(gpu, 0, gpu->stream) && queue_work(gpu, work, 1) && gpu_record(gpu, 1, gpu->stream) &&
           wait_watching(gpu) && gpu_seconds(gpu, 0, 1, seconds);
}

/* Each of `repeats` times `batch` calls in a row. */
static bool time_batches(struct gpu *gpu, const struct gpu_work *work, uint32_t batch, uint32_t repeats,
                         struct samples *samples)
{
    bool good = queue_work(gpu, work, 1) && gpu_record(gpu, 0, gpu->stream);
    for (uint32_t i = 0; i < repeats && good; i++)
        good = queue_work(gpu, work, batch) && gpu_record(gpu, i + 1, gpu->stream);
    good = good && wait_watching(gpu);
    for (uint32_t i = 0; i < repeats && good; i++) {
        double seconds = 0;
        good = gpu_seconds(gpu, i, i + 1, &seconds);
        samples_add_seconds(samples, seconds / batch);
    }
    return good;
}

/* To a call that takes so many times a batch's seconds, a moment makes no difference. */
#define LONG_BATCHES 5

bool gpu_time(struct gpu *gpu, const struct gpu_work *work, uint32_t repeats, struct samples *samples)
{
    double once = 0;
    bool good = time_once(gpu, work, &once);
    const double batches = gpu->grid->batch_seconds / fmax(once, 1e-9);
    if (batches > 0 && batches < 1.0 / LONG_BATCHES) {
        samples_add_seconds(samples, once);
        for (uint32_t i = 1; i < repeats && good; i++) {
            good = time_once(gpu, work, &once);
            samples_add_seconds(samples, once);
        }
    } else {
        const double batch = fmax(1, fmin(batches, gpu->grid->batch_max));
        good = good && time_batches(gpu, work, (uint32_t)batch, repeats, samples);
    }
    return good || gpu_fail(gpu, "the GPU failed while something was timed");
}

bool gpu_measure(struct gpu *gpu, const struct gpu_work *work, uint32_t repeats, struct measured *measured)
{
    struct samples samples = {0};
    bool good = gpu_time(gpu, work, repeats, &samples);
    *measured = samples_result(&samples);
    samples_fini(&samples);
    return good;
}
