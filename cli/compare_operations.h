/* compare_operations.h - the operations that a run file holds when it was written with --operations, for timelines. */
#ifndef CPSIM_CLI_COMPARE_OPERATIONS_H
#define CPSIM_CLI_COMPARE_OPERATIONS_H

#include <stdint.h>

#include "cli/compare.h"

enum operation_class {
    OPERATION_ATTENTION,
    OPERATION_OTHER_COMPUTE,
    OPERATION_KV,
    OPERATION_GRADIENT,
    OPERATION_OTHER_TRAFFIC,
    /* of whole layers */
    OPERATION_PRODUCT,
    OPERATION_TENSOR,
    OPERATION_WEIGHTS,
    OPERATION_CLASSES,
};

static inline bool operation_computes(enum operation_class class)
{
    return class == OPERATION_ATTENTION || class == OPERATION_OTHER_COMPUTE || class == OPERATION_PRODUCT;
}

struct operation {
    uint32_t rank;
    enum operation_class class;
    double begin, end; /* seconds from the start of the step */
};

/* Of the first CP group, by rank, then by begin. */
struct operations {
    struct operation *items;
    size_t count;
    double end; /* of the last */
};

/* False, with a message each, when the run has none, or one that is not as operations_json.c writes it. */
bool operations_init(struct operations *operations, const struct compared_run *run, struct diagnostics *diag);
void operations_fini(struct operations *operations);

/* Whether timelines can be drawn: of one pair, both runs with operations. False with every reason. */
bool compare_check_timelines(const struct comparison *comparison, struct diagnostics *diag);

#endif
