/* backward.h - dQ, dK, dV of a block from dO and the whole rows' LSE and delta.
 *
 * P_ij = e^(S_ij - LSE_i), dV_j = sum_i P_ij dO_i, dS_ij = P_ij (dO_i . V_j - delta_i), dQ_i = scale sum_j dS_ij K_j,
 * dK_j = scale sum_i dS_ij Q_i (Dao et al. 2022, arXiv:2205.14135, appendix B). Query tiles outside, key tiles inside;
 * dK and dV of one KV head are summed in fp32 beside its packed keys, over all query heads that share it. A row whose
 * LSE is -inf sees nothing and gives nothing.
 */
struct backward_state {
    const struct attention_call *call;
    struct tiling tiling;
    size_t dim, padded;
    size_t tile_size; /* floats of a key tile: K transposed, V transposed, K, dK, dV */
    float *tiles;
    bool *is_packed;
    float *rowwise;
    float *q_columns, *d_o_columns;  /* query tile for A; Q scaled */
    float *q_panels, *d_o_panels;    /* query tile for B */
    float *weights, *d_scores, *d_q; /* P, dS; dQ before the scale */
    float lse[TILE], delta[TILE];
};

struct backward_tile {
    float *k_columns, *v_columns, *k_panels, *d_k, *d_v;
};

/* P and dS from S and dP, in place. */
INLINE void gradient_row(struct backward_state *state, size_t row, struct run seen, size_t columns, bool masked)
{
    float *weights = state->weights + row * PITCH, *d_scores = state->d_scores + row * PITCH;
    const size_t begin = seen.from / LANES * LANES, end = round_up(seen.to, LANES);
    for (size_t c = begin; c < end; c += LANES) {
        vec weight = vec_exp(vec_load(weights + c) - state->lse[row]);
        vec d_score = weight * (vec_load(d_scores + c) - state->delta[row]);
        if (masked) {
            const ivec in = lanes_in(seen, c);
            weight = (vec)(in & (ivec)weight);
            d_score = (vec)(in & (ivec)d_score);
        }
        vec_store(weights + c, weight);
        vec_store(d_scores + c, d_score);
    }
    if (masked) {
        zero_columns(weights, 0, begin);
        zero_columns(weights, end, columns);
        zero_columns(d_scores, 0, begin);
        zero_columns(d_scores, end, columns);
    }
}

OUTLINE void gradient_tile(struct backward_state *state, const struct view *view)
{
    const size_t columns = round_up(view->keys, LANES);
    const bool masked = view->sight != SEES_ALL || view->keys != columns;
    for (size_t row = 0; row < view->queries; row++) {
        const struct run seen = view_row(view, row);
        if (seen.from >= seen.to || state->lse[row] == -INFINITY) {
            zero_columns(state->weights + row * PITCH, 0, columns);
            zero_columns(state->d_scores + row * PITCH, 0, columns);
        } else if (masked) {
            gradient_row(state, row, seen, columns, true);
        } else {
            gradient_row(state, row, seen, columns, false);
        }
    }
}

static struct backward_tile backward_tile_at(const struct backward_state *state, size_t index)
{
    struct backward_tile tile;
    tile.k_columns = state->tiles + index * state->tile_size;
    tile.v_columns = tile.k_columns + TILE * state->dim;
    tile.k_panels = tile.v_columns + TILE * state->dim;
    tile.d_k = tile.k_panels + panels_size(TILE, state->dim);
    tile.d_v = tile.d_k + TILE * state->padded;
    return tile;
}

/* The tile of one KV head, packed and with empty sums when it is first needed. */
static struct backward_tile backward_keys(struct backward_state *state, size_t index, struct lane kv)
{
    const struct attention_call *call = state->call;
    const struct key_tile *keys = &state->tiling.tiles[index];
    const struct grid grid = key_grid(call, keys->buffer->strides);
    const struct backward_tile tile = backward_tile_at(state, index);
    if (!state->is_packed[index]) {
        const struct source k_rows = source_of(call->dtype, keys->buffer->k, grid, keys->first_row, keys->rows, kv);
        const struct source v_rows = source_of(call->dtype, keys->buffer->v, grid, keys->first_row, keys->rows, kv);
        pack_transposed_panels(&k_rows, state->rowwise, tile.k_columns);
        pack_transposed_panels(&v_rows, state->rowwise, tile.v_columns);
        pack_panels(&k_rows, tile.k_panels);
        memset(tile.d_k, 0, 2 * TILE * state->padded * sizeof *tile.d_k);
        state->is_packed[index] = true;
    }
    return tile;
}

static void pack_queries(struct backward_state *state, size_t first, size_t rows, struct lane lane, const void *d_o,
                         const float *lse, const float *delta)
{
    const struct attention_call *call = state->call;
    const struct grid lse_grid = number_grid(call, call->strides.lse);
    const struct grid delta_grid = number_grid(call, call->strides.delta);
    const struct source q_rows = source_of(call->dtype, call->q, query_grid(call, call->strides.q), first, rows, lane);
    const struct source d_o_rows = source_of(call->dtype, d_o, query_grid(call, call->strides.d_o), first, rows, lane);
    pack_micro_rows(&q_rows, call->scale, state->rowwise, state->q_columns);
    pack_micro_rows(&d_o_rows, 1, state->rowwise, state->d_o_columns);
    pack_panels(&q_rows, state->q_panels);
    pack_panels(&d_o_rows, state->d_o_panels);
    for (size_t i = 0; i < rows; i++) {
        state->lse[i] = lse[grid_at(lse_grid, first + i, lane)];
        state->delta[i] = delta[grid_at(delta_grid, first + i, lane)];
    }
}

