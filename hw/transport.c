/* transport.c - the list of transports, and which one a run uses when nobody says: that of the launcher. */
#include "hw/transport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct transport_ops *const transports[] = {
    &transport_local,
#ifdef CPSIM_HAVE_MPI
    &transport_mpi,
#endif
#ifdef CPSIM_HAVE_CUDA
#ifdef CPSIM_HAVE_MPI
    &transport_nccl,
#endif
    &transport_nccl_threads,
#endif
    NULL,
};

const struct transport_ops *transport_find(const char *name)
{
    for (size_t i = 0; transports[i]; i++)
        if (strcmp(transports[i]->name, name) == 0)
            return transports[i];
    return NULL;
}

bool transport_settings_are_set(const struct transport_settings *settings)
{
    return settings->library || settings->max_ctas || settings->zero_cta || settings->registered ||
           settings->through_library;
}

bool transport_complain(const struct transport_ops *transport, struct transport *end, struct diagnostics *diag)
{
    const char *reason = transport->failed(end);
    return diagnostics_add(diag, "%s", reason ? reason : "a rank failed and did not say why");
}

uint32_t transport_launched(void)
{
    static const struct {
        const char *variable;
        uint32_t least;
    } launchers[] = {
        {"OMPI_COMM_WORLD_SIZE", 1},
        {"PMI_SIZE", 1},
        {"PMIX_SIZE", 1},
        {"SLURM_STEP_NUM_TASKS", 2}, /* of srun, whose PMIx tells no size; one task may be a shell */
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *text = getenv(launchers[i].variable);
        char *end;
        errno = 0;
        unsigned long size = text ? strtoul(text, &end, 10) : 0;
        if (text && end != text && *end == '\0' && errno == 0 && size >= launchers[i].least && size <= UINT32_MAX)
            return (uint32_t)size;
    }
    return 0;
}

static bool complain_unknown(const char *name, struct diagnostics *diag)
{
    char known[128] = "";
    for (size_t i = 0; transports[i]; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", transports[i]->name);
    }
    bool of_mpi = strcmp(name, "mpi") == 0, of_cuda = strncmp(name, "nccl", strlen("nccl")) == 0;
    return diagnostics_add(diag, "there is no transport '%s'%s, expected one of: %s", name,
                           of_mpi    ? " in this build (it was made without MPI)"
                           : of_cuda ? " in this build (it was made without CUDA, or without MPI)"
                                     : "",
                           known);
}

const struct transport_ops *transport_choose(const char *name, uint32_t ranks, struct diagnostics *diag)
{
    uint32_t launched = transport_launched();
    const struct transport_ops *transport = transport_find(name ? name : launched ? "mpi" : "local");
    if (!transport && !name)
        diagnostics_add(diag,
                        "started as %" PRIu32 " processes by an MPI launcher for %" PRIu32 " ranks"
                        ", but this cpsim was built without MPI",
                        launched, ranks);
    else if (!transport)
        complain_unknown(name, diag);
    else if (!transport->one_rank_a_process && launched > 1) {
        diagnostics_add(
            diag, "transport '%s' runs all %" PRIu32 " ranks in one process, but %" PRIu32 " processes were started",
            transport->name, ranks, launched);
        transport = NULL;
    }
    return transport;
}
