// device_hopper.cuh - what the Hopper kernels use of a GPU beyond device.cuh: barriers in shared memory, tensor copies
// into it, barriers of some warps, registers given from warpgroup to warpgroup, vector additions to memory. Products of
// warpgroups are in wgmma.cuh. As there, a host has twins of all of it (emulated_hopper.h, of the tests).
//
// Rules of the PTX ISA that kernels must keep, and that the emulation checks (sections by name, and by number in
// version 9.0 where given):
// - Barriers ("Parallel Synchronization and Communication Instructions: mbarrier"). Phases of a barrier complete when
// so many arrivals as it was made with have come
//   and all bytes that were announced (expect-tx) have arrived; `parity` is that of the phase waited for, the first
//   being 0. The phase "before the first" has parity 1 and counts as complete.
// - Proxies ("Async Proxy", 9.7.15.4). Tensor copies and products read and write shared memory by the async proxy. What
// threads
//   wrote themselves is seen by it after async_fence by the writer and a barrier; what it wrote is seen by whoever has
//   waited for the barrier that the copy completes on, or for the product.
// - Tensor copies ("Tensors", cp.async.bulk.tensor) fill what lies outside the tensor with zeros, and count all bytes
//   of the box as arrived. With 128-byte swizzling ("Swizzling Modes") bits 4 to 6 of an address in shared memory are
//   xored with bits 7 to 9; a box starts at a multiple of 1024 there.
#ifndef CPSIM_KERNELS_CUDA_DEVICE_HOPPER_CUH
#define CPSIM_KERNELS_CUDA_DEVICE_HOPPER_CUH

#include "kernels/cuda/device.cuh"

// What the driver makes of a tensor's address, sizes and strides; only the hardware reads it.
struct alignas(128) tensor_map {
    uint64_t opaque[16];
};

#define MAP_RANK 4

// A tensor of 16-bit numbers, innermost dimension first, and the box of it that one copy moves. The innermost stride is
// one number; strides[d] is dimension d + 1's, in bytes.
struct map_extent {
    const void *first;
    uint64_t sizes[MAP_RANK], strides[MAP_RANK - 1];
    uint32_t box[MAP_RANK];
};

#ifndef __CUDACC__
#include "emulated_hopper.h"
#else

#include <cuda.h>

#define GRID_CONSTANT __grid_constant__

// ---- barriers in shared memory ----

DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and announces so many bytes of copies.
DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

DEVICE void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred passed;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 passed, [%0], %1;\n"
                 "@passed bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// What this thread wrote to shared memory, barriers too, is in order with what the async proxy does later.
DEVICE void async_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- barriers of some warps: all threads of them, `threads` in all; `number` is 1 to 15 ----

DEVICE void named_sync(uint32_t number, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Arrives without waiting.
DEVICE void named_arrive(uint32_t number, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- registers: a warpgroup has so many a thread from now on ----

template <int REGISTERS> DEVICE void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Waits until there are so many.
template <int REGISTERS> DEVICE void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- tensor copies ----

// For maps in device memory that another kernel wrote; maps among a kernel's parameters need it not.
DEVICE void map_fence(const tensor_map *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// What this thread wrote of maps is there for map_fence.
DEVICE void map_release()
{
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}

// Queues the copy of the box that begins at (c0, c1, c2, c3); its bytes arrive at the barrier.
DEVICE void copy_box(uint32_t to, const tensor_map *map, int32_t c0, int32_t c1, int32_t c2, int32_t c3,
                     uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

// ---- sums in memory ----

struct alignas(16) four {
    float number[4];
};

// Adds to four numbers, each atomically.
DEVICE void global_add(four *to, const four &value)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "f"(value.number[0]), "f"(value.number[1]), "f"(value.number[2]), "f"(value.number[3])
                 : "memory");
}

// ---- on the host: the driver ----

typedef CUresult (*map_maker)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, asked for at run time: a program that links the driver would not start without one. NULL where
// there is none.
static inline map_maker find_map_maker()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found)) {
        cudaGetLastError(); // that it is missing is no error of who launches next
        return NULL;
    }
    return found == cudaDriverEntryPointSuccess ? (map_maker)function : NULL;
}

// With 128-byte swizzling, and zeros outside.
static inline int make_map(map_maker maker, tensor_map *map, const map_extent &extent)
{
    const cuuint32_t steps[MAP_RANK] = {1, 1, 1, 1};
    const CUresult error = maker((CUtensorMap *)map, CU_TENSOR_MAP_DATA_TYPE_UINT16, MAP_RANK, (void *)extent.first,
                                 (const cuuint64_t *)extent.sizes, (const cuuint64_t *)extent.strides, extent.box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return error == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

static inline bool device_is_hopper(int device)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)) {
        cudaGetLastError();
        return false;
    }
    return major == 9 && minor == 0;
}

#endif

// Registers that warpgroups of a block can give and take, as a sum over warpgroups of registers a thread: what the
// block is launched with when it has a processor (64K registers) to itself, a multiple of 8 for each thread.
HOST_DEVICE int group_registers(int warpgroups)
{
    return 65536 / (128 * warpgroups) / 8 * 8 * warpgroups;
}

// Warpgroup of the block: 128 threads.
DEVICE uint32_t warpgroup_index()
{
    return thread_index() / 128;
}

#endif
