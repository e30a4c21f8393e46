// wgmma.cuh - products of matrices by a warpgroup: 128 threads together, asynchronously, with shared memory as operand.
//
// c[64 x N] (+)= A[64 x 16] B[16 x N], fp32 sums (PTX ISA 9.7.15.5, wgmma.mma_async .m64nNk16). Warp w of the warpgroup
// has rows 16w to 16w+15 of c, and of A when that is in registers; fragments are those of device.cuh (9.7.15.5.1.1):
// c[n] is columns 8n to 8n+7.
//
// Operands in shared memory (9.7.15.5.1.2) lie in panels of 128-byte rows, 64 numbers each, with 128-byte swizzling:
// bits 4 to 6 of an address xored with bits 7 to 9. Panels start at multiples of 1024. A descriptor holds, without
// their last four bits, the address of the first number (bits 0 to 13), the leading (16 to 29) and the stride offset
// (32 to 45); the base offset (49 to 51), 0 where patterns start at multiples of 1024; and 1 for 128-byte swizzling
// (62, 63). Two ways to lie (A is M x K, B is K x N; "mn" is a row of A, a column of B):
//   ALONG_K   (transpose bit 0): a row holds 64 k of one mn. Eight rows are 1024 bytes; the stride offset leads to the
//             next eight mn. A product needs 16 k, 32 bytes of each row: the leading offset is not used. The next 16 k
//             are 32 bytes further on in the start address, for the pattern goes by addresses.
//   ALONG_MN  (transpose bit 1): a row holds 64 mn of one k. The stride offset leads to the next eight k, the leading
//             offset to the next 64 mn, which is the next panel. The next 16 k are 16 rows, 2048 bytes, further on.
//
// Order (9.7.15.7): products_fence comes after the threads' own accesses to registers that the next products use, but
// for sums that products of the same shape only add to; commit_products makes a group of what was started,
// wait_products<N> waits for all but the last N groups. In between neither sums nor fragments of A may be touched.
// `settle` keeps the compiler from moving accesses to registers over these.
#ifndef CPSIM_KERNELS_CUDA_WGMMA_CUH
#define CPSIM_KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/hopper/device_hopper.cuh"

enum { ALONG_K = 0, ALONG_MN = 1 };

DEVICE uint64_t descriptor(uint32_t first, uint32_t leading_bytes, uint32_t stride_bytes)
{
    return (uint64_t)((first & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)1 << 62;
}

#ifndef __CUDACC__
#include "emulated_wgmma.h"
#else

DEVICE void products_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> DEVICE void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int N> DEVICE void settle(float (&c)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+f"(c[n][i])::"memory");
}

template <int N> DEVICE void settle(uint32_t (&a)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+r"(a[n][i])::"memory");
}

template <class T> struct is_bf16 {
    static constexpr bool value = false;
};
template <> struct is_bf16<bf16> {
    static constexpr bool value = true;
};

// The operands of c, in their order, and their numbers.
#define C1(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define C2(n) C1(n), C1(n + 1)
#define C4(n) C2(n), C2(n + 2)
#define C8(n) C4(n), C4(n + 4)
#define C16(n) C8(n), C8(n + 8)
#define C32(n) C16(n), C16(n + 16)
#define NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NUMBERS_32 NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NUMBERS_40 NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NUMBERS_64                                                                                                     \
    NUMBERS_40 ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "     \
               "%59, %60, %61, %62, %63"
#define NUMBERS_128                                                                                                    \
    NUMBERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "     \
               "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, "     \
               "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "      \
               "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// n: N; numbers, c: its sums as above, c in parentheses; the others are the numbers of the operands behind them.
#define BOTH_SHARED(n, type, numbers, c, a_at, b_at, add_at, a_way, b_way)                                             \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.u32 adds, " add_at ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" numbers "}, " a_at ", " b_at      \
                 ", adds, 1, 1, " a_way ", " b_way ";\n}"                                                              \
                 : SUMS c                                                                                              \
                 : "l"(a), "l"(b), "r"((uint32_t)add), "n"(A_WAY), "n"(B_WAY)                                          \
                 : "memory")
#define A_IN_REGISTERS(n, type, numbers, c, a0, a1, a2, a3, b_at, add_at, b_way)                                       \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.u32 adds, " add_at ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" numbers "}, {" a0 ", " a1 ", " a2 \
                 ", " a3 "}, " b_at ", adds, 1, 1, " b_way ";\n}"                                                      \
                 : SUMS c                                                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)add), "n"(B_WAY)                  \
                 : "memory")
#define EITHER_TYPE(form, n, ...)                                                                                      \
    do {                                                                                                               \
        if constexpr (is_bf16<T>::value)                                                                               \
            form(n, "bf16", __VA_ARGS__);                                                                              \
        else                                                                                                           \
            form(n, "f16", __VA_ARGS__);                                                                               \
    } while (0)
#define SUMS(...) __VA_ARGS__

// Starts c = A B, or c += A B; `a` and `b` are descriptors.
template <class T, int A_WAY, int B_WAY, int N8>
DEVICE void start_product(float (&c)[N8][4], uint64_t a, uint64_t b, bool add)
{
    constexpr int N = 8 * N8;
    static_assert(N == 32 || N == 64 || N == 80 || N == 128, "shapes that are used");
    if constexpr (N == 32)
        EITHER_TYPE(BOTH_SHARED, "32", NUMBERS_16, (C4(0)), "%16", "%17", "%18", "%19", "%20");
    else if constexpr (N == 64)
        EITHER_TYPE(BOTH_SHARED, "64", NUMBERS_32, (C8(0)), "%32", "%33", "%34", "%35", "%36");
    else if constexpr (N == 80)
        EITHER_TYPE(BOTH_SHARED, "80", NUMBERS_40, (C8(0), C2(8)), "%40", "%41", "%42", "%43", "%44");
    else
        EITHER_TYPE(BOTH_SHARED, "128", NUMBERS_64, (C16(0)), "%64", "%65", "%66", "%67", "%68");
}

// The same with A in registers.
template <class T, int B_WAY, int N8>
DEVICE void start_product(float (&c)[N8][4], const uint32_t (&a)[4], uint64_t b, bool add)
{
    constexpr int N = 8 * N8;
    static_assert(N == 64 || N == 128 || N == 256, "shapes that are used");
    if constexpr (N == 64)
        EITHER_TYPE(A_IN_REGISTERS, "64", NUMBERS_32, (C8(0)), "%32", "%33", "%34", "%35", "%36", "%37", "%38");
    else if constexpr (N == 128)
        EITHER_TYPE(A_IN_REGISTERS, "128", NUMBERS_64, (C16(0)), "%64", "%65", "%66", "%67", "%68", "%69", "%70");
    else
        EITHER_TYPE(A_IN_REGISTERS, "256", NUMBERS_128, (C32(0)), "%128", "%129", "%130", "%131", "%132", "%133",
                    "%134");
}

#endif

#endif
