// occupy.cu - thread blocks that do nothing but be there.
//
// An SM has 1 KiB more of shared memory than the largest block may ask for, which the system takes for each block: two
// such blocks never share an SM, and no attention kernel fits beside one.
#include "kernels/cuda/device.cuh"

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/occupy.h"

constexpr uint32_t POLLS = 4000000; // of about a microsecond

KERNEL(32, 1) occupy(cuda_hold *hold)
{
    if (thread_index() != 0)
        return;
    global_store(&hold->arrived[block_index()], 1u);
    if (!wait_for_flag(&hold->release, POLLS))
        global_store(&hold->expired, 1u);
}

int cuda_occupy(uint32_t processors, cuda_hold *hold, void *stream)
{
    size_t most = 0;
    if (processors > sizeof hold->arrived / sizeof *hold->arrived)
        return CUDA_INVALID;
    const int error = shared_memory_most(&most);
    return error ? error : launch(occupy, processors, 32, most, stream, hold);
}
