/* gpu_held.c - how long attention takes while something else holds some of the SMs, as the kernels of a communication
 * library do. A kernel whose thread blocks fill the GPU just once takes twice as long when a single SM is missing.
 */
#include "hw/calibrate/gpu/gpu.h"

#include <stdio.h>
#include <string.h>

#include "hw/clock.h"

#define ARRIVAL_SECONDS_MAX 5.0

bool gpu_hold_reset(struct gpu *gpu, struct cuda_hold *hold)
{
    static const struct cuda_hold nobody;
    return GPU_CHECK(gpu, cuda_write(hold, &nobody, sizeof nobody), "preparing to hold SMs");
}

static uint32_t arrived(const struct cuda_hold *hold, uint32_t processors)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < processors; i++)
        n += hold->arrived[i] != 0;
    return n;
}

/* Returns when the SMs are held. */
static bool hold(struct gpu *gpu, struct cuda_hold *hold, uint32_t processors)
{
    struct cuda_hold seen = {0};
    bool over = false, good = gpu_hold_reset(gpu, hold) &&
                              GPU_CHECK(gpu, cuda_occupy(processors, hold, gpu->beside), "holding SMs") &&
                              gpu_record(gpu, 0, gpu->beside);
    const double since = seconds_now();
    while (good && arrived(&seen, processors) < processors) {
        if (over || seconds_now() - since > ARRIVAL_SECONDS_MAX)
            return gpu_fail(gpu, "the GPU did not let a kernel hold some of its SMs");
        good = GPU_CHECK(gpu, cuda_event_passed(gpu->events[0], &over), "asking for an event") &&
               GPU_CHECK(gpu, cuda_read(&seen, hold, sizeof seen), "looking which SMs are held");
    }
    return good || gpu_fail(gpu, "SMs could not be held");
}

static bool let_go(struct gpu *gpu, struct cuda_hold *hold)
{
    const uint32_t release = 1;
    struct cuda_hold seen = {0};
    bool good = GPU_CHECK(gpu, cuda_write(&hold->release, &release, sizeof release), "releasing SMs") &&
                GPU_CHECK(gpu, cuda_stream_wait(gpu->beside), "releasing SMs") &&
                GPU_CHECK(gpu, cuda_read(&seen, hold, sizeof seen), "looking how SMs were held");
    if (good && !seen.expired)
        return true;
    return gpu_fail(gpu, good ? "SMs were not held until the attention beside them was done" : "SMs were not released");
}

static bool measure_held(struct gpu *gpu, struct cuda_hold *memory, uint32_t processors, struct gpu_case *c,
                         struct held_block *block, uint32_t row)
{
    const struct gpu_work work = gpu_case_work(c, block->pass);
    bool good = processors == 0 || hold(gpu, memory, processors);
    good = good && gpu_measure(gpu, &work, gpu->grid->repeats, &block->times[row]);
    return good && (processors == 0 || let_go(gpu, memory));
}

/* Forward and backward of one block, for every number of SMs. */
static bool measure_rows(struct gpu *gpu, struct cuda_hold *memory, struct gpu_case *c, uint32_t rows,
                         struct held_block *blocks)
{
    struct gpu_figures *figures = &gpu->part->calibration->gpu;
    bool good = true;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        blocks[pass] = (struct held_block){.pass = (enum attention_pass)pass, .rows = rows};
    for (uint32_t row = 0; row < figures->n_held && good; row++)
        for (int pass = 0; pass < PASS_COUNT && good; pass++)
            good = measure_held(gpu, memory, figures->held[row], c, &blocks[pass], row) &&
                   calibration_agree(gpu->part->crew, &blocks[pass].times[row]);
    return good;
}

bool gpu_held(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    const struct gpu_grid *grid = gpu->grid;
    struct gpu_figures *figures = &part->calibration->gpu;
    struct measured_block blocks[HELD_BLOCKS_MAX / PASS_COUNT] = {{.queries = 0}};
    struct gpu_case c = {.gpu = gpu};
    struct cuda_hold *memory = NULL;
    for (uint32_t i = 0; i < grid->n_held; i++)
        if (grid->held[i] < gpu->processors)
            figures->held[figures->n_held++] = grid->held[i];
    for (uint32_t i = 0; i < grid->n_held_rows; i++)
        blocks[i] = (struct measured_block){.queries = grid->held_rows[i],
                                            .keys = grid->held_rows[i],
                                            .heads = grid->heads,
                                            .kv_heads = grid->kv_heads};
    bool good = crew_meet(part->crew) && gpu_case_init(&c, gpu, grid->dtypes[0], 128, blocks, grid->n_held_rows) &&
                (memory = gpu_memory(gpu, sizeof *memory));
    for (uint32_t i = 0; i < grid->n_held_rows && good; i++) {
        good = gpu_case_set(&c, &blocks[i]) &&
               measure_rows(gpu, memory, &c, grid->held_rows[i], &figures->held_blocks[PASS_COUNT * i]);
        figures->n_held_blocks += PASS_COUNT;
        part->progress(part, (i + 1.0) / grid->n_held_rows);
    }
    gpu_free(gpu, memory);
    gpu_case_fini(&c);
    return good;
}
