/* kinds.c - see kinds.h. */
#include "models/result/kinds.h"

#include "models/input/step.h"

enum wait_kind wait_kind_of(enum traffic traffic)
{
    switch (traffic) {
    case TRAFFIC_TENSOR:
        return WAIT_TP;
    case TRAFFIC_WEIGHTS:
    case TRAFFIC_WEIGHT_GRADIENT:
        return WAIT_DP;
    case TRAFFIC_FORWARD_KV:
    case TRAFFIC_REPLAY_KV:
    case TRAFFIC_GRADIENT:
    case TRAFFIC_OTHER:
    case TRAFFIC_COUNT:
        break;
    }
    return WAIT_CP;
}

enum compute_part compute_part_of(const struct op *op)
{
    if (op_is_attention(op))
        return COMPUTE_ATTENTION;
    return op->kind == OP_PRODUCT ? COMPUTE_PRODUCTS : op->kind == OP_OPTIMIZE ? COMPUTE_OPTIMIZER : COMPUTE_OTHER;
}

bool op_is_recomputed(const struct program *program, uint32_t op)
{
    const struct op *what = &program->ops[op];
    if (program_phase(program, op) != PHASE_BACKWARD)
        return false;
    switch ((enum op_kind)what->kind) {
    case OP_ATTEND:
    case OP_MERGE:
    case OP_FINISH:
    case OP_SUM_LSE:
    case OP_CORRECT:
    case OP_TOP:
    case OP_RAISE:
    case OP_WEIGH:
    case OP_NORMALIZE:
    case OP_NORM:
    case OP_ACTIVATE:
        return true;
    case OP_PRODUCT: { /* the head's is never done again, but may be late, in chunks */
        const struct layer_work *work = program_work(program, what);
        return work->form == PRODUCT_OUTPUT && work->part != MODEL_HEAD && work->part != MODEL_EMBEDDING;
    }
    default:
        return false;
    }
}

const char *wait_kind_name(enum wait_kind kind)
{
    static const char *const names[WAIT_KINDS] = {"CP", "TP", "DP"};
    return names[kind];
}

const char *wait_kind_key(enum wait_kind kind)
{
    static const char *const keys[WAIT_KINDS] = {"cp", "tp", "dp"};
    return keys[kind];
}

const char *compute_part_name(enum compute_part part)
{
    static const char *const names[COMPUTE_PARTS] = {"attention", "products", "optimizer", "other"};
    return names[part];
}
