/* nccl_library.h - NCCL, opened when it is asked for: its functions as pointers.
 *
 * Nothing is linked, so that cpsim starts where there is no NCCL, and takes the one that another program brought (many
 * machines have it only inside a Python package). The library is never closed: it has threads of its own.
 */
#ifndef CPSIM_HW_NCCL_NCCL_LIBRARY_H
#define CPSIM_HW_NCCL_NCCL_LIBRARY_H

#include <stdbool.h>

#include "hw/compute.h"
#include "hw/nccl/nccl_abi.h"
#include "hw/transport.h"
#include "models/base/diagnostics.h"

/* Functions return an enum nccl_result. Those of the last paragraph came with 2.19, and are NULL in older ones. */
struct nccl_library {
    int version; /* 22809 */
    char version_text[24];

    int (*get_version)(int *version);
    const char *(*error_text)(int result);
    const char *(*last_error)(void *comm);
    int (*get_id)(struct nccl_id *id);
    int (*comm_init)(void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *config);
    int (*comm_state)(void *comm, int *state);
    int (*comm_finalize)(void *comm);
    int (*comm_destroy)(void *comm);
    int (*comm_abort)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);

    int (*send)(const void *from, size_t count, int type, int peer, void *comm, void *stream);
    int (*receive)(void *to, size_t count, int type, int peer, void *comm, void *stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream);
    int (*reduce)(const void *from, void *to, size_t count, int type, int fold, int root, void *comm, void *stream);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int fold, void *comm, void *stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, void *comm, void *stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int fold, void *comm, void *stream);

    int (*memory_allocate)(void **memory, size_t bytes);
    int (*memory_free)(void *memory);
    int (*comm_register)(void *comm, void *memory, size_t bytes, void **handle);
    int (*comm_deregister)(void *comm, void *handle);
};

/* `path`: settings.library; NULL: the system's libnccl.so.2, or libnccl.so. False with a message. */
bool nccl_library_open(struct nccl_library *library, const char *path, struct diagnostics *diag);

/* Whether the library can do what is asked for. False with messages. */
bool nccl_settings_check(const struct nccl_library *nccl, const struct transport_settings *settings,
                         struct diagnostics *diag);
/* The configuration of a communicator: a non-blocking one. */
struct nccl_config nccl_config_of(const struct transport_settings *settings);

/* Makes the backend's device the calling thread's: there a communicator is made. */
void nccl_choose_device(const struct compute_ops *ops, struct compute *compute);

#endif
