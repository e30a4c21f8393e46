/* elementwise.h - what is done to each element once, at the speed of memory: merge, finish, delta, accumulate.
 *
 * A row here is one position of one head. `dtype` is a constant in each ..._of function, so that its branches vanish.
 */

/* Vector at dim `d` of `count` numbers at `p`: whole, or the last ones. */
INLINE vec load_at(enum dtype dtype, const void *p, size_t d, size_t count)
{
    const void *from = element_at(dtype, p, d);
    return count - d < LANES ? vec_load_some(dtype, from, count - d) : vec_load_elements(dtype, from);
}

INLINE void store_at(enum dtype dtype, void *p, size_t d, size_t count, vec v)
{
    void *to = element_to(dtype, p, d);
    if (count - d < LANES)
        vec_store_some(dtype, to, v, count - d);
    else
        vec_store_elements(dtype, to, v);
}

/* a = a * keep + o * take; with keep 0, a is not read. */
INLINE void merge_row(enum dtype dtype, size_t dim, const void *o, float keep, float take, float *a)
{
    for (size_t d = 0; d < dim; d += LANES) {
        vec v = load_at(dtype, o, d, dim) * take;
        if (keep != 0)
            v += load_at(DTYPE_FP32, a, d, dim) * keep;
        store_at(DTYPE_FP32, a, d, dim, v);
    }
}

INLINE void merge_of(enum dtype dtype, size_t rows, size_t dim, const void *o, const float *lse, float *a, float *m,
                     float *l, bool first)
{
    for (size_t row = 0; row < rows; row++) {
        const void *o_row = element_at(dtype, o, row * dim);
        float *a_row = a + row * dim;
        if (lse[row] == -INFINITY) { /* neutral, whatever is there */
            if (first) {
                memset(a_row, 0, dim * sizeof *a_row);
                m[row] = -INFINITY;
                l[row] = 0;
            }
        } else if (first) {
            merge_row(dtype, dim, o_row, 0, 1, a_row);
            m[row] = lse[row];
            l[row] = 1;
        } else {
            const float max = lse[row] > m[row] ? lse[row] : m[row];
            const float keep = expf(m[row] - max), take = expf(lse[row] - max);
            merge_row(dtype, dim, o_row, keep, take, a_row);
            m[row] = max;
            l[row] = l[row] * keep + take;
        }
    }
}

static void merge(size_t rows, size_t dim, enum dtype dtype, const void *o, const float *lse, float *a, float *m,
                  float *l, bool first)
{
    if (dtype == DTYPE_FP32)
        merge_of(DTYPE_FP32, rows, dim, o, lse, a, m, l, first);
    else
        merge_of(DTYPE_BF16, rows, dim, o, lse, a, m, l, first);
}

INLINE void finish_of(enum dtype dtype, size_t rows, size_t dim, const float *a, const float *m, const float *l,
                      void *o, float *lse)
{
    for (size_t row = 0; row < rows; row++) {
        const bool empty = l[row] == 0;
        const float factor = empty ? 0 : 1 / l[row];
        for (size_t d = 0; d < dim; d += LANES)
            store_at(dtype, element_to(dtype, o, row * dim), d, dim,
                     empty ? vec_all(0) : load_at(DTYPE_FP32, a + row * dim, d, dim) * factor);
        lse[row] = empty ? -INFINITY : m[row] + logf(l[row]);
    }
}

static void finish(size_t rows, size_t dim, enum dtype dtype, const float *a, const float *m, const float *l, void *o,
                   float *lse)
{
    if (dtype == DTYPE_FP32)
        finish_of(DTYPE_FP32, rows, dim, a, m, l, o, lse);
    else
        finish_of(DTYPE_BF16, rows, dim, a, m, l, o, lse);
}

INLINE void delta_of(enum dtype dtype, size_t rows, size_t dim, const void *o, const void *d_o, float *delta)
{
    for (size_t row = 0; row < rows; row++) {
        vec sum = vec_all(0);
        for (size_t d = 0; d < dim; d += LANES)
            sum += load_at(dtype, element_at(dtype, o, row * dim), d, dim) *
                   load_at(dtype, element_at(dtype, d_o, row * dim), d, dim);
        delta[row] = vec_sum(sum);
    }
}

static void delta_of_rows(size_t rows, size_t dim, enum dtype dtype, const void *o, const void *d_o, float *delta)
{
    if (dtype == DTYPE_FP32)
        delta_of(DTYPE_FP32, rows, dim, o, d_o, delta);
    else
        delta_of(DTYPE_BF16, rows, dim, o, d_o, delta);
}

INLINE void accumulate_of(size_t count, enum dtype to, void *target, enum dtype from, const void *source, bool first)
{
    for (size_t i = 0; i < count; i += LANES) {
        vec v = load_at(from, source, i, count);
        if (!first)
            v += load_at(to, target, i, count);
        store_at(to, target, i, count, v);
    }
}

static void accumulate(size_t count, enum dtype to, void *target, enum dtype from, const void *source, bool first)
{
    if (to == DTYPE_FP32 && from == DTYPE_FP32)
        accumulate_of(count, DTYPE_FP32, target, DTYPE_FP32, source, first);
    else if (to == DTYPE_FP32)
        accumulate_of(count, DTYPE_FP32, target, DTYPE_BF16, source, first);
    else if (from == DTYPE_FP32)
        accumulate_of(count, DTYPE_BF16, target, DTYPE_FP32, source, first);
    else
        accumulate_of(count, DTYPE_BF16, target, DTYPE_BF16, source, first);
}
