/* pack.h - copies of tensor rows in the order in which the products read them, as fp32.
 *
 * A source is `rows` rows of `dim` elements, `stride` elements apart (one head of [row][heads][dim]).
 */
struct source {
    enum dtype dtype;
    const void *base; /* element 0 of row 0 of the head */
    size_t rows, dim, stride;
};

INLINE size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Rows [first, first + rows) of one head of a tensor [row][heads][dim]. */
INLINE struct source source_of(enum dtype dtype, const void *tensor, size_t first, size_t rows, size_t heads,
                               size_t head, size_t dim)
{
    return (struct source){.dtype = dtype,
                           .base = element_at(dtype, tensor, (first * heads + head) * dim),
                           .rows = rows,
                           .dim = dim,
                           .stride = heads * dim};
}

/* Dims [dim, dim + LANES) of a row; those beyond the last are 0. */
INLINE vec source_load(enum dtype dtype, const struct source *source, size_t row, size_t dim)
{
    const void *from = element_at(dtype, source->base, row * source->stride + dim);
    const size_t left = source->dim - dim;
    return left < LANES ? vec_load_some(dtype, from, left) : vec_load_elements(dtype, from);
}

/* Floats of the packed forms of `rows` x `dim`. */
INLINE size_t panels_size(size_t rows, size_t dim)
{
    return rows * round_up(dim, PANEL);
}

/* Panels of PANEL dims: to[(panel * source.rows + row) * PANEL + column]; missing dims are 0. */
INLINE void pack_panels_of(enum dtype dtype, const struct source *source, float *to)
{
    for (size_t dim = 0; dim < source->dim; dim += LANES) {
        float *panel = to + dim / PANEL * PANEL * source->rows + dim % PANEL;
        for (size_t row = 0; row < source->rows; row++)
            vec_store(panel + row * PANEL, source_load(dtype, source, row, dim));
    }
}

/* Four rows of four numbers, transposed. */
INLINE void transpose_quads(const float *from, size_t stride, float *to, size_t to_stride)
{
    quad r[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], from + (size_t)i * stride, sizeof r[i]);
#ifdef __x86_64__
    _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
    UNROLL
    for (int i = 0; i < 4; i++)
        memcpy(to + (size_t)i * to_stride, &r[i], sizeof r[i]);
#else
    for (size_t i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            to[i * to_stride + (size_t)k] = r[k][i];
#endif
}

/* Groups of `width` rows, transposed: to[(group * source.dim + dim) * width + row]; missing rows are 0. `rowwise` holds
 * `width` rows of round_up(dim, LANES) floats. Numbers are multiplied by `scale`. */
INLINE void pack_transposed_of(enum dtype dtype, const struct source *source, size_t width, float scale, float *rowwise,
                               float *to)
{
    const size_t padded = round_up(source->dim, LANES);
    for (size_t group = 0; group < source->rows; group += width, to += source->dim * width) {
        for (size_t row = 0; row < width; row++) {
            const bool missing = group + row >= source->rows;
            for (size_t dim = 0; dim < source->dim; dim += LANES) {
                vec v = vec_all(0);
                if (!missing)
                    v = source_load(dtype, source, group + row, dim);
                vec_store(rowwise + row * padded + dim, v * scale);
            }
        }
        const size_t dims = source->dim / 4 * 4;
        size_t row = 0;
        for (; row + 4 <= width; row += 4)
            for (size_t dim = 0; dim < dims; dim += 4)
                transpose_quads(rowwise + row * padded + dim, padded, to + dim * width + row, width);
        for (size_t r = 0; r < width; r++)
            for (size_t dim = r < row ? dims : 0; dim < source->dim; dim++)
                to[dim * width + r] = rowwise[r * padded + dim];
    }
}

OUTLINE void pack_panels(const struct source *source, float *to)
{
    if (source->dtype == DTYPE_FP32)
        pack_panels_of(DTYPE_FP32, source, to);
    else
        pack_panels_of(DTYPE_BF16, source, to);
}

/* For B: groups of PANEL rows. */
OUTLINE void pack_transposed_panels(const struct source *source, float *rowwise, float *to)
{
    if (source->dtype == DTYPE_FP32)
        pack_transposed_of(DTYPE_FP32, source, PANEL, 1, rowwise, to);
    else
        pack_transposed_of(DTYPE_BF16, source, PANEL, 1, rowwise, to);
}

/* For A: groups of MICRO_ROWS rows, scaled. */
OUTLINE void pack_micro_rows(const struct source *source, float scale, float *rowwise, float *to)
{
    if (source->dtype == DTYPE_FP32)
        pack_transposed_of(DTYPE_FP32, source, MICRO_ROWS, scale, rowwise, to);
    else
        pack_transposed_of(DTYPE_BF16, source, MICRO_ROWS, scale, rowwise, to);
}

/* Row of fp32 results times `factor` to a tensor. */
INLINE void unpack_row_of(enum dtype dtype, const float *from, float factor, size_t dim, void *to)
{
    for (size_t d = 0; d < dim; d += LANES) {
        const vec v = vec_load(from + d) * factor;
        if (dim - d < LANES)
            vec_store_some(dtype, element_to(dtype, to, d), v, dim - d);
        else
            vec_store_elements(dtype, element_to(dtype, to, d), v);
    }
}

OUTLINE void unpack_row(const float *from, float factor, size_t dim, enum dtype dtype, void *to, size_t index)
{
    if (dtype == DTYPE_FP32)
        unpack_row_of(DTYPE_FP32, from, factor, dim, element_to(DTYPE_FP32, to, index));
    else
        unpack_row_of(DTYPE_BF16, from, factor, dim, element_to(DTYPE_BF16, to, index));
}
