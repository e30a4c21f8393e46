/* gpu_steps.c - on a GPU, rates of what is bound by memory: the steps around attention, and copies.
 *
 * Rates are those beyond the launch, for the model adds that to every operation. Over sizes, from one that a GPU's
 * cache holds to one far beyond it, and over dtypes a rate varies: that is its spread.
 */
#include "hw/calibrate/gpu/gpu.h"

#include <math.h>

#define DIM 128
#define RATES_MAX 64

static struct cuda_array array_of(void *first, enum dtype dtype, uint64_t row)
{
    return (struct cuda_array){first, {row, row}, dtype};
}

struct tensors {
    void *o, *d_o;
    float *a, *m, *l, *lse;
    enum dtype dtype;
    uint64_t lanes; /* rows of one head each: lanes of any layout lie side by side */
    enum device_step step;
};

static int queue_step(void *context, void *stream)
{
    const struct tensors *t = context;
    const struct cuda_extent extent = {.rows = t->lanes, .items = 1, .heads = 1, .dim = DIM};
    const struct cuda_array o = array_of(t->o, t->dtype, DIM), d_o = array_of(t->d_o, t->dtype, DIM);
    const struct cuda_array a = array_of(t->a, DTYPE_FP32, DIM), m = array_of(t->m, DTYPE_FP32, 1);
    const struct cuda_array l = array_of(t->l, DTYPE_FP32, 1), lse = array_of(t->lse, DTYPE_FP32, 1);
    switch (t->step) {
    case STEP_MERGE:
        return cuda_merge(extent, o, lse, a, m, l, 0, stream);
    case STEP_FINISH:
        return cuda_finish(extent, a, m, l, o, lse, stream);
    case STEP_DELTA:
        return cuda_delta(extent, o, d_o, lse, stream);
    case STEP_ACCUMULATE:
        return cuda_accumulate(extent, a, o, 0, stream);
    case STEP_CAST:
        return cuda_accumulate(extent, d_o, a, 1, stream);
    case STEP_ELEMENTWISE: /* a residual's sum stands for all of them */
        return cuda_accumulate(extent, d_o, o, 0, stream);
    case STEP_COUNT:
        break;
    }
    return 0;
}

/* The sum of exponentials must not be below 1, else a state that is merged again and again vanishes. */
static bool begin_state(struct gpu *gpu, struct tensors *t)
{
    const struct cuda_extent extent = {.rows = t->lanes, .items = 1, .heads = 1, .dim = DIM};
    return GPU_CHECK(gpu,
                     cuda_merge(extent, array_of(t->o, t->dtype, DIM), array_of(t->lse, DTYPE_FP32, 1),
                                array_of(t->a, DTYPE_FP32, DIM), array_of(t->m, DTYPE_FP32, 1),
                                array_of(t->l, DTYPE_FP32, 1), 1, gpu->stream),
                     "preparing the steps");
}

static bool tensors_init(struct gpu *gpu, struct tensors *t, enum dtype dtype, uint64_t lanes)
{
    *t = (struct tensors){.dtype = dtype, .lanes = lanes};
    return (t->o = gpu_numbers(gpu, INPUT_K, dtype, lanes * DIM)) &&
           (t->d_o = gpu_numbers(gpu, INPUT_DO, dtype, lanes * DIM)) &&
           (t->a = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, lanes * DIM)) &&
           (t->m = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, lanes)) &&
           (t->l = gpu_numbers(gpu, INPUT_V, DTYPE_FP32, lanes)) &&
           (t->lse = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, lanes));
}

static void tensors_fini(struct gpu *gpu, struct tensors *t)
{
    void *const all[] = {t->o, t->d_o, t->a, t->m, t->l, t->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(gpu, all[i]);
}

struct rates {
    double values[RATES_MAX];
    size_t count;
};

/* Beyond the launch; but what hardly takes longer than that says nothing of a rate. */
static void add_rate(struct rates *rates, const struct gpu *gpu, double bytes, double seconds)
{
    const double launch = gpu->part->calibration->launch.value;
    if (rates->count < RATES_MAX && seconds > 0)
        rates->values[rates->count++] = bytes / fmax(seconds - launch, 0.25 * seconds);
}

static bool measure_steps(struct gpu *gpu, struct tensors *t, struct rates rates[STEP_COUNT])
{
    const struct gpu_work work = {queue_step, t};
    bool good = true;
    for (uint32_t i = 0; i < gpu->grid->n_step_lanes && good; i++) {
        t->lanes = gpu->grid->step_lanes[i];
        good = begin_state(gpu, t) || gpu_fail(gpu, "the steps could not be prepared");
        for (int step = 0; step < STEP_COUNT && good; step++) {
            struct measured time = {0};
            t->step = (enum device_step)step;
            good = gpu_measure(gpu, &work, gpu->grid->repeats, &time);
            add_rate(&rates[step], gpu, (double)t->lanes * calibration_step_bytes(t->step, t->dtype, DIM), time.value);
        }
    }
    return good;
}

/* ---- copies ---- */

struct copy {
    void *to, *from;
    uint64_t bytes;
};

static int queue_copy(void *context, void *stream)
{
    const struct copy *copy = context;
    return cuda_copy(copy->to, copy->from, copy->bytes, stream);
}

static bool measure_copy(struct gpu *gpu)
{
    struct calibration *c = gpu->part->calibration;
    const uint64_t bytes = gpu->grid->copy_bytes;
    struct copy copy = {.bytes = bytes};
    struct measured time = {0};
    const struct gpu_work work = {queue_copy, &copy};
    bool good = (copy.to = gpu_memory(gpu, bytes)) &&
                (copy.from = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, bytes / sizeof(float))) &&
                gpu_measure(gpu, &work, gpu->grid->repeats, &time);
    c->copy = (struct measured){time.value > 0 ? 2.0 * (double)bytes / time.value : 0, time.spread};
    gpu_free(gpu, copy.to);
    gpu_free(gpu, copy.from);
    return good;
}

static bool agree(struct gpu *gpu)
{
    struct calibration *c = gpu->part->calibration;
    struct measured *const all[] = {&c->copy,      &c->launch,         &c->gpu.gap,
                                    &c->gpu.graph, &c->gpu.event_wait, &c->gpu.executor};
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof *all && good; i++)
        good = calibration_agree(gpu->part->crew, all[i]);
    for (int step = 0; step < STEP_COUNT && good; step++)
        good = calibration_agree(gpu->part->crew, &c->steps[step]);
    return good;
}

bool gpu_steps(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    const struct gpu_grid *grid = gpu->grid;
    struct rates rates[STEP_COUNT] = {{.count = 0}};
    bool good = crew_meet(part->crew) && gpu_launches(gpu) && measure_copy(gpu);
    part->progress(part, 0.4);
    for (uint32_t i = 0; i < grid->n_dtypes && good; i++) {
        struct tensors t;
        good = tensors_init(gpu, &t, grid->dtypes[i], grid->step_lanes[grid->n_step_lanes - 1]) &&
               measure_steps(gpu, &t, rates);
        tensors_fini(gpu, &t);
    }
    for (int step = 0; step < STEP_COUNT; step++)
        part->calibration->steps[step] = measured_of(rates[step].values, rates[step].count);
    return good && agree(gpu);
}
