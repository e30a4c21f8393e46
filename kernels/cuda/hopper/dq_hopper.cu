// dq_hopper.cu - dQ from the sums that the backward pass left in the workspace: by scale, rounded, in its place.
#include "kernels/cuda/hopper/backward_hopper.cuh"

struct dq_arguments {
    problem p;
    const four *sums;
    uint32_t dim;
};

// A thread block has a unit of 64 queries and 64 numbers.
template <class T> KERNEL(128, 8) finish_dq(const dq_arguments arguments)
{
    const problem &p = arguments.p;
    const uint32_t panels = arguments.dim / 64, panel = block_index() % panels;
    const uint32_t used = (p.rows + 63) / 64, lane = block_index() / panels / used; // units of rows that there are
    const uint32_t rows_before = block_index() / panels % used, item = lane / p.q_heads, head = lane % p.q_heads;
    const uint32_t warp_row = thread_index() / 32 * 16, row = 64 * rows_before + warp_row;
    const uint64_t unit = ((uint64_t)lane * unit_rows(p.rows) + rows_before) * panels + panel;
    const four *from = arguments.sums + unit * UNIT_FOURS + thread_index();
    float sums[8][4];
#pragma unroll
    for (uint32_t n = 0; n < 8; n++) {
        const four value = global_load(from + n * 128);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            sums[n][i] = value.number[i];
    }
    const float factor[2] = {p.scale, p.scale};
    store_rows<T, 64>(p.dq.at(row, item, head, arguments.dim) + 64 * panel, p.dq.strides.row,
                      row < p.rows ? p.rows - row : 0, sums, factor, shared_memory(), warp_row);
}

int load_dq()
{
    return load_kernels(finish_dq<bf16>, finish_dq<fp16>);
}

int launch_dq(const cuda_call *call, const problem &p, const four *sums, void *stream)
{
    const dq_arguments arguments = {p, sums, call->head_dim};
    const uint64_t blocks = ((uint64_t)call->rows + 63) / 64 * (call->head_dim / 64) * call->q_heads * call->items;
    return call->dtype == DTYPE_BF16 ? launch(finish_dq<bf16>, blocks, 128, 64 * 128, stream, arguments)
                                     : launch(finish_dq<fp16>, blocks, 128, 64 * 128, stream, arguments);
}
