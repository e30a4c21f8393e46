/* compute.h - a compute backend: where a rank's buffers live and its local operations run.
 *
 * One `const struct compute_ops` per backend, registered in one array. An open backend is used by one rank and one
 * thread. Buffers are laid out as layout.h says.
 *
 * A backend may be asynchronous: it has a queue for each stream of the rank (struct queue_ops), `run` only queues an
 * operation in its stream's, and queues wait for each other by marks. The host is then ahead of the device; what the
 * program's order is, the device keeps.
 */
#ifndef CPSIM_HW_COMPUTE_H
#define CPSIM_HW_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

struct compute; /* a backend's own */
struct mark;    /* a backend's own: a place in a queue */

/* What may be called while an operation runs, again and again, so that messages move meanwhile. */
struct between_tiles {
    void (*call)(void *context);
    void *context;
};

/* Where a backend's memory for buffers comes from instead of its own. NULL: there is not enough. */
struct memory_source {
    void *(*allocate)(void *context, uint64_t bytes);
    void (*release)(void *context, void *memory);
    void *context;
};

struct compute_settings {
    int device;          /* which of the process's devices; backends without any: not looked at */
    const char *kernels; /* which family of attention kernels, of those the backend names; NULL: its default */
    bool deterministic;  /* the same bits every time, where a family has a faster way too */
    const struct memory_source *memory; /* NULL: its own; outlives the backend */
};

/* The queues of an asynchronous backend. None of these blocks. Errors stick to the backend (compute_ops.failure). */
struct queue_ops {
    /* Marks are of the rank that creates them, but may be waited for in queues of any rank of this process. */
    struct mark *(*mark_create)(struct compute *compute, bool timed);
    void (*mark_destroy)(struct compute *compute, struct mark *mark);
    /* The mark is passed when all that is in the queue now is done. It may be set again when nothing waits for it. */
    void (*mark)(struct compute *compute, enum stream stream, struct mark *mark);
    /* What is queued from now on waits until the mark, as it is set now, is passed. */
    void (*wait)(struct compute *compute, enum stream stream, const struct mark *mark);
    /* Also true when the backend has failed: nobody waits for what will not come. */
    bool (*passed)(struct compute *compute, const struct mark *mark);
    /* From one timed mark that is passed to another, of the same device. */
    double (*seconds)(struct compute *compute, const struct mark *from, const struct mark *to);

    /* Copies between any memory of the device, and host memory from `stage`. */
    void (*copy)(struct compute *compute, enum stream stream, void *target, const void *source, uint64_t bytes);
    /* `rows` pieces of `width` bytes, their starts so many bytes apart. */
    void (*copy_rows)(struct compute *compute, enum stream stream, void *target, uint64_t target_pitch,
                      const void *source, uint64_t source_pitch, uint64_t width, uint64_t rows);
    void (*fill)(struct compute *compute, enum stream stream, void *target, int byte, uint64_t bytes);

    /* Host memory that copies reach directly; NULL when there is not enough. */
    void *(*stage)(struct compute *compute, uint64_t bytes);
    void (*unstage)(struct compute *compute, void *memory);

    /* What a communication library takes for the queue: a cudaStream_t. */
    void *(*native)(struct compute *compute, enum stream stream);

    /* (optional: all or none) All that is queued from here to `record_end`, in all queues of the ranks that record
     * together, becomes one graph, which `launch` queues in the compute stream; the memory of all ranks must stay where
     * it is meanwhile. One rank calls them, while no other queues anything. record_end: false with the reason in
     * `failure`. */
    void (*record_begin)(struct compute *compute);
    bool (*record_end)(struct compute *compute);
    void (*launch)(struct compute *compute);
};

struct compute_ops {
    const char *name, *summary;
    bool layers; /* has the operations of layers, beside attention's */
    /* Whether it can run here, and this experiment: false with the reason (for people, no full stop) in `reason`.
     * (NULL and 0: nobody asks). NULL: always, as far as one can say before `open`. */
    bool (*able)(const struct schedule *schedule, char *reason, size_t size);
    /* Devices that this process can use. NULL: the backend knows of none. */
    uint32_t (*devices)(void);
    /* Opens the backend for CP rank `rank`. NULL with messages, also when it cannot run the experiment's dtype. */
    struct compute *(*open)(const struct schedule *schedule, uint32_t rank, const struct compute_settings *settings,
                            struct diagnostics *diag);
    void (*close)(struct compute *compute);
    /* Memory for a buffer, at least 1 byte; NULL when there is not enough. */
    void *(*allocate)(struct compute *compute, uint64_t bytes);
    void (*release)(struct compute *compute, void *memory);
    /* Copies between host memory and the backend's; sets every byte. Done on return; what is queued must not touch the
     * memory. */
    void (*write)(struct compute *compute, void *target, const void *host, uint64_t bytes);
    void (*read)(struct compute *compute, void *host, const void *source, uint64_t bytes);
    void (*fill)(struct compute *compute, void *target, int byte, uint64_t bytes);
    /* Runs one local operation of `program` on its buffers' memory (by buffer index) to its end; an asynchronous
     * backend queues it in the operation's stream, and calls nothing between tiles. */
    void (*run)(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                const struct between_tiles *between_tiles);
    const struct queue_ops *queues; /* NULL: not asynchronous */
    /* Why the backend has failed, with file, line and what was being done; NULL: it has not. NULL: it never does. */
    const char *(*failure)(struct compute *compute);
};

static inline const char *compute_failure(const struct compute_ops *ops, struct compute *compute)
{
    return ops->failure ? ops->failure(compute) : NULL;
}

extern const struct compute_ops compute_cpu;
extern const struct compute_ops compute_cuda;      /* only if built with CUDA */
extern const struct compute_ops *const computes[]; /* NULL-terminated; the first is the fallback */
const struct compute_ops *compute_find(const char *name);

/* The backend that runs when none was asked for, the last one that is able: accelerators come behind the CPU. `note`
 * gets why others gave way, or ""; NULL (and size 0): nobody asks. */
const struct compute_ops *compute_choose(const struct schedule *schedule, char *note, size_t size);

#endif
