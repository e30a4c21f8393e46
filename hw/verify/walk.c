/* walk.c - the numbers behind the buffers: inputs, which rows are where, results. The operations are in walk_ops.c and
 * walk_copies.c. */
#include "hw/verify/walk.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference.h"
#include "models/base/memory.h"
#include "models/schedule/mask.h"

/* ---- shapes ---- */

size_t walk_numbers(const struct walk *walk, enum tensor tensor)
{
    switch (tensor) {
    case TENSOR_KV:
    case TENSOR_DKV:
        return 2 * walk->head_dim;
    case TENSOR_LSE:
    case TENSOR_DELTA:
    case TENSOR_TOP:
    case TENSOR_DENOMINATOR:
        return 1;
    case TENSOR_PARTIAL:
    case TENSOR_STATE:
        return 2 + walk->head_dim;
    default:
        return walk->head_dim;
    }
}

struct lanes walk_tensor_lanes(const struct walk *walk, enum tensor tensor, struct lanes lanes)
{
    return tensor_goes_by_keys(tensor) ? schedule_kv_lanes(walk->schedule, lanes) : lanes;
}

uint32_t walk_kv_head(const struct walk *walk, uint32_t q_head)
{
    return q_head / (uint32_t)(walk->q_heads / walk->kv_heads);
}

/* ---- which rows ---- */

size_t walk_positions(const struct walk *walk, struct block block, uint64_t *positions)
{
    const struct sharding *sharding = &walk->schedule->sharding;
    size_t n = 0;
    for (uint32_t owner = 0; block.owner == BLOCK_ALL && owner < walk->schedule->ranks; owner++) {
        uint64_t rows = sharding_rows(sharding, owner), left = rows > block.first ? rows - block.first : 0;
        uint32_t count = left < block.count ? (uint32_t)left : block.count;
        if (count)
            n += walk_positions(walk, (struct block){owner, block.first, count}, positions + n);
    }
    if (block.owner == BLOCK_ALL || block.count == 0)
        return n;
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(sharding, block, spans);
    for (uint32_t s = 0; s < n_spans; s++)
        for (uint64_t i = 0; i < spans[s].count; i++)
            positions[n++] = spans[s].first + i * spans[s].stride;
    return n;
}

struct view walk_view(const struct walk *walk, uint32_t rank, const struct access *access)
{
    enum tensor tensor = (enum tensor)walk->programs[rank].buffers[access->buffer].tensor;
    struct view view = {.rank = rank,
                        .buffer = access->buffer,
                        .first = access->block.first,
                        .count = access->block.count,
                        .lanes = walk_tensor_lanes(walk, tensor, access->lanes)};
    walk_positions(walk, access->block, view.positions);
    return view;
}

/* The number of a place and lane of the holding. */
static size_t index_of(const struct walk *walk, const struct view *view, size_t i, uint32_t item, uint32_t head)
{
    const struct buffer *buffer = &walk->programs[view->rank].buffers[view->buffer];
    const struct lanes lanes = walk->holdings[view->rank][view->buffer].lanes;
    assert(buffer->rows > 0 && item >= lanes.item && head >= lanes.head);
    size_t place = (view->first + i + buffer->rows - buffer->first % buffer->rows) % buffer->rows;
    return (place * lanes.items + (item - lanes.item)) * lanes.heads + (head - lanes.head);
}

double *walk_at(const struct walk *walk, const struct view *view, size_t i, uint32_t item, uint32_t head)
{
    const struct holding *holding = &walk->holdings[view->rank][view->buffer];
    return holding->data + index_of(walk, view, i, item, head) * holding->numbers;
}

double *walk_lane(const struct walk *walk, const struct view *view, size_t i, uint32_t lane)
{
    return walk_at(walk, view, i, view->lanes.item + lane / view->lanes.heads,
                   view->lanes.head + lane % view->lanes.heads);
}

int64_t *walk_held(const struct walk *walk, const struct view *view, size_t i, uint32_t lane)
{
    return walk->holdings[view->rank][view->buffer].positions + index_of(walk, view, i,
                                                                         view->lanes.item + lane / view->lanes.heads,
                                                                         view->lanes.head + lane % view->lanes.heads);
}

