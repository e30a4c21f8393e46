/* processes.c - what a build without MPI has of them: a message that says so. */
#include "hw/processes.h"

#ifndef CPSIM_HAVE_MPI
#include <inttypes.h>

#include "hw/transport.h"

struct processes *processes_open(struct diagnostics *diag)
{
    diagnostics_add(diag,
                    "started as %" PRIu32
                    " processes by an MPI launcher, but this cpsim was built without MPI, so that "
                    "each would do all of the work",
                    transport_launched());
    return NULL;
}

uint32_t processes_count(const struct processes *processes)
{
    (void)processes;
    return 1;
}

uint32_t processes_here(const struct processes *processes)
{
    (void)processes;
    return 0;
}

uint32_t processes_on_host(const struct processes *processes)
{
    (void)processes;
    return 1;
}

bool processes_has_ended(const struct processes *processes, uint32_t other)
{
    (void)processes, (void)other;
    return false;
}

void processes_send(struct processes *processes, uint32_t to, char *bytes, size_t size)
{
    (void)processes, (void)to, (void)bytes, (void)size;
}

bool processes_receive(struct processes *processes, uint32_t *from, char **bytes, size_t *size)
{
    (void)processes, (void)from, (void)bytes, (void)size;
    return false;
}

void processes_close(struct processes *processes, bool complete)
{
    (void)processes, (void)complete;
}
#endif
