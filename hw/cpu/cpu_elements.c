/* cpu_elements.c - operations on each number, or each lane of each row, alone: merges, corrections, sums.
 *
 * A merge or sum is the first one when the operation does not read its target.
 */
#include <assert.h>

#include "hw/cpu/cpu_action.h"

/* The arrays of an operation side by side, and what its runs of lanes need to know. */
struct work {
    const struct operand_array *arrays[WALK_ARRAYS_MAX];
    size_t n;
    size_t dim;
    bool first;
};

/* Appends the operand's arrays from `from` on. */
static void add(struct work *work, const struct operand *operand, uint32_t from)
{
    assert(operand);
    for (uint32_t a = from; a < operand->n_arrays; a++) {
        assert(work->n < WALK_ARRAYS_MAX);
        work->arrays[work->n++] = &operand->arrays[a];
    }
}

static void walk(const struct action *action, struct work *work,
                 void (*visit)(const void *context, void *const *at, size_t lanes))
{
    work->dim = action->schedule->experiment->model.head_dim;
    lanes_walk(operand_extent(&action->writes[0]), work->arrays, work->n, visit, work);
}

/* ---- the online softmax state: arrays O, LSE of the part; a, m, l ---- */

static void merge_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_merge(lanes, 1, work->dim, work->arrays[0]->dtype, at[0], at[1], at[2], at[3], at[4], work->first);
}

static void merge(const struct action *action)
{
    struct work work = {.first = !action_read(action, TENSOR_STATE)};
    add(&work, action_read(action, TENSOR_PARTIAL), 0);
    add(&work, action_write(action, TENSOR_STATE), 0);
    walk(action, &work, merge_run);
}

static void finish_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_finish(lanes, 1, work->dim, work->arrays[3]->dtype, at[0], at[1], at[2], at[3], at[4]);
}

static void finish(const struct action *action)
{
    struct work work = {.n = 0};
    add(&work, action_read(action, TENSOR_STATE), 0);
    add(&work, action_write(action, TENSOR_O), 0);
    add(&work, action_write(action, TENSOR_LSE), 0);
    walk(action, &work, finish_run);
}

/* ---- parts corrected by the LSE of all ---- */

static void sum_lse_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_sum_lse(lanes, at[0], at[1], work->first);
}

static void sum_lse(const struct action *action)
{
    struct work work = {.first = !action_read(action, TENSOR_LSE)};
    add(&work, action_read(action, TENSOR_PARTIAL), 1);
    add(&work, action_write(action, TENSOR_LSE), 0);
    walk(action, &work, sum_lse_run);
}

static void correct_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_correct(lanes, 1, work->dim, work->arrays[0]->dtype, at[0], at[1], at[2], work->arrays[3]->dtype, at[3],
                      work->first);
}

static void correct(const struct action *action)
{
    struct work work = {.first = !action_read(action, TENSOR_O)};
    add(&work, action_read(action, TENSOR_PARTIAL), 0);
    add(&work, action_read(action, TENSOR_LSE), 0);
    add(&work, action_write(action, TENSOR_O), 0);
    walk(action, &work, correct_run);
}

/* ---- parts weighed against the largest LSE, summed, divided ---- */

static void top(const struct action *action)
{
    lanes_sum(operand_extent(&action->writes[0]), &action_write(action, TENSOR_TOP)->arrays[0],
              &action_read(action, TENSOR_PARTIAL)->arrays[1], false);
}

static void raise_run(const void *context, void *const *at, size_t lanes)
{
    (void)context;
    attention_raise(lanes, at[0], at[1]);
}

static void raise(const struct action *action)
{
    struct work work = {.n = 0};
    add(&work, &action->reads[0], 0);
    add(&work, &action->writes[0], 0);
    walk(action, &work, raise_run);
}

static void weigh_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_weigh(lanes, 1, work->dim, work->arrays[0]->dtype, at[0], at[1], at[2], work->arrays[3]->dtype, at[3],
                    at[4]);
}

static void weigh(const struct action *action)
{
    struct work work = {.n = 0};
    add(&work, action_read(action, TENSOR_PARTIAL), 0);
    add(&work, action_read(action, TENSOR_TOP), 0);
    add(&work, action_write(action, TENSOR_NUMERATOR), 0);
    add(&work, action_write(action, TENSOR_DENOMINATOR), 0);
    walk(action, &work, weigh_run);
}

static void normalize_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_normalize(lanes, 1, work->dim, work->arrays[0]->dtype, at[0], at[1], at[2], work->arrays[3]->dtype, at[3],
                        at[4]);
}

static void normalize(const struct action *action)
{
    struct work work = {.n = 0};
    add(&work, action_read(action, TENSOR_NUMERATOR), 0);
    add(&work, action_read(action, TENSOR_DENOMINATOR), 0);
    add(&work, action_read(action, TENSOR_TOP), 0);
    add(&work, action_write(action, TENSOR_O), 0);
    add(&work, action_write(action, TENSOR_LSE), 0);
    walk(action, &work, normalize_run);
}

/* ---- gradients ---- */

static void delta_run(const void *context, void *const *at, size_t lanes)
{
    const struct work *work = context;
    attention_delta(lanes, 1, work->dim, work->arrays[0]->dtype, at[0], at[1], at[2]);
}

static void delta(const struct action *action)
{
    struct work work = {.n = 0};
    add(&work, action_read(action, TENSOR_O), 0);
    add(&work, action_read(action, TENSOR_DO), 0);
    add(&work, action_write(action, TENSOR_DELTA), 0);
    walk(action, &work, delta_run);
}

/* The i-th target from the i-th source. A cast is a sum that does not read its target. */
static void accumulate(const struct action *action)
{
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        const struct operand *source = &action->reads[i], *target = &action->writes[i];
        for (uint32_t a = 0; a < target->n_arrays; a++)
            lanes_sum(operand_extent(target), &target->arrays[a], &source->arrays[a], action_adds(action, i));
    }
}

void cpu_elements(const struct action *action)
{
    static void (*const functions[OP_KIND_COUNT])(const struct action *action) = {
        [OP_MERGE] = merge,
        [OP_FINISH] = finish,
        [OP_DELTA] = delta,
        [OP_ACCUMULATE] = accumulate,
        [OP_CAST] = accumulate,
        [OP_SUM_LSE] = sum_lse,
        [OP_TOP] = top,
        [OP_CORRECT] = correct,
        [OP_RAISE] = raise,
        [OP_WEIGH] = weigh,
        [OP_NORMALIZE] = normalize,
    };
    assert(functions[action->op->kind]);
    functions[action->op->kind](action);
}
