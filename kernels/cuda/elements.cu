// elements.cu - steps on each number, or each lane of each row, alone: as fast as memory.
//
// Numbers are handled eight at a time, in one access of 16 bytes (two, of fp32) where all addresses allow it. The
// dtypes of arrays are looked at while running, the same for all threads: there is one kernel for each step. Lanes and
// rows that lie side by side in all arrays are taken as one run, so that finding one's place takes no division in the
// usual case.
//
// nvcc 13.0: 26 to 58 registers a thread, no spills, no shared memory.
#include "kernels/cuda/device.cuh"

#include <math.h>

#include "kernels/cuda/attention_cuda.h"

constexpr uint32_t THREADS = 256;
constexpr uint32_t VECTOR = 8;

struct array {
    unsigned char *first;
    uint64_t row, item; // numbers from one to the next
    uint32_t dtype;
};

DEVICE uint64_t quotient(uint64_t number, uint64_t divisor)
{
    if ((number | divisor) >> 32 == 0)
        return (uint32_t)number / (uint32_t)divisor;
    return number / divisor;
}

// `count` (1 to 8) numbers from `offset` on; all at once if `whole`.
DEVICE void load(float (&x)[VECTOR], const array &from, uint64_t offset, uint32_t count, bool whole)
{
    const bool fp32 = from.dtype == DTYPE_FP32, is_bf16 = from.dtype == DTYPE_BF16;
    if (whole && fp32) {
        const quad low = global_load((const quad *)(from.first + 4 * offset));
        const quad high = global_load((const quad *)(from.first + 4 * offset) + 1);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            x[i] = number_of(low.word[i]);
            x[4 + i] = number_of(high.word[i]);
        }
    } else if (whole) {
        const quad words = global_load((const quad *)(from.first + 2 * offset));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const pair numbers = is_bf16 ? unpack<bf16>(words.word[i]) : unpack<fp16>(words.word[i]);
            x[2 * i] = numbers.first;
            x[2 * i + 1] = numbers.second;
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; i++) {
            x[i] = 0;
            if (i < count && fp32)
                x[i] = global_load((const float *)from.first + offset + i);
            else if (i < count) {
                const uint32_t bits = global_load((const uint16_t *)from.first + offset + i);
                x[i] = is_bf16 ? unpack<bf16>(bits).first : unpack<fp16>(bits).first;
            }
        }
    }
}

DEVICE void store(const array &to, uint64_t offset, uint32_t count, bool whole, const float (&x)[VECTOR])
{
    const bool fp32 = to.dtype == DTYPE_FP32, is_bf16 = to.dtype == DTYPE_BF16;
    if (whole && fp32) {
        quad low, high;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            low.word[i] = bits_of(x[i]);
            high.word[i] = bits_of(x[4 + i]);
        }
        global_store((quad *)(to.first + 4 * offset), low);
        global_store((quad *)(to.first + 4 * offset) + 1, high);
    } else if (whole) {
        quad words;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            words.word[i] = is_bf16 ? pack<bf16>(x[2 * i], x[2 * i + 1]) : pack<fp16>(x[2 * i], x[2 * i + 1]);
        global_store((quad *)(to.first + 2 * offset), words);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; i++)
            if (i < count && fp32)
                global_store((float *)to.first + offset + i, x[i]);
            else if (i < count)
                global_store((uint16_t *)to.first + offset + i,
                             (uint16_t)(is_bf16 ? pack<bf16>(x[i], 0) : pack<fp16>(x[i], 0)));
    }
}

DEVICE float load_number(const array &from, uint64_t offset)
{
    return global_load((const float *)from.first + offset);
}

DEVICE void store_number(const array &to, uint64_t offset, float number)
{
    global_store((float *)to.first + offset, number);
}

// ---- runs: numbers side by side in every array ----

// Numbers that all arrays have side by side; `vectors` chunks each.
struct runs {
    uint64_t count, vectors, rows;
    uint32_t items;
    bool whole; // every vector's address is a multiple of 16 bytes
};

struct place {
    bool there, whole;
    uint64_t row, item, number;
    uint32_t count;

