/* verify_samples.c - verification of problems too long for a full reference, on exact samples.
 *
 * A sample is a row of one KV head with the query heads that share it, as a reference of one group has it. Rows and
 * heads are drawn from the seed alone, so that every process draws the same.
 */
#include <math.h>
#include <stdlib.h>

#include "hw/verify/inputs.h"
#include "hw/verify/verify_problem.h"
#include "models/base/memory.h"

#define QUERY_SAMPLES 6 /* of each rank */
#define KEY_SAMPLES 4

/* One row of one KV head and the query heads that share it. */
struct sample {
    uint32_t rank;
    struct owned owned; /* of the rank's queries, or keys */
    uint64_t row, position;
    size_t kv_head; /* of all (batch * kv_heads) */
    double *expected[OUTPUT_COUNT];
};

/* Random, but the same everywhere; the first two of a rank are its first and its last row. */
static uint64_t choose(const struct problem *problem, uint32_t rank, int kind, uint64_t index, uint64_t limit)
{
    double value =
        input_value(problem->input->seed ^ UINT64_C(0x5a3), INPUT_K, rank, index * 8 + (uint64_t)kind, DTYPE_FP32);
    uint64_t chosen = (uint64_t)((value + 1) / 2 * (double)limit);
    return chosen < limit ? chosen : limit - 1;
}

static struct sample *make_samples(const struct problem *problem, bool keys, size_t *count)
{
    uint64_t per_rank = keys ? KEY_SAMPLES : QUERY_SAMPLES;
    const size_t group = problem->shape.q_heads / problem->shape.kv_heads;
    struct sample *samples = memory_zeroed(problem->input->n_ranks * per_rank, sizeof *samples);
    *count = 0;
    for (uint32_t r = 0; r < problem->input->n_ranks; r++) {
        uint32_t rank = problem->input->first_rank + r;
        struct owned owned = problem_owned(problem, rank, keys);
        size_t first = keys ? 0 : owned.first_head / group, kv_heads = keys ? owned.heads : owned.heads / group;
        uint64_t rows = owned.block.count;
        for (uint64_t i = 0; i < per_rank && rows > 0 && kv_heads > 0; i++) {
            uint64_t row = i == 0 ? 0 : i == 1 ? rows - 1 : choose(problem, rank, keys, i, rows);
            samples[(*count)++] = (struct sample){.rank = rank,
                                                  .owned = owned,
                                                  .row = row,
                                                  .position = owned_position(problem->input->schedule, &owned, row),
                                                  .kv_head = first + choose(problem, rank, 2 + keys, i, kv_heads)};
        }
    }
    return samples;
}

/* Where a sample's numbers of an output are in the rank's own: `heads` heads of it, `width` numbers each. */
static size_t sample_offset(const struct sample *sample, size_t heads, size_t width)
{
    return (sample->row * sample->owned.heads + sample->kv_head * heads - sample->owned.first_head) * width;
}

/* All rows' `heads` heads from `first_head` on, of an input. */
static double *make_heads(const struct problem *problem, enum input input, size_t first_head, size_t heads)
{
    size_t dim = problem->shape.head_dim, width = heads * dim;
    double *data = memory_zeroed(problem->shape.rows * width, sizeof *data);
    for (size_t row = 0; row < problem->shape.rows; row++)
        input_row_double(problem->input->seed, input, row, first_head * dim, width, problem->dtype, data + row * width);
    return data;
}

static double *make_row(const struct problem *problem, enum input input, uint64_t position, size_t first_head,
                        size_t heads)
{
    size_t dim = problem->shape.head_dim;
    double *row = memory_zeroed(heads * dim, sizeof *row);
    input_row_double(problem->input->seed, input, position, first_head * dim, heads * dim, problem->dtype, row);
    return row;
}

static struct reference_shape one_group(const struct problem *problem)
{
    struct reference_shape shape = problem->shape;
    shape.q_heads /= shape.kv_heads;
    shape.kv_heads = 1;
    return shape;
}

static void expect_query(const struct problem *problem, struct sample *sample)
{
    const struct reference_shape shape = one_group(problem);
    size_t group = shape.q_heads, dim = shape.head_dim;
    double *q = make_row(problem, INPUT_Q, sample->position, sample->kv_head * group, group);
    double *k = make_heads(problem, INPUT_K, sample->kv_head, 1), *v = make_heads(problem, INPUT_V, sample->kv_head, 1);
    double *o = memory_zeroed(group * dim, sizeof *o), *lse = memory_zeroed(group, sizeof *lse);
    reference_forward_row(&shape, sample->position, q, k, v, o, lse);
    sample->expected[OUTPUT_O] = o;
    sample->expected[OUTPUT_LSE] = lse;
    if (problem->train) {
        double *d_o = make_row(problem, INPUT_DO, sample->position, sample->kv_head * group, group);
        double *delta = memory_zeroed(group, sizeof *delta);
        for (size_t i = 0; i < group * dim; i++)
            delta[i / dim] += d_o[i] * o[i];
        sample->expected[OUTPUT_DQ] = memory_zeroed(group * dim, sizeof(double));
        reference_query_gradient(&shape, sample->position, q, k, v, d_o, lse, delta, sample->expected[OUTPUT_DQ]);
        free(d_o);
        free(delta);
    }
    free(q);
    free(k);
    free(v);
}

