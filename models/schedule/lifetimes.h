/* lifetimes.h - when each buffer's memory is needed: the rule that the prediction and the hardware mode share.
 *
 * The compute stream is the clock. Its operations (a group of messages counts as one) give points: the begin of a
 * phase, then the start and the finish of each operation, in order. Memory is given and taken back at points only:
 *   - a buffer is born when the compute stream has come so far that the first operation to touch it may start: at that
 *     operation's own start, or, if it is of another stream, at the finish of the last compute operation that it waits
 *     for (a receive owns its target as soon as it may be posted);
 *   - it dies at the first point at which every operation that touches it is known to have finished: it was the compute
 *     operation that finishes there, or one that the compute operation which starts there has waited for;
 *   - a collective of the compute stream needs all its buffers from the start of its first operation to the finish of
 *     its last, for hardware may make one call of it.
 * At a point, deaths come before births. Each phase counts for itself, because other layers run between them, unless
 * the backward phase reads what the forward phase left in the buffer. A resident buffer lives through the whole of
 * every phase in which it is touched, or, if it is in none, of the first; O and LSE, once written, to the end of the
 * step: the backward pass needs them. What is kept (buffer.kept) lives from the step's begin to its end, whether it is
 * touched or not. Buffers of one array are one.
 *
 * So how much memory a rank takes follows from its program alone: no network, no timing, no luck of a run changes it,
 * and every run can do with it.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LIFETIMES_H
#define CPSIM_MODELS_SCHEDULE_LIFETIMES_H

#include <stdint.h>

#include "models/schedule/streams.h"

struct life {
    uint32_t born, dies; /* points; the same: never needed */
};

struct lifetimes {
    struct life (*lives)[PHASE_COUNT]; /* [buffer]; one that lasts over both phases is the first phase's */
    uint32_t *starts;                  /* [op]: the point of its start; its finish is the next. Compute stream only */
    uint32_t phase_begin[PHASE_COUNT]; /* points */
    uint32_t n_points;                 /* the last is the end of the step */
};

void lifetimes_init(struct lifetimes *lifetimes, const struct stream_order *order);
void lifetimes_fini(struct lifetimes *lifetimes);

#endif
