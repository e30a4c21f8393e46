/* advice_point.h - one candidate of an advice, looked at: what a worker makes of it, and how that travels.
 *
 * A look has a depth. A *screening* builds the whole programs of a few ranks (the first, the middle one, the last),
 * whose memory is exact, and where they fit times the step with the analytic engine, a lower bound on what messages
 * take. A *trial* times it with the engine that was asked for, and finds its interval.
 *
 * A step of a whole model takes as much longer with each layer as with the one before, from the first few on: so of a
 * model of more than three buckets of layers one and two buckets are timed, and the rest follows (the tests hold that
 * against whole steps); four, eight and so on as long as more layers hide more of the sums of weights' gradients. Its
 * memory does not follow, and is that of the whole.
 */
#ifndef CPSIM_CLI_ADVICE_POINT_H
#define CPSIM_CLI_ADVICE_POINT_H

#include <stdio.h>

#include "cli/advice_space.h"
#include "models/result/kinds.h"

enum advice_depth { ADVICE_SCREENING, ADVICE_TRIAL, ADVICE_DEPTHS };

enum advice_status {
    ADVICE_NOT_SEEN,
    ADVICE_RAN,
    ADVICE_NO_ROOM, /* it does not fit: no times */
    ADVICE_REFUSED, /* by the experiment's reader, the algorithm or the cluster */
    ADVICE_FAILED,
};

/* Seconds are a step's. */
struct advice_times {
    double seconds, low, high;
    double bound; /* the most computing rank's kernels, back to back */
    double compute, exposed, idle;
    double waits[WAIT_KINDS];    /* exposed, by what is waited for */
    double parts[COMPUTE_PARTS]; /* compute, by kind; all 0 of attention alone */
    double recomputed;
};

struct advice_answer {
    enum advice_status status;
    struct advice_times times;
    double peak_bytes, device_bytes, reserve_bytes; /* of the device: 0: it states none */
    double model_flops;                             /* of one GPU */
    double peak_flops_per_s;
    char *line; /* REFUSED, FAILED: why */
};

/* Looks at the candidate and writes its answer; `question` has a cache. */
void advice_point_answer(const struct advice_space *space, const struct question *question, size_t candidate,
                         enum advice_depth depth, FILE *stream);
/* Reads one. False when it is none. The caller frees the line. */
bool advice_answer_read(struct advice_answer *answer, const char *bytes, size_t size);

/* Of layers, so many in the first and the second of two runs; 0: the whole is run. */
uint32_t advice_layers(const struct experiment *experiment, int run);

#endif
