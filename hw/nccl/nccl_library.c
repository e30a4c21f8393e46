/* nccl_library.c - finds the library, then each function by its name. */
#include "hw/nccl/nccl_library.h"

#include <stdio.h>

#include "hw/dynamic_library.h"

static const struct dynamic_function functions[] = {
    {.name = "ncclGetVersion", .member = offsetof(struct nccl_library, get_version)},
    {.name = "ncclGetErrorString", .member = offsetof(struct nccl_library, error_text)},
    {.name = "ncclGetLastError", .member = offsetof(struct nccl_library, last_error)},
    {.name = "ncclGetUniqueId", .member = offsetof(struct nccl_library, get_id)},
    {.name = "ncclCommInitRankConfig", .member = offsetof(struct nccl_library, comm_init)},
    {.name = "ncclCommGetAsyncError", .member = offsetof(struct nccl_library, comm_state)},
    {.name = "ncclCommFinalize", .member = offsetof(struct nccl_library, comm_finalize)},
    {.name = "ncclCommDestroy", .member = offsetof(struct nccl_library, comm_destroy)},
    {.name = "ncclCommAbort", .member = offsetof(struct nccl_library, comm_abort)},
    {.name = "ncclGroupStart", .member = offsetof(struct nccl_library, group_start)},
    {.name = "ncclGroupEnd", .member = offsetof(struct nccl_library, group_end)},
    {.name = "ncclSend", .member = offsetof(struct nccl_library, send)},
    {.name = "ncclRecv", .member = offsetof(struct nccl_library, receive)},
    {.name = "ncclBroadcast", .member = offsetof(struct nccl_library, broadcast)},
    {.name = "ncclReduce", .member = offsetof(struct nccl_library, reduce)},
    {.name = "ncclAllReduce", .member = offsetof(struct nccl_library, all_reduce)},
    {.name = "ncclAllGather", .member = offsetof(struct nccl_library, all_gather)},
    {.name = "ncclReduceScatter", .member = offsetof(struct nccl_library, reduce_scatter)},
    {.name = "ncclMemAlloc", .member = offsetof(struct nccl_library, memory_allocate), .optional = true},
    {.name = "ncclMemFree", .member = offsetof(struct nccl_library, memory_free), .optional = true},
    {.name = "ncclCommRegister", .member = offsetof(struct nccl_library, comm_register), .optional = true},
    {.name = "ncclCommDeregister", .member = offsetof(struct nccl_library, comm_deregister), .optional = true},
};

static void *open_any(const char *path, struct diagnostics *diag)
{
    const char *const names[] = {path ? path : "libnccl.so.2", path ? NULL : "libnccl.so", NULL};
    char reason[1024];
    void *handle = dynamic_library_open(names, reason, sizeof reason);
    if (!handle)
        diagnostics_add(diag, "NCCL cannot be opened: %s (%s)", reason,
                        path ? "as --nccl says"
                             : "--nccl FILE says where libnccl.so.2 is, for example in a Python package");
    return handle;
}

static bool find_functions(struct nccl_library *library, void *handle, const char *path, struct diagnostics *diag)
{
    char reason[512];
    return dynamic_library_find(handle, functions, sizeof functions / sizeof *functions, library, reason,
                                sizeof reason) ||
           diagnostics_add(diag, "'%s' %s, expected NCCL 2.18 or later", path ? path : "libnccl.so", reason);
}

bool nccl_library_open(struct nccl_library *library, const char *path, struct diagnostics *diag)
{
    *library = (struct nccl_library){0};
    void *handle = open_any(path, diag);
    if (!handle || !find_functions(library, handle, path, diag))
        return false;
    int result = library->get_version(&library->version);
    if (result != NCCL_DONE)
        return diagnostics_add(diag, "asking NCCL for its version (%s:%d): %s (error %d)", __FILE__, __LINE__,
                               library->error_text(result), result);
    snprintf(library->version_text, sizeof library->version_text, "%d.%d.%d", library->version / 10000,
             library->version / 100 % 100, library->version % 100);
    if (library->version < NCCL_VERSION_2_18)
        return diagnostics_add(diag, "NCCL is version %s, expected 2.18 or later", library->version_text);
    return true;
}

bool nccl_settings_check(const struct nccl_library *nccl, const struct transport_settings *settings,
                         struct diagnostics *diag)
{
    bool good = true;
    if (settings->zero_cta && nccl->version < NCCL_VERSION_2_28)
        good =
            diagnostics_add(diag, "NCCL %s cannot use copy engines in place of thread blocks, expected 2.28 or later",
                            nccl->version_text);
    if (settings->registered &&
        !(nccl->memory_allocate && nccl->memory_free && nccl->comm_register && nccl->comm_deregister))
        good = diagnostics_add(diag, "NCCL %s cannot register memory, expected 2.19 or later", nccl->version_text);
    return good;
}

/* That of NCCL 2.18, which every later library takes, unless something is asked for that only a later one has. */
struct nccl_config nccl_config_of(const struct transport_settings *settings)
{
    struct nccl_config config = {
        .size = NCCL_CONFIG_BYTES_2_18,
        .magic = NCCL_CONFIG_MAGIC,
        .version = NCCL_VERSION_2_18,
        .blocking = 0,
        .cga_cluster_size = NCCL_UNSET,
        .min_ctas = NCCL_UNSET,
        .max_ctas = NCCL_UNSET,
        .split_share = NCCL_UNSET,
        .traffic_class = NCCL_UNSET,
        .collnet_enable = NCCL_UNSET,
        .cta_policy = NCCL_UNSET,
        .shrink_share = NCCL_UNSET,
        .nvls_ctas = NCCL_UNSET,
        .channels_per_net_peer = NCCL_UNSET,
        .nvlink_centric_sched = NCCL_UNSET,
    };
    if (settings->max_ctas) {
        config.min_ctas = 1; /* its default may be more */
        config.max_ctas = (int)settings->max_ctas;
    }
    if (settings->zero_cta) {
        config.size = sizeof config;
        config.version = NCCL_VERSION_2_28;
        config.cta_policy = NCCL_POLICY_ZERO_CTA;
    }
    return config;
}

/* A backend makes its device current in each of its calls that make something. */
void nccl_choose_device(const struct compute_ops *ops, struct compute *compute)
{
    ops->queues->mark_destroy(compute, ops->queues->mark_create(compute, false));
}
