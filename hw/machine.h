/* machine.h - what this process runs on: host, CPU, the cores and the memory that it may use. Plain data, so that
 * processes can exchange it. */
#ifndef CPSIM_HW_MACHINE_H
#define CPSIM_HW_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_CORES_MAX 1024
#define MACHINE_KERNEL_BYTES 48

struct machine {
    char boot[MACHINE_KERNEL_BYTES]; /* the same for all processes of one kernel, whatever they call their host */
    char host[64];
    char cpu[96]; /* the model's name */
    uint8_t core_bits[MACHINE_CORES_MAX / 8];
    uint32_t core_quota;      /* cores' worth of time that a container grants; MACHINE_CORES_MAX: no limit */
    uint64_t memory_bytes;    /* of the machine, or of the container if that is less */
    uint64_t available_bytes; /* of it, without making anybody swap */
};

void machine_read(struct machine *machine);

/* What is the same for all processes of one kernel, and for no others. Zero behind its end. */
void machine_kernel(char name[MACHINE_KERNEL_BYTES]);

static inline bool machine_has_core(const struct machine *machine, uint32_t core)
{
    return machine->core_bits[core / 8] >> core % 8 & 1;
}

/* Whether ranks a and b run under one kernel. */
bool machine_same(const struct machine *a, const struct machine *b);

/* `machines` has an element for each rank. */

/* Cores that the ranks may use, all hosts together. */
uint32_t machine_cores(const struct machine *machines, uint32_t ranks);

/* Whether some rank cannot have a core to itself: there are more ranks than cores on a host, or launchers have bound
 * several to the same ones. */
bool machine_is_oversubscribed(const struct machine *machines, uint32_t ranks);

#endif
