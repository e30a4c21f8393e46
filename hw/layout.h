/* layout.h - where the rows and lanes of a tensor are in a buffer's memory, for compute backends and messages alike.
 *
 * A buffer is one or more arrays behind one another, each [row][item][head][dim] (or [row][item][head]) for all of the
 * buffer's rows and lanes: KV and dKV: K, then V, of the KV heads that the lanes read; a partial result: O, then its
 * LSE in fp32; a state: a, m, l; all other tensors one array. A buffer of n rows keeps row r of a shard in its place
 * (r - first) mod n, so that one with room for all its rows holds each at its own index, and one with room for a block
 * holds that. (Blocks of kv_block rows never straddle a multiple of it.)
 *
 * A tensor of layers is one array of one lane (layer_layout.h).
 */
#ifndef CPSIM_HW_LAYOUT_H
#define CPSIM_HW_LAYOUT_H

#include "hw/transport.h"
#include "models/schedule/accesses.h"
#include "models/schedule/schedule.h"

#define LAYOUT_ARRAYS_MAX PIECES_MAX

struct buffer_layout {
    struct lanes lanes; /* the buffer's; of keys, with KV heads for heads */
    uint32_t n_arrays;
    struct {
        uint64_t offset, row_bytes;
        uint32_t width; /* numbers of one head */
        enum dtype dtype;
    } arrays[LAYOUT_ARRAYS_MAX];
};

struct buffer_layout layout_of(const struct schedule *schedule, const struct buffer *buffer);

/* `lanes` (of query heads) as the tensor has them: of keys, the KV heads that they read. */
struct lanes layout_lanes(const struct schedule *schedule, enum tensor tensor, struct lanes lanes);

/* The address of the first row of `block` in array `array` of a buffer at `memory`. */
void *layout_rows(const struct buffer_layout *layout, const struct buffer *buffer, void *memory, uint32_t array,
                  struct block block);
/* How far into a row the first of some lanes (as layout_lanes gives them) is, in bytes. */
uint64_t layout_lane_offset(const struct buffer_layout *layout, uint32_t array, struct lanes lanes);

/* What a message carries: some lanes (as layout_lanes gives them) of the rows of a block. */
struct cargo {
    struct block block;
    struct lanes lanes;
    enum part part;
};

struct cargo layout_cargo(const struct schedule *schedule, const struct program *program, const struct op *message);

/* Calls `visit` for each run of memory that the cargo consists of, in the order in which it travels; returns the bytes
 * of all. Runs that touch are one. */
uint64_t layout_runs(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                     const struct cargo *cargo, void (*visit)(void *context, void *run, uint64_t bytes), void *context);

/* The same runs as pieces of a message; returns their number. If that is beyond PIECES_MAX, only so many are written.
 */
uint32_t layout_cargo_pieces(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                             const struct cargo *cargo, struct piece_of_memory pieces[PIECES_MAX]);

/* The bytes of each array that the cargo is of, in the order in which they travel; returns their number. Unlike pieces,
 * they do not depend on the buffer's size, and are the same at both ends of a message. */
uint32_t layout_cargo_arrays(const struct buffer_layout *layout, const struct buffer *buffer, const struct cargo *cargo,
                             uint64_t bytes[LAYOUT_ARRAYS_MAX]);

/* The pieces of all lanes of some rows: as many as there are arrays, at most. */
uint32_t layout_pieces(const struct buffer_layout *layout, const struct buffer *buffer, void *memory,
                       struct block block, enum part part, struct piece_of_memory pieces[PIECES_MAX]);

/* Checks that buffers are as large as they say, that every operation's rows and lanes have their place in its buffers,
 * and that messages carry the bytes they say. A program that fails has not come from an algorithm. False with a message
 * for each. */
bool layout_check(const struct schedule *schedule, const struct program *program, struct diagnostics *diag);

#endif
