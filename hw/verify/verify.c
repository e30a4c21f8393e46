/* verify.c - compares rows with the reference, in full here (verify_samples.c: on samples); joins and judges findings.
 */
#include "hw/verify/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "hw/verify/inputs.h"
#include "hw/verify/roundings.h"
#include "hw/verify/verify_problem.h"
#include "models/base/memory.h"

bool output_is_of_keys(enum output output)
{
    return output == OUTPUT_DK || output == OUTPUT_DV;
}

size_t problem_head_width(const struct problem *problem, enum output output)
{
    return output == OUTPUT_LSE ? 1 : problem->shape.head_dim;
}

size_t problem_row_width(const struct problem *problem, enum output output)
{
    return (output_is_of_keys(output) ? problem->shape.kv_heads : problem->shape.q_heads) *
           problem_head_width(problem, output);
}

static double tolerance_of(const struct verify_input *input, enum output output)
{
    const struct schedule *schedule = input->schedule;
    const enum dtype dtype = schedule->experiment->dtype;
    if ((dtype != DTYPE_BF16 && dtype != DTYPE_FP16) || output == OUTPUT_LSE)
        return FP32_TOLERANCE;
    uint32_t roundings = OWN_ROUNDINGS + roundings_of_sums(schedule, input->programs, output);
    if (output == OUTPUT_DQ || output == OUTPUT_DK)
        roundings += OWN_ROUNDINGS + roundings_of_sums(schedule, input->programs, OUTPUT_O);
    if (dtype == DTYPE_BF16)
        return roundings * 0x1p-8;
    return roundings * 0x1p-11 + (output == OUTPUT_O ? 0 : FP16_STEP * (double)schedule->experiment->seq_len);
}

static struct problem problem_of(const struct verify_input *input, struct verification *out)
{
    const struct schedule *schedule = input->schedule;
    const struct experiment *experiment = schedule->experiment;
    size_t dim = experiment->model.head_dim;
    struct problem problem = {
        .input = input,
        .shape = {experiment->seq_len, (size_t)experiment->batch * schedule->q_heads,
                  (size_t)experiment->batch * schedule->kv_heads, dim, 1 / sqrt((double)dim), &experiment->mask},
        .first_query = schedule->sharding.cached,
        .dtype = experiment->dtype,
        .train = experiment->train,
        .out = out,
    };
    *out = (struct verification){.kind = input->sampled ? CHECK_SAMPLED : CHECK_FULL};
    for (int t = 0; t < OUTPUT_ATTENTION_COUNT; t++) {
        out->tensors[t].present = experiment->train || t == OUTPUT_O || t == OUTPUT_LSE;
        if (out->tensors[t].present)
            out->tensors[t].tolerance = tolerance_of(input, (enum output)t);
    }
    return problem;
}

bool verify_is_sampled(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    double keys = (double)experiment->seq_len, queries = keys - (double)schedule->sharding.cached;
    double numbers = keys * (double)experiment->batch * schedule->q_heads * experiment->model.head_dim;
    return queries * numbers > VERIFY_FULL_WORK_MAX || numbers > VERIFY_FULL_NUMBERS_MAX;
}

double verify_bytes(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    double rows = (double)experiment->seq_len, dim = experiment->model.head_dim, batch = experiment->batch;
    double heads = batch * schedule->q_heads;
    if (!verify_is_sampled(schedule)) { /* doubles: Q, O, dO, dQ; K, V, dK, dV; LSE */
        double tensors = experiment->train ? 4 : 2;
        return sizeof(double) * rows * ((heads + batch * schedule->kv_heads) * dim * tensors + heads);
    }
    /* a sample's: K and V, or Q and dO of a group; LSE and delta of all rows as they come and as they are kept */
    const uint32_t group = schedule->q_heads / schedule->kv_heads;
    double columns = 2 * dim * (experiment->train ? group : 1);
    return rows * (sizeof(double) * columns + (experiment->train ? 4 * sizeof(float) * heads : 0));
}

/* ---- comparing ---- */

void check_note_worst(struct tensor_check *check, uint32_t rank, uint64_t position)
{
    check->rank = rank;
    check->position = position;
}

void tensor_check_row(struct tensor_check *check, uint32_t rank, uint64_t position, const float *got,
                      const double *expected, size_t count, double floor)
{
    double scale = floor;
    for (size_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        check->values++;
        if (!got || !isfinite(got[i])) {
            if (check->non_finite++ == 0)
                check_note_worst(check, rank, position);
            continue;
        }
        double error = scale > 0 ? fabs((double)got[i] - expected[i]) / scale : fabs((double)got[i]);
        check->wrong += !(error <= check->tolerance);
        if (error > check->max_error) {
            check->max_error = error;
            if (check->non_finite == 0)
                check_note_worst(check, rank, position);
        }
    }
}

