/* emulated_hopper.h - what kernels/cuda/hopper/device_hopper.cuh gives to kernels, on a host: see emulated_hopper.cpp.
 */
#ifndef CPSIM_TESTS_GPU_EMULATED_HOPPER_H
#define CPSIM_TESTS_GPU_EMULATED_HOPPER_H

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime.h"

#define GRID_CONSTANT

void barrier_init(uint32_t barrier, uint32_t arrivals);
void barrier_arrive(uint32_t barrier);
void barrier_expect(uint32_t barrier, uint32_t bytes);
void barrier_wait(uint32_t barrier, uint32_t parity);
void async_fence();

void named_sync(uint32_t number, uint32_t threads);
void named_arrive(uint32_t number, uint32_t threads);

void emulation_set_registers(uint32_t registers);

template <int REGISTERS> void give_registers()
{
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "what the instruction takes");
    emulation_set_registers(REGISTERS);
}

template <int REGISTERS> void take_registers()
{
    give_registers<REGISTERS>();
}

void map_fence(const tensor_map *map);
void map_release();
void copy_box(uint32_t to, const tensor_map *map, int32_t c0, int32_t c1, int32_t c2, int32_t c3, uint32_t barrier);

struct alignas(16) four {
    float number[4];
};

inline void global_add(four *to, const four &value)
{
    emulation_check_global(to, sizeof value, alignof(four), "addition");
    for (int i = 0; i < 4; i++)
        to->number[i] += value.number[i];
}

/* ---- the driver ---- */

typedef int (*map_maker)(tensor_map *map, const map_extent &extent);

map_maker find_map_maker();

inline int make_map(map_maker maker, tensor_map *map, const map_extent &extent)
{
    return maker(map, extent);
}

inline bool device_is_hopper(int device)
{
    struct cuda_device description;
    return cuda_describe(device, &description) == 0 && description.major == 9 && description.minor == 0;
}

#endif
