/* multiply.h - the one matrix product that attention is made of: C (+)= A B on a register tile.
 *
 *   C: MICRO_ROWS x (1 or 2 vectors); row i at c + i * c_row
 *   A: MICRO_ROWS x n;                 element (i, k) at a[i * a_row + k * a_step]: constants, so that each has a fixed
 * offset B: n x (1 or 2 vectors);           a panel: row k at b + k * PANEL
 *
 * A panel is PANEL columns of a matrix, row after row, so that a product reads it from end to end. Its shape and that
 * of the tiles keep what a product works on within a 32 KiB first-level cache (head dim 128: 16 KiB of B, 6 KiB of A).
 *
 * Tiles of scores and gradients are TILE x TILE, their rows PITCH numbers apart (PITCH, not TILE, so that a column's
 * numbers do not fall into few cache sets).
 */
enum {
    PANEL = 2 * LANES,
    TILE = 96, /* a multiple of PANEL and MICRO_ROWS for every instruction set */
    PITCH = TILE + 16,
    MICRO_TILES = TILE / MICRO_ROWS,
};

_Static_assert(TILE % PANEL == 0 && TILE % MICRO_ROWS == 0, "tiles are whole panels and whole register tiles");

INLINE void multiply(size_t n, const float *a, size_t a_row, size_t a_step, const float *b, float *c, size_t c_row,
                     int vectors, bool add)
{
    vec sum[MICRO_ROWS][2];
    UNROLL
    for (int i = 0; i < MICRO_ROWS; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = vec_all(0);
    }
    for (size_t k = 0; k < n; k++) {
        vec b_row[2];
        UNROLL
        for (int v = 0; v < vectors; v++)
            b_row[v] = vec_load(b + v * LANES);
        UNROLL
        for (size_t i = 0; i < MICRO_ROWS; i++) {
            const vec a_element = vec_all(a[i * a_row]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] += a_element * b_row[v];
        }
        a += a_step;
        b += PANEL;
    }
    UNROLL
    for (int i = 0; i < MICRO_ROWS; i++, c += c_row) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            vec_store(c + v * LANES, add ? vec_load(c + v * LANES) + sum[i][v] : sum[i][v]);
    }
}

#define OUTLINE static __attribute__((noinline))

/* Scores: A packed in columns of MICRO_ROWS (pack.h), C a score tile. */
OUTLINE void multiply_scores(size_t n, const float *a, const float *b, float *c)
{
    multiply(n, a, 1, MICRO_ROWS, b, c, PITCH, 2, false);
}

/* A is rows of a score tile. */
OUTLINE void multiply_rows(size_t n, const float *a, const float *b, float *c, size_t c_row)
{
    multiply(n, a, PITCH, 1, b, c, c_row, 2, true);
}

OUTLINE void multiply_rows_narrow(size_t n, const float *a, const float *b, float *c, size_t c_row)
{
    multiply(n, a, PITCH, 1, b, c, c_row, 1, true);
}

/* A is columns of a score tile. */
OUTLINE void multiply_columns(size_t n, const float *a, const float *b, float *c, size_t c_row)
{
    multiply(n, a, 1, PITCH, b, c, c_row, 2, true);
}

OUTLINE void multiply_columns_narrow(size_t n, const float *a, const float *b, float *c, size_t c_row)
{
    multiply(n, a, 1, PITCH, b, c, c_row, 1, true);
}
