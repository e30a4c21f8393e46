/* recording.c - makes and unmakes it. */
#include "hw/run/recording.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

void recording_init(struct recording *recording, uint32_t n_ranks)
{
    *recording = (struct recording){.queued = memory_zeroed(n_ranks, sizeof *recording->queued), .n_ranks = n_ranks};
    pthread_mutex_init(&recording->mutex, NULL);
}

void recording_fini(struct recording *recording)
{
    pthread_mutex_destroy(&recording->mutex);
    free(recording->queued);
    memset(recording, 0, sizeof *recording);
}
