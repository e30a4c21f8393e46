/* compute_cuda.c - the backend 'cuda': a rank's memory, streams and events on a GPU. What its operations are as
 * kernels, cuda_attention.c, cuda_elements.c and cuda_copies.c say.
 *
 * Memory that is given back is kept for the next of its size, as the executor asks for the same sizes again and again,
 * and because freeing waits for the whole device.
 */
#include "hw/cuda/compute_cuda.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/clock.h"
#include "models/base/memory.h"
#include "models/input/key_table.h"

struct mark {
    void *event;
};

bool cuda_check(struct compute *cuda, int error, const char *file, int line, const char *what)
{
    if (error && !cuda->failure)
        cuda->failure =
            memory_format("%s (%s:%d): CUDA says: %s (error %d)", what, file, line, cuda_error_text(error), error);
    return error == 0;
}

static const char *failure(struct compute *cuda)
{
    return cuda->failure;
}

/* ---- whether it can run ---- */

static uint32_t devices(void)
{
    return (uint32_t)cuda_devices(NULL, 0);
}

static bool able(const struct schedule *schedule, char *reason, size_t size)
{
    const struct experiment *experiment = schedule->experiment;
    char why[192];
    const uint32_t dim = experiment->model.head_dim;
    if (cuda_devices(why, sizeof why) == 0)
        snprintf(reason, size, "no GPU can be used (%s)", why);
    else if (experiment->dtype != DTYPE_BF16 && experiment->dtype != DTYPE_FP16)
        snprintf(reason, size, "the GPU kernels compute in bf16 or fp16, not in %s", dtype_name(experiment->dtype));
    else if (dim != 64 && dim != 128 && dim != 256)
        snprintf(reason, size, "the GPU kernels have head_dim 64, 128 and 256, not %" PRIu32, dim);
    else
        return true;
    return false;
}

#define FAMILIES_MAX 16

static void complain_of_family(const char *name, struct diagnostics *diag)
{
    const char *names[FAMILIES_MAX + 1] = {NULL};
    for (size_t i = 0; i < FAMILIES_MAX && kernel_families[i]; i++)
        names[i] = kernel_families[i]->name;
    char *expected = key_table_suggestion(name, names);
    diagnostics_add(diag, "backend 'cuda' has no kernels '%s'%s", name, expected);
    free(expected);
}

/* By name, and without one the default; false with a message when there is none or the GPU cannot run it. */
static bool choose_family(struct compute *cuda, struct diagnostics *diag)
{
    const char *name = cuda->settings.kernels;
    char reason[192] = "";
    cuda->family = name ? kernel_family_find(name) : kernel_families[0];
    if (!cuda->family) {
        complain_of_family(name, diag);
        return false;
    }
    const bool repeats = cuda->family->deterministic || !cuda->settings.deterministic;
    cuda->backward_family = repeats ? cuda->family : kernel_families[0];
    return cuda->family->able(cuda->settings.device, reason, sizeof reason) ||
           diagnostics_add(diag, "GPU %d cannot run kernels '%s': %s", cuda->settings.device, cuda->family->name,
                           reason);
}

static bool open_streams(struct compute *cuda)
{
    bool good = CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    for (int s = 0; s < STREAM_COUNT && good; s++) /* transfers find no room beside a kernel that fills the GPU */
        good = CUDA_CHECK(cuda, cuda_stream_create(&cuda->streams[s], !stream_computes((enum stream)s)),
                          "making a stream");
    return good;
}

/* While nothing runs: later it could be for ever that a kernel's first launch takes, next to kernels of NCCL. */
static bool load_kernels(struct compute *cuda)
{
    return CUDA_CHECK(cuda, cuda->family->load(), "loading kernels") &&
           (cuda->backward_family == cuda->family ||
            CUDA_CHECK(cuda, cuda->backward_family->load(), "loading kernels")) &&
           CUDA_CHECK(cuda, cuda_elements_load(), "loading kernels");
}

static void close_cuda(struct compute *cuda);

