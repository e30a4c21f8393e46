/* gpu.h - the GPU that a rank calibrates, and how things are timed on it; for hw/cuda/gpu_*.c.
 *
 * Times are those between events on a stream that is kept busy: the first call is queued before the clock starts, and
 * what is short is queued many times in a row. So they are those that an operation has behind another, the launch
 * between them included, which is what the model calls an operation's time.
 */
#ifndef CPSIM_HW_CALIBRATE_GPU_GPU_H
#define CPSIM_HW_CALIBRATE_GPU_GPU_H

#include "hw/calibrate/calibrate_ring.h"
#include "hw/calibrate/gpu/gpu_grid.h"
#include "hw/cuda/compute_cuda.h"
#include "hw/gpu_watch.h"
#include "hw/verify/inputs.h"
#include "kernels/cuda/occupy.h"
#include "models/input/ini_document.h"

#define GPU_EVENTS_MAX 64

struct gpu {
    struct calibration_part *part;
    const struct gpu_grid *grid;
    struct cuda_device device;
    double room_bytes;   /* free on the rank's GPU that has least: all ranks measure the same blocks */
    uint32_t processors; /* likewise */
    struct compute *compute;
    void *stream, *beside; /* for kernels; for what is to run at the same time */
    void *events[GPU_EVENTS_MAX];
    struct gpu_watch *watch; /* looks at the clocks while things are timed */
    /* What the backend is opened for: it runs none of it. */
    struct ini_document nothing_written;
    struct experiment experiment;
    struct schedule schedule;
    bool attached, scheduled; /* the transport moves the GPU's memory; `schedule` is made */
};

static inline struct gpu *gpu_of(const struct calibration_part *part)
{
    return part->device;
}

/* Notes a call's failure; false if it failed. */
#define GPU_CHECK(gpu, call, what) CUDA_CHECK((gpu)->compute, call, what)

/* Tells the other ranks that this one has failed, by what its GPU said or, with `reason`, by that. Returns false. */
bool gpu_fail(struct gpu *gpu, const char *reason);

/* Memory of the GPU, or NULL after gpu_fail. `gpu_free` takes NULL. */
void *gpu_memory(struct gpu *gpu, uint64_t bytes);
void gpu_free(struct gpu *gpu, void *memory);

/* `count` (a multiple of 8) random numbers of fp32, bf16 or fp16, of the inputs' kind; NULL as above. */
void *gpu_numbers(struct gpu *gpu, enum input input, enum dtype dtype, uint64_t count);

/* Sets an event in a stream. */
bool gpu_record(struct gpu *gpu, uint32_t event, void *stream);
/* Seconds from one event that is passed to another; below 0 when that came before. */
bool gpu_seconds(struct gpu *gpu, uint32_t from, uint32_t to, double *seconds);

/* Something that can be queued in `stream`; returns a CUDA error number. */
struct gpu_work {
    int (*queue)(void *context, void *stream);
    void *context;
};

/* Adds the seconds of one call, `repeats` times (at most GPU_EVENTS_MAX - 1). False when the GPU has failed, which all
 * ranks are told. */
bool gpu_time(struct gpu *gpu, const struct gpu_work *work, uint32_t repeats, struct samples *samples);

/* The same, as what they say. */
bool gpu_measure(struct gpu *gpu, const struct gpu_work *work, uint32_t repeats, struct measured *measured);

/* ---- blocks of attention ---- */

struct gpu_case {
    struct gpu *gpu;
    struct measured_block *block;
    void *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
    float *lse, *delta;
    int32_t *from, *to; /* on the GPU */
    uint32_t rows;      /* for so many of them there is room */
    struct cuda_keys keys, *device_keys;
    void *workspace; /* the kernels' own */
    uint64_t workspace_bytes;
    struct cuda_call call;
};

/* For all of `blocks`. False when there is not enough memory, or the GPU failed: then as gpu_fail. */
bool gpu_case_init(struct gpu_case *c, struct gpu *gpu, enum dtype dtype, uint32_t head_dim,
                   const struct measured_block *blocks, uint32_t n_blocks);
void gpu_case_fini(struct gpu_case *c);

/* Makes the calls that follow those of `block`, and counts its pairs. */
bool gpu_case_set(struct gpu_case *c, struct measured_block *block);
struct gpu_work gpu_case_work(struct gpu_case *c, enum attention_pass pass);

/* ---- SMs that are held ---- */

/* Makes it ready for another hold. */
bool gpu_hold_reset(struct gpu *gpu, struct cuda_hold *hold);

/* ---- messages ---- */

/* Exchanges of the GPU's memory: by the transport, or with one rank alone copies within the GPU. */
struct gpu_ring {
    struct ring ring; /* first: it is all that others know of */
    struct gpu *gpu;
    char *out, *in;
    uint64_t room;
    struct cuda_hold *hold; /* of the stream `beside`, while the host queues; NULL: it cannot be held up */
    bool connected;         /* an exchange has been before */
};

/* For messages of up to `bytes`. False when there is not enough memory, as gpu_fail. */
bool gpu_ring_init(struct gpu_ring *ring, struct gpu *gpu, uint64_t bytes);
void gpu_ring_fini(struct gpu_ring *ring);
/* Queues one in the stream `beside`, and returns when that has been done. */
bool gpu_ring_queue(struct gpu_ring *ring, uint64_t bytes);
/* Waits until what is queued there has been done (for which a transport may need the host) and sets event 1 there. */
bool gpu_ring_drain(struct gpu *gpu);

/* ---- the parts ---- */

/* Of gpu_steps: what launches take, as this rank has it. */
bool gpu_launches(struct gpu *gpu);

bool gpu_steps(struct calibration_part *part);          /* launches, copies, steps */
bool gpu_products(struct calibration_part *part);       /* matrix products, by cuBLAS */
bool gpu_attention(struct calibration_part *part);      /* the tables */
bool gpu_held(struct calibration_part *part);           /* attention while something else holds SMs */
bool gpu_links(struct calibration_part *part);          /* messages, collectives */
bool gpu_describe_state(struct calibration_part *part); /* what clocks and power were until now */
bool gpu_slowdown(struct calibration_part *part);       /* attention and messages at the same time */

#endif
