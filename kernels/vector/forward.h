/* forward.h - O and LSE of a block: for each tile of queries, an online softmax over the tiles of keys.
 *
 * Per row and key tile: m' = max(m, max_j S_j), l' = l e^(m - m') + sum_j e^(S_j - m'), a' = a e^(m - m') + sum_j
 * e^(S_j - m') V_j; at the end O = a / l, LSE = m + ln l (Milakov and Gimelshein 2018, arXiv:1805.02867; tiled as in
 * Dao et al. 2022, arXiv:2205.14135). The scale is multiplied into Q when it is packed. A KV head's tiles are packed
 * once for all its query heads.
 */

struct forward_state {
    const struct attention_call *call;
    struct tiling tiling;
    size_t dim, padded; /* head dim; rounded up to whole vectors */
    size_t tile_size;   /* floats of a packed key tile: K transposed, then V */
    float *packed;
    bool *is_packed;
    float *rowwise, *q, *scores;
    float *o;        /* [TILE][padded], not yet divided by l */
    float *sum;      /* l of each row, [TILE][LANES], lanes not yet added up */
    float max[TILE]; /* m */
};

/* Weights e^(S - m') of one row of scores, in place; rescales what the row has so far. `masked`: some of the tile's
 * columns, or of its last vector, are not in `seen`. */
INLINE void softmax_row(struct forward_state *state, size_t row, struct run seen, size_t columns, bool masked)
{
    float *scores = state->scores + row * PITCH;
    const size_t begin = seen.from / LANES * LANES, end = round_up(seen.to, LANES);
    vec top = vec_all(-INFINITY);
    for (size_t c = begin; c < end; c += LANES) {
        const vec s = vec_load(scores + c);
        top = vec_max(masked ? vec_select(lanes_in(seen, c), s, vec_all(-INFINITY)) : s, top);
    }
    const float old_max = state->max[row], tile_max = vec_largest(top);
    float *sums = state->sum + row * LANES;
    if (tile_max > old_max) {
        const float decay = expf(old_max - tile_max);
        float *o = state->o + row * state->padded;
        for (size_t d = 0; d < state->padded; d += LANES)
            vec_store(o + d, vec_load(o + d) * decay);
        vec_store(sums, vec_load(sums) * decay);
        state->max[row] = tile_max;
    }
    const float shift = state->max[row] == -INFINITY ? 0 : state->max[row]; /* every score -inf: every weight 0 */
    vec sum = vec_load(sums);
    for (size_t c = begin; c < end; c += LANES) {
        vec weight = vec_exp(vec_load(scores + c) - shift);
        if (masked)
            weight = (vec)(lanes_in(seen, c) & (ivec)weight);
        sum += weight;
        vec_store(scores + c, weight);
    }
    vec_store(sums, sum);
    if (masked) {
        zero_columns(scores, 0, begin);
        zero_columns(scores, end, columns);
    }
}

OUTLINE void softmax_tile(struct forward_state *state, const struct view *view)
{
    const size_t columns = round_up(view->keys, LANES);
    const bool masked = view->sight != SEES_ALL || view->keys != columns;
    for (size_t row = 0; row < view->queries; row++) {
        const struct run seen = view_row(view, row);
        if (seen.from >= seen.to)
            zero_columns(state->scores + row * PITCH, 0, columns);
        else if (masked)
            softmax_row(state, row, seen, columns, true);
        else
            softmax_row(state, row, seen, columns, false);
    }
}

/* The tile's packed K (transposed) and V of one KV head. */
static const float *packed_keys(struct forward_state *state, size_t tile_index, struct lane kv)
{
    const struct attention_call *call = state->call;
    const struct key_tile *tile = &state->tiling.tiles[tile_index];
    const struct grid grid = key_grid(call, tile->buffer->strides);
    float *k = state->packed + tile_index * state->tile_size, *v = k + TILE * state->dim;
    if (!state->is_packed[tile_index]) {
        const struct source k_rows = source_of(call->dtype, tile->buffer->k, grid, tile->first_row, tile->rows, kv);
        const struct source v_rows = source_of(call->dtype, tile->buffer->v, grid, tile->first_row, tile->rows, kv);
        pack_transposed_panels(&k_rows, state->rowwise, k);
        pack_panels(&v_rows, v);
        state->is_packed[tile_index] = true;
    }
    return k;
}

