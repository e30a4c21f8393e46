/* cuda_elements.c - operations on each number, or each lane of each row, alone: merges, corrections, sums.
 *
 * A merge or sum is the first one when the operation does not read its target.
 */
#include <assert.h>

#include "hw/cuda/compute_cuda.h"

/* Of the operation: that of its target. */
static struct cuda_extent extent_of(const struct cuda_action *action)
{
    return cuda_extent_of(&action->writes[0], action->cuda->schedule->experiment->model.head_dim);
}

/* Array `i` of an operand. */
static struct cuda_array array_of(const struct operand *operand, uint32_t i)
{
    assert(operand && i < operand->n_arrays);
    return cuda_array_of(&operand->arrays[i]);
}

static struct cuda_array read_array(const struct cuda_action *action, enum tensor tensor, uint32_t i)
{
    return array_of(cuda_read_of(action, tensor), i);
}

static struct cuda_array written_array(const struct cuda_action *action, enum tensor tensor, uint32_t i)
{
    return array_of(cuda_write_of(action, tensor), i);
}

static bool adds(const struct cuda_action *action, const struct operand *target)
{
    for (uint32_t r = 0; r < action->op->n_reads; r++)
        if (action->reads[r].buffer == target->buffer)
            return true;
    return false;
}

/* ---- the online softmax state: a, m, l ---- */

static int merge(const struct cuda_action *action)
{
    const struct operand *part = cuda_read_of(action, TENSOR_PARTIAL), *state = cuda_write_of(action, TENSOR_STATE);
    return cuda_merge(extent_of(action), array_of(part, 0), array_of(part, 1), array_of(state, 0), array_of(state, 1),
                      array_of(state, 2), !cuda_read_of(action, TENSOR_STATE), action->stream);
}

static int finish(const struct cuda_action *action)
{
    const struct operand *state = cuda_read_of(action, TENSOR_STATE);
    return cuda_finish(extent_of(action), array_of(state, 0), array_of(state, 1), array_of(state, 2),
                       written_array(action, TENSOR_O, 0), written_array(action, TENSOR_LSE, 0), action->stream);
}

/* ---- parts corrected by the LSE of all ---- */

static int sum_lse(const struct cuda_action *action)
{
    return cuda_sum_lse(cuda_extent_of(&action->writes[0], 1), read_array(action, TENSOR_PARTIAL, 1),
                        written_array(action, TENSOR_LSE, 0), !cuda_read_of(action, TENSOR_LSE), action->stream);
}

static int correct(const struct cuda_action *action)
{
    const struct operand *part = cuda_read_of(action, TENSOR_PARTIAL);
    return cuda_correct(extent_of(action), array_of(part, 0), array_of(part, 1), read_array(action, TENSOR_LSE, 0),
                        written_array(action, TENSOR_O, 0), !cuda_read_of(action, TENSOR_O), action->stream);
}

/* ---- parts weighed against the largest LSE, summed, divided ---- */

static int top(const struct cuda_action *action)
{
    return cuda_accumulate(cuda_extent_of(&action->writes[0], 1), written_array(action, TENSOR_TOP, 0),
                           read_array(action, TENSOR_PARTIAL, 1), true, action->stream);
}

static int raise(const struct cuda_action *action)
{
    return cuda_raise(cuda_extent_of(&action->writes[0], 1), array_of(&action->reads[0], 0),
                      array_of(&action->writes[0], 0), action->stream);
}

static int weigh(const struct cuda_action *action)
{
    const struct operand *part = cuda_read_of(action, TENSOR_PARTIAL);
    return cuda_weigh(extent_of(action), array_of(part, 0), array_of(part, 1), read_array(action, TENSOR_TOP, 0),
                      written_array(action, TENSOR_NUMERATOR, 0), written_array(action, TENSOR_DENOMINATOR, 0),
                      action->stream);
}

static int normalize(const struct cuda_action *action)
{
    return cuda_normalize(extent_of(action), read_array(action, TENSOR_NUMERATOR, 0),
                          read_array(action, TENSOR_DENOMINATOR, 0), read_array(action, TENSOR_TOP, 0),
                          written_array(action, TENSOR_O, 0), written_array(action, TENSOR_LSE, 0), action->stream);
}

/* ---- gradients ---- */

static int delta(const struct cuda_action *action)
{
    return cuda_delta(extent_of(action), read_array(action, TENSOR_O, 0), read_array(action, TENSOR_DO, 0),
                      written_array(action, TENSOR_DELTA, 0), action->stream);
}

int cuda_sum(const struct operand *target, const struct operand *source, bool first, void *stream)
{
    int error = 0;
    for (uint32_t a = 0; a < target->n_arrays && !error; a++) {
        assert(target->arrays[a].width == source->arrays[a].width);
        error = cuda_accumulate(cuda_extent_of(target, target->arrays[a].width), cuda_array_of(&target->arrays[a]),
                                cuda_array_of(&source->arrays[a]), first, stream);
    }
    return error;
}

/* The i-th target from the i-th source. A cast is a sum that does not read its target. */
static int accumulate(const struct cuda_action *action)
{
    int error = 0;
    for (uint32_t i = 0; i < action->op->n_writes && !error; i++)
        error = cuda_sum(&action->writes[i], &action->reads[i], !adds(action, &action->writes[i]), action->stream);
    return error;
}

void cuda_elements(const struct cuda_action *action)
{
    static const struct {
        int (*queue)(const struct cuda_action *action);
        const char *what;
    } steps[OP_KIND_COUNT] = {
        [OP_MERGE] = {merge, "queueing a merge"},
        [OP_FINISH] = {finish, "queueing the end of a softmax"},
        [OP_DELTA] = {delta, "queueing delta"},
        [OP_ACCUMULATE] = {accumulate, "queueing a sum"},
        [OP_CAST] = {accumulate, "queueing a cast"},
        [OP_SUM_LSE] = {sum_lse, "queueing a sum of LSE"},
        [OP_TOP] = {top, "queueing a copy of LSE"},
        [OP_CORRECT] = {correct, "queueing a correction"},
        [OP_RAISE] = {raise, "queueing a maximum"},
        [OP_WEIGH] = {weigh, "queueing weights"},
        [OP_NORMALIZE] = {normalize, "queueing a division"},
    };
    assert(steps[action->op->kind].queue);
    CUDA_CHECK(action->cuda, steps[action->op->kind].queue(action), steps[action->op->kind].what);
}