bool walk_find(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor,
               struct view *view)
{
    struct access_walk accesses;
    struct access access;
    accesses_begin(&accesses, walk->schedule, &walk->programs[rank], op);
    while (accesses_next(&accesses, &access)) {
        if (access.write != write || walk->programs[rank].buffers[access.buffer].tensor != tensor)
            continue;
        *view = walk_view(walk, rank, &access);
        return true;
    }
    return false;
}

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
    double *data = memory_zeroed(rows * walk->items * heads * dim, sizeof *data);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t head = 0; head < walk->items * heads; head++)
            for (uint64_t d = 0; d < dim; d++)
                data[i++] = factor * number_of((((uint64_t)input + 1) << 48) + (row << 24) + (head << 12) + d);
    return data;
}

static double *make_nan(size_t count)
{
    double *data = memory_zeroed(count, sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = NAN;
    return data;
}

/* A resident buffer's rows: all that the rank owns. */
static struct view resident_view(const struct walk *walk, uint32_t rank, uint32_t buffer)
{
    const struct buffer *what = &walk->programs[rank].buffers[buffer];
    bool by_keys = tensor_goes_by_keys((enum tensor)what->tensor);
    struct access access = {.buffer = buffer,
                            .block = by_keys ? sharding_keys(&walk->schedule->sharding, rank)
                                             : schedule_queries(walk->schedule, rank),
                            .lanes = what->lanes};
    return walk_view(walk, rank, &access);
}

/* Copies rows to (or from) a whole tensor of `heads` heads whose numbers are `count` from `offset` on in a lane. */
static void copy_rows(const struct walk *walk, const struct view *view, double *whole, size_t heads, size_t offset,
                      size_t count, bool into_buffer)
{
    for (size_t i = 0; whole && i < view->count; i++) {
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++) {
            uint32_t item = view->lanes.item + lane / view->lanes.heads;
            uint32_t head = view->lanes.head + lane % view->lanes.heads;
            double *inside = walk_lane(walk, view, i, lane) + offset;
            double *outside = whole + ((view->positions[i] * walk->items + item) * heads + head) * count;
            memcpy(into_buffer ? inside : outside, into_buffer ? outside : inside, count * sizeof *inside);
        }
    }
}

static void set_held(const struct walk *walk, const struct view *view)
{
    for (size_t i = 0; i < view->count; i++)
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++)
            *walk_held(walk, view, i, lane) = (int64_t)view->positions[i];
}

static void fill_resident(struct walk *walk, uint32_t rank, uint32_t buffer)
{
    const struct view view = resident_view(walk, rank, buffer);
    size_t dim = walk->head_dim;
    switch (walk->programs[rank].buffers[buffer].tensor) {
    case TENSOR_Q:
        copy_rows(walk, &view, walk->input.q, walk->q_heads, 0, dim, true);
        break;
    case TENSOR_DO:
        copy_rows(walk, &view, walk->input.d_o, walk->q_heads, 0, dim, true);
        break;
    case TENSOR_KV:
        copy_rows(walk, &view, walk->input.k, walk->kv_heads, 0, dim, true);
        copy_rows(walk, &view, walk->input.v, walk->kv_heads, dim, dim, true);
        break;
    default:
        return; /* still to be computed */
    }
    set_held(walk, &view);
}

static void make_holding(struct walk *walk, uint32_t rank, uint32_t index)
{
    const struct buffer *buffer = &walk->programs[rank].buffers[index];
    struct holding *holding = &walk->holdings[rank][index];
    holding->lanes = walk_tensor_lanes(walk, (enum tensor)buffer->tensor, buffer->lanes);
    holding->numbers = walk_numbers(walk, (enum tensor)buffer->tensor);
    size_t count = buffer->rows * lanes_count(holding->lanes);
    holding->data = make_nan(count * holding->numbers);
    holding->positions = memory_zeroed(count, sizeof *holding->positions);
    for (size_t i = 0; i < count; i++)
        holding->positions[i] = -1;
    if (buffer->role == ROLE_RESIDENT)
        fill_resident(walk, rank, index);
}

