/* compute_cuda.h - what the files of the backend 'cuda' share; for them only (hw/cuda). */
#ifndef CPSIM_HW_CUDA_COMPUTE_CUDA_H
#define CPSIM_HW_CUDA_COMPUTE_CUDA_H

#include "hw/compute.h"
#include "hw/operand.h"
#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/runtime.h"

struct cuda_masks;   /* what queries see of keys, of each attention operation: on the device (cuda_masks.h) */
struct cuda_scratch; /* what operations write for themselves alone (cuda_scratch.c) */

struct compute {
    const struct schedule *schedule;
    uint32_t rank;
    struct compute_settings settings;
    const struct kernel_family *family, *backward_family; /* the second another one where asked for the same bits */
    void *streams[STREAM_COUNT];
    char *failure; /* the first, or NULL */
    struct cuda_block {
        void *memory;
        uint64_t bytes;
    } * blocks, *spares; /* in use; given back and kept, for to free memory a device stops */
    size_t n_blocks, block_capacity, n_spares, spare_capacity;
    void *graph;
    struct operand_list operands; /* of the operation that is being queued */
    struct cuda_keys *keys;       /* of the attention operation that is being queued, and their blocks */
    struct block *key_blocks;
    size_t key_capacity;
    struct cuda_masks *masks;
    struct cuda_scratch *scratch;
};

/* Notes the first failure of a call, `what` being done there; false if there was one. */
bool cuda_check(struct compute *cuda, int error, const char *file, int line, const char *what);
#define CUDA_CHECK(cuda, call, what) cuda_check(cuda, call, __FILE__, __LINE__, what)

/* One operation that is being queued. */
struct cuda_action {
    struct compute *cuda;
    const struct program *program;
    const struct op *op;
    uint32_t index; /* of op */
    void *const *memory;
    void *stream;
    const struct operand *reads, *writes; /* op->n_reads, op->n_writes of them */
};

/* The first operand of a tensor; NULL if there is none. */
static inline const struct operand *cuda_read_of(const struct cuda_action *action, enum tensor tensor)
{
    return operand_find(action->reads, action->op->n_reads, tensor);
}

static inline const struct operand *cuda_write_of(const struct cuda_action *action, enum tensor tensor)
{
    return operand_find(action->writes, action->op->n_writes, tensor);
}

/* An operand as the kernels take it. */
static inline struct cuda_array cuda_array_of(const struct operand_array *array)
{
    return (struct cuda_array){array->first, {array->row, array->item}, array->dtype};
}

static inline struct cuda_extent cuda_extent_of(const struct operand *operand, uint32_t dim)
{
    return (struct cuda_extent){operand->block.count, operand->lanes.items, operand->lanes.heads, dim};
}

/* Queues target = source, or += source unless `first`, array by array; returns a CUDA error number, or 0. */
int cuda_sum(const struct operand *target, const struct operand *source, bool first, void *stream);

void cuda_attend(const struct cuda_action *action);
void cuda_attend_backward(const struct cuda_action *action);
void cuda_elements(const struct cuda_action *action);
void cuda_layout_copy(const struct cuda_action *action);
void cuda_masks_free(struct compute *cuda);

/* Memory for what an operation writes for itself alone: until the next operation of its stream takes some. NULL when
 * the backend has failed. */
void *cuda_scratch_take(const struct cuda_action *action, uint64_t bytes);
void cuda_scratch_free(struct compute *cuda);

#endif
