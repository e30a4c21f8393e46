// device.cuh - what the kernels use of a GPU, in one place: thread numbers, barriers, shared memory, asynchronous
// copies, matrix instructions, conversions, launches. Kernels contain no PTX and touch memory only through these
// functions, so that the same sources run on a host under an emulation of them (emulated_device.h, of the tests), which
// checks every access.
//
// Shared memory is addressed by 32-bit numbers, as PTX does. Fragments of a matrix are laid out over the 32 lanes of a
// warp as the PTX ISA says for mma.m16n8k16; with g = lane / 4 and t = lane % 4:
//   A (16 x 16): a[0] row g, columns 2t, 2t+1; a[1] row g+8; a[2], a[3] the same rows, columns 2t+8, 2t+9
//   B (16 x 8):  b0 rows 2t, 2t+1 of column g; b1 rows 2t+8, 2t+9
//   C (16 x 8):  c[0], c[1] row g, columns 2t, 2t+1; c[2], c[3] row g+8
#ifndef CPSIM_KERNELS_CUDA_DEVICE_CUH
#define CPSIM_KERNELS_CUDA_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>

// Numbers of 16 bits, always handled two in a register (the first in the low half).
struct bf16 {
};
struct fp16 {
};

// 16 bytes, at a multiple of 16.
struct alignas(16) quad {
    uint32_t word[4];
};
struct alignas(8) pair {
    float first, second;
};

#ifndef __CUDACC__
#include "emulated_device.h"
#else

#include <cuda_runtime.h>

#define DEVICE __device__ __forceinline__
#define HOST_DEVICE __host__ __device__ constexpr
#define KERNEL(threads, blocks_per_sm) static __global__ void __launch_bounds__(threads, blocks_per_sm)

DEVICE uint32_t thread_index()
{
    return threadIdx.x;
}

DEVICE uint32_t block_index()
{
    return blockIdx.x;
}

// All threads of the block.
DEVICE void block_sync()
{
    __syncthreads();
}

// How many of the block's threads say yes; a barrier too.
DEVICE uint32_t block_count(bool yes)
{
    return (uint32_t)__syncthreads_count(yes);
}

// All lanes of the warp; what they wrote to memory before is seen by the others after.
DEVICE void warp_sync()
{
    __syncwarp();
}

// `value` of the lane whose number differs in the bits of `mask`.
DEVICE float warp_xor(float value, uint32_t mask)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}

// ---- memory ----

template <class T> DEVICE T global_load(const T *from)
{
    return *from;
}

template <class T> DEVICE void global_store(T *to, T value)
{
    *to = value;
}

// Looks at a flag until it is not 0, up to `polls` times, about a microsecond apart; whether it is. Others may set it
// meanwhile. (Where kernels run one after the other nobody could: there it counts as set.)
DEVICE bool wait_for_flag(const uint32_t *flag, uint32_t polls)
{
    for (uint32_t i = 0; i < polls; i++) {
        if (*(const volatile uint32_t *)flag != 0)
            return true;
        __nanosleep(1000);
    }
    return false;
}

// Start of the block's shared memory: a multiple of 1024.
DEVICE uint32_t shared_memory()
{
    extern __shared__ __align__(1024) unsigned char memory[];
    return (uint32_t)__cvta_generic_to_shared(memory);
}

DEVICE uint32_t shared_load_word(uint32_t at)
{
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
    return word;
}

DEVICE pair shared_load_pair(uint32_t at)
{
    pair value;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.first), "=f"(value.second) : "r"(at) : "memory");
    return value;
}

DEVICE quad shared_load_quad(uint32_t at)
{
    quad value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
                 : "r"(at)
                 : "memory");
    return value;
}

DEVICE void shared_store_word(uint32_t at, uint32_t word)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}

// Copies BYTES (4 or 16, aligned) to shared memory, or zeros when not `there` (nothing is read then). They have arrived
// after wait_copies, and for other threads after a barrier behind that.
template <int BYTES> DEVICE void copy_async(uint32_t to, const void *from, bool there)
{
    const int bytes = there ? BYTES : 0;
    const size_t address = __cvta_generic_to_global(from);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(address), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(address), "r"(bytes) : "memory");
}

// Makes a group of this thread's copies since the last group.
DEVICE void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all but the last PENDING groups.
template <int PENDING> DEVICE void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- matrices ----

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8, and gets numbers 2t,
// 2t+1 of row g of each.
DEVICE void load_matrices(uint32_t (&words)[4], uint32_t row_at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_at));
}

// The same, of the matrices' transposes.
DEVICE void load_transposed(uint32_t (&words)[4], uint32_t row_at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_at));
}

// c += A B
template <class T> DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> DEVICE void multiply<bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> DEVICE void multiply<fp16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- numbers ----

// Rounds to nearest.
template <class T> DEVICE uint32_t pack(float first, float second);
template <> DEVICE uint32_t pack<bf16>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
template <> DEVICE uint32_t pack<fp16>(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

template <class T> DEVICE pair unpack(uint32_t word);
template <> DEVICE pair unpack<bf16>(uint32_t word)
{
    return pair{__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
template <> DEVICE pair unpack<fp16>(uint32_t word)
{
    pair value;
    asm("{ .reg .f16 first, second; mov.b32 {first, second}, %2; cvt.f32.f16 %0, first; cvt.f32.f16 %1, second; }"
        : "=f"(value.first), "=f"(value.second)
        : "r"(word));
    return value;
}

DEVICE uint32_t bits_of(float value)
{
    return __float_as_uint(value);
}

DEVICE float number_of(uint32_t bits)
{
    return __uint_as_float(bits);
}

DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float multiply_add(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

// ---- launches ----

// The most shared memory that a block may have on the current device. 0 or a CUDA error number.
static inline int shared_memory_most(size_t *bytes)
{
    int device = 0, most = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    *bytes = (size_t)most;
    return error;
}

// Brings kernels onto the current device. Otherwise each gets there when it is launched first ("lazy loading" in
// NVIDIA's programming guide), which may wait for all that runs on the device, other threads' calls waiting too: for
// ever, where what runs waits for something that is still to be launched, as the kernels of NCCL do. 0 or a CUDA error
// number.
template <class... K> static int load_kernels(K... kernels)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaSuccess;
    ((error = error ? error : cudaFuncGetAttributes(&attributes, (const void *)kernels)), ...);
    if (error)
        cudaGetLastError(); // the caller is told: who launches next is not to blame
    return error;
}

// Queues `blocks` thread blocks. 0 or a CUDA error number.
template <class... P, class... A>
static int launch(void (*kernel)(P...), uint64_t blocks, uint32_t threads, size_t shared_bytes, void *stream,
                  const A &...arguments)
{
    if (blocks == 0)
        return cudaSuccess;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    if (shared_bytes > 48 * 1024) {
        cudaError_t error =
            cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (error)
            return error;
    }
    kernel<<<(uint32_t)blocks, threads, shared_bytes, (cudaStream_t)stream>>>(arguments...);
    return cudaGetLastError();
}

#endif

// Lane of the warp, 0 to 31.
DEVICE uint32_t lane_index()
{
    return thread_index() % 32;
}

#endif
