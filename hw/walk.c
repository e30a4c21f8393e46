/* walk.c - the numbers behind the buffers: inputs, which rows are where, results. The operations are in walk_ops.c. */
#include "hw/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/layout.h"
#include "kernels/reference.h"
#include "models/base/memory.h"
#include "models/schedule/mask.h"

/* ---- inputs and memory ---- */

enum input { INPUT_Q, INPUT_K, INPUT_V, INPUT_G };

/* A number in [-1, 1] for a counter: the mixing steps of splitmix64 (Steele, Lea, Flood, 2014). */
static double number_of(uint64_t counter)
{
    uint64_t z = counter * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) / 4503599627370496.0 - 1; /* 53 bits over 2^52 */
}

static double *make_input(const struct walk *walk, enum input input, size_t heads, double factor)
{
    size_t rows = walk->schedule->experiment->seq_len, dim = walk->head_dim, i = 0;
    double *data = memory_zeroed(rows * heads * dim, sizeof *data);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t head = 0; head < heads; head++)
            for (uint64_t d = 0; d < dim; d++)
                data[i++] = factor * number_of((((uint64_t)input + 1) << 48) + (row << 24) + (head << 12) + d);
    return data;
}

double *walk_make_nan(size_t count)
{
    double *data = memory_zeroed(count, sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = NAN;
    return data;
}

size_t walk_row_width(const struct walk *walk, enum tensor tensor)
{
    switch (tensor) {
    case TENSOR_KV:
    case TENSOR_DKV:
        return 2 * walk->kv_heads * walk->head_dim;
    case TENSOR_LSE:
    case TENSOR_DELTA:
        return walk->q_heads;
    case TENSOR_PARTIAL:
    case TENSOR_STATE:
        return walk->q_heads * (2 + walk->head_dim);
    default:
        return walk->q_heads * walk->head_dim;
    }
}

/* Copies a resident buffer's rows to (or from) a whole tensor that is part `part` of the `n_parts` of a row. */
static void copy_shard(const struct walk *walk, uint32_t rank, uint32_t buffer, double *whole, size_t part,
                       size_t n_parts, bool into_buffer)
{
    const struct holding *holding = &walk->holdings[rank][buffer];
    size_t width = holding->width / n_parts;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    size_t rows = walk_positions(walk, holding->block, positions);
    if (!whole)
        return;
    for (size_t i = 0; i < rows; i++) {
        double *inside = holding->data + i * holding->width + part * width, *outside = whole + positions[i] * width;
        memcpy(into_buffer ? inside : outside, into_buffer ? outside : inside, width * sizeof *inside);
    }
}

/* The rank's whole shard: the input of that tensor, or NaN for what is still to be computed. */
static void fill_resident(struct walk *walk, uint32_t rank, uint32_t buffer)
{
    struct holding *holding = &walk->holdings[rank][buffer];
    holding->block = (struct block){rank, 0, (uint32_t)sharding_rows(&walk->schedule->sharding, rank)};
    holding->data = walk_make_nan(holding->block.count * holding->width);
    switch (walk->programs[rank].buffers[buffer].tensor) {
    case TENSOR_Q:
        copy_shard(walk, rank, buffer, walk->input.q, 0, 1, true);
        break;
    case TENSOR_DO:
        copy_shard(walk, rank, buffer, walk->input.d_o, 0, 1, true);
        break;
    case TENSOR_KV:
        copy_shard(walk, rank, buffer, walk->input.k, 0, 2, true);
        copy_shard(walk, rank, buffer, walk->input.v, 1, 2, true);
        break;
    default:
        break;
    }
}

void walk_init(struct walk *walk, const struct schedule *schedule, const struct program *programs)
{
    const struct experiment *experiment = schedule->experiment;
    *walk = (struct walk){.schedule = schedule,
                          .programs = programs,
                          .q_heads = schedule->q_heads,
                          .kv_heads = schedule->kv_heads,
                          .head_dim = experiment->model.head_dim,
                          .scale = 1 / sqrt((double)experiment->model.head_dim)};
    assert(experiment->seq_len <= EVENTS_SEQ_LEN_MAX);
    walk->input.q = make_input(walk, INPUT_Q, walk->q_heads, 1);
    walk->input.k = make_input(walk, INPUT_K, walk->kv_heads, 1);
    walk->input.v = make_input(walk, INPUT_V, walk->kv_heads, 1);
    walk->input.d_o = make_input(walk, INPUT_G, walk->q_heads, 1 / (double)experiment->seq_len);
    walk->attended = walk_make_nan(experiment->seq_len * walk_row_width(walk, TENSOR_STATE));

    walk->holdings = memory_zeroed(schedule->ranks, sizeof *walk->holdings);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct program *program = &programs[rank];
        walk->holdings[rank] = memory_zeroed(program->n_buffers, sizeof **walk->holdings);
        for (uint32_t b = 0; b < program->n_buffers; b++) {
            struct holding *holding = &walk->holdings[rank][b];
            holding->width = walk_row_width(walk, (enum tensor)program->buffers[b].tensor);
            if (program->buffers[b].role == ROLE_RESIDENT)
                fill_resident(walk, rank, b);
        }
    }
}

