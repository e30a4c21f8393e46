/* step_path.h - why the step takes as long as it does, its critical path: a chain of pieces of time without a gap, from
 * its end back to its start, each of which began because the one before it had ended.
 *
 * It starts at the operation that ends last, and from an operation goes to what kept it from beginning earlier: of all
 * that it waited for, what ended last. Of things that ended together it takes the first in this order: the operation
 * before it in its stream; one of another stream that it has a hazard with; for a message, the same of its other end;
 * a kernel whose end it waited for, to have the device or to be called behind; the host, which had not issued it; the
 * begin of the phase, of its replica or of its other end's. What a phase began with is what the phase before of that
 * replica ended with.
 *
 * Pieces, all of which take time, meet: one ends where the next begins, the first begins at 0, the last ends with the
 * step. So they add up to the step, whatever the schedule. Each is split by what the time went for.
 *
 * Folded, the path goes over ranks as they are, with the moments of those that stand for them.
 */
#ifndef CPSIM_MODELS_RESULT_STEP_PATH_H
#define CPSIM_MODELS_RESULT_STEP_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "models/result/folding.h"
#include "models/result/timeline.h"

/* What a piece of the path went for. */
enum path_kind {
    PATH_ATTENTION,
    PATH_MERGE,    /* partial outputs merged, gradients summed */
    PATH_OTHER,    /* all other kernels */
    PATH_START,    /* what kernels take whatever their size */
    PATH_SLOWED,   /* by how much transfers slow kernels down */
    PATH_LATENCY,  /* of messages, until their bytes move */
    PATH_TRANSFER, /* of bytes, as fast as they move alone */
    PATH_SHARED,   /* by how much they move more slowly, sharing links */
    PATH_WAITING,  /* for SMs, or a turn */
    PATH_HOST,     /* issuing */
    PATH_PRODUCT,  /* matrix products of layers */
    PATH_KIND_COUNT,
};

/* What ended where a piece begins. */
enum path_cause {
    PATH_BY_STREAM, /* the operation before it in its stream */
    PATH_BY_HAZARD, /* one of another stream, which had a buffer */
    PATH_BY_PEER,   /* what its other end waited for: the peer was late */
    PATH_BY_TURN,   /* a kernel that had the device, or was called before it */
    PATH_BY_HOST,   /* issuing it */
    PATH_BY_PHASE,  /* the phase before, or nothing: the step begins */
};

#define PATH_NO_OP UINT32_MAX

struct path_piece {
    double begin, end;
    double seconds[PATH_KIND_COUNT]; /* of it, for what */
    enum phase phase;                /* its activity's */
    enum path_cause cause;
    struct activity activity; /* of the ensemble of all ranks; a message by the end at which the path came to it. The
                                 host's: the rank's, and PATH_NO_OP */
};

struct step_path {
    struct path_piece *pieces; /* from the step's start to its end */
    size_t count, capacity;
};

/* What an activity takes alone: `seconds`, of which `start` whatever its size; of a message, its latency. */
struct path_cost {
    double seconds, start;
};

struct path_input {
    const struct ensemble *whole;  /* of all ranks */
    const struct folding *folding; /* that the timeline is of; NULL: of all ranks */
    const struct timeline *timeline;
    const uint32_t *device_of; /* [instance of `whole`]: ranks with equal numbers share a device; NULL: none do */
    /* Activities of the timeline's ensemble; a message is its send. NULL: what it took is what it takes alone. */
    struct path_cost (*cost)(const void *context, struct activity activity);
    /* When the host has issued an activity, both ends of a message; NULL: at once. */
    double (*issued)(const void *context, struct activity activity);
    const void *context;
};

void step_path_init(struct step_path *path, const struct path_input *input);
void step_path_fini(struct step_path *path);

/* A word each, as JSON has them. */
const char *path_kind_name(enum path_kind kind);
const char *path_cause_name(enum path_cause cause);

#endif
