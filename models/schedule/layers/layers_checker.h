/* layers_checker.h - proves, before anything runs, that programs of layers compute what they should.
 *
 * What checker.h shows of attention alone is shown here of what surrounds it, by one walk over each rank's program:
 *   - no operation reads what nobody wrote (weights that are kept, what the optimizer keeps and a single layer's
 *     resident ends apart);
 *   - each layer has its products, norms and sums once in each direction, with rows, columns and depth that are those
 *     of its buffers;
 *   - weights that are gathered are there for the layer that reads them, and are this layer's;
 *   - each gradient of a weight has all its contributions, nothing else, before it is summed over dp x cp, once, and
 *     the optimizer reads it; under sequence parallelism those of norms are summed over tp too;
 *   - new weights that are shared out are gathered, once;
 *   - a flowing collective moves the bytes that its kind takes for its buffers, and both ends of each message agree.
 *
 * Not shown: that every message is received and nothing deadlocks, which ensemble.h and execution.h say of any
 * program; and collectives that are written out.
 */
#ifndef CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_CHECKER_H
#define CPSIM_MODELS_SCHEDULE_LAYERS_LAYERS_CHECKER_H

#include "models/schedule/schedule.h"

/* Checks `programs` of CP ranks (schedule->ranks of them) as layers_build makes them. False with messages: the first
 * few problems and a count. Linear in their size. */
bool layers_prove(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag);

#endif
