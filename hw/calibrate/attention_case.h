/* attention_case.h - a block of attention on made-up numbers, to be timed. */
#ifndef CPSIM_HW_CALIBRATE_ATTENTION_CASE_H
#define CPSIM_HW_CALIBRATE_ATTENTION_CASE_H

#include "hw/calibrate/calibrate.h"
#include "kernels/attention.h"

/* Whose rows a block's are: one shard's of made-up positions. */
struct block_shape {
    struct mask mask;
    struct span queries, keys;
};

/* Counts the block's pairs too. */
struct block_shape block_shape_of(struct measured_block *block);

/* Tensors for blocks up to some size, of one dtype. */
struct attention_case {
    enum dtype dtype;
    uint32_t head_dim;
    void *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
    float *lse, *delta;
    struct block_shape shape;
    struct attention_keys keys;
    struct attention_call call;
};

/* `elements` of the largest of queries x heads x head_dim and keys x kv_heads x head_dim; `rows` of queries x heads. */
void attention_case_init(struct attention_case *c, enum dtype dtype, uint32_t head_dim, size_t elements, size_t rows);
void attention_case_fini(struct attention_case *c);

/* Makes the call that of `block`, and counts its pairs. */
void attention_case_set(struct attention_case *c, struct measured_block *block);
void attention_case_run(struct attention_case *c, enum attention_pass pass);

#endif
