// forward_maps.cuh - the tensor maps of a forward call: of Q, and of every key buffer's K and V.
//
// Maps of the first buffers are parameters of the kernel, which is how they are fastest. Others go to the workspace, by
// kernels that carry a batch of them as parameters: so the call needs no host memory that must outlive it. A kernel
// that reads maps of device memory needs a fence before (PTX ISA, membar / fence: fence.proxy.tensormap).
#ifndef CPSIM_KERNELS_CUDA_FORWARD_MAPS_CUH
#define CPSIM_KERNELS_CUDA_FORWARD_MAPS_CUH

#include "kernels/cuda/hopper/tile_hopper.cuh"

struct key_maps {
    tensor_map k, v;
};

enum { MAPS_AT_HAND = 8, MAPS_BATCH = 12 }; // key buffers; parameters of a kernel are 4 KiB at most

struct forward_arguments {
    problem p;
    tensor_map q;
    key_maps at_hand[MAPS_AT_HAND];
    const key_maps *others; // in device memory
};

struct maps_batch {
    key_maps maps[MAPS_BATCH];
};

// Maps of a buffer, for copies by the calling thread.
DEVICE const key_maps *maps_of(const forward_arguments &arguments, uint32_t buffer)
{
    if (buffer < MAPS_AT_HAND)
        return &arguments.at_hand[buffer];
    const key_maps *maps = &arguments.others[buffer - MAPS_AT_HAND];
    map_fence(&maps->k);
    map_fence(&maps->v);
    return maps;
}

static inline size_t forward_maps_bytes(const cuda_call *call)
{
    return call->n_keys > MAPS_AT_HAND ? (call->n_keys - MAPS_AT_HAND) * sizeof(key_maps) : 0;
}

// Queues the copy of `count` buffers' maps.
int store_maps(key_maps *to, const maps_batch &batch, uint32_t count, void *stream);

int load_maps();
int load_hopper_forward(); // with load_maps

template <int DIM>
static int make_forward_maps(const cuda_call *call, uint32_t query_rows, uint32_t key_rows,
                             forward_arguments *arguments, void *workspace, void *stream)
{
    const map_maker maker = find_map_maker();
    if (!maker)
        return CUDA_INVALID;
    key_maps *others = (key_maps *)workspace;
    maps_batch batch;
    arguments->others = others;
    int error = make_tile_map<DIM>(maker, &arguments->q, call->q, call->strides.q, call->rows, call->q_heads,
                                   call->items, query_rows);
    for (uint32_t b = 0, n = 0; b < call->n_keys && !error; b++) {
        const cuda_keys &keys = call->keys[b];
        key_maps *maps = b < MAPS_AT_HAND ? &arguments->at_hand[b] : &batch.maps[n++];
        if (keys.rows > 0) // nothing of the others is ever copied
            error = make_tile_map<DIM>(maker, &maps->k, keys.k, keys.strides, keys.rows, call->kv_heads, call->items,
                                       key_rows);
        if (keys.rows > 0 && !error)
            error = make_tile_map<DIM>(maker, &maps->v, keys.v, keys.strides, keys.rows, call->kv_heads, call->items,
                                       key_rows);
        if (!error && n > 0 && (n == MAPS_BATCH || b + 1 == call->n_keys)) {
            error = store_maps(others, batch, n, stream);
            others += n;
            n = 0;
        }
    }
    return error;
}

#endif
