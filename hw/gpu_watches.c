/* gpu_watches.c - one watch for each different GPU. */
#include "hw/gpu_watches.h"

#include <stdlib.h>

#include "models/base/memory.h"

struct gpu_watches {
    struct gpu_watch **items; /* [rank]; NULL: no GPU, or that of a rank before */
    uint32_t *watch_of_rank;  /* the rank that has the watch */
    uint32_t n_ranks;
};

struct gpu_watches *gpu_watches_create(const struct machine *machines, uint32_t n_ranks)
{
    struct gpu_watches *watches = memory_zeroed(1, sizeof *watches);
    *watches = (struct gpu_watches){.items = memory_zeroed(n_ranks, sizeof *watches->items),
                                    .watch_of_rank = memory_zeroed(n_ranks, sizeof *watches->watch_of_rank),
                                    .n_ranks = n_ranks};
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        uint32_t first = 0;
        while (first < rank && !machine_same_gpu(&machines[first], &machines[rank]))
            first++;
        watches->watch_of_rank[rank] = first;
        if (first == rank && *machines[rank].gpu.bus)
            watches->items[rank] = gpu_watch_create(NULL, machines[rank].gpu.bus);
    }
    return watches;
}

void gpu_watches_destroy(struct gpu_watches *watches)
{
    if (!watches)
        return;
    for (uint32_t rank = 0; rank < watches->n_ranks; rank++)
        gpu_watch_destroy(watches->items[rank]);
    free(watches->items);
    free(watches->watch_of_rank);
    free(watches);
}

void gpu_watches_sample(struct gpu_watches *watches)
{
    for (uint32_t rank = 0; rank < watches->n_ranks; rank++)
        if (watches->items[rank])
            gpu_watch_sample(watches->items[rank]);
}

void gpu_watches_record(const struct gpu_watches *watches, struct gpu_record *records)
{
    for (uint32_t rank = 0; rank < watches->n_ranks; rank++) {
        const struct gpu_watch *watch = watches->items[watches->watch_of_rank[rank]];
        records[rank] = (struct gpu_record){.samples = 0};
        if (watch)
            gpu_watch_record(watch, &records[rank]);
    }
}
