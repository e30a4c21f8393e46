/* attention_case.c - tensors and positions of a block, cut from one shard of made-up rows. */
#include "hw/calibrate/attention_case.h"

#include <math.h>
#include <stdlib.h>

#include "hw/verify/inputs.h"
#include "models/base/memory.h"
#include "models/schedule/mask.h"

static void *tensor(enum dtype dtype, size_t count)
{
    void *numbers = memory_zeroed(count, dtype_bytes(dtype));
    input_row(1, INPUT_Q, 0, 0, count, dtype, numbers);
    return numbers;
}

void attention_case_init(struct attention_case *c, enum dtype dtype, uint32_t head_dim, size_t elements, size_t rows)
{
    *c = (struct attention_case){.dtype = dtype, .head_dim = head_dim};
    void **tensors[] = {&c->q, &c->k, &c->v, &c->o, &c->d_o, &c->dq, &c->dk, &c->dv};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        *tensors[i] = tensor(dtype, elements);
    c->lse = tensor(DTYPE_FP32, rows);
    c->delta = tensor(DTYPE_FP32, rows);
}

void attention_case_fini(struct attention_case *c)
{
    void *const tensors[] = {c->q, c->k, c->v, c->o, c->d_o, c->dq, c->dk, c->dv, c->lse, c->delta};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        free(tensors[i]);
}

struct block_shape block_shape_of(struct measured_block *block)
{
    bool striped = block->kind == BLOCK_STRIPED;
    bool causal = block->kind == BLOCK_CAUSAL || striped;
    uint64_t longest = block->queries > block->keys ? block->queries : block->keys;
    const struct block_shape shape = {
        .mask = {.kind = causal ? MASK_CAUSAL : MASK_FULL, .seq_len = 2 * longest},
        .queries = {striped ? 1 : 0, striped ? 2 : 1, block->queries},
        .keys = {0, striped ? 2 : 1, block->keys},
    };
    block->pairs = (double)mask_pairs(&shape.mask, shape.queries, shape.keys);
    return shape;
}

void attention_case_set(struct attention_case *c, struct measured_block *block)
{
    c->shape = block_shape_of(block);
    c->keys = (struct attention_keys){.positions = {.spans = {c->shape.keys}, .n_spans = 1, .rows = block->keys},
                                      .k = c->k,
                                      .v = c->v,
                                      .dk = c->dk,
                                      .dv = c->dv};
    c->call = (struct attention_call){.mask = &c->shape.mask,
                                      .batch = 1,
                                      .q_heads = block->heads,
                                      .kv_heads = block->kv_heads,
                                      .head_dim = c->head_dim,
                                      .scale = (float)(1 / sqrt((double)c->head_dim)),
                                      .dtype = c->dtype,
                                      .dkv_dtype = c->dtype,
                                      .queries = {.spans = {c->shape.queries}, .n_spans = 1, .rows = block->queries},
                                      .q = c->q,
                                      .keys = &c->keys,
                                      .n_keys = 1};
}

void attention_case_run(struct attention_case *c, enum attention_pass pass)
{
    if (pass == PASS_FORWARD)
        attention_forward(&c->call, c->o, c->lse);
    else
        attention_backward(&c->call, c->d_o, c->lse, c->delta, c->dq);
}
