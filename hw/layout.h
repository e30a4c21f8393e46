/* layout.h - where the rows of a tensor are in a buffer's memory, for compute backends and messages alike.
 *
 * A buffer is one or more arrays behind one another, each [rows][batch][heads][dim] (or [rows][batch][heads]) for all
 * of the buffer's rows: KV and dKV: K, then V; a partial result: O, then its LSE in fp32; a state: a, m, l; all other
 * tensors one array. A buffer of n rows keeps row r of a shard in its place r mod n, so that one with room for the
 * whole shard holds every row at its own index, and one with room for a block holds that. (Blocks of kv_block rows
 * never straddle a multiple of it.)
 */
#ifndef CPSIM_HW_LAYOUT_H
#define CPSIM_HW_LAYOUT_H

#include "hw/transport.h"
#include "models/schedule/schedule.h"

#define LAYOUT_ARRAYS_MAX PIECES_MAX

struct layout {
    uint32_t n_arrays;
    struct {
        uint64_t offset, row_bytes;
        enum dtype dtype;
    } arrays[LAYOUT_ARRAYS_MAX];
};

struct layout layout_of(const struct schedule *schedule, const struct buffer *buffer);

/* The block of the i-th buffer that `op` reads (or writes): its queries or its keys, whichever the buffer's tensor is
 * of; of keys of all ranks, the part of the owner whose turn it is. */
struct block layout_block(const struct schedule *schedule, const struct program *program, const struct op *op,
                          bool write, uint32_t i);

/* The part of a block of BLOCK_ALL that `owner` has; count 0 if none. */
struct block layout_owner_part(const struct schedule *schedule, struct block block, uint32_t owner);

/* The address of the first row of `block` in array `array` of a buffer at `memory`. */
void *layout_rows(const struct layout *layout, const struct buffer *buffer, void *memory, uint32_t array,
                  struct block block);

/* The pieces of memory that a message of `block` consists of; returns their number. Arrays that touch are one piece. */
uint32_t layout_pieces(const struct layout *layout, const struct buffer *buffer, void *memory, struct block block,
                       enum part part, struct piece_of_memory pieces[PIECES_MAX]);

/* Checks that every operation's rows have their place in its buffers and that messages carry the bytes they say. A
 * program that fails has not come from an algorithm. False with a message for each. */
bool layout_check(const struct schedule *schedule, const struct program *program, struct diagnostics *diag);

#endif