static void write_rows(const struct forward_state *state, size_t first, size_t rows, struct lane lane, void *o,
                       float *lse)
{
    const struct attention_call *call = state->call;
    const struct grid o_grid = query_grid(call, call->strides.o), lse_grid = number_grid(call, call->strides.lse);
    for (size_t i = 0; i < rows; i++) {
        const float sum = vec_sum(vec_load(state->sum + i * LANES));
        const bool empty = sum == 0;
        unpack_row(state->o + i * state->padded, empty ? 0 : 1 / sum, state->dim, call->dtype, o,
                   grid_at(o_grid, first + i, lane));
        lse[grid_at(lse_grid, first + i, lane)] = empty ? -INFINITY : state->max[i] + logf(sum);
    }
}

/* Query rows [first, first + rows), at most a tile, of one lane. */
static void forward_queries(struct forward_state *state, size_t first, size_t rows, struct lane lane, struct lane kv,
                            void *o, float *lse)
{
    const struct attention_call *call = state->call;
    const struct source q_rows = source_of(call->dtype, call->q, query_grid(call, call->strides.q), first, rows, lane);
    pack_micro_rows(&q_rows, call->scale, state->rowwise, state->q);
    memset(state->o, 0, TILE * state->padded * sizeof *state->o);
    memset(state->sum, 0, TILE * LANES * sizeof *state->sum);
    for (size_t i = 0; i < TILE; i++)
        state->max[i] = -INFINITY;
    for (size_t t = 0; t < state->tiling.n_tiles; t++) {
        const struct key_tile *tile = &state->tiling.tiles[t];
        struct view view = {.queries = rows, .keys = tile->rows};
        view.sight = tiling_sight(&state->tiling, first, rows, tile, view.from, view.to);
        if (view.sight == SEES_NOTHING)
            continue;
        const float *k = packed_keys(state, t, kv), *v = k + TILE * state->dim;
        view_scores(&view, state->dim, state->q, k, state->scores);
        softmax_tile(state, &view);
        view_add_rows(&view, state->padded, state->scores, v, state->o);
        if (call->between_tiles)
            call->between_tiles(call->between_tiles_context);
    }
    write_rows(state, first, rows, lane, o, lse);
}

static void forward(const struct attention_call *call, void *o, float *lse)
{
    const size_t dim = call->head_dim, padded = round_up(dim, LANES);
    struct forward_state state = {
        .call = call, .dim = dim, .padded = padded, .tile_size = TILE * dim + panels_size(TILE, dim)};
    struct workspace workspace = {.n_blocks = 0};
    tiling_init(&state.tiling, call, TILE);
    const size_t n_tiles = state.tiling.n_tiles;
    state.packed = workspace_floats(&workspace, n_tiles * state.tile_size);
    state.is_packed = (bool *)(void *)workspace_floats(&workspace, n_tiles);
    state.rowwise = workspace_floats(&workspace, PANEL * padded);
    state.q = workspace_floats(&workspace, TILE * dim);
    state.scores = workspace_floats(&workspace, TILE * PITCH);
    state.o = workspace_floats(&workspace, TILE * padded);
    state.sum = workspace_floats(&workspace, TILE * LANES);
    for (size_t i = 0; i < (size_t)call->batch * call->kv_heads; i++) {
        const struct lane kv = {i / call->kv_heads, i % call->kv_heads};
        const struct sharers sharers = sharers_of(call, kv.head);
        memset(state.is_packed, 0, n_tiles * sizeof *state.is_packed);
        for (size_t head = sharers.from; head < sharers.to; head++)
            for (size_t first = 0; first < call->queries.rows; first += TILE) {
                const size_t left = call->queries.rows - first;
                forward_queries(&state, first, left < TILE ? left : TILE, (struct lane){kv.item, head}, kv, o, lse);
            }
    }
    workspace_fini(&workspace);
    tiling_fini(&state.tiling);
}