void problem_compare(const struct problem *problem, enum output output, uint32_t rank, uint64_t position,
                     const float *got, const double *expected, size_t count, double floor)
{
    tensor_check_row(&problem->out->tensors[output], rank, position, got, expected, count,
                     output == OUTPUT_LSE ? 1 : floor);
}

double root_mean_square(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return count ? sqrt(sum / (double)count) : 0;
}

struct owned problem_owned(const struct problem *problem, uint32_t rank, bool keys)
{
    const struct schedule *schedule = problem->input->schedule;
    struct lanes lanes = schedule_query_lanes(schedule, rank);
    if (keys)
        return (struct owned){sharding_keys(&schedule->sharding, rank), 0, problem->shape.kv_heads};
    return (struct owned){schedule_queries(schedule, rank), (size_t)lanes.item * schedule->q_heads,
                          (size_t)lanes.items * schedule->q_heads};
}

static uint64_t position_of(const struct schedule *schedule, struct block block, uint64_t row)
{
    struct span spans[SHARD_SPANS_MAX];
    sharding_block_spans(&schedule->sharding, (struct block){block.owner, block.first + (uint32_t)row, 1}, spans);
    return spans[0].first;
}

uint64_t owned_position(const struct schedule *schedule, const struct owned *owned, uint64_t row)
{
    return position_of(schedule, owned->block, row);
}

/* ---- in full ---- */

static double *make_input(const struct problem *problem, enum input input, size_t heads)
{
    size_t width = heads * problem->shape.head_dim;
    double *data = memory_zeroed(problem->shape.rows * width, sizeof *data);
    for (size_t row = 0; row < problem->shape.rows; row++)
        input_row_double(problem->input->seed, input, row, 0, width, problem->dtype, data + row * width);
    return data;
}

/* Root mean square over rows and heads of sqrt(sum_k (dO_ik O_ik)^2): what rounding errors of delta are in units of. */
static double delta_terms(const struct problem *problem, const double *o, const double *d_o)
{
    size_t count = problem->shape.rows * problem->shape.q_heads * problem->shape.head_dim;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += o[i] * d_o[i] * o[i] * d_o[i];
    return sqrt(sum / (double)(problem->shape.rows * problem->shape.q_heads));
}

static void compare_rank(const struct problem *problem, uint32_t rank, const struct outputs *outputs,
                         double *const expected[OUTPUT_COUNT], const double floors[OUTPUT_COUNT])
{
    for (int t = 0; t < OUTPUT_ATTENTION_COUNT; t++) {
        if (!expected[t])
            continue;
        struct owned owned = problem_owned(problem, rank, output_is_of_keys((enum output)t));
        size_t head_width = problem_head_width(problem, (enum output)t), width = owned.heads * head_width;
        size_t whole_width = problem_row_width(problem, (enum output)t);
        for (uint64_t row = 0; row < owned.block.count && width > 0; row++) {
            uint64_t position = owned_position(problem->input->schedule, &owned, row);
            problem_compare(problem, (enum output)t, rank, position,
                            outputs->tensors[t] ? outputs->tensors[t] + row * width : NULL,
                            expected[t] + position * whole_width + owned.first_head * head_width, width, floors[t]);
        }
    }
}

/* O and LSE of the rows that have queries; 0 elsewhere. */
static void expect_forward(const struct problem *problem, const double *q, const double *k, const double *v, double *o,
                           double *lse)
{
    const struct reference_shape *shape = &problem->shape;
    size_t width = shape->q_heads * shape->head_dim;
    for (size_t row = problem->first_query; row < shape->rows; row++)
        reference_forward_row(shape, row, q + row * width, k, v, o + row * width, lse + row * shape->q_heads);
}

/* Of the rows that the ranks have between them. */
static double tensor_scale(const struct problem *problem, enum output output, const double *expected)
{
    size_t first = output_is_of_keys(output) ? 0 : problem->first_query, width = problem_row_width(problem, output);
    return root_mean_square(expected + first * width, (problem->shape.rows - first) * width);
}

