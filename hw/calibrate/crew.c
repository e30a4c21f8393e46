/* crew.c - what the ranks found is gathered everywhere, and each joins it for itself. */
#include "hw/calibrate/crew.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/machine.h"
#include "hw/run/rank_threads.h"
#include "models/base/memory.h"

/* All ranks of this process. */
struct members {
    struct crew *crews;
    bool (*work)(const struct crew *crew, void *context);
    void *context;
};

static bool work_as(void *context, uint32_t end)
{
    const struct members *members = context;
    return members->work(&members->crews[end], members->context);
}

bool crew_run(const char *name, uint32_t ranks, bool (*work)(const struct crew *crew, void *context), void *context,
              bool *speaks, struct diagnostics *diag)
{
    uint32_t launched = transport_launched(), n_ends = 0, first_rank = 0;
    *speaks = true;
    if (ranks == 0) {
        struct machine machine;
        machine_read(&machine);
        ranks = launched ? launched : machine_cores(&machine, 1);
    }
    const struct transport_ops *transport = transport_choose(name, ranks, diag);
    if (!transport)
        return false;
    struct transport **ends = memory_zeroed(ranks, sizeof *ends);
    bool good = transport->open(ranks, NULL, ends, &n_ends, &first_rank, diag);
    *speaks = first_rank == 0;
    if (good) {
        struct crew *crews = memory_zeroed(n_ends, sizeof *crews);
        for (uint32_t i = 0; i < n_ends; i++)
            crews[i] = (struct crew){transport, ends[i], first_rank + i, ranks};
        struct members members = {crews, work, context};
        good = rank_threads_run(transport, ends, n_ends, work_as, &members) ||
               transport_complain(transport, ends[0], diag);
        free(crews);
    }
    transport->close(ends, n_ends);
    free(ends);
    return good;
}

bool crew_meet(const struct crew *crew)
{
    return crew->transport->barrier(crew->end);
}

static bool combine(const struct crew *crew, double *values, uint32_t count, bool largest)
{
    double *all = memory_zeroed((size_t)crew->ranks * count, sizeof *all);
    bool good = crew->transport->all_gather(crew->end, values, count * sizeof *values, all);
    for (uint32_t i = 0; i < count && good; i++) {
        double result = largest ? all[i] : 0;
        for (uint32_t r = 0; r < crew->ranks; r++) {
            double value = all[(size_t)r * count + i];
            if (!largest)
                result += value / crew->ranks;
            else if (value > result)
                result = value;
        }
        values[i] = result;
    }
    free(all);
    return good;
}

bool crew_mean(const struct crew *crew, double *values, uint32_t count)
{
    return combine(crew, values, count, false);
}

bool crew_largest(const struct crew *crew, double *values, uint32_t count)
{
    return combine(crew, values, count, true);
}

/* Hosts that are network namespaces of one kernel differ in the latter. */
struct host_name {
    char kernel[MACHINE_KERNEL_BYTES], network[64];
};

bool crew_hosts(const struct crew *crew, uint32_t *host_of_rank, uint32_t *n_hosts)
{
    struct host_name mine = {.network = ""}, *all = memory_zeroed(crew->ranks, sizeof *all);
    machine_kernel(mine.kernel);
    if (readlink("/proc/self/ns/net", mine.network, sizeof mine.network - 1) < 0)
        mine.network[0] = '\0';
    bool good = crew->transport->all_gather(crew->end, &mine, sizeof mine, all);
    *n_hosts = 0;
    for (uint32_t r = 0; r < crew->ranks; r++) {
        uint32_t first = 0;
        while (first < r && memcmp(&all[first], &all[r], sizeof *all) != 0)
            first++;
        host_of_rank[r] = first < r ? host_of_rank[first] : (*n_hosts)++;
    }
    free(all);
    return good;
}
