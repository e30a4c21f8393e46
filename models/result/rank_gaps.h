/* rank_gaps.h - the gaps between a rank's kernels, and the parts of them in which it was exposed (report.h). */
#ifndef CPSIM_MODELS_RESULT_RANK_GAPS_H
#define CPSIM_MODELS_RESULT_RANK_GAPS_H

#include "models/result/kinds.h"
#include "models/result/rank_ops.h"
#include "models/result/timeline.h"

/* What of one gap was exposed, and what idle. */
struct gap_seconds {
    double exposed, idle;
};

struct rank_gaps {
    double exposed_by_kind[WAIT_KINDS];   /* each gap's by the message that ended last of those waited for in it */
    struct gap_seconds tail[PHASE_COUNT]; /* behind the last kernel of each phase, until the phase ended */
    struct gap_seconds *before;           /* [operation]: just before it, left as it is where there is no gap; NULL: is
                                             not wanted */
    struct intervals *exposed;            /* gets when it was exposed, in order; NULL: is not wanted */
};

/* Walks the gaps of one instance of a program, phase by phase: `kernels` are its local operations of the compute
 * streams in order of their begin, n_kernels of them in each phase. `gaps` comes with what is wanted, the rest zero. */
void rank_gaps_walk(struct rank_gaps *gaps, const struct rank_ops *ops, struct instance_times times,
                    const uint32_t *kernels, const uint32_t n_kernels[PHASE_COUNT],
                    const double phase_end[PHASE_COUNT]);

/* Of all kinds. */
double rank_gaps_exposed(const struct rank_gaps *gaps);

#endif
