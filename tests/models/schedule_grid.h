/* schedule_grid.h - one algorithm's schedules over a grid of ranks, masks, shardings and settings. Include after
 * cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_SCHEDULE_GRID_H
#define CPSIM_TESTS_MODELS_SCHEDULE_GRID_H

#include "tests/models/checked_schedule.h"
#include "tests/models/program_sums.h"

/* ---- the grid ---- */

static const uint64_t grid_documents[] = {0, 3, 20, 21, 40};

static inline void grid_mask(struct fixture *f, unsigned kind)
{
    struct mask *mask = &f->experiment.mask;
    mask->kind = (enum mask_kind)kind;
    mask->window = 7;
    if (mask->kind != MASK_DOCUMENTS)
        return;
    mask->document_starts = f->documents;
    size_t n = 0;
    while (n < sizeof grid_documents / sizeof *grid_documents && grid_documents[n] < mask->seq_len)
        f->documents[n] = grid_documents[n], n++;
    f->documents[n] = mask->seq_len;
    mask->n_documents = n;
}

/* Explicit shards: every third rank has none, the last what is left. */
static inline void grid_sharding(struct fixture *f, unsigned kind, uint32_t ranks)
{
    f->experiment.sharding = (enum sharding_kind)kind;
    if (kind != SHARDING_EXPLICIT)
        return;
    uint64_t left = f->experiment.seq_len;
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t rows = r % 3 == 1 ? 0 : 1 + 3 * r;
        f->counts[r] = r + 1 == ranks ? left : rows < left ? rows : left;
        left -= f->counts[r];
    }
    f->experiment.shard_counts = f->counts;
}

/* Calls `visit` for every mask and sharding, with and without overlap, skipping nothing, the compute, or (where the
 * algorithm can) the transfer, and each type of travelling gradients. What it sets in the experiment, `prepare` may
 * change. */
static inline void grid_each(const struct algorithm_ops *algorithm, bool train,
                             void (*prepare)(struct experiment *experiment, unsigned variant), unsigned variants,
                             void (*visit)(struct fixture *f))
{
    unsigned skips = algorithm->uses & USES_SKIP_TRANSFER ? 3 : 2;
    for (uint32_t ranks = 1; ranks <= 7; ranks++) {
        for (unsigned n = 0; n < 4 * 5 * 2 * skips * variants; n++) {
            unsigned sharding = n / 4 % 5;
            if (sharding == SHARDING_PER_DOCUMENT && n % 4 != MASK_DOCUMENTS)
                continue;
            struct fixture *f = memory_zeroed(1, sizeof *f);
            uint64_t length = sharding == SHARDING_ZIGZAG ? 6 * (uint64_t)ranks : 4 + 5 * (uint64_t)ranks;
            f->experiment = plain_experiment(length, ranks);
            grid_mask(f, n % 4);
            grid_sharding(f, sharding, ranks);
            f->experiment.train = train;
            f->experiment.overlap = n / 20 % 2;
            f->experiment.skip = (enum skip_kind)(n / 40 % skips);
            if (prepare)
                prepare(&f->experiment, n / 40 / skips);
            build(f, algorithm);
            visit(f);
            release(f);
        }
    }
}

/* The nth attention operation of a phase: the shape of its work. */
static inline const struct op *nth_attention(const struct program *program, enum phase phase, uint32_t nth)
{
    return &program->ops[find_op(program, phase, phase == PHASE_FORWARD ? OP_ATTEND : OP_ATTEND_BACKWARD, nth)];
}

/* ---- sizes of a shard of `rows` rows ---- */

static inline uint64_t bytes_q(const struct fixture *f, uint64_t rows)
{
    return schedule_tensor_bytes(&f->schedule, TENSOR_Q, f->experiment.dtype, rows, f->schedule.lanes);
}

static inline uint64_t bytes_kv(const struct fixture *f, uint64_t rows)
{
    return schedule_tensor_bytes(&f->schedule, TENSOR_KV, f->experiment.dtype, rows, f->schedule.lanes);
}

static inline uint64_t bytes_lse(const struct fixture *f, uint64_t rows)
{
    return schedule_tensor_bytes(&f->schedule, TENSOR_LSE, dtype_accumulator(f->experiment.dtype), rows,
                                 f->schedule.lanes);
}

#endif
