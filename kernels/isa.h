/* isa.h - what each instruction set's object provides; attention.c chooses one; it and product.c check the arguments.
 */
#ifndef CPSIM_KERNELS_ISA_H
#define CPSIM_KERNELS_ISA_H

#include "kernels/attention.h"
#include "kernels/product.h"

struct isa_kernels {
    const char *name;
    void (*forward)(const struct attention_call *call, void *o, float *lse);
    void (*backward)(const struct attention_call *call, const void *d_o, const float *lse, const float *delta,
                     void *dq);
    void (*merge)(size_t rows, size_t head_dim, enum dtype dtype, const void *o, const float *lse, float *a, float *m,
                  float *l, bool first);
    void (*finish)(size_t rows, size_t head_dim, enum dtype dtype, const float *a, const float *m, const float *l,
                   void *o, float *lse);
    void (*delta)(size_t rows, size_t head_dim, enum dtype dtype, const void *o, const void *d_o, float *delta);
    void (*accumulate)(size_t count, enum dtype target_dtype, void *target, enum dtype source_dtype, const void *source,
                       bool first);
    void (*correct)(size_t rows, size_t head_dim, enum dtype part_dtype, const void *part, const float *part_lse,
                    const float *lse, enum dtype o_dtype, void *o, bool first);
    void (*weigh)(size_t rows, size_t head_dim, enum dtype part_dtype, const void *part, const float *part_lse,
                  const float *top, enum dtype numerator_dtype, void *numerator, float *denominator);
    void (*normalize)(size_t rows, size_t head_dim, enum dtype numerator_dtype, const void *numerator,
                      const float *denominator, const float *top, enum dtype o_dtype, void *o, float *lse);
    void (*multiply)(const struct product_call *call); /* with all strides given */
    size_t tile_rows, tile_columns;                    /* of its register tile */
};

/* The one that attention_use chose, or the best that this CPU has. */
const struct isa_kernels *isa_in_use(void);

extern const struct isa_kernels isa_baseline;
#ifdef __x86_64__
extern const struct isa_kernels isa_avx2, isa_avx512;
#endif

#endif