static struct compute *open_cuda(const struct schedule *schedule, uint32_t rank,
                                 const struct compute_settings *settings, struct diagnostics *diag)
{
    char reason[256];
    if (!able(schedule, reason, sizeof reason)) {
        diagnostics_add(diag, "backend 'cuda' cannot run this: %s", reason);
        return NULL;
    }
    struct compute *cuda = memory_zeroed(1, sizeof *cuda);
    *cuda = (struct compute){.schedule = schedule, .rank = rank, .settings = *settings};
    if (choose_family(cuda, diag) && open_streams(cuda) && load_kernels(cuda))
        return cuda;
    if (cuda->failure)
        diagnostics_add(diag, "rank %" PRIu32 ": %s", rank, cuda->failure);
    close_cuda(cuda);
    return NULL;
}

/* ---- memory ---- */

static void *take_spare(struct compute *cuda, uint64_t bytes)
{
    for (size_t i = cuda->n_spares; i-- > 0;) {
        if (cuda->spares[i].bytes != bytes)
            continue;
        void *memory = cuda->spares[i].memory;
        memmove(&cuda->spares[i], &cuda->spares[i + 1], (--cuda->n_spares - i) * sizeof *cuda->spares);
        return memory;
    }
    return NULL;
}

static void free_memory(struct compute *cuda, void *memory)
{
    const struct memory_source *source = cuda->settings.memory;
    if (source)
        source->release(source->context, memory);
    else
        CUDA_CHECK(cuda, cuda_release(memory), "freeing memory");
}

/* What is queued may still use memory whose buffer's life, in the program's order, is over; to free memory of one's own
 * would wait for the device, that of others need not. */
static void wait_for_streams(struct compute *cuda)
{
    for (int s = 0; s < STREAM_COUNT; s++)
        if (cuda->streams[s])
            CUDA_CHECK(cuda, cuda_stream_wait(cuda->streams[s]), "waiting for a stream");
}

static void drop_spares(struct compute *cuda)
{
    if (cuda->n_spares)
        wait_for_streams(cuda);
    while (cuda->n_spares)
        free_memory(cuda, cuda->spares[--cuda->n_spares].memory);
}

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation: the caller's to complain of, who knows what for */

static void *if_taken(struct compute *cuda, int error, void *memory)
{
    if (error != OUT_OF_MEMORY)
        CUDA_CHECK(cuda, error, "taking memory");
    return error ? NULL : memory;
}

