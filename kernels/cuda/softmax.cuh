// softmax.cuh - the online softmax of 16 rows of a warp, in fp32 and in powers of two, for forward kernels: tile by
// tile, scores become weights, measured by the largest score so far.
#ifndef CPSIM_KERNELS_CUDA_SOFTMAX_CUH
#define CPSIM_KERNELS_CUDA_SOFTMAX_CUH

#include "kernels/cuda/problem.cuh"
#include "kernels/cuda/tile.cuh"

#include <math.h>

// Rows g and g + 8 of the warp: maximum of the scores (before scale) and sum of e^(scale (score - maximum)) so far, the
// sum of this lane's columns alone.
struct softmax {
    float maximum[2], sum[2];
};

// Turns scores (-inf: not seen) into weights; what was summed before is to be multiplied by `keep`.
template <int N> DEVICE void take_weights(float (&scores)[N][4], float scale_log2, softmax &state, float (&keep)[2])
{
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        float maximum = state.maximum[half];
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
            maximum = fmaxf(maximum, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        maximum = row_max(maximum);
        // A row that has seen nothing yet: weights of 0, not e^(-inf + inf).
        const float base = maximum == -INFINITY ? 0 : maximum * scale_log2;
        keep[half] = exp2_fast(multiply_add(state.maximum[half], scale_log2, -base));
        float sum = 0;
#pragma unroll
        for (uint32_t n = 0; n < N; n++)
#pragma unroll
            for (uint32_t i = 2 * half; i < 2 * half + 2; i++) {
                scores[n][i] = exp2_fast(multiply_add(scores[n][i], scale_log2, -base));
                sum += scores[n][i];
            }
        state.sum[half] = state.sum[half] * keep[half] + sum;
        state.maximum[half] = maximum;
    }
}

// Writes LSE of the rows, `row` being the warp's first; sums of weights times V are to be multiplied by `factor`.
DEVICE void finish_rows(const problem &p, const query_tile &tile, uint32_t row, uint32_t last_row, const softmax &state,
                        float (&factor)[2])
{
    const uint32_t lane = lane_index();
    for (uint32_t half = 0; half < 2; half++) {
        const float sum = row_sum(state.sum[half]);
        const uint32_t own = row + lane / 4 + 8 * half;
        factor[half] = sum == 0 ? 0 : 1 / sum;
        if (lane % 4 == 0 && own <= last_row)
            global_store(p.lse_out.at(own, tile.item, tile.head, 1),
                         sum == 0 ? -INFINITY : state.maximum[half] * p.scale + logf(sum));
    }
}

#endif