    DEVICE uint64_t in(const array &a) const
    {
        return row * a.row + item * a.item + number;
    }
};

DEVICE place place_of(const runs &r)
{
    const uint64_t n = (uint64_t)block_index() * THREADS + thread_index();
    place at;
    const uint64_t line = r.rows * r.items == 1 ? (n >= r.vectors ? 1 : 0) : quotient(n, r.vectors);
    at.there = line < r.rows * r.items;
    at.number = (n - line * r.vectors) * VECTOR;
    at.row = quotient(line, r.items);
    at.item = line - at.row * r.items;
    at.count = at.there && r.count - at.number < VECTOR ? (uint32_t)(r.count - at.number) : VECTOR;
    at.whole = r.whole && at.count == VECTOR;
    return at;
}

KERNEL(THREADS, 4) accumulate(const runs r, const array target, const array source, bool first)
{
    const place at = place_of(r);
    if (!at.there)
        return;
    float x[VECTOR], sum[VECTOR];
    load(x, source, at.in(source), at.count, at.whole);
    if (!first) {
        load(sum, target, at.in(target), at.count, at.whole);
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; i++)
            x[i] += sum[i];
    }
    store(target, at.in(target), at.count, at.whole, x);
}

DEVICE float sum_of_lse(float part, float lse)
{
    if (lse == -INFINITY)
        return part;
    if (part == -INFINITY)
        return lse;
    const float distance = part - lse;
    return (distance > 0 ? part : lse) + log1pf(expf(-fabsf(distance)));
}

KERNEL(THREADS, 4) sum_lse(const runs r, const array part, const array lse, bool first)
{
    const place at = place_of(r);
    if (!at.there)
        return;
    float x[VECTOR], y[VECTOR];
    load(x, part, at.in(part), at.count, at.whole);
    if (!first) {
        load(y, lse, at.in(lse), at.count, at.whole);
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; i++)
            x[i] = sum_of_lse(x[i], y[i]);
    }
    store(lse, at.in(lse), at.count, at.whole, x);
}

// What is not a number is never hidden.
KERNEL(THREADS, 4) raise(const runs r, const array other, const array top)
{
    const place at = place_of(r);
    if (!at.there)
        return;
    float x[VECTOR], y[VECTOR];
    load(x, other, at.in(other), at.count, at.whole);
    load(y, top, at.in(top), at.count, at.whole);
#pragma unroll
    for (uint32_t i = 0; i < VECTOR; i++)
        x[i] = x[i] <= y[i] || y[i] != y[i] ? y[i] : x[i];
    store(top, at.in(top), at.count, at.whole, x);
}

// ---- lanes: a head of an item of a row, its numbers, and numbers that it has one of ----

struct lanes {
    uint64_t rows, heads;
    uint32_t items, dim;
    uint32_t threads; // of a lane, a power of two up to 32: neighbours in a warp
    bool whole;
};

struct lane {
    bool there, leads; // the first of the lane's threads writes what the lane has one of
    uint64_t row, item, head;
    uint32_t number; // first of this thread

    // Offset of the lane's single number, and of its first number of `dim`.
    DEVICE uint64_t single(const array &a) const
    {
        return row * a.row + item * a.item + head;
    }
    DEVICE uint64_t many(const array &a, uint32_t dim) const
    {
        return row * a.row + item * a.item + head * dim;
    }
};

DEVICE lane lane_of(const lanes &all)
{
    const uint32_t of_block = THREADS / all.threads;
    const uint64_t n = (uint64_t)block_index() * of_block + thread_index() / all.threads;
    lane own;
    const uint64_t line = all.rows * all.items == 1 ? (n >= all.heads ? 1 : 0) : quotient(n, all.heads);
    own.there = line < all.rows * all.items;
    own.head = n - line * all.heads;
    own.row = quotient(line, all.items);
    own.item = line - own.row * all.items;
    own.leads = own.there && thread_index() % all.threads == 0;
    own.number = thread_index() % all.threads * VECTOR;
    return own;
}

