/* internal.h - what the parts of the checker share.
 *
 *   form.c, operands.c, room.c  each program by itself: blocks, operands, sizes, messages
 *   cells.c                     which lanes are alike for all programs
 *   groups.c                    the messages that a program posts together
 *   collectives.c               what libraries have one call for
 *   walk.c, held.c, combine.c   what every buffer holds, step by step; rows.c: of joined shards
 *   results.c                   what has come out: every pair attended once and delivered once
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_INTERNAL_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_INTERNAL_H

#include "models/schedule/checker/cells.h"
#include "models/schedule/checker/contents.h"
#include "models/schedule/checker/findings.h"
#include "models/schedule/checker/sums.h"
#include "models/schedule/schedule.h"

/* What a buffer holds: for each of its cells and both parts. */
struct holding {
    struct cell_range cells;
    struct contents *contents; /* [2 * place of the cell + part] */
};

struct check {
    const struct schedule *schedule;
    const struct program *programs;
    uint32_t ranks;
    uint64_t *rows; /* of each rank's shard */
    uint64_t rows_max;
    struct findings findings;

    struct cells cells;
    struct holding **holdings;  /* [rank][buffer] */
    struct contents **contents; /* [rank]: those of all its buffers; of one cell, [2 * buffer + part] */
    uint32_t *n_contents;
    struct sums sums;
    /* What each rank's resident O and LSE held when the forward phase ended: the backward pass must use these.
     * [rank * cells + cell] */
    struct contents *final_o, *final_lse;
    uint32_t forward_leaves; /* the sums' leaves before this are of the forward phase */
};

static inline enum tensor tensor_of(const struct program *program, uint32_t buffer)
{
    return (enum tensor)program->buffers[buffer].tensor;
}

/* Whether `owner` is a rank or a group of joined ranks; how many rows it has. */
static inline bool check_owner_exists(const struct check *check, uint32_t owner)
{
    return block_is_joined(owner) ? (owner & ~BLOCK_JOINED) < sharding_groups(&check->schedule->sharding)
                                  : owner < check->ranks;
}

static inline uint64_t check_rows_of(const struct check *check, uint32_t owner)
{
    return block_is_joined(owner) ? sharding_rows(&check->schedule->sharding, owner) : check->rows[owner];
}

/* Whether every row of `owner` has a place of its own in a buffer: in a resident tensor, and where there is room for a
 * whole shard. Elsewhere a buffer holds one block, and a write replaces it. */
static inline bool check_has_place_for_all(const struct check *check, const struct buffer *buffer, uint32_t owner)
{
    if (buffer->role == ROLE_RESIDENT)
        return true;
    bool all_rows = tensor_goes_by_keys((enum tensor)buffer->tensor) || !check->schedule->sharding.cached;
    uint64_t all = all_rows ? check_rows_of(check, owner) : sharding_queries(&check->schedule->sharding, owner).count;
    return buffer->rows >= all;
}

/* The rows and lanes of a rank's resident buffer of `tensor`. */
static inline struct block check_resident_rows(const struct check *check, uint32_t rank, enum tensor tensor)
{
    return tensor_goes_by_keys(tensor) ? (struct block){rank, 0, (uint32_t)check->rows[rank]}
                                       : schedule_queries(check->schedule, rank);
}

static inline struct lanes check_resident_lanes(const struct check *check, uint32_t rank, enum tensor tensor)
{
    return tensor_goes_by_keys(tensor) ? check->schedule->lanes : schedule_query_lanes(check->schedule, rank);
}

static inline struct contents *check_contents(const struct check *check, uint32_t rank, uint32_t buffer, unsigned part,
                                              uint32_t cell)
{
    if (check->cells.count == 1)
        return &check->contents[rank][2 * (size_t)buffer + part];
    const struct holding *holding = &check->holdings[rank][buffer];
    return &holding->contents[2 * cells_place(&check->cells, holding->cells, cell) + part];
}

/* " (heads 0-3 of item 0)": which lanes a complaint is about, or nothing if programs do not divide them. */
void check_describe_cell(const struct check *check, uint32_t cell, char *text, size_t size);

/* Visible pairs between two blocks; of queries and all keys; of those of a leaf, that belong to a run of its rows. */
uint64_t check_pairs(const struct check *check, struct block q, struct block k);
uint64_t check_all_pairs(const struct check *check, struct block q);
uint64_t check_leaf_pairs(const struct check *check, const struct leaf *leaf, enum tensor tensor,
                          const struct piece *piece);

/* Whether operations only ever name what exists: buffers, ranks, rows, sizes that agree, messages of a group that do
 * not disturb each other. The walk relies on it. */
bool form_check(struct check *check);

/* The groups of a program whose operations are sound. */
void groups_check(struct check *check, const struct program *program);

/* The collectives of all programs, whose operations are sound: each in one piece, and the same calls in the same order
 * at all who take part. */
void collectives_check(struct check *check);

/* Runs the programs and follows their buffers; judges each phase when it ends. */
void walk_programs(struct check *check);

/* Judges the forward phase (after it) or the backward phase (after that). */
void results_check(struct check *check, enum phase phase);

/* The resident buffer of `tensor` in a program: its index, or n_buffers. */
uint32_t check_resident(const struct program *program, enum tensor tensor);

#endif
