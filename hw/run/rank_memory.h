/* rank_memory.h - the memory of one rank's buffers while its program runs.
 *
 * Buffers are given memory and give it back at the points of models/schedule/lifetimes.h, the rule by which the
 * prediction counts, so the high-water mark is the predicted one whatever the order of events in a run; a test holds
 * the two together. Memory given back is kept for the next buffer of the same size (so that a repeated run does not pay
 * for fresh pages), but never more than the mark in all. Inputs are written once and stay.
 *
 * Buffers of one array (program.h) are one piece of memory, one behind the other without gaps; they live and die
 * together, as the lifetimes say.
 */
#ifndef CPSIM_HW_RUN_RANK_MEMORY_H
#define CPSIM_HW_RUN_RANK_MEMORY_H

#include "hw/compute.h"
#include "models/schedule/lifetimes.h"

struct rank_memory {
    const struct program *program;
    const struct compute_ops *ops;
    struct compute *compute;
    struct lifetimes lifetimes;
    struct point_list {
        uint32_t *buffers, *starts; /* those of point p: buffers[starts[p]] to buffers[starts[p + 1]] */
    } births, deaths;
    void **memory;  /* [buffer]; NULL: none now */
    bool *is_input; /* [buffer]: Q, KV or dO of the rank itself; of a layer x, dy and weights */
    /* Pieces of memory, each known by its first buffer. */
    uint32_t *leaders;     /* [buffer]: of the piece that it is in */
    uint64_t *offsets;     /* [buffer]: in that */
    uint64_t *piece_bytes; /* [leader] */
    bool *piece_stays;     /* [leader]: an input is in it */
    void **pieces;         /* [leader]: NULL: none now */
    struct spare {
        void *memory;
        uint64_t bytes;
    } * spares;
    size_t n_spares, spare_capacity;
    uint64_t spare_bytes;
    uint64_t bytes, peak_bytes; /* live now, and at most since the last reset */
    uint64_t mark_bytes;        /* what the lifetimes say is the most */
};

void rank_memory_init(struct rank_memory *memory, const struct stream_order *order, const struct compute_ops *ops,
                      struct compute *compute);
void rank_memory_fini(struct rank_memory *memory);

/* Begins a step: nothing is live. `keep_inputs`: those written stay as they are; else all is given back. */
void rank_memory_reset(struct rank_memory *memory, bool keep_inputs);

/* Goes to `point`: first takes back what dies there, then gives what is born there. `born` (may be NULL) is called for
 * each buffer that gets memory with undefined contents. Returns the buffer for which there was not enough, or -1. */
int64_t rank_memory_at(struct rank_memory *memory, uint32_t point, void (*born)(void *context, uint32_t buffer),
                       void *context);
#endif
