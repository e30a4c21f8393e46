/* emulated_wgmma.h - what kernels/cuda/hopper/wgmma.cuh gives to kernels, on a host: see emulated_wgmma.cpp. */
#ifndef CPSIM_TESTS_GPU_EMULATED_WGMMA_H
#define CPSIM_TESTS_GPU_EMULATED_WGMMA_H

#include "kernels/cuda/hopper/device_hopper.cuh"

void products_fence();
void commit_products();
void emulation_wait_products(uint32_t pending);

template <int PENDING> void wait_products()
{
    emulation_wait_products(PENDING);
}

template <int N> void settle(float (&c)[N][4])
{
    (void)c;
}

template <int N> void settle(uint32_t (&a)[N][4])
{
    (void)a;
}

/* What a lane gives to a product: its registers, and what must be the same in all threads of the warpgroup. */
struct emulation_wgmma {
    float *c;
    const uint32_t *a; /* NULL: in shared memory, at a_descriptor */
    uint64_t a_descriptor, b_descriptor;
    uint32_t n;
    int a_way, b_way;
    bool add, is_bf16;
};
void emulation_start_product(const emulation_wgmma &product);

template <class T> bool emulation_is_bf16();
template <> inline bool emulation_is_bf16<bf16>()
{
    return true;
}
template <> inline bool emulation_is_bf16<fp16>()
{
    return false;
}

template <class T, int A_WAY, int B_WAY, int N8> void start_product(float (&c)[N8][4], uint64_t a, uint64_t b, bool add)
{
    emulation_start_product({&c[0][0], NULL, a, b, 8 * N8, A_WAY, B_WAY, add, emulation_is_bf16<T>()});
}

template <class T, int B_WAY, int N8>
void start_product(float (&c)[N8][4], const uint32_t (&a)[4], uint64_t b, bool add)
{
    emulation_start_product({&c[0][0], a, 0, b, 8 * N8, ALONG_K, B_WAY, add, emulation_is_bf16<T>()});
}

#endif
