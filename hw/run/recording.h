/* recording.h - what the ranks of a process share when a phase of all of them becomes one graph.
 *
 * One of them is the recorder: its compute stream is where recording begins and ends, and where the graph is launched.
 * The queues of the others join by waiting for a mark in it, and it waits for a mark at the end of each. Meanwhile one
 * rank queues at a time.
 */
#ifndef CPSIM_HW_RUN_RECORDING_H
#define CPSIM_HW_RUN_RECORDING_H

#include <pthread.h>

#include "hw/run/queued.h"

struct recording {
    pthread_mutex_t mutex;  /* held while a rank queues what is recorded */
    struct queued **queued; /* [n_ranks]: of the ranks of this process; the first is the recorder's */
    uint32_t n_ranks;
    struct queued_times times; /* of the phase that was launched last */
};

void recording_init(struct recording *recording, uint32_t n_ranks);
void recording_fini(struct recording *recording);

#endif