void walk_init(struct walk *walk, const struct schedule *schedule, const struct program *programs)
{
    const struct experiment *experiment = schedule->experiment;
    *walk = (struct walk){.schedule = schedule,
                          .programs = programs,
                          .items = experiment->batch,
                          .q_heads = schedule->q_heads,
                          .kv_heads = schedule->kv_heads,
                          .head_dim = experiment->model.head_dim,
                          .scale = 1 / sqrt((double)experiment->model.head_dim)};
    assert(experiment->seq_len <= EVENTS_SEQ_LEN_MAX);
    walk->input.q = make_input(walk, INPUT_Q, walk->q_heads, 1);
    walk->input.k = make_input(walk, INPUT_K, walk->kv_heads, 1);
    walk->input.v = make_input(walk, INPUT_V, walk->kv_heads, 1);
    walk->input.d_o = make_input(walk, INPUT_G, walk->q_heads, 1 / (double)experiment->seq_len);
    walk->attended = make_nan(experiment->seq_len * walk->items * walk->q_heads * walk_numbers(walk, TENSOR_STATE));
    walk->holdings = memory_zeroed(schedule->ranks, sizeof *walk->holdings);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        walk->holdings[rank] = memory_zeroed(programs[rank].n_buffers, sizeof **walk->holdings);
        for (uint32_t b = 0; b < programs[rank].n_buffers; b++)
            make_holding(walk, rank, b);
    }
}

void walk_fini(struct walk *walk)
{
    for (uint32_t rank = 0; rank < walk->schedule->ranks; rank++) {
        for (uint32_t b = 0; b < walk->programs[rank].n_buffers; b++) {
            free(walk->holdings[rank][b].data);
            free(walk->holdings[rank][b].positions);
        }
        free(walk->holdings[rank]);
    }
    free(walk->holdings);
    free(walk->attended);
    walk_free_whole(&walk->input);
}

/* ---- results ---- */

static void allocate_results(const struct walk *walk, struct whole *result)
{
    size_t rows = walk->schedule->experiment->seq_len * walk->items;
    size_t q_count = rows * walk->q_heads * walk->head_dim, kv_count = rows * walk->kv_heads * walk->head_dim;
    *result = (struct whole){.o = make_nan(q_count), .lse = make_nan(rows * walk->q_heads)};
    if (walk->schedule->experiment->train) {
        result->dq = make_nan(q_count);
        result->dk = make_nan(kv_count);
        result->dv = make_nan(kv_count);
    }
}

static void collect_resident(const struct walk *walk, uint32_t rank, uint32_t buffer, struct whole *result)
{
    const struct view view = resident_view(walk, rank, buffer);
    size_t dim = walk->head_dim;
    switch (walk->programs[rank].buffers[buffer].tensor) {
    case TENSOR_O:
        copy_rows(walk, &view, result->o, walk->q_heads, 0, dim, false);
        break;
    case TENSOR_LSE:
        copy_rows(walk, &view, result->lse, walk->q_heads, 0, 1, false);
        break;
    case TENSOR_DQ:
        copy_rows(walk, &view, result->dq, walk->q_heads, 0, dim, false);
        break;
    case TENSOR_DKV:
        copy_rows(walk, &view, result->dk, walk->kv_heads, 0, dim, false);
        copy_rows(walk, &view, result->dv, walk->kv_heads, dim, dim, false);
        break;
    default:
        break;
    }
}

void walk_collect(const struct walk *walk, uint32_t rank, struct whole *result)
{
    allocate_results(walk, result);
    for (uint32_t r = 0; r < walk->schedule->ranks; r++)
        for (uint32_t b = 0; (rank == BLOCK_ALL || r == rank) && b < walk->programs[r].n_buffers; b++)
            if (walk->programs[r].buffers[b].role == ROLE_RESIDENT)
                collect_resident(walk, r, b, result);
}

void walk_reference(const struct walk *walk, struct whole *result)
{
    const struct experiment *experiment = walk->schedule->experiment;
    const struct reference_shape shape = {
        experiment->seq_len, walk->items * walk->q_heads, walk->items * walk->kv_heads, walk->head_dim, walk->scale,
        &experiment->mask};
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
