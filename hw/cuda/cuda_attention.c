/* cuda_attention.c - attention operations as calls of kernels/cuda/attention_cuda.h, in place, whatever part of its
 * buffers' lanes an operation is on. */
#include <assert.h>
#include <math.h>

#include "hw/cuda/cuda_masks.h"
#include "models/base/memory.h"

static struct cuda_strides strides_of(const struct operand_array *array)
{
    return (struct cuda_strides){array->row, array->item};
}

/* Room for the keys of the operation that is being queued. */
static void make_room(struct compute *cuda, size_t n_keys)
{
    if (n_keys <= cuda->key_capacity)
        return;
    cuda->keys = memory_resized(cuda->keys, n_keys, sizeof *cuda->keys);
    cuda->key_blocks = memory_resized(cuda->key_blocks, n_keys, sizeof *cuda->key_blocks);
    cuda->key_capacity = n_keys;
}

/* K and V of all buffers of keys, and where their gradients go; returns how many there are. */
static uint32_t find_keys(const struct cuda_action *action, enum dtype *dkv_dtype)
{
    struct compute *cuda = action->cuda;
    uint32_t n_keys = 0, n_gradients = 0;
    make_room(cuda, action->op->n_reads);
    for (uint32_t i = 0; i < action->op->n_reads; i++) {
        const struct operand *kv = &action->reads[i];
        if (kv->buffer->tensor != TENSOR_KV)
            continue;
        cuda->key_blocks[n_keys] = kv->block;
        cuda->keys[n_keys++] = (struct cuda_keys){.k = kv->arrays[0].first,
                                                  .v = kv->arrays[1].first,
                                                  .strides = strides_of(&kv->arrays[0]),
                                                  .rows = kv->block.count};
    }
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        const struct operand *dkv = &action->writes[i];
        if (dkv->buffer->tensor != TENSOR_DKV)
            continue;
        assert(n_gradients < n_keys);
        cuda->keys[n_gradients].dk = dkv->arrays[0].first;
        cuda->keys[n_gradients].dv = dkv->arrays[1].first;
        cuda->keys[n_gradients++].gradient = strides_of(&dkv->arrays[0]);
        *dkv_dtype = dkv->arrays[0].dtype;
    }
    assert(action->op->kind == OP_ATTEND || n_gradients == n_keys);
    return n_keys;
}

/* What both directions have in common: queries and keys. False when the backend has failed. */
static bool make_call(const struct cuda_action *action, struct cuda_call *call)
{
    const struct schedule *schedule = action->cuda->schedule;
    const struct experiment *experiment = schedule->experiment;
    const struct operand *q = cuda_read_of(action, TENSOR_Q);
    const struct lanes lanes = action->op->lanes, kv_lanes = schedule_kv_lanes(schedule, lanes);
    const uint32_t group = schedule->q_heads / schedule->kv_heads;
    *call = (struct cuda_call){
        .items = lanes.items,
        .q_heads = lanes.heads,
        .kv_heads = kv_lanes.heads,
        .head_dim = experiment->model.head_dim,
        .group = group,
        .group_offset = lanes.head - kv_lanes.head * group,
        .scale = (float)(1 / sqrt((double)experiment->model.head_dim)),
        .dtype = experiment->dtype,
        .rows = q->block.count,
        .q = q->arrays[0].first,
        .strides.q = strides_of(&q->arrays[0]),
    };
    const uint32_t n_keys = find_keys(action, &call->dkv_dtype);
    const struct cuda_key_list *list =
        cuda_masks_keys(action, q->block, action->cuda->key_blocks, action->cuda->keys, n_keys);
    if (!list)
        return false;
    call->keys = list->keys;
    call->device_keys = list->device_keys;
    call->n_keys = n_keys;
    return true;
}

static float *floats(const struct operand_array *array)
{
    assert(array->dtype == DTYPE_FP32);
    return (float *)(void *)array->first;
}

/* What the kernels write for themselves. False when the backend has failed. */
static bool take_workspace(const struct cuda_action *action, const struct kernel_family *family, bool backward,
                           struct cuda_call *call)
{
    const uint64_t bytes = family->workspace(call, backward);
    if (bytes)
        call->workspace = cuda_scratch_take(action, bytes);
    return bytes == 0 || call->workspace;
}

void cuda_attend(const struct cuda_action *action)
{
    struct compute *cuda = action->cuda;
    const struct operand *partial = cuda_write_of(action, TENSOR_PARTIAL);
    const struct operand_array *o = partial ? &partial->arrays[0] : &cuda_write_of(action, TENSOR_O)->arrays[0];
    const struct operand_array *lse = partial ? &partial->arrays[1] : &cuda_write_of(action, TENSOR_LSE)->arrays[0];
    struct cuda_call call;
    if (!make_call(action, &call))
        return;
    assert(o->dtype == call.dtype);
    call.strides.o = strides_of(o);
    call.strides.lse = strides_of(lse);
    if (!take_workspace(action, cuda->family, false, &call))
        return;
    CUDA_CHECK(cuda, cuda->family->forward(&call, o->first, floats(lse), action->stream), "queueing attention");
}

void cuda_attend_backward(const struct cuda_action *action)
{
    struct compute *cuda = action->cuda;
    const struct operand_array *d_o = &cuda_read_of(action, TENSOR_DO)->arrays[0];
    const struct operand_array *lse = &cuda_read_of(action, TENSOR_LSE)->arrays[0];
    const struct operand_array *delta = &cuda_read_of(action, TENSOR_DELTA)->arrays[0];
    const struct operand_array *dq = &cuda_write_of(action, TENSOR_DQ)->arrays[0];
    struct cuda_call call;
    if (!make_call(action, &call))
        return;
    assert(dq->dtype == call.dtype);
    call.strides.d_o = strides_of(d_o);
    call.strides.lse = strides_of(lse);
    call.strides.delta = strides_of(delta);
    call.strides.dq = strides_of(dq);
    if (!take_workspace(action, cuda->backward_family, true, &call))
        return;
    CUDA_CHECK(
        cuda, cuda->backward_family->backward(&call, d_o->first, floats(lse), floats(delta), dq->first, action->stream),
        "queueing the backward pass of attention");
}
