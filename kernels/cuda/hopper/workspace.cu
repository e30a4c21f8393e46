// workspace.cu - which device memory calls want, whether a device can run them, and what it loads for them.
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/hopper/backward_hopper.cuh"
#include "kernels/cuda/hopper/forward_maps.cuh"

uint64_t cuda_hopper_workspace(const cuda_call *call, bool backward)
{
    if (!backward)
        return forward_maps_bytes(call);
    const size_t units = (size_t)(unit_rows(call->rows) * (call->head_dim / 64)) * call->q_heads * call->items;
    return units * UNIT_FOURS * sizeof(four);
}

bool cuda_hopper_able(int device)
{
    return device_is_hopper(device) && find_map_maker();
}

int cuda_hopper_load()
{
    const int error = load_hopper_forward();
    return error ? error : load_hopper_backward();
}
