/* machine.h - what this process runs on: host, CPU, the cores and the memory that it may use, and a GPU. Plain data, so
 * that processes can exchange it. */
#ifndef CPSIM_HW_MACHINE_H
#define CPSIM_HW_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_CORES_MAX 1024
#define MACHINE_KERNEL_BYTES 48

struct machine_gpu {
    char name[96];
    char bus[24];        /* PCI address; "": there is no GPU here */
    int major, minor;    /* compute capability */
    uint32_t processors; /* SMs */
    uint64_t memory_bytes, free_bytes;
    int driver, runtime; /* CUDA versions, 1000 major + 10 minor */
};

struct machine {
    char boot[MACHINE_KERNEL_BYTES]; /* the same for all processes of one kernel, whatever they call their host */
    char host[64];
    char cpu[96]; /* the model's name */
    uint8_t core_bits[MACHINE_CORES_MAX / 8];
    uint32_t core_quota;      /* cores' worth of time that a container grants; MACHINE_CORES_MAX: no limit */
    uint64_t memory_bytes;    /* of the machine, or of the container if that is less */
    uint64_t available_bytes; /* of it, without making anybody swap */
    struct machine_gpu gpu;   /* that the rank computes on; its bus is "" when it computes on the CPU */
};

/* All but the GPU. */
void machine_read(struct machine *machine);

/* GPUs that cpsim can use here; with 0 `reason` says why, for people and without a full stop. */
int machine_gpus(char *reason, size_t size);

/* The family of kernels that runs on GPUs when nobody says. */
const char *machine_gpu_kernels(void);

/* The GPU `device`, counting from 0. False with a reason. */
bool machine_gpu_read(struct machine_gpu *gpu, int device, char *reason, size_t size);

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

/* Whether ranks a and b compute on one GPU. */
bool machine_same_gpu(const struct machine *a, const struct machine *b);

/* Whether any two ranks do. */
bool machine_gpu_is_shared(const struct machine *machines, uint32_t ranks);

#endif
