// memory.cu - memory.h by the CUDA runtime.
#include "kernels/cuda/memory.h"

#include <cuda_runtime.h>

int cuda_devices(void)
{
    int count = 0, usable = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError(); // no driver is no error of ours
        return 0;
    }
    for (int device = 0; device < count; device++) {
        int major = 0;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 8)
            usable++;
    }
    return usable;
}

int cuda_allocate(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes);
}

int cuda_release(void *memory)
{
    return cudaFree(memory);
}

int cuda_write(void *device, const void *host, size_t bytes)
{
    cudaError_t error = cudaDeviceSynchronize();
    return error ? error : cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
}

int cuda_read(void *host, const void *device, size_t bytes)
{
    cudaError_t error = cudaDeviceSynchronize();
    return error ? error : cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
}

int cuda_wait(void)
{
    return cudaDeviceSynchronize();
}

const char *cuda_error_text(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}