void walk_fini(struct walk *walk)
{
    for (uint32_t rank = 0; rank < walk->schedule->ranks; rank++) {
        for (uint32_t b = 0; b < walk->programs[rank].n_buffers; b++)
            free(walk->holdings[rank][b].data);
        free(walk->holdings[rank]);
    }
    free(walk->holdings);
    free(walk->attended);
    walk_free_whole(&walk->input);
}

/* ---- which rows ---- */

size_t walk_positions(const struct walk *walk, struct block block, uint64_t *positions)
{
    size_t n = 0;
    if (block.owner == BLOCK_ALL) {
        for (uint32_t owner = 0; owner < walk->schedule->ranks; owner++)
            n += walk_positions(walk, layout_owner_part(walk->schedule, block, owner), positions + n);
        return n;
    }
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(&walk->schedule->sharding, block, spans);
    for (uint32_t s = 0; s < n_spans; s++)
        for (uint64_t i = 0; i < spans[s].count; i++)
            positions[n++] = spans[s].first + i * spans[s].stride;
    return n;
}

struct block walk_block(const struct walk *walk, uint32_t rank, const struct op *op, bool write, uint32_t i)
{
    return layout_block(walk->schedule, &walk->programs[rank], op, write, i);
}

double *walk_rows(const struct walk *walk, uint32_t rank, uint32_t buffer, struct block block)
{
    const struct holding *held = &walk->holdings[rank][buffer];
    if (held->block.owner != block.owner || block.first < held->block.first ||
        (uint64_t)block.first + block.count > (uint64_t)held->block.first + held->block.count)
        return NULL;
    return held->data + (block.first - held->block.first) * held->width;
}

/* ---- results ---- */

static void allocate_results(const struct walk *walk, struct whole *result)
{
    size_t rows = walk->schedule->experiment->seq_len;
    size_t q_count = rows * walk->q_heads * walk->head_dim, kv_count = rows * walk->kv_heads * walk->head_dim;
    *result = (struct whole){.o = walk_make_nan(q_count), .lse = walk_make_nan(rows * walk->q_heads)};
    if (walk->schedule->experiment->train) {
        result->dq = walk_make_nan(q_count);
        result->dk = walk_make_nan(kv_count);
        result->dv = walk_make_nan(kv_count);
    }
}

void walk_collect(const struct walk *walk, struct whole *result)
{
    allocate_results(walk, result);
    for (uint32_t rank = 0; rank < walk->schedule->ranks; rank++) {
        const struct program *program = &walk->programs[rank];
        for (uint32_t b = 0; b < program->n_buffers; b++) {
            if (program->buffers[b].role != ROLE_RESIDENT)
                continue;
            switch (program->buffers[b].tensor) {
            case TENSOR_O:
                copy_shard(walk, rank, b, result->o, 0, 1, false);
                break;
            case TENSOR_LSE:
                copy_shard(walk, rank, b, result->lse, 0, 1, false);
                break;
            case TENSOR_DQ:
                copy_shard(walk, rank, b, result->dq, 0, 1, false);
                break;
            case TENSOR_DKV:
                copy_shard(walk, rank, b, result->dk, 0, 2, false);
                copy_shard(walk, rank, b, result->dv, 1, 2, false);
                break;
            default:
                break;
            }
        }
    }
}

void walk_reference(const struct walk *walk, struct whole *result)
{
    const struct experiment *experiment = walk->schedule->experiment;
    const struct reference_shape shape = {experiment->seq_len, walk->q_heads, walk->kv_heads,
                                          walk->head_dim,      walk->scale,   &experiment->mask};
    const struct whole *in = &walk->input;
    allocate_results(walk, result);
    reference_forward(&shape, in->q, in->k, in->v, result->o, result->lse);
    if (experiment->train)
        reference_backward(&shape, in->q, in->k, in->v, result->o, result->lse, in->d_o, result->dq, result->dk,
                           result->dv);
}

void walk_free_whole(struct whole *whole)
{
    double *tensors[] = {whole->q,   whole->k,  whole->v,  whole->d_o, whole->o,
                         whole->lse, whole->dq, whole->dk, whole->dv};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        free(tensors[i]);
    *whole = (struct whole){0};
}
