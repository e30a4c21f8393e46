/* rank_threads.h - runs something on each rank of this process, a thread each. */
#ifndef CPSIM_HW_RUN_RANK_THREADS_H
#define CPSIM_HW_RUN_RANK_THREADS_H

#include "hw/transport.h"

/* Calls `work` with `context` and the index of each of `ends`, all at once; the first stays on the calling thread,
 * which MPI prefers. Returns when all are done: whether all returned true. When a thread cannot be started the ranks
 * are told (transport `fail`), and that is false too. */
bool rank_threads_run(const struct transport_ops *transport, struct transport **ends, uint32_t n_ends,
                      bool (*work)(void *context, uint32_t end), void *context);

#endif
