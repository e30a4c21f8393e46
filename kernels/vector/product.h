/* product.h - C (+)= A B by blocks (product.h in kernels/).
 *
 * A block of C, BLOCK_ROWS x BLOCK_COLUMNS sums, stays in the second-level cache with the slices of A and B of
 * BLOCK_DEPTH that are multiplied into it. Slices are packed, whatever their order and dtype, as multiply.h reads them:
 * A in columns of MICRO_ROWS rows, B in panels. So a panel of B stays in the first-level cache while all of A's slice
 * passes it; packing costs one element for each BLOCK_ROWS multiplications or BLOCK_COLUMNS of them.
 */
enum {
    BLOCK_ROWS = 3 * TILE,
    BLOCK_COLUMNS = 3 * TILE,
    BLOCK_DEPTH = 192,
    SUMS_PITCH = BLOCK_COLUMNS + 16, /* as PITCH */
};

_Static_assert(BLOCK_DEPTH % LANES == 0, "a slice's rows are whole vectors");

INLINE size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* A block's place in the product, and how large it is. */
struct product_block {
    size_t row, rows, column, columns;
};

struct product_arrays {
    float *a, *b, *sums, *rowwise;
};

OUTLINE void multiply_block(size_t n, const float *a, const float *b, float *c)
{
    multiply(n, a, 1, MICRO_ROWS, b, c, SUMS_PITCH, 2, false);
}

OUTLINE void multiply_block_more(size_t n, const float *a, const float *b, float *c)
{
    multiply(n, a, 1, MICRO_ROWS, b, c, SUMS_PITCH, 2, true);
}

/* Part of an operand as it is stored: `rows` stored rows of `dim` elements from element (row, dim) on. */
INLINE struct source part_of(const struct product_operand *operand, size_t row, size_t rows, size_t first, size_t dim)
{
    return (struct source){.dtype = operand->dtype,
                           .base = element_at(operand->dtype, operand->at, row * operand->stride + first),
                           .rows = rows,
                           .dim = dim,
                           .stride = operand->stride};
}

/* Groups of MICRO_ROWS columns of the source, row after row: to[(group * source.rows + row) * MICRO_ROWS + column];
 * missing columns are 0. `rowwise` holds a row, rounded up. */
INLINE void pack_micro_columns_of(enum dtype dtype, const struct source *source, float *rowwise, float *to)
{
    for (size_t row = 0; row < source->rows; row++) {
        const void *from = element_at(dtype, source->base, row * source->stride);
        for (size_t d = 0; d < source->dim; d += LANES)
            vec_store(rowwise + d, load_at(dtype, from, d, source->dim));
        for (size_t d = source->dim; d < round_up(source->dim, MICRO_ROWS); d++)
            rowwise[d] = 0;
        for (size_t d = 0; d < source->dim; d += MICRO_ROWS)
            memcpy(to + (d * source->rows + row * MICRO_ROWS), rowwise + d, MICRO_ROWS * sizeof *to);
    }
}

OUTLINE void pack_a(const struct product_operand *a, const struct product_block *block, size_t depth, size_t n,
                    struct product_arrays *arrays)
{
    if (!a->transposed) {
        const struct source source = part_of(a, block->row, block->rows, depth, n);
        pack_micro_rows(&source, 1, arrays->rowwise, arrays->a);
        return;
    }
    const struct source source = part_of(a, depth, n, block->row, block->rows);
    if (a->dtype == DTYPE_FP32)
        pack_micro_columns_of(DTYPE_FP32, &source, arrays->rowwise, arrays->a);
    else
        pack_micro_columns_of(DTYPE_BF16, &source, arrays->rowwise, arrays->a);
}

OUTLINE void pack_b(const struct product_operand *b, const struct product_block *block, size_t depth, size_t n,
                    struct product_arrays *arrays)
{
    if (b->transposed) {
        const struct source source = part_of(b, block->column, block->columns, depth, n);
        pack_transposed_panels(&source, arrays->rowwise, arrays->b);
        return;
    }
    const struct source source = part_of(b, depth, n, block->column, block->columns);
    pack_panels(&source, arrays->b);
    for (size_t d = round_up(block->columns, LANES); d < round_up(block->columns, PANEL); d++) /* half a panel */
        for (size_t row = 0; row < n; row++)
            arrays->b[(d / PANEL * n + row) * PANEL + d % PANEL] = 0;
}

static void multiply_slices(const struct product_block *block, size_t n, bool first,
                            const struct product_arrays *arrays)
{
    for (size_t column = 0; column < block->columns; column += PANEL)
        for (size_t row = 0; row < block->rows; row += MICRO_ROWS) {
            float *sums = arrays->sums + row * SUMS_PITCH + column;
            if (first)
                multiply_block(n, arrays->a + row * n, arrays->b + column * n, sums);
            else
                multiply_block_more(n, arrays->a + row * n, arrays->b + column * n, sums);
        }
}

static void product_block(const struct product_call *call, const struct product_block *block,
                          struct product_arrays *arrays)
{
    if (call->depth == 0)
        memset(arrays->sums, 0, block->rows * SUMS_PITCH * sizeof(float));
    for (size_t depth = 0; depth < call->depth; depth += BLOCK_DEPTH) {
        const size_t n = at_most(call->depth - depth, BLOCK_DEPTH);
        pack_a(&call->a, block, depth, n, arrays);
        pack_b(&call->b, block, depth, n, arrays);
        multiply_slices(block, n, depth == 0, arrays);
        if (call->between_blocks)
            call->between_blocks(call->between_blocks_context);
    }
    for (size_t row = 0; row < block->rows; row++) {
        void *to = element_to(call->c_dtype, call->c, (block->row + row) * call->c_stride + block->column);
        accumulate(block->columns, call->c_dtype, to, DTYPE_FP32, arrays->sums + row * SUMS_PITCH, !call->add);
    }
}

/* No more than the product's blocks take. */
static void arrays_init(struct product_arrays *arrays, const struct product_call *call, struct workspace *workspace)
{
    const size_t rows = round_up(at_most(call->rows, BLOCK_ROWS), MICRO_ROWS);
    const size_t columns = round_up(at_most(call->columns, BLOCK_COLUMNS), PANEL);
    const size_t depth = at_most(call->depth, BLOCK_DEPTH);
    *arrays = (struct product_arrays){
        .a = workspace_floats(workspace, rows * depth),
        .b = workspace_floats(workspace, columns * depth),
        .sums = workspace_floats(workspace, rows * SUMS_PITCH),
        .rowwise = workspace_floats(workspace, PANEL * round_up(depth, LANES) + rows + LANES),
    };
}

static void multiply_matrices(const struct product_call *call)
{
    struct workspace workspace = {.n_blocks = 0};
    struct product_arrays arrays;
    arrays_init(&arrays, call, &workspace);
    for (size_t column = 0; column < call->columns; column += BLOCK_COLUMNS) {
        for (size_t row = 0; row < call->rows; row += BLOCK_ROWS) {
            const struct product_block block = {row, at_most(call->rows - row, BLOCK_ROWS), column,
                                                at_most(call->columns - column, BLOCK_COLUMNS)};
            product_block(call, &block, &arrays);
        }
    }
    workspace_fini(&workspace);
}