// Does `step(offset, count, whole)` for this thread's vectors of its lane, offsets being in the lane.
template <class S> DEVICE void each_vector(const lanes &all, const lane &own, const S &step)
{
    if (own.there)
        for (uint32_t at = own.number; at < all.dim; at += all.threads * VECTOR) {
            const uint32_t count = all.dim - at < VECTOR ? all.dim - at : VECTOR;
            step(at, count, all.whole && count == VECTOR);
        }
}

// target = target keep + source take; nothing is read of what has factor 0.
DEVICE void blend(const lanes &all, const lane &own, const array &target, float keep, const array &source, float take)
{
    const uint64_t to = own.many(target, all.dim), from = own.many(source, all.dim);
    each_vector(all, own, [&](uint32_t at, uint32_t count, bool whole) {
        float sum[VECTOR] = {0}, x[VECTOR];
        if (take != 0) {
            load(x, source, from + at, count, whole);
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; i++)
                sum[i] = x[i] * take;
        }
        if (keep != 0) {
            load(x, target, to + at, count, whole);
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; i++)
                sum[i] += x[i] * keep;
        }
        store(target, to + at, count, whole, sum);
    });
}

KERNEL(THREADS, 4)
merge(const lanes all, const array o, const array lse, const array a, const array m, const array l, bool first)
{
    const lane own = lane_of(all);
    float part = -INFINITY, maximum = -INFINITY, sum = 0, keep = 0, take = 0;
    if (own.there) {
        part = load_number(lse, own.single(lse));
        if (!first) {
            maximum = load_number(m, own.single(m));
            sum = load_number(l, own.single(l));
        }
    }
    const bool empty = part == -INFINITY; // neutral, whatever is in O
    if (!empty) {
        const float larger = part > maximum || part != part ? part : maximum;
        keep = first ? 0 : expf(maximum - larger);
        take = expf(part - larger);
        maximum = larger;
        sum = sum * keep + take;
    }
    if (first || !empty)
        blend(all, own, a, keep, o, take);
    warp_sync(); // all threads of the lane have read m and l
    if (own.leads && (first || !empty)) {
        store_number(m, own.single(m), maximum);
        store_number(l, own.single(l), sum);
    }
}

KERNEL(THREADS, 4)
finish(const lanes all, const array a, const array m, const array l, const array o, const array lse)
{
    const lane own = lane_of(all);
    if (!own.there)
        return;
    const float sum = load_number(l, own.single(l));
    blend(all, own, o, 0, a, sum == 0 ? 0 : 1 / sum);
    if (own.leads)
        store_number(lse, own.single(lse), sum == 0 ? -INFINITY : load_number(m, own.single(m)) + logf(sum));
}

KERNEL(THREADS, 4) delta(const lanes all, const array o, const array d_o, const array delta_out)
{
    const lane own = lane_of(all);
    float sum = 0;
    each_vector(all, own, [&](uint32_t at, uint32_t count, bool whole) {
        float x[VECTOR], y[VECTOR];
        load(x, o, own.many(o, all.dim) + at, count, whole);
        load(y, d_o, own.many(d_o, all.dim) + at, count, whole);
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; i++)
            sum = multiply_add(x[i], y[i], sum);
    });
    for (uint32_t mask = all.threads / 2; mask > 0; mask /= 2)
        sum += warp_xor(sum, mask);
    if (own.leads)
        store_number(delta_out, own.single(delta_out), sum);
}

// e^(a - b); of an empty part 0.
DEVICE float weight_of(float a, float b)
{
    return a == -INFINITY ? 0 : expf(a - b);
}

KERNEL(THREADS, 4)
correct(const lanes all, const array part, const array part_lse, const array lse, const array o, bool first)
{
    const lane own = lane_of(all);
    if (!own.there)
        return;
    const float take = weight_of(load_number(part_lse, own.single(part_lse)), load_number(lse, own.single(lse)));
    blend(all, own, o, first ? 0 : 1, part, take);
}

KERNEL(THREADS, 4)
weigh(const lanes all, const array part, const array part_lse, const array top, const array numerator,
      const array denominator)
{
    const lane own = lane_of(all);
    if (!own.there)
        return;
    const float take = weight_of(load_number(part_lse, own.single(part_lse)), load_number(top, own.single(top)));
    blend(all, own, numerator, 0, part, take);
    if (own.leads)
        store_number(denominator, own.single(denominator), take);
}

