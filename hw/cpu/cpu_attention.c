/* cpu_attention.c - attention operations as calls of kernels/attention.h, in place, whatever part of its buffers' lanes
 * an operation is on. */
#include <assert.h>
#include <math.h>

#include "hw/cpu/cpu_action.h"

static struct attention_rows rows_of(const struct action *action, struct block block)
{
    struct attention_rows rows = {.rows = block.count};
    rows.n_spans = sharding_block_spans(&action->schedule->sharding, block, rows.spans);
    return rows;
}

static struct attention_strides strides_of(const struct operand_array *array)
{
    return (struct attention_strides){array->row, array->item};
}

/* What both directions have in common: queries and keys. */
static struct attention_call call_of(const struct action *action)
{
    const struct schedule *schedule = action->schedule;
    const struct experiment *experiment = schedule->experiment;
    const struct operand *q = action_read(action, TENSOR_Q);
    const struct lanes lanes = action->op->lanes, kv_lanes = schedule_kv_lanes(schedule, lanes);
    const uint32_t group = schedule->q_heads / schedule->kv_heads;
    size_t n_keys = 0;
    for (uint32_t i = 0; i < action->op->n_reads; i++) {
        const struct operand *kv = &action->reads[i];
        if (kv->buffer->tensor == TENSOR_KV)
            action->keys[n_keys++] = (struct attention_keys){.positions = rows_of(action, kv->block),
                                                             .k = kv->arrays[0].first,
                                                             .v = kv->arrays[1].first,
                                                             .strides = strides_of(&kv->arrays[0])};
    }
    return (struct attention_call){
        .mask = &experiment->mask,
        .batch = lanes.items,
        .q_heads = lanes.heads,
        .kv_heads = kv_lanes.heads,
        .head_dim = experiment->model.head_dim,
        .group = group,
        .group_offset = lanes.head - kv_lanes.head * group,
        .scale = (float)(1 / sqrt((double)experiment->model.head_dim)),
        .dtype = experiment->dtype,
        .queries = rows_of(action, q->block),
        .q = q->arrays[0].first,
        .strides.q = strides_of(&q->arrays[0]),
        .keys = action->keys,
        .n_keys = n_keys,
        .between_tiles = action->between_tiles ? action->between_tiles->call : NULL,
        .between_tiles_context = action->between_tiles ? action->between_tiles->context : NULL,
    };
}

static float *floats(const struct operand_array *array)
{
    assert(array->dtype == DTYPE_FP32);
    return (float *)(void *)array->first;
}

void cpu_attend(const struct action *action)
{
    struct attention_call call = call_of(action);
    const struct operand *partial = action_write(action, TENSOR_PARTIAL);
    const struct operand_array *o = partial ? &partial->arrays[0] : &action_write(action, TENSOR_O)->arrays[0];
    const struct operand_array *lse = partial ? &partial->arrays[1] : &action_write(action, TENSOR_LSE)->arrays[0];
    assert(o->dtype == call.dtype);
    call.strides.o = strides_of(o);
    call.strides.lse = strides_of(lse);
    attention_forward(&call, o->first, floats(lse));
}

void cpu_attend_backward(const struct action *action)
{
    struct attention_call call = call_of(action);
    size_t n_keys = 0;
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        const struct operand *dkv = &action->writes[i];
        if (dkv->buffer->tensor != TENSOR_DKV)
            continue;
        assert(n_keys < call.n_keys);
        action->keys[n_keys].dk = dkv->arrays[0].first;
        action->keys[n_keys].dv = dkv->arrays[1].first;
        action->keys[n_keys++].gradient = strides_of(&dkv->arrays[0]);
        call.dkv_dtype = dkv->arrays[0].dtype;
    }
    const struct operand_array *d_o = &action_read(action, TENSOR_DO)->arrays[0];
    const struct operand_array *lse = &action_read(action, TENSOR_LSE)->arrays[0];
    const struct operand_array *delta = &action_read(action, TENSOR_DELTA)->arrays[0];
    const struct operand_array *dq = &action_write(action, TENSOR_DQ)->arrays[0];
    assert(dq->dtype == call.dtype && n_keys == call.n_keys);
    call.strides.d_o = strides_of(d_o);
    call.strides.lse = strides_of(lse);
    call.strides.delta = strides_of(delta);
    call.strides.dq = strides_of(dq);
    attention_backward(&call, d_o->first, floats(lse), floats(delta), dq->first);
}
