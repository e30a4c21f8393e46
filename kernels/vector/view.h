/* view.h - one tile of queries looking at one tile of keys: which of its register tiles have work at all.
 *
 * Outside what a row sees, its weights are stored as 0 over the whole tile, so a sum over a few rows or columns too
 * many is still right; the hulls below only save work.
 */
struct run {
    size_t from, to;
};

struct view {
    enum sight sight;
    size_t queries, keys; /* rows of the two tiles */
    uint32_t from[TILE], to[TILE];
};

/* Columns that query row `row` sees. */
INLINE struct run view_row(const struct view *view, size_t row)
{
    if (view->sight == SEES_ALL)
        return (struct run){0, view->keys};
    return (struct run){view->from[row], view->to[row]};
}

INLINE struct run run_hull(struct run a, struct run b)
{
    if (a.from >= a.to)
        return b;
    if (b.from >= b.to)
        return a;
    return (struct run){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

/* Columns that register tile `micro` of queries needs. */
INLINE struct run view_columns(const struct view *view, size_t micro)
{
    struct run run = {0, 0};
    for (size_t row = micro * MICRO_ROWS; row < (micro + 1) * MICRO_ROWS && row < view->queries; row++)
        run = run_hull(run, view_row(view, row));
    return run;
}

/* Query rows that register tile `micro` of keys needs. */
INLINE struct run view_queries(const struct view *view, size_t micro)
{
    struct run run = {0, 0};
    for (size_t row = 0; row < view->queries; row++) {
        const struct run seen = view_row(view, row);
        if (seen.from < (micro + 1) * MICRO_ROWS && seen.to > micro * MICRO_ROWS && seen.from < seen.to)
            run = run_hull(run, (struct run){row, row + 1});
    }
    return run;
}

INLINE size_t micro_tiles(size_t rows)
{
    return (rows + MICRO_ROWS - 1) / MICRO_ROWS;
}

/* scores = A B^T where anything is seen: A packed in MICRO_ROWS, B in panels of PANEL keys, both of `dim` dims. */
OUTLINE void view_scores(const struct view *view, size_t dim, const float *a, const float *b, float *scores)
{
    struct run columns[MICRO_TILES];
    for (size_t micro = 0; micro < micro_tiles(view->queries); micro++)
        columns[micro] = view_columns(view, micro);
    for (size_t column = 0; column < view->keys; column += PANEL)
        for (size_t micro = 0; micro < micro_tiles(view->queries); micro++)
            if (columns[micro].from < column + PANEL && columns[micro].to > column)
                multiply_scores(dim, a + micro * MICRO_ROWS * dim, b + column * dim,
                                scores + micro * MICRO_ROWS * PITCH + column);
}

/* sums += W B: W the tile's weights, B key rows in panels of dims; `padded` numbers from row to row of the sums. */
OUTLINE void view_add_rows(const struct view *view, size_t padded, const float *weights, const float *b, float *sums)
{
    struct run columns[MICRO_TILES];
    for (size_t micro = 0; micro < micro_tiles(view->queries); micro++)
        columns[micro] = view_columns(view, micro);
    for (size_t dim = 0; dim < padded; dim += PANEL, b += view->keys * PANEL) {
        for (size_t micro = 0; micro < micro_tiles(view->queries); micro++) {
            const struct run run = columns[micro];
            if (run.from < run.to)
                (padded - dim < PANEL ? multiply_rows_narrow : multiply_rows)(
                    run.to - run.from, weights + micro * MICRO_ROWS * PITCH + run.from, b + run.from * PANEL,
                    sums + micro * MICRO_ROWS * padded + dim, padded);
        }
    }
}

/* sums += W^T B: B query rows in panels of dims. */
OUTLINE void view_add_columns(const struct view *view, size_t padded, const float *weights, const float *b, float *sums)
{
    struct run queries[MICRO_TILES];
    for (size_t micro = 0; micro < micro_tiles(view->keys); micro++)
        queries[micro] = view_queries(view, micro);
    for (size_t dim = 0; dim < padded; dim += PANEL, b += view->queries * PANEL) {
        for (size_t micro = 0; micro < micro_tiles(view->keys); micro++) {
            const struct run run = queries[micro];
            if (run.from < run.to)
                (padded - dim < PANEL ? multiply_columns_narrow : multiply_columns)(
                    run.to - run.from, weights + run.from * PITCH + micro * MICRO_ROWS, b + run.from * PANEL,
                    sums + micro * MICRO_ROWS * padded + dim, padded);
        }
    }
}

/* Which lanes of the vector at `column` lie in the run: all ones or all zeros each. */
INLINE ivec lanes_in(struct run run, size_t column)
{
    const ivec columns = vec_lane_numbers() + (int32_t)column;
    return (columns >= (int32_t)run.from) & (columns < (int32_t)run.to);
}

INLINE void zero_columns(float *row, size_t from, size_t to)
{
    memset(row + from, 0, (to - from) * sizeof *row);
}