/* One group's columns of [position][all query heads]. */
static double *take_heads(const struct problem *problem, const float *all, size_t first_head, size_t heads)
{
    double *columns = memory_zeroed(problem->shape.rows * heads, sizeof *columns);
    for (size_t row = 0; row < problem->shape.rows; row++)
        for (size_t h = 0; h < heads; h++)
            columns[row * heads + h] = (double)all[row * problem->shape.q_heads + first_head + h];
    return columns;
}

static void expect_key(const struct problem *problem, struct sample *sample)
{
    const struct reference_shape shape = one_group(problem);
    size_t group = shape.q_heads, dim = shape.head_dim, first = sample->kv_head * group;
    double *k = make_row(problem, INPUT_K, sample->position, sample->kv_head, 1);
    double *v = make_row(problem, INPUT_V, sample->position, sample->kv_head, 1);
    double *q = make_heads(problem, INPUT_Q, first, group), *d_o = make_heads(problem, INPUT_DO, first, group);
    double *lse = take_heads(problem, problem->input->all_lse, first, group);
    double *delta = take_heads(problem, problem->input->all_delta, first, group);
    sample->expected[OUTPUT_DK] = memory_zeroed(dim, sizeof(double));
    sample->expected[OUTPUT_DV] = memory_zeroed(dim, sizeof(double));
    reference_key_gradients(&shape, sample->position, k, v, q, d_o, lse, delta, sample->expected[OUTPUT_DK],
                            sample->expected[OUTPUT_DV]);
    double *all[] = {k, v, q, d_o, lse, delta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* What an error in delta comes to in the sample's dQ or dK, as in the full check but for this row alone, with the run's
 * own O of the row (no more than V can make it) and the root mean square of uniform K or Q. */
static double gradient_floor(const struct problem *problem, const struct sample *sample, enum output output)
{
    const float *o = problem->input->outputs[sample->rank - problem->input->first_rank].tensors[OUTPUT_O];
    size_t group = problem->shape.q_heads / problem->shape.kv_heads, width = group * problem->shape.head_dim;
    struct sample query = *sample; /* the row's own, if the rank has it: training, it has those of its keys */
    query.owned = problem_owned(problem, sample->rank, false);
    if ((output != OUTPUT_DQ && output != OUTPUT_DK) || !o)
        return 0;
    double *d_o = make_row(problem, INPUT_DO, sample->position, sample->kv_head * group, group), sum = 0;
    o += sample_offset(&query, group, problem->shape.head_dim);
    for (size_t i = 0; i < width; i++)
        sum += pow(d_o[i] * fmin(fabs((double)o[i]), 1), 2);
    free(d_o);
    return problem->shape.scale * sqrt(sum / (double)group) * (output == OUTPUT_DK ? QUERY_GAIN : 1) / sqrt(3);
}

static void compare_samples(const struct problem *problem, const struct sample *samples, size_t count,
                            enum output output)
{
    size_t heads = output_is_of_keys(output) ? 1 : problem->shape.q_heads / problem->shape.kv_heads;
    size_t width = heads * problem_head_width(problem, output);
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += pow(root_mean_square(samples[i].expected[output], width), 2);
    double floor = count ? sqrt(squares / (double)count) : 0;
    for (size_t i = 0; i < count; i++) {
        const float *tensor = problem->input->outputs[samples[i].rank - problem->input->first_rank].tensors[output];
        size_t offset = sample_offset(&samples[i], heads, problem_head_width(problem, output));
        problem_compare(problem, output, samples[i].rank, samples[i].position, tensor ? tensor + offset : NULL,
                        samples[i].expected[output], width, fmax(floor, gradient_floor(problem, &samples[i], output)));
    }
}

/* A value that is not finite is found wherever it is: all are looked at. */
static void count_non_finite(const struct problem *problem)
{
    for (uint32_t r = 0; r < problem->input->n_ranks; r++) {
        uint32_t rank = problem->input->first_rank + r;
        for (int t = 0; t < OUTPUT_COUNT; t++) {
            struct tensor_check *check = &problem->out->tensors[t];
            struct owned owned = problem_owned(problem, rank, output_is_of_keys((enum output)t));
            const float *tensor = problem->input->outputs[r].tensors[t];
            size_t width = owned.heads * problem_head_width(problem, (enum output)t);
            for (uint64_t i = 0; check->present && i < owned.block.count * width; i++)
                if ((!tensor || !isfinite(tensor[i])) && check->non_finite++ == 0)
                    check_note_worst(check, rank, owned_position(problem->input->schedule, &owned, i / width));
        }
    }
}

void verify_samples(const struct problem *problem)
{
    for (int keys = 0; keys <= (int)problem->train; keys++) {
        size_t count;
        struct sample *samples = make_samples(problem, keys, &count);
        for (size_t i = 0; i < count; i++)
            (keys ? expect_key : expect_query)(problem, &samples[i]);
        for (int t = 0; t < OUTPUT_COUNT; t++)
            if (problem->out->tensors[t].present && output_is_of_keys((enum output)t) == (bool)keys)
                compare_samples(problem, samples, count, (enum output)t);
        for (size_t i = 0; i < count; i++)
            for (int t = 0; t < OUTPUT_COUNT; t++)
                free(samples[i].expected[t]);
        free(samples);
    }
    for (int t = 0; t < OUTPUT_COUNT; t++)
        problem->out->tensors[t].non_finite = 0; /* counted over all values instead */
    count_non_finite(problem);
}
