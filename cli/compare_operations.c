/* compare_operations.c - reads back what operations_json.c writes, and sorts it by what a timeline shows. */
#include "cli/compare_operations.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/program.h"

static bool is(const json_t *value, const char *expected)
{
    const char *text = json_string_value(value);
    return text && strcmp(text, expected) == 0;
}

static enum operation_class class_of(const json_t *json)
{
    const json_t *kind = json_object_get(json, "kind"), *traffic = json_object_get(json, "traffic");
    if (is(kind, op_kind_name(OP_ATTEND)) || is(kind, op_kind_name(OP_ATTEND_BACKWARD)))
        return OPERATION_ATTENTION;
    if (is(kind, op_kind_name(OP_PRODUCT)))
        return OPERATION_PRODUCT;
    if (!is(kind, op_kind_name(OP_SEND)) && !is(kind, op_kind_name(OP_RECEIVE)))
        return OPERATION_OTHER_COMPUTE;
    if (is(traffic, traffic_name(TRAFFIC_FORWARD_KV)) || is(traffic, traffic_name(TRAFFIC_REPLAY_KV)))
        return OPERATION_KV;
    if (is(traffic, traffic_name(TRAFFIC_TENSOR)))
        return OPERATION_TENSOR;
    if (is(traffic, traffic_name(TRAFFIC_WEIGHTS)) || is(traffic, traffic_name(TRAFFIC_WEIGHT_GRADIENT)))
        return OPERATION_WEIGHTS;
    return is(traffic, traffic_name(TRAFFIC_GRADIENT)) ? OPERATION_GRADIENT : OPERATION_OTHER_TRAFFIC;
}

static bool read_operation(const json_t *json, struct operation *operation)
{
    const json_t *rank = json_object_get(json, "rank"), *begin = json_object_get(json, "begin"),
                 *end = json_object_get(json, "end");
    if (!json_is_integer(rank) || json_integer_value(rank) < 0 || json_integer_value(rank) > UINT32_MAX ||
        !json_is_number(begin) || !json_is_number(end) || !json_is_string(json_object_get(json, "kind")))
        return false;
    enum operation_class class = class_of(json);
    const json_t *move = json_object_get(json, "move");
    if (operation_computes(class) && json_is_number(move))
        begin = move; /* until then its kernel waited for another one */
    *operation =
        (struct operation){(uint32_t)json_integer_value(rank), class, json_number_value(begin), json_number_value(end)};
    return operation->begin >= 0 && operation->end >= operation->begin;
}

static int compare_operations(const void *left, const void *right)
{
    const struct operation *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

bool operations_init(struct operations *operations, const struct compared_run *run, struct diagnostics *diag)
{
    const json_t *array = json_object_get(run->json, "operations");
    *operations = (struct operations){.items = memory_zeroed(json_array_size(array), sizeof *operations->items)};
    if (!json_is_array(array) || json_array_size(array) == 0)
        return diagnostics_add(diag,
                               "'%s' holds no operations, which timelines are drawn from: write its --json together "
                               "with --operations",
                               run->label);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        struct operation *operation = &operations->items[operations->count];
        if (!read_operation(item, operation))
            return diagnostics_add(
                diag, "'%s': operation %zu is not {rank, kind, begin, end} with 0 <= begin <= end (seconds)",
                run->label, i + 1);
        if (json_integer_value(json_object_get(item, "group")) != 0)
            continue;
        operations->count++;
        operations->end = operation->end > operations->end ? operation->end : operations->end;
    }
    qsort(operations->items, operations->count, sizeof *operations->items, compare_operations);
    return true;
}

void operations_fini(struct operations *operations)
{
    free(operations->items);
}

bool compare_check_timelines(const struct comparison *comparison, struct diagnostics *diag)
{
    if (comparison->n_pairs != 1)
        return diagnostics_add(diag, "timelines are drawn of one pair, here are %zu: give two files of one run each",
                               comparison->n_pairs);
    const struct compared_run *const runs[] = {comparison->pairs[0].subject, comparison->pairs[0].reference};
    bool fine = true;
    for (int i = 0; i < 2; i++) {
        struct operations operations;
        if (json_object_get(json_object_get(runs[i]->json, "step"), "accumulating_pass_seconds"))
            fine = diagnostics_add(diag,
                                   "'%s' is of several micro-batches, of which it holds the last one's operations: "
                                   "timelines are drawn of runs with micro_batches = 1",
                                   runs[i]->label);
        fine &= operations_init(&operations, runs[i], diag);
        operations_fini(&operations);
    }
    return fine;
}
