/* machine_gpu.c - the GPUs of this machine, as the CUDA runtime tells of them; in a build without CUDA there are none.
 */
#include <stdio.h>
#include <string.h>

#include "hw/machine.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/runtime.h"

#ifdef CPSIM_HAVE_CUDA

int machine_gpus(char *reason, size_t size)
{
    return cuda_devices(reason, size);
}

bool machine_gpu_read(struct machine_gpu *gpu, int device, char *reason, size_t size)
{
    struct cuda_device described;
    *gpu = (struct machine_gpu){.bus = ""};
    int error = cuda_describe(device, &described);
    if (error) {
        snprintf(reason, size, "asking what it is (%s:%d): CUDA says: %s (error %d)", __FILE__, __LINE__,
                 cuda_error_text(error), error);
        return false;
    }
    snprintf(gpu->name, sizeof gpu->name, "%s", described.name);
    snprintf(gpu->bus, sizeof gpu->bus, "%s", described.bus);
    gpu->major = described.major;
    gpu->minor = described.minor;
    gpu->processors = described.processors;
    gpu->memory_bytes = described.memory_bytes;
    gpu->free_bytes = described.free_bytes;
    gpu->driver = described.driver;
    gpu->runtime = described.runtime;
    return true;
}

const char *machine_gpu_kernels(void)
{
    return kernel_families[0]->name;
}

#else

const char *machine_gpu_kernels(void)
{
    return "none";
}

int machine_gpus(char *reason, size_t size)
{
    snprintf(reason, size, "this cpsim was built without CUDA");
    return 0;
}

bool machine_gpu_read(struct machine_gpu *gpu, int device, char *reason, size_t size)
{
    (void)device;
    *gpu = (struct machine_gpu){.bus = ""};
    machine_gpus(reason, size);
    return false;
}

#endif