KERNEL(THREADS, 4)
normalize(const lanes all, const array numerator, const array denominator, const array top, const array o,
          const array lse)
{
    const lane own = lane_of(all);
    float sum = 0, highest = 0;
    if (own.there) {
        sum = load_number(denominator, own.single(denominator));
        highest = load_number(top, own.single(top));
    }
    blend(all, own, o, 0, numerator, sum == 0 ? 0 : 1 / sum);
    warp_sync(); // `lse` may be `top`, which all threads of the lane have read
    if (own.leads)
        store_number(lse, own.single(lse), sum == 0 ? -INFINITY : highest + logf(sum));
}

// ---- launches ----

constexpr uint32_t ARRAYS_MAX = 5;

// A step's arrays: `many` of them have `dim` numbers a lane and come first.
struct arrays {
    const cuda_array *of[ARRAYS_MAX];
    uint32_t n, many;

    uint64_t width(uint32_t i, uint32_t dim) const
    {
        return i < many ? dim : 1;
    }
};

static array array_of(const cuda_array &a)
{
    return {(unsigned char *)a.first, a.strides.row, a.strides.item, (uint32_t)a.dtype};
}

static bool dtypes_are_valid(const arrays &all)
{
    for (uint32_t i = 0; i < all.n; i++) {
        const enum dtype dtype = all.of[i]->dtype;
        if (dtype != DTYPE_FP32 && (i >= all.many || (dtype != DTYPE_BF16 && dtype != DTYPE_FP16)))
            return false;
        if ((uintptr_t)all.of[i]->first % (dtype == DTYPE_FP32 ? 4 : 2) != 0)
            return false;
    }
    return true;
}

// Items, then rows, that follow each other in all arrays become heads.
static void fold(const arrays &all, uint32_t dim, uint64_t *rows, uint32_t *items, uint64_t *heads)
{
    bool touch = true;
    for (uint32_t i = 0; i < all.n; i++)
        touch = touch && all.of[i]->strides.item == *heads * all.width(i, dim);
    if (*items != 1 && !touch)
        return;
    *heads *= *items;
    *items = 1;
    touch = true;
    for (uint32_t i = 0; i < all.n; i++)
        touch = touch && all.of[i]->strides.row == *heads * all.width(i, dim);
    if (*rows != 1 && !touch)
        return;
    *heads *= *rows;
    *rows = 1;
}

// Whether vectors of all arrays with a dim can be accessed whole.
static bool is_aligned(const arrays &all, uint64_t rows, uint32_t items)
{
    bool aligned = true;
    for (uint32_t i = 0; i < all.many; i++)
        aligned = aligned && (uintptr_t)all.of[i]->first % 16 == 0 && (rows == 1 || all.of[i]->strides.row % 8 == 0) &&
                  (items == 1 || all.of[i]->strides.item % 8 == 0);
    return aligned;
}

static bool is_nothing(const cuda_extent &extent)
{
    return extent.rows == 0 || extent.items == 0 || extent.heads == 0 || extent.dim == 0;
}

template <class... P, class... A>
static int launch_lanes(void (*kernel)(lanes, P...), const cuda_extent &extent, const arrays &all, void *stream,
                        const A &...arguments)
{
    if (!dtypes_are_valid(all))
        return CUDA_INVALID;
    if (is_nothing(extent))
        return 0;
    lanes l = {extent.rows, extent.heads, extent.items, extent.dim, 1, false};
    fold(all, extent.dim, &l.rows, &l.items, &l.heads);
    l.whole = is_aligned(all, l.rows, l.items) && (extent.dim % 8 == 0 || l.heads * l.rows * l.items == 1);
    while (l.threads < 32 && l.threads * VECTOR < extent.dim)
        l.threads *= 2;
    const uint64_t of_block = THREADS / l.threads, count = l.rows * l.items * l.heads;
    return launch(kernel, (count + of_block - 1) / of_block, THREADS, 0, stream, l, arguments...);
}

