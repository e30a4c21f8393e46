/* memory.h - GPUs and their memory, for C: what a caller of attention_cuda.h needs, without CUDA's headers.
 *
 * Functions return 0 or a CUDA error number.
 */
#ifndef CPSIM_KERNELS_CUDA_MEMORY_H
#define CPSIM_KERNELS_CUDA_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* GPUs that the kernels can run on; 0 also where there is no driver, or one that is too old. */
int cuda_devices(void);

/* Memory of the current GPU, at a multiple of 256 bytes; `bytes` above 0. */
int cuda_allocate(void **memory, size_t bytes);
int cuda_release(void *memory);

/* Copies between host and device memory, after all that was queued before; they return when done. */
int cuda_write(void *device, const void *host, size_t bytes);
int cuda_read(void *host, const void *device, size_t bytes);

/* Waits for all that was queued; tells of errors that happened in it. */
int cuda_wait(void);

const char *cuda_error_text(int error);

#ifdef __cplusplus
}
#endif
#endif
