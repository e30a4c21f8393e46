/* compute.h - a compute backend: where a rank's buffers live and its local operations run.
 *
 * One `const struct compute_ops` per backend, registered in one array. An open backend is used by one rank and one
 * thread. Buffers are laid out as layout.h says.
 */
#ifndef CPSIM_HW_COMPUTE_H
#define CPSIM_HW_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

struct compute; /* a backend's own */

/* What may be called while an operation runs, again and again, so that messages move meanwhile. */
struct between_tiles {
    void (*call)(void *context);
    void *context;
};

struct compute_ops {
    const char *name, *summary;
    /* Opens the backend for CP rank `rank`. NULL with messages, also when it cannot run the experiment's dtype. */
    struct compute *(*open)(const struct schedule *schedule, uint32_t rank, struct diagnostics *diag);
    void (*close)(struct compute *compute);
    /* Memory for a buffer, at least 1 byte; NULL when there is not enough. */
    void *(*allocate)(struct compute *compute, uint64_t bytes);
    void (*release)(struct compute *compute, void *memory);
    /* Copies between host memory and the backend's; sets every byte. */
    void (*write)(struct compute *compute, void *target, const void *host, uint64_t bytes);
    void (*read)(struct compute *compute, void *host, const void *source, uint64_t bytes);
    void (*fill)(struct compute *compute, void *target, int byte, uint64_t bytes);
    /* Runs one local operation of `program` on its buffers' memory (by buffer index) to its end. */
    void (*run)(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                const struct between_tiles *between_tiles);
};

extern const struct compute_ops compute_cpu;
extern const struct compute_ops *const computes[]; /* NULL-terminated; the first is the default */
const struct compute_ops *compute_find(const char *name);

#endif
