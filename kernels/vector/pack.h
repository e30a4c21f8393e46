/* pack.h - copies of tensor rows in the order in which the products read them, as fp32.
 *
 * A source is `rows` rows of `dim` elements, `stride` elements apart (one head of [row][item][head][dim]).
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

/* Head `head` of batch item `item`. */
struct lane {
    size_t item, head;
};

/* Where a tensor's elements are: how far from row to row, from item to item, from head to head. */
struct grid {
    size_t row, item, head;
};

/* Of a tensor of `batch` items and `heads` heads, `width` numbers each. */
INLINE struct grid grid_of(struct attention_strides strides, size_t batch, size_t heads, size_t width)
{
    if (strides.row == 0)
        return (struct grid){batch * heads * width, heads * width, width};
    return (struct grid){strides.row, strides.item, width};
}

INLINE struct grid query_grid(const struct attention_call *call, struct attention_strides strides)
{
    return grid_of(strides, call->batch, call->q_heads, call->head_dim);
}

INLINE struct grid key_grid(const struct attention_call *call, struct attention_strides strides)
{
    return grid_of(strides, call->batch, call->kv_heads, call->head_dim);
}

/* One number a lane: LSE and delta. */
INLINE struct grid number_grid(const struct attention_call *call, struct attention_strides strides)
{
    return grid_of(strides, call->batch, call->q_heads, 1);
}

INLINE size_t grid_at(struct grid grid, size_t row, struct lane lane)
{
    return row * grid.row + lane.item * grid.item + lane.head * grid.head;
}

/* Rows [first, first + rows) of one lane of a tensor. */
INLINE struct source source_of(enum dtype dtype, const void *tensor, struct grid grid, size_t first, size_t rows,
                               struct lane lane)
{
    return (struct source){.dtype = dtype,
                           .base = element_at(dtype, tensor, grid_at(grid, first, lane)),
                           .rows = rows,
                           .dim = grid.head,
                           .stride = grid.row};
}

/* The query heads [from, to) that read KV head `kv_head` of the call's. */
struct sharers {
    size_t from, to;
};

INLINE struct sharers sharers_of(const struct attention_call *call, size_t kv_head)
{
    const size_t group = call->group ? call->group : call->q_heads / call->kv_heads, offset = call->group_offset;
    const size_t from = kv_head * group, to = from + group;
    const size_t end = to > offset ? to - offset : 0;
    return (struct sharers){from > offset ? from - offset : 0, end < call->q_heads ? end : call->q_heads};
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
