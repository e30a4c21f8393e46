/* shares.c - what each member of a collective gives and gets: pieces of memory, cut, copied and summed. */
#include "hw/transport/shares.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "hw/verify/inputs.h"

uint64_t share_bytes(const struct share_of_memory *share)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < share->n_pieces; i++)
        bytes += share->pieces[i].bytes;
    return bytes;
}

/* ---- copies ---- */

static void move_bytes(const struct share_of_memory *share, uint64_t offset, char *outside, uint64_t bytes, bool out)
{
    for (uint32_t i = 0; i < share->n_pieces && bytes > 0; i++) {
        struct piece_of_memory piece = share->pieces[i];
        uint64_t skipped = offset < piece.bytes ? offset : piece.bytes, left = piece.bytes - skipped;
        uint64_t taken = left < bytes ? left : bytes;
        char *inside = (char *)piece.memory + skipped;
        if (taken)
            memmove(out ? outside : inside, out ? inside : outside, taken);
        offset -= skipped;
        outside += taken;
        bytes -= taken;
    }
    assert(bytes == 0);
}

void share_read(const struct share_of_memory *share, uint64_t offset, void *target, uint64_t bytes)
{
    move_bytes(share, offset, target, bytes, true);
}

void share_write(const struct share_of_memory *share, uint64_t offset, const void *source, uint64_t bytes)
{
    move_bytes(share, offset, (char *)(uintptr_t)source, bytes, false);
}

void share_copy(const struct share_of_memory *target, const struct share_of_memory *source)
{
    uint64_t offset = 0;
    assert(share_bytes(target) == share_bytes(source));
    if (source->n_pieces == 0 || target->pieces[0].memory == source->pieces[0].memory)
        return; /* nothing, or it is where it belongs */
    for (uint32_t i = 0; i < source->n_pieces; i++) {
        share_write(target, offset, source->pieces[i].memory, source->pieces[i].bytes);
        offset += source->pieces[i].bytes;
    }
}

/* ---- sums ---- */

static float fold(bool largest, float a, float b)
{
    return largest ? (b > a ? b : a) : a + b;
}

void share_fold(enum dtype dtype, bool largest, void *target, const void *source, size_t count)
{
    assert(dtype == DTYPE_FP32 || dtype == DTYPE_BF16);
    if (dtype == DTYPE_FP32) {
        float *sum = target;
        const float *other = source;
        for (size_t i = 0; i < count; i++)
            sum[i] = fold(largest, sum[i], other[i]);
    } else {
        uint16_t *sum = target;
        const uint16_t *other = source;
        for (size_t i = 0; i < count; i++)
            sum[i] = bf16_from_float(fold(largest, bf16_to_float(sum[i]), bf16_to_float(other[i])));
    }
}

#define STRETCH 2048 /* numbers that are summed at a time */

union stretch {
    float fp32[STRETCH];
    uint16_t bf16[STRETCH];
};

void shares_reduce(const struct share_of_memory *const *shares, uint32_t n, enum dtype dtype, bool largest,
                   uint64_t offset, uint64_t bytes, const struct share_of_memory *const *targets, uint32_t n_targets)
{
    assert(dtype == DTYPE_FP32 || dtype == DTYPE_BF16);
    uint64_t size = dtype_bytes(dtype);
    for (uint64_t done = 0; done < bytes; done += STRETCH * size) {
        uint64_t left = bytes - done, taken = left < STRETCH * size ? left : STRETCH * size;
        size_t count = (size_t)(taken / size);
        float sums[STRETCH] = {0};
        union stretch numbers;
        bool first = true;
        for (uint32_t s = 0; s < n; s++) {
            if (shares[s]->n_pieces == 0)
                continue;
            share_read(shares[s], offset + done, &numbers, taken);
            for (size_t i = 0; i < count; i++) {
                float number = dtype == DTYPE_BF16 ? bf16_to_float(numbers.bf16[i]) : numbers.fp32[i];
                sums[i] = first ? number : fold(largest, sums[i], number);
            }
            first = false;
        }
        for (size_t i = 0; i < count; i++) {
            if (dtype == DTYPE_BF16)
                numbers.bf16[i] = bf16_from_float(sums[i]);
            else
                numbers.fp32[i] = sums[i];
        }
        for (uint32_t t = 0; t < n_targets; t++)
            share_write(targets[t], offset + done, &numbers, taken);
    }
}

/* ---- counts of 32 bits ---- */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest unit of all blocks: 1 when they are empty. An MPI datatype of so many bytes has a 32-bit count itself. */
static uint64_t unit_of(const uint64_t *bytes, uint32_t n)
{
    uint64_t unit = UINT64_C(1) << 30;
    for (uint32_t i = 0; i < n; i++)
        unit = common_divisor(unit, bytes[i]);
    return unit;
}

bool unit_layout_packed(struct unit_layout *layout, const uint64_t *bytes, uint32_t n)
{
    uint64_t unit = unit_of(bytes, n), at = 0;
    layout->base = NULL;
    layout->unit = unit;
    for (uint32_t i = 0; i < n; i++) {
        if ((at + bytes[i]) / unit > INT_MAX)
            return false;
        layout->counts[i] = (int)(bytes[i] / unit);
        layout->offsets[i] = (int)(at / unit);
        at += bytes[i];
    }
    return true;
}

bool unit_layout_placed(struct unit_layout *layout, const struct share_of_memory *targets, const uint64_t *bytes,
                        uint32_t n)
{
    char *base = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (bytes[i] == 0)
            continue;
        if (targets[i].n_pieces != 1 || targets[i].pieces[0].bytes != bytes[i])
            return false;
        char *memory = targets[i].pieces[0].memory;
        base = !base || memory < base ? memory : base;
    }
    uint64_t unit = unit_of(bytes, n);
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i])
            unit = common_divisor(unit, (uint64_t)((char *)targets[i].pieces[0].memory - base));
    layout->base = base;
    layout->unit = unit;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = bytes[i] ? (uint64_t)((char *)targets[i].pieces[0].memory - base) : 0;
        if ((at + bytes[i]) / unit > INT_MAX)
            return false;
        layout->counts[i] = (int)(bytes[i] / unit);
        layout->offsets[i] = (int)(at / unit);
    }
    return true;
}

bool shares_are_one_run(const struct share_of_memory *shares, const uint64_t *bytes, uint32_t n)
{
    const char *next = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (bytes[i] == 0)
            continue;
        if (shares[i].n_pieces != 1 || shares[i].pieces[0].bytes != bytes[i] ||
            (next && shares[i].pieces[0].memory != next))
            return false;
        next = (const char *)shares[i].pieces[0].memory + bytes[i];
    }
    return true;
}

uint64_t sum_chunk_numbers(uint32_t n)
{
    uint64_t numbers = SUM_NUMBERS_MAX / n;
    return numbers ? numbers : 1;
}
