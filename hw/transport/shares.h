/* shares.h - what members of a collective give and get, as bytes in pieces of memory: copied, packed and added up.
 *
 * And how they are to be laid out for a library whose counts have 32 bits: in units larger than a byte, or in chunks.
 */
#ifndef CPSIM_HW_TRANSPORT_SHARES_H
#define CPSIM_HW_TRANSPORT_SHARES_H

#include "hw/transport.h"

uint64_t share_bytes(const struct share_of_memory *share);

/* Bytes [offset, offset + bytes) of a share, out of it or into it. */
void share_read(const struct share_of_memory *share, uint64_t offset, void *target, uint64_t bytes);
void share_write(const struct share_of_memory *share, uint64_t offset, const void *source, uint64_t bytes);
/* All of `source` into `target`, of the same size; they may be the same memory, or cut differently. */
void share_copy(const struct share_of_memory *target, const struct share_of_memory *source);

/* target[i] += source[i], or the larger of both: `count` numbers of fp32 or bf16, each sum rounded. */
void share_fold(enum dtype dtype, bool largest, void *target, const void *source, size_t count);

/* Bytes [offset, offset + bytes) of the sum (or the largest) of the `n` shares that give anything, in their order,
 * accumulated in fp32, into each of the `n_targets` targets, which may be among the shares. */
void shares_reduce(const struct share_of_memory *const *shares, uint32_t n, enum dtype dtype, bool largest,
                   uint64_t offset, uint64_t bytes, const struct share_of_memory *const *targets, uint32_t n_targets);

/* ---- counts of 32 bits ---- */

/* Where blocks lie behind an address, in units of `unit` bytes. */
struct unit_layout {
    char *base; /* NULL: anywhere */
    uint64_t unit;
    int *counts, *offsets; /* [n], the caller's */
};

/* The `n` blocks one behind the other. False when these numbers do not fit; the same on all ranks. */
bool unit_layout_packed(struct unit_layout *layout, const uint64_t *bytes, uint32_t n);
/* Where they are: each target in one piece, with its bytes[i]. False when that cannot be said so. */
bool unit_layout_placed(struct unit_layout *layout, const struct share_of_memory *targets, const uint64_t *bytes,
                        uint32_t n);

/* Whether the shares are one run of memory in their order, each there and of its bytes[i]. */
bool shares_are_one_run(const struct share_of_memory *shares, const uint64_t *bytes, uint32_t n);

/* A sum that is scattered goes in chunks of so many numbers of each of `n` members' blocks, so that all of a chunk's
 * numbers together can be counted. */
#define SUM_NUMBERS_MAX (UINT64_C(1) << 28)
uint64_t sum_chunk_numbers(uint32_t n);

#endif
