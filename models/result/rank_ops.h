/* rank_ops.h - a program's operations as a rank's time is told by them (rank_time.h): what computes, what communicates,
 * which messages a kernel has waited for. The same for all who run the program, whenever.
 */
#ifndef CPSIM_MODELS_RESULT_RANK_OPS_H
#define CPSIM_MODELS_RESULT_RANK_OPS_H

#include <stdbool.h>

#include "models/schedule/streams.h"

#define COMPUTE_STREAMS 2 /* STREAM_COMPUTE, STREAM_COMPUTE_2 */

/* Operations by their indices, in program order. */
struct rank_ops {
    const struct program *program; /* outlives this */
    uint32_t *locals, n_locals;
    uint32_t *messages, n_messages;
    uint32_t *beside, n_beside; /* local ones of other streams than the compute streams */
    struct {
        uint32_t *ops, n[PHASE_COUNT]; /* phase by phase */
    } kernels[COMPUTE_STREAMS];
    /* In each phase one of these ends last: the last of every stream, or its last group. Phase by phase. */
    uint32_t *last, n_last[PHASE_COUNT];
    /* Messages once more, stream by stream; only streams that have any. */
    uint32_t *by_stream;
    uint32_t n_streams, first[STREAM_COUNT + 1]; /* [which stream]: its first in by_stream; the last one's end */
    uint32_t
        *waited; /* [op * n_streams + which stream]: of a kernel: before which of by_stream it has waited for all */
};

void rank_ops_init(struct rank_ops *ops, const struct stream_order *order);
void rank_ops_fini(struct rank_ops *ops);

/* Whether `op` is a local operation of a compute stream, between which a rank waits. */
static inline bool op_is_compute(const struct op *op)
{
    return stream_computes((enum stream)op->stream) && !op_is_message(op);
}

#endif
