/* gpu_attention.c - blocks of attention on a GPU, and the tables of their times. */
#include "hw/calibrate/gpu/gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/calibrate/attention_case.h"
#include "hw/calibrate/calibrate_blocks.h"
#include "kernels/runs.h"
#include "models/base/memory.h"

/* ---- a block ---- */

/* The most of anything that any of the blocks has. */
struct room {
    uint64_t queries, keys, lanes; /* elements of Q and of K; rows x heads */
    uint32_t rows;
};

static struct room room_for(uint32_t head_dim, const struct measured_block *blocks, uint32_t n_blocks)
{
    struct room room = {0};
    for (uint32_t i = 0; i < n_blocks; i++) {
        const uint64_t lanes = (uint64_t)blocks[i].queries * blocks[i].heads;
        const uint64_t keys = (uint64_t)blocks[i].keys * blocks[i].kv_heads * head_dim;
        room.lanes = lanes > room.lanes ? lanes : room.lanes;
        room.keys = keys > room.keys ? keys : room.keys;
        room.rows = blocks[i].queries > room.rows ? blocks[i].queries : room.rows;
    }
    room.lanes = (room.lanes + 7) / 8 * 8;
    room.queries = room.lanes * head_dim;
    return room;
}

/* Bytes that a gpu_case takes. */
static double case_bytes(enum dtype dtype, uint32_t head_dim, const struct measured_block *blocks, uint32_t n_blocks)
{
    const struct room room = room_for(head_dim, blocks, n_blocks);
    const double size = (double)dtype_bytes(dtype);
    return 4 * size * (double)(room.queries + room.keys) + 8.0 * (double)room.lanes + 8.0 * room.rows;
}

bool gpu_case_init(struct gpu_case *c, struct gpu *gpu, enum dtype dtype, uint32_t head_dim,
                   const struct measured_block *blocks, uint32_t n_blocks)
{
    const struct room room = room_for(head_dim, blocks, n_blocks);
    *c = (struct gpu_case){.gpu = gpu, .rows = room.rows};
    c->call = (struct cuda_call){.items = 1, .head_dim = head_dim, .dtype = dtype, .dkv_dtype = dtype, .n_keys = 1};
    c->call.scale = (float)(1 / sqrt((double)head_dim));
    const struct {
        void **tensor;
        enum input input;
        uint64_t count;
    } tensors[] = {
        {&c->q, INPUT_Q, room.queries},    {&c->k, INPUT_K, room.keys},    {&c->v, INPUT_V, room.keys},
        {&c->d_o, INPUT_DO, room.queries}, {&c->o, INPUT_K, room.queries}, {&c->dq, INPUT_K, room.queries},
        {&c->dk, INPUT_K, room.keys},      {&c->dv, INPUT_K, room.keys},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && good; i++)
        good = (*tensors[i].tensor = gpu_numbers(gpu, tensors[i].input, dtype, tensors[i].count)) != NULL;
    return good && (c->lse = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, room.lanes)) &&
           (c->delta = gpu_numbers(gpu, INPUT_K, DTYPE_FP32, room.lanes)) &&
           (c->from = gpu_memory(gpu, room.rows * sizeof *c->from)) &&
           (c->to = gpu_memory(gpu, room.rows * sizeof *c->to)) &&
           (c->device_keys = gpu_memory(gpu, sizeof *c->device_keys));
}

void gpu_case_fini(struct gpu_case *c)
{
    void *const all[] = {c->q,  c->k,   c->v,     c->o,    c->d_o, c->dq,          c->dk,
                         c->dv, c->lse, c->delta, c->from, c->to,  c->device_keys, c->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_free(c->gpu, all[i]);
}

/* Which keys each query sees, on the GPU. */
static bool write_runs(struct gpu_case *c, struct measured_block *block)
{
    const struct block_shape shape = block_shape_of(block);
    const struct attention_rows queries = {.spans = {shape.queries}, .n_spans = 1, .rows = block->queries};
    const struct attention_rows keys = {.spans = {shape.keys}, .n_spans = 1, .rows = block->keys};
    const size_t bytes = block->queries * sizeof(int32_t);
    int32_t *from = memory_zeroed(1, bytes), *to = memory_zeroed(1, bytes);
    attention_runs(&shape.mask, &queries, &keys, from, to);
    bool good = GPU_CHECK(c->gpu, cuda_write(c->from, from, bytes), "writing the mask") &&
                GPU_CHECK(c->gpu, cuda_write(c->to, to, bytes), "writing the mask");
    free(from);
    free(to);
    return good;
}

/* Room for what the kernels write for themselves. */
static bool take_workspace(struct gpu_case *c)
{
    const struct kernel_family *of[PASS_COUNT] = {c->gpu->compute->family, c->gpu->compute->backward_family};
    uint64_t bytes = 0;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        const uint64_t needed = of[pass]->workspace(&c->call, pass == PASS_BACKWARD);
        bytes = needed > bytes ? needed : bytes;
    }
    if (bytes > c->workspace_bytes) {
        gpu_free(c->gpu, c->workspace);
        c->workspace = gpu_memory(c->gpu, bytes);
        c->workspace_bytes = c->workspace ? bytes : 0;
    }
    c->call.workspace = c->workspace;
    return bytes <= c->workspace_bytes;
}