template <class... P, class... A>
static int launch_runs(void (*kernel)(runs, P...), const cuda_extent &extent, const arrays &all, void *stream,
                       const A &...arguments)
{
    if (!dtypes_are_valid(all))
        return CUDA_INVALID;
    if (is_nothing(extent))
        return 0;
    uint64_t rows = extent.rows, heads = extent.heads;
    uint32_t items = extent.items;
    fold(all, extent.dim, &rows, &items, &heads);
    const uint64_t count = heads * extent.dim;
    const runs r = {count, (count + VECTOR - 1) / VECTOR, rows, items, is_aligned(all, rows, items)};
    return launch(kernel, (r.vectors * rows * items + THREADS - 1) / THREADS, THREADS, 0, stream, r, arguments...);
}

int cuda_elements_load()
{
    return load_kernels(accumulate, sum_lse, raise, merge, finish, delta, correct, weigh, normalize);
}

int cuda_merge(cuda_extent extent, cuda_array o, cuda_array lse, cuda_array a, cuda_array m, cuda_array l, int first,
               void *stream)
{
    return launch_lanes(merge, extent, {{&o, &a, &lse, &m, &l}, 5, 2}, stream, array_of(o), array_of(lse), array_of(a),
                        array_of(m), array_of(l), first != 0);
}

int cuda_finish(cuda_extent extent, cuda_array a, cuda_array m, cuda_array l, cuda_array o, cuda_array lse,
                void *stream)
{
    return launch_lanes(finish, extent, {{&a, &o, &m, &l, &lse}, 5, 2}, stream, array_of(a), array_of(m), array_of(l),
                        array_of(o), array_of(lse));
}

int cuda_delta(cuda_extent extent, cuda_array o, cuda_array d_o, cuda_array delta_out, void *stream)
{
    return launch_lanes(delta, extent, {{&o, &d_o, &delta_out}, 3, 2}, stream, array_of(o), array_of(d_o),
                        array_of(delta_out));
}

int cuda_correct(cuda_extent extent, cuda_array part, cuda_array part_lse, cuda_array lse, cuda_array o, int first,
                 void *stream)
{
    return launch_lanes(correct, extent, {{&part, &o, &part_lse, &lse}, 4, 2}, stream, array_of(part),
                        array_of(part_lse), array_of(lse), array_of(o), first != 0);
}

int cuda_weigh(cuda_extent extent, cuda_array part, cuda_array part_lse, cuda_array top, cuda_array numerator,
               cuda_array denominator, void *stream)
{
    return launch_lanes(weigh, extent, {{&part, &numerator, &part_lse, &top, &denominator}, 5, 2}, stream,
                        array_of(part), array_of(part_lse), array_of(top), array_of(numerator), array_of(denominator));
}

int cuda_normalize(cuda_extent extent, cuda_array numerator, cuda_array denominator, cuda_array top, cuda_array o,
                   cuda_array lse, void *stream)
{
    return launch_lanes(normalize, extent, {{&numerator, &o, &denominator, &top, &lse}, 5, 2}, stream,
                        array_of(numerator), array_of(denominator), array_of(top), array_of(o), array_of(lse));
}

int cuda_accumulate(cuda_extent extent, cuda_array target, cuda_array source, int first, void *stream)
{
    return launch_runs(accumulate, extent, {{&target, &source}, 2, 2}, stream, array_of(target), array_of(source),
                       first != 0);
}

// LSE and the like are of fp32: `arrays.many` has them as numbers of a dim all the same, for they may be wide.
static bool are_fp32(const cuda_array &a, const cuda_array &b)
{
    return a.dtype == DTYPE_FP32 && b.dtype == DTYPE_FP32;
}

int cuda_sum_lse(cuda_extent extent, cuda_array part, cuda_array lse, int first, void *stream)
{
    if (!are_fp32(part, lse))
        return CUDA_INVALID;
    return launch_runs(sum_lse, extent, {{&part, &lse}, 2, 2}, stream, array_of(part), array_of(lse), first != 0);
}

int cuda_raise(cuda_extent extent, cuda_array other, cuda_array top, void *stream)
{
    if (!are_fp32(other, top))
        return CUDA_INVALID;
    return launch_runs(raise, extent, {{&other, &top}, 2, 2}, stream, array_of(other), array_of(top));
}