static void *new_memory(struct compute *cuda, uint64_t bytes)
{
    const struct memory_source *source = cuda->settings.memory;
    void *memory = NULL;
    if (!CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU"))
        return NULL;
    if (source)
        return source->allocate(source->context, bytes);
    const int error = cuda_allocate(&memory, bytes);
    return if_taken(cuda, error, memory);
}

static void *allocate(struct compute *cuda, uint64_t bytes)
{
    void *memory = take_spare(cuda, bytes);
    if (!memory && !(memory = new_memory(cuda, bytes)) && cuda->n_spares) {
        drop_spares(cuda);
        memory = new_memory(cuda, bytes);
    }
    if (memory) {
        memory_grow(cuda->blocks, cuda->n_blocks, cuda->block_capacity);
        cuda->blocks[cuda->n_blocks++] = (struct cuda_block){memory, bytes};
    }
    return memory;
}

static void release(struct compute *cuda, void *memory)
{
    for (size_t i = 0; memory && i < cuda->n_blocks; i++) {
        if (cuda->blocks[i].memory != memory)
            continue;
        memory_grow(cuda->spares, cuda->n_spares, cuda->spare_capacity);
        cuda->spares[cuda->n_spares++] = cuda->blocks[i];
        cuda->blocks[i] = cuda->blocks[--cuda->n_blocks];
        return;
    }
}

static void write_memory(struct compute *cuda, void *target, const void *host, uint64_t bytes)
{
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    CUDA_CHECK(cuda, cuda_write(target, host, bytes), "copying to the GPU");
}

static void read_memory(struct compute *cuda, void *host, const void *source, uint64_t bytes)
{
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    CUDA_CHECK(cuda, cuda_read(host, source, bytes), "copying from the GPU");
}

static void fill(struct compute *cuda, void *target, int byte, uint64_t bytes)
{
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    CUDA_CHECK(cuda, cuda_fill(target, byte, bytes, cuda->streams[STREAM_COMPUTE]), "filling memory");
    CUDA_CHECK(cuda, cuda_stream_wait(cuda->streams[STREAM_COMPUTE]), "filling memory");
}

/* ---- queues ---- */

static struct mark *mark_create(struct compute *cuda, bool timed)
{
    struct mark *mark = memory_zeroed(1, sizeof *mark);
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    CUDA_CHECK(cuda, cuda_event_create(&mark->event, timed), "making an event");
    return mark;
}

static void mark_destroy(struct compute *cuda, struct mark *mark)
{
    if (mark && mark->event)
        CUDA_CHECK(cuda, cuda_event_destroy(mark->event), "destroying an event");
    free(mark);
}

static void set_mark(struct compute *cuda, enum stream stream, struct mark *mark)
{
    CUDA_CHECK(cuda, cuda_event_record(mark->event, cuda->streams[stream]), "recording an event");
}

static void wait_for(struct compute *cuda, enum stream stream, const struct mark *mark)
{
    CUDA_CHECK(cuda, cuda_event_wait(cuda->streams[stream], mark->event), "waiting for an event in a stream");
}

static bool passed(struct compute *cuda, const struct mark *mark)
{
    bool has = false;
    return !CUDA_CHECK(cuda, cuda_event_passed(mark->event, &has), "asking for an event") || has || cuda->failure;
}

static double seconds(struct compute *cuda, const struct mark *from, const struct mark *to)
{
    double elapsed = 0;
    CUDA_CHECK(cuda, cuda_event_seconds(from->event, to->event, &elapsed), "reading the time between events");
    return elapsed;
}

static void copy(struct compute *cuda, enum stream stream, void *target, const void *source, uint64_t bytes)
{
    CUDA_CHECK(cuda, cuda_copy(target, source, bytes, cuda->streams[stream]), "queueing a copy");
}

static void copy_rows(struct compute *cuda, enum stream stream, void *target, uint64_t target_pitch, const void *source,
                      uint64_t source_pitch, uint64_t width, uint64_t rows)
{
    CUDA_CHECK(cuda, cuda_copy_rows(target, target_pitch, source, source_pitch, width, rows, cuda->streams[stream]),
               "queueing a copy of rows");
}

static void fill_in_order(struct compute *cuda, enum stream stream, void *target, int byte, uint64_t bytes)
{
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU"); /* fills want the stream's to be current */
    CUDA_CHECK(cuda, cuda_fill(target, byte, bytes, cuda->streams[stream]), "queueing a fill");
}

static void *stage(struct compute *cuda, uint64_t bytes)
{
    void *memory = NULL;
    if (!CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU"))
        return NULL;
    const int error = cuda_host_allocate(&memory, bytes);
    return if_taken(cuda, error, memory);
}

static void unstage(struct compute *cuda, void *memory)
{
    CUDA_CHECK(cuda, cuda_host_release(memory), "freeing host memory");
}

static void *native(struct compute *cuda, enum stream stream)
{
    return cuda->streams[stream];
}

static void record_begin(struct compute *cuda)
{
    CUDA_CHECK(cuda, cuda_record_begin(cuda->streams[STREAM_COMPUTE]), "beginning a graph");
}

static bool record_end(struct compute *cuda)
{
    if (cuda->graph)
        CUDA_CHECK(cuda, cuda_graph_destroy(cuda->graph), "destroying a graph");
    cuda->graph = NULL;
    return CUDA_CHECK(cuda, cuda_record_end(cuda->streams[STREAM_COMPUTE], &cuda->graph), "making a graph");
}

static void launch(struct compute *cuda)
{
    CUDA_CHECK(cuda, cuda_graph_launch(cuda->graph, cuda->streams[STREAM_COMPUTE]), "launching a graph");
}

static const struct queue_ops queues = {
    .mark_create = mark_create,
    .mark_destroy = mark_destroy,
    .mark = set_mark,
    .wait = wait_for,
    .passed = passed,
    .seconds = seconds,
    .copy = copy,
    .copy_rows = copy_rows,
    .fill = fill_in_order,
    .stage = stage,
    .unstage = unstage,
    .native = native,
    .record_begin = record_begin,
    .record_end = record_end,
    .launch = launch,
};

/* ---- one operation ---- */

static void run(struct compute *cuda, const struct program *program, uint32_t index, void *const *memory,
                const struct between_tiles *between_tiles)
{
    (void)between_tiles;
    const struct op *op = &program->ops[index];
    if (op->lanes.heads == 0 || op->lanes.items == 0 || cuda->failure)
        return;
    CUDA_CHECK(cuda, cuda_use(cuda->settings.device), "choosing a GPU");
    operand_list_fill(&cuda->operands, cuda->schedule, program, op, memory);
    const struct cuda_action action = {
        .cuda = cuda,
        .program = program,
        .op = op,
        .index = index,
        .memory = memory,
        .stream = cuda->streams[op->stream],
        .reads = cuda->operands.items,
        .writes = cuda->operands.items + op->n_reads,
    };
    if (op->kind == OP_ATTEND)
        cuda_attend(&action);
    else if (op->kind == OP_ATTEND_BACKWARD)
        cuda_attend_backward(&action);
    else if (op_is_layout(op))
        cuda_layout_copy(&action);
    else
        cuda_elements(&action);
}

#define SECONDS_TO_END 1

/* Whether all that is queued comes to an end soon. What does not is a kernel that waits for what never comes, such as a
 * message of a rank that is gone, by a library that cannot be stopped. */
static bool streams_end(struct compute *cuda)
{
    const double limit = seconds_now() + SECONDS_TO_END;
    bool all = true;
    int error = cuda_use(cuda->settings.device);
    for (int s = 0; s < STREAM_COUNT && !error; s++) {
        void *event = NULL;
        bool has = false;
        if (!cuda->streams[s] || (error = cuda_event_create(&event, false)))
            continue;
        error = cuda_event_record(event, cuda->streams[s]);
        while (!error && !(error = cuda_event_passed(event, &has)) && !has && seconds_now() < limit)
            sched_yield();
        (void)cuda_event_destroy(event);
        all = all && (has || error);
    }
    return all; /* what gives errors does not wait */
}

/* To free memory waits for all that is queued: where that does not end, everything is left to the process's end, which
 * is near. */
static void close_cuda(struct compute *cuda)
{
    if (!cuda || !streams_end(cuda))
        return;
    wait_for_streams(cuda);
    cuda_masks_free(cuda);
    cuda_scratch_free(cuda);
    while (cuda->n_blocks)
        free_memory(cuda, cuda->blocks[--cuda->n_blocks].memory);
    drop_spares(cuda);
    if (cuda->graph)
        CUDA_CHECK(cuda, cuda_graph_destroy(cuda->graph), "destroying a graph");
    for (int s = 0; s < STREAM_COUNT; s++)
        if (cuda->streams[s])
            CUDA_CHECK(cuda, cuda_stream_destroy(cuda->streams[s]), "destroying a stream");
    free(cuda->spares);
    free(cuda->blocks);
    operand_list_fini(&cuda->operands);
    free(cuda->keys);
    free(cuda->key_blocks);
    free(cuda->failure);
    free(cuda);
}

const struct compute_ops compute_cuda = {
    .name = "cuda",
    .summary = "attention on NVIDIA GPUs, compute capability 8.0 and later",
    .able = able,
    .devices = devices,
    .open = open_cuda,
    .close = close_cuda,
    .allocate = allocate,
    .release = release,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .run = run,
    .queues = &queues,
    .failure = failure,
};
