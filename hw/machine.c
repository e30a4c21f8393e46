/* machine.c - asks the kernel (/proc, cgroups, the affinity mask), and deals cores out to ranks.
 *
 * Ranks have a core each exactly if ranks and cores can be matched; found by augmenting paths (Kuhn 1955), one rank
 * after another.
 */
#include "hw/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"

/* The rest of the first line of `path` that begins with `key`, behind blanks and ':'. False when there is none. */
static bool read_value(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = line + strlen(key);
        value += strspn(value, " \t:");
        snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

static uint64_t read_number(const char *path, const char *key, uint64_t otherwise)
{
    char text[64], *end;
    if (!read_value(path, key, text, sizeof text))
        return otherwise;
    uint64_t number = strtoull(text, &end, 10);
    return end == text ? otherwise : number; /* "max" too is no number */
}

static void read_cores(struct machine *machine)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        CPU_SET(0, &set);
    for (uint32_t core = 0; core < MACHINE_CORES_MAX && core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &set))
            machine->core_bits[core / 8] |= (uint8_t)(1 << core % 8);
    char text[64];
    uint64_t quota, period;
    machine->core_quota = MACHINE_CORES_MAX;
    if (read_value("/sys/fs/cgroup/cpu.max", "", text, sizeof text) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 && period > 0 && quota / period < MACHINE_CORES_MAX)
        machine->core_quota = (uint32_t)((quota + period - 1) / period);
}

/* File pages that the container could drop are as good as free. */
static void read_memory(struct machine *machine)
{
    machine->memory_bytes = read_number("/proc/meminfo", "MemTotal", 0) * 1024;
    machine->available_bytes = read_number("/proc/meminfo", "MemAvailable", 0) * 1024;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
    if (limit >= machine->memory_bytes)
        return;
    uint64_t used = read_number("/sys/fs/cgroup/memory.current", "", 0);
    uint64_t files = read_number("/sys/fs/cgroup/memory.stat", "inactive_file ", 0);
    used -= files < used ? files : used;
    uint64_t left = limit > used ? limit - used : 0;
    machine->memory_bytes = limit;
    machine->available_bytes = left < machine->available_bytes ? left : machine->available_bytes;
}

/* Linux draws such a number at boot. */
void machine_kernel(char name[MACHINE_KERNEL_BYTES])
{
    memset(name, 0, MACHINE_KERNEL_BYTES);
    if (!read_value("/proc/sys/kernel/random/boot_id", "", name, MACHINE_KERNEL_BYTES))
        gethostname(name, MACHINE_KERNEL_BYTES - 1);
}

void machine_read(struct machine *machine)
{
    *machine = (struct machine){0};
    machine_kernel(machine->boot);
    gethostname(machine->host, sizeof machine->host - 1);
    if (!read_value("/proc/cpuinfo", "model name", machine->cpu, sizeof machine->cpu))
        snprintf(machine->cpu, sizeof machine->cpu, "unknown CPU");
    read_cores(machine);
    read_memory(machine);
}

bool machine_same(const struct machine *a, const struct machine *b)
{
    return strcmp(a->boot, b->boot) == 0;
}

/* Ranks of one host, and which of them has which core. */
struct deal {
    const struct machine *machines;
    uint32_t ranks;
    int64_t owners[MACHINE_CORES_MAX]; /* -1: nobody yet */
    bool tried[MACHINE_CORES_MAX];
};

/* Finds a core for `rank`, making others take different ones where that helps. */
static bool deal_core(struct deal *deal, uint32_t rank)
{
    for (uint32_t core = 0; core < MACHINE_CORES_MAX; core++) {
        if (deal->tried[core] || !machine_has_core(&deal->machines[rank], core))
            continue;
        deal->tried[core] = true;
        if (deal->owners[core] < 0 || deal_core(deal, (uint32_t)deal->owners[core])) {
            deal->owners[core] = rank;
            return true;
        }
    }
    return false;
}

static uint32_t first_on_host(const struct machine *machines, uint32_t rank)
{
    uint32_t first = 0;
    while (!machine_same(&machines[first], &machines[rank]))
        first++;
    return first;
}

/* Deals cores to the ranks on the host of `first`; false when some rank gets none. */
static bool deal_host(const struct machine *machines, uint32_t ranks, uint32_t first)
{
    struct deal *deal = memory_zeroed(1, sizeof *deal);
    deal->machines = machines;
    memset(deal->owners, -1, sizeof deal->owners);
    uint32_t dealt = 0;
    bool enough = true;
    for (uint32_t rank = first; rank < ranks && enough; rank++) {
        if (!machine_same(&machines[rank], &machines[first]))
            continue;
        memset(deal->tried, 0, sizeof deal->tried);
        enough = ++dealt <= machines[rank].core_quota && deal_core(deal, rank);
    }
    free(deal);
    return enough;
}

bool machine_is_oversubscribed(const struct machine *machines, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (first_on_host(machines, rank) == rank && !deal_host(machines, ranks, rank))
            return true;
    return false;
}

uint32_t machine_cores(const struct machine *machines, uint32_t ranks)
{
    uint32_t cores = 0;
    for (uint32_t first = 0; first < ranks; first++) {
        if (first_on_host(machines, first) != first)
            continue;
        uint32_t here = 0;
        for (uint32_t core = 0; core < MACHINE_CORES_MAX; core++) {
            bool usable = false;
            for (uint32_t rank = first; rank < ranks && !usable; rank++)
                usable = machine_same(&machines[rank], &machines[first]) && machine_has_core(&machines[rank], core);
            here += usable;
        }
        cores += here < machines[first].core_quota ? here : machines[first].core_quota;
    }
    return cores;
}

bool machine_same_gpu(const struct machine *a, const struct machine *b)
{
    return *a->gpu.bus && machine_same(a, b) && strcmp(a->gpu.bus, b->gpu.bus) == 0;
}

bool machine_gpu_is_shared(const struct machine *machines, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t other = 0; other < rank; other++)
            if (machine_same_gpu(&machines[rank], &machines[other]))
                return true;
    return false;
}