/* Query rows [first, first + rows), at most a tile, of one lane. */
static void backward_queries(struct backward_state *state, size_t first, size_t rows, struct lane lane, struct lane kv,
                             void *dq)
{
    const struct attention_call *call = state->call;
    const struct grid dq_grid = query_grid(call, call->strides.dq);
    memset(state->d_q, 0, TILE * state->padded * sizeof *state->d_q);
    for (size_t t = 0; t < state->tiling.n_tiles; t++) {
        const struct key_tile *keys = &state->tiling.tiles[t];
        struct view view = {.queries = rows, .keys = keys->rows};
        view.sight = tiling_sight(&state->tiling, first, rows, keys, view.from, view.to);
        if (view.sight == SEES_NOTHING)
            continue;
        const struct backward_tile tile = backward_keys(state, t, kv);
        view_scores(&view, state->dim, state->q_columns, tile.k_columns, state->weights);
        view_scores(&view, state->dim, state->d_o_columns, tile.v_columns, state->d_scores);
        gradient_tile(state, &view);
        view_add_columns(&view, state->padded, state->weights, state->d_o_panels, tile.d_v);
        view_add_columns(&view, state->padded, state->d_scores, state->q_panels, tile.d_k);
        view_add_rows(&view, state->padded, state->d_scores, tile.k_panels, state->d_q);
        if (call->between_tiles)
            call->between_tiles(call->between_tiles_context);
    }
    for (size_t i = 0; i < rows; i++)
        unpack_row(state->d_q + i * state->padded, call->scale, state->dim, call->dtype, dq,
                   grid_at(dq_grid, first + i, lane));
}

/* dK and dV of one KV head; of tiles that nobody saw, zeros. */
static void write_key_gradients(const struct backward_state *state, struct lane kv)
{
    const struct attention_call *call = state->call;
    for (size_t t = 0; t < state->tiling.n_tiles; t++) {
        const struct key_tile *keys = &state->tiling.tiles[t];
        const struct backward_tile tile = backward_tile_at(state, t);
        const struct grid grid = key_grid(call, keys->buffer->gradient);
        if (!state->is_packed[t])
            memset(tile.d_k, 0, 2 * TILE * state->padded * sizeof *tile.d_k);
        for (size_t i = 0; i < keys->rows; i++) {
            const size_t at = grid_at(grid, keys->first_row + i, kv);
            unpack_row(tile.d_k + i * state->padded, call->scale, state->dim, call->dkv_dtype, keys->buffer->dk, at);
            unpack_row(tile.d_v + i * state->padded, 1, state->dim, call->dkv_dtype, keys->buffer->dv, at);
        }
    }
}

static void backward(const struct attention_call *call, const void *d_o, const float *lse, const float *delta, void *dq)
{
    const size_t dim = call->head_dim, padded = round_up(dim, LANES);
    struct backward_state state = {.call = call, .dim = dim, .padded = padded};
    struct workspace workspace = {.n_blocks = 0};
    state.tile_size = 2 * TILE * dim + panels_size(TILE, dim) + 2 * TILE * padded;
    tiling_init(&state.tiling, call, TILE);
    const size_t n_tiles = state.tiling.n_tiles;
    state.tiles = workspace_floats(&workspace, n_tiles * state.tile_size);
    state.is_packed = (bool *)(void *)workspace_floats(&workspace, n_tiles);
    state.rowwise = workspace_floats(&workspace, PANEL * padded);
    state.q_columns = workspace_floats(&workspace, TILE * dim);
    state.d_o_columns = workspace_floats(&workspace, TILE * dim);
    state.q_panels = workspace_floats(&workspace, panels_size(TILE, dim));
    state.d_o_panels = workspace_floats(&workspace, panels_size(TILE, dim));
    state.weights = workspace_floats(&workspace, TILE * PITCH);
    state.d_scores = workspace_floats(&workspace, TILE * PITCH);
    state.d_q = workspace_floats(&workspace, TILE * padded);
    /* A register tile reads columns beyond a narrow tile's last; what it makes of them is not written out. */
    memset(state.weights, 0, TILE * PITCH * sizeof *state.weights);
    memset(state.d_scores, 0, TILE * PITCH * sizeof *state.d_scores);
    for (size_t i = 0; i < (size_t)call->batch * call->kv_heads; i++) {
        const struct lane kv = {i / call->kv_heads, i % call->kv_heads};
        const struct sharers sharers = sharers_of(call, kv.head);
        memset(state.is_packed, 0, n_tiles * sizeof *state.is_packed);
        for (size_t head = sharers.from; head < sharers.to; head++)
            for (size_t first = 0; first < call->queries.rows; first += TILE) {
                const size_t left = call->queries.rows - first;
                const size_t rows = left < TILE ? left : TILE;
                const struct lane lane = {kv.item, head};
                pack_queries(&state, first, rows, lane, d_o, lse, delta);
                backward_queries(&state, first, rows, lane, kv, dq);
            }
        write_key_gradients(&state, kv);
    }
    workspace_fini(&workspace);
    tiling_fini(&state.tiling);
}
