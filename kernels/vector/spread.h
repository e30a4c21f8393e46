/* spread.h - joining partial results of one row over keys that several ranks hold: each is weighed against the LSE of
 * all (correct), or against the largest LSE, to be summed and divided afterwards (weigh, normalize).
 *
 * A row here is one position of one head. Types are constants in each ..._of function, so that their branches vanish.
 */

/* What each ..._of function is made for: of both its types. */
#define OF_TYPES(function, from, to, ...)                                                                              \
    do {                                                                                                               \
        if ((from) == DTYPE_FP32 && (to) == DTYPE_FP32)                                                                \
            function(DTYPE_FP32, DTYPE_FP32, __VA_ARGS__);                                                             \
        else if ((from) == DTYPE_FP32)                                                                                 \
            function(DTYPE_FP32, DTYPE_BF16, __VA_ARGS__);                                                             \
        else if ((to) == DTYPE_FP32)                                                                                   \
            function(DTYPE_BF16, DTYPE_FP32, __VA_ARGS__);                                                             \
        else                                                                                                           \
            function(DTYPE_BF16, DTYPE_BF16, __VA_ARGS__);                                                             \
    } while (0)

/* target = source * factor, or += ; with factor 0, the source is not read. */
INLINE void scale_row(enum dtype from, enum dtype to, size_t dim, const void *source, float factor, bool first,
                      void *target)
{
    if (factor == 0 && !first)
        return;
    for (size_t d = 0; d < dim; d += LANES) {
        vec v = factor == 0 ? vec_all(0) : load_at(from, source, d, dim) * factor;
        if (!first)
            v += load_at(to, target, d, dim);
        store_at(to, target, d, dim, v);
    }
}

/* e^(lse - whole); nothing of nothing. */
INLINE float share_of(float lse, float whole)
{
    return lse == -INFINITY ? 0 : expf(lse - whole);
}

INLINE void correct_of(enum dtype from, enum dtype to, size_t rows, size_t dim, const void *part, const float *part_lse,
                       const float *lse, void *o, bool first)
{
    for (size_t row = 0; row < rows; row++)
        scale_row(from, to, dim, element_at(from, part, row * dim), share_of(part_lse[row], lse[row]), first,
                  element_to(to, o, row * dim));
}

static void correct(size_t rows, size_t dim, enum dtype from, const void *part, const float *part_lse, const float *lse,
                    enum dtype to, void *o, bool first)
{
    OF_TYPES(correct_of, from, to, rows, dim, part, part_lse, lse, o, first);
}

INLINE void weigh_of(enum dtype from, enum dtype to, size_t rows, size_t dim, const void *part, const float *part_lse,
                     const float *top, void *numerator, float *denominator)
{
    for (size_t row = 0; row < rows; row++) {
        denominator[row] = share_of(part_lse[row], top[row]);
        scale_row(from, to, dim, element_at(from, part, row * dim), denominator[row], true,
                  element_to(to, numerator, row * dim));
    }
}

static void weigh(size_t rows, size_t dim, enum dtype from, const void *part, const float *part_lse, const float *top,
                  enum dtype to, void *numerator, float *denominator)
{
    OF_TYPES(weigh_of, from, to, rows, dim, part, part_lse, top, numerator, denominator);
}

INLINE void normalize_of(enum dtype from, enum dtype to, size_t rows, size_t dim, const void *numerator,
                         const float *denominator, const float *top, void *o, float *lse)
{
    for (size_t row = 0; row < rows; row++) {
        const bool empty = denominator[row] == 0;
        scale_row(from, to, dim, element_at(from, numerator, row * dim), empty ? 0 : 1 / denominator[row], true,
                  element_to(to, o, row * dim));
        lse[row] = empty ? -INFINITY : top[row] + logf(denominator[row]);
    }
}

static void normalize(size_t rows, size_t dim, enum dtype from, const void *numerator, const float *denominator,
                      const float *top, enum dtype to, void *o, float *lse)
{
    OF_TYPES(normalize_of, from, to, rows, dim, numerator, denominator, top, o, lse);
}