bool gpu_case_set(struct gpu_case *c, struct measured_block *block)
{
    const uint32_t dim = c->call.head_dim;
    const struct cuda_strides heads = {(uint64_t)block->heads * dim, (uint64_t)block->heads * dim * block->queries};
    const struct cuda_strides kv = {(uint64_t)block->kv_heads * dim, (uint64_t)block->kv_heads * dim * block->keys};
    const struct cuda_strides lanes = {block->heads, (uint64_t)block->heads * block->queries};
    c->keys = (struct cuda_keys){.k = c->k,
                                 .v = c->v,
                                 .dk = c->dk,
                                 .dv = c->dv,
                                 .strides = kv,
                                 .gradient = kv,
                                 .from = c->from,
                                 .to = c->to,
                                 .rows = block->keys};
    c->call.q_heads = block->heads;
    c->call.kv_heads = block->kv_heads;
    c->call.group = block->heads / block->kv_heads;
    c->call.rows = block->queries;
    c->call.q = c->q;
    c->call.strides.q = c->call.strides.o = c->call.strides.d_o = c->call.strides.dq = heads;
    c->call.strides.lse = c->call.strides.delta = lanes;
    c->call.keys = &c->keys;
    c->call.device_keys = c->device_keys;
    /* Writing does not wait for what is queued. */
    bool good = GPU_CHECK(c->gpu, cuda_stream_wait(c->gpu->stream), "waiting for the block before") &&
                write_runs(c, block) &&
                GPU_CHECK(c->gpu, cuda_write(c->device_keys, &c->keys, sizeof c->keys), "writing the call");
    return good ? take_workspace(c) : gpu_fail(c->gpu, "a block could not be prepared");
}

static int queue_forward(void *context, void *stream)
{
    struct gpu_case *c = context;
    return c->gpu->compute->family->forward(&c->call, c->o, c->lse, stream);
}

static int queue_backward(void *context, void *stream)
{
    struct gpu_case *c = context;
    return c->gpu->compute->backward_family->backward(&c->call, c->d_o, c->lse, c->delta, c->dq, stream);
}

struct gpu_work gpu_case_work(struct gpu_case *c, enum attention_pass pass)
{
    return (struct gpu_work){pass == PASS_FORWARD ? queue_forward : queue_backward, c};
}

/* ---- the tables ---- */

struct gpu_bench {
    struct block_bench bench; /* first: it is all that others know of */
    struct gpu_case c;
};

static bool set_block(struct block_bench *bench, struct measured_block *block)
{
    return gpu_case_set(&((struct gpu_bench *)bench)->c, block);
}

static bool time_block(struct block_bench *bench, enum attention_pass pass, uint32_t repeats, struct samples *samples)
{
    struct gpu_case *c = &((struct gpu_bench *)bench)->c;
    const struct gpu_work work = gpu_case_work(c, pass);
    return gpu_time(c->gpu, &work, repeats, samples);
}

/* Squares as far as the memory has room for them. Returns the largest one's index. */
static uint32_t add_blocks(const struct gpu *gpu, struct measured_table *table)
{
    const struct gpu_grid *grid = gpu->grid;
    const double room = 0.8 * gpu->room_bytes;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < grid->n_sizes; i++) {
        const uint32_t rows = grid->sizes[i];
        const struct measured_block square = {
            .queries = rows, .keys = rows, .heads = grid->heads, .kv_heads = grid->kv_heads};
        if (i > 0 && case_bytes(table->dtype, table->head_dim, &square, 1) > room)
            break;
        largest = table->n_blocks;
        measured_table_add(table, BLOCK_FULL, rows, rows, grid->heads, grid->kv_heads);
        measured_table_add(table, BLOCK_CAUSAL, rows, rows, grid->heads, grid->kv_heads);
    }
    for (uint32_t i = 0; i < grid->n_probes; i++) {
        const struct gpu_probe *probe = &grid->probes[i];
        const uint32_t rows = probe->rows;
        measured_table_add(table, BLOCK_WIDE, rows, 2 * rows, grid->heads, grid->kv_heads);
        measured_table_add(table, BLOCK_TALL, 2 * rows, rows, grid->heads, grid->kv_heads);
        measured_table_add(table, BLOCK_STRIPED, rows, rows, grid->heads, grid->kv_heads);
        measured_table_add(table, BLOCK_GROUPED, rows, rows, probe->heads, probe->kv_heads);
    }
    return largest;
}

static bool measure_tables(struct gpu *gpu, enum dtype dtype, uint32_t head_dim, double from, double to)
{
    struct calibration_part *part = gpu->part;
    struct calibration *calibration = part->calibration;
    struct measured_table *tables[PASS_COUNT];
    struct block_plan plan = {.rounds = gpu->grid->rounds,
                              .repeats_max = gpu->grid->repeats,
                              .seconds = part->seconds * (to - from),
                              .from = from,
                              .to = to};
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        tables[pass] = &calibration->tables[calibration->n_tables++];
        *tables[pass] =
            (struct measured_table){.pass = (enum attention_pass)pass, .dtype = dtype, .head_dim = head_dim};
        plan.reference = add_blocks(gpu, tables[pass]);
    }
    struct gpu_bench bench = {.bench = {set_block, time_block}};
    bool good = gpu_case_init(&bench.c, gpu, dtype, head_dim, tables[0]->blocks, tables[0]->n_blocks) &&
                calibrate_blocks(part, tables, &bench.bench, &plan);
    gpu_case_fini(&bench.c);
    return good;
}

bool gpu_attention(struct calibration_part *part)
{
    struct gpu *gpu = gpu_of(part);
    const struct gpu_grid *grid = gpu->grid;
    double work = 0, done = 0;
    for (uint32_t d = 0; d < grid->n_head_dims; d++)
        work += grid->n_dtypes * grid->head_dims[d];
    bool good = true;
    for (uint32_t t = 0; t < grid->n_dtypes; t++) {
        for (uint32_t d = 0; d < grid->n_head_dims && good; d++) {
            const double from = done / work;
            done += grid->head_dims[d];
            good = measure_tables(gpu, grid->dtypes[t], grid->head_dims[d], from, done / work);
        }
    }
    return good;
}