static void check_in_full(const struct problem *problem)
{
    const struct reference_shape *shape = &problem->shape;
    double *q = make_input(problem, INPUT_Q, shape->q_heads), *k = make_input(problem, INPUT_K, shape->kv_heads);
    double *v = make_input(problem, INPUT_V, shape->kv_heads), *d_o = NULL;
    double *expected[OUTPUT_COUNT] = {0}, floors[OUTPUT_COUNT] = {0};
    for (int t = 0; t < OUTPUT_COUNT; t++)
        if (problem->out->tensors[t].present)
            expected[t] = memory_zeroed(shape->rows * problem_row_width(problem, (enum output)t), sizeof *expected[t]);
    expect_forward(problem, q, k, v, expected[OUTPUT_O], expected[OUTPUT_LSE]);
    if (problem->train) {
        d_o = make_input(problem, INPUT_DO, shape->q_heads);
        reference_backward(shape, q, k, v, expected[OUTPUT_O], expected[OUTPUT_LSE], d_o, expected[OUTPUT_DQ],
                           expected[OUTPUT_DK], expected[OUTPUT_DV]);
    }
    for (int t = 0; t < OUTPUT_COUNT; t++)
        if (expected[t])
            floors[t] = tensor_scale(problem, (enum output)t, expected[t]);
    if (problem->train) {
        double terms = shape->scale * delta_terms(problem, expected[OUTPUT_O], d_o);
        floors[OUTPUT_DQ] =
            fmax(floors[OUTPUT_DQ], terms * root_mean_square(k, shape->rows * shape->kv_heads * shape->head_dim));
        floors[OUTPUT_DK] =
            fmax(floors[OUTPUT_DK], terms * root_mean_square(q, shape->rows * shape->q_heads * shape->head_dim));
    }
    for (uint32_t r = 0; r < problem->input->n_ranks; r++)
        compare_rank(problem, problem->input->first_rank + r, &problem->input->outputs[r], expected, floors);
    double *all[] = {q, k, v, d_o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int t = 0; t < OUTPUT_COUNT; t++)
        free(expected[t]);
}

/* ---- both ---- */

void verify_ranks(const struct verify_input *input, struct verification *verification)
{
    const struct problem problem = problem_of(input, verification);
    if (input->sampled)
        verify_samples(&problem);
    else
        check_in_full(&problem);
}

float *verify_delta(const struct schedule *schedule, uint64_t seed, uint32_t rank, const float *o)
{
    const struct experiment *experiment = schedule->experiment;
    struct lanes lanes = schedule_query_lanes(schedule, rank);
    struct block block = schedule_queries(schedule, rank);
    size_t heads = (size_t)lanes.items * schedule->q_heads, dim = experiment->model.head_dim;
    size_t first = (size_t)lanes.item * schedule->q_heads * dim;
    float *delta = memory_zeroed(block.count * heads, sizeof *delta);
    double *d_o = memory_zeroed(heads * dim, sizeof *d_o);
    for (uint64_t row = 0; row < block.count; row++) {
        input_row_double(seed, INPUT_DO, position_of(schedule, block, row), first, heads * dim, experiment->dtype, d_o);
        for (size_t h = 0; h < heads; h++) {
            double sum = 0;
            for (size_t d = 0; d < dim; d++)
                sum += d_o[h * dim + d] * (double)o[(row * heads + h) * dim + d];
            delta[row * heads + h] = (float)sum;
        }
    }
    free(d_o);
    return delta;
}

/* ---- judging ---- */

void verification_join(struct verification *verification, const struct verification *other)
{
    for (int t = 0; t < OUTPUT_COUNT; t++) {
        struct tensor_check *mine = &verification->tensors[t];
        const struct tensor_check *its = &other->tensors[t];
        bool worse = its->non_finite ? !mine->non_finite : !mine->non_finite && its->max_error > mine->max_error;
        if (worse)
            check_note_worst(mine, its->rank, its->position);
        mine->max_error = fmax(mine->max_error, its->max_error);
        mine->values += its->values;
        mine->non_finite += its->non_finite;
        mine->wrong += its->wrong;
    }
}

/* What tensor_check.position counts. */
static const char *row_word(enum output output)
{
    return output_is_of_weight(output) ? "row" : "position";
}

bool verification_judge(struct verification *verification, struct diagnostics *diag)
{
    verification->passed = true;
    for (int t = 0; t < OUTPUT_COUNT; t++) {
        const struct tensor_check *check = &verification->tensors[t];
        if (!check->present || (check->non_finite == 0 && check->wrong == 0 && check->max_error <= check->tolerance))
            continue;
        verification->passed = false;
        if (check->non_finite)
            diagnostics_add(diag,
                            "verification failed: %s of rank %" PRIu32 ", %s %" PRIu64
                            " is not a finite number (%" PRIu64 " such values in all)",
                            output_name((enum output)t), check->rank, row_word((enum output)t), check->position,
                            check->non_finite);
        else
            diagnostics_add(diag,
                            "verification failed: %s of rank %" PRIu32 ", %s %" PRIu64
                            " is off by %.3g of its scale, expected at most %.3g (%" PRIu64 " of %" PRIu64
                            " values are beyond that)",
                            output_name((enum output)t), check->rank, row_word((enum output)t), check->position,
                            check->max_error, check->tolerance, check->wrong, check->values);
    }
    return verification->passed;
}

const char *check_kind_name(enum check_kind kind)
{
    static const char *const names[] = {"none", "full", "sampled"};
    return names[kind];
}
