/* nccl_registered.c - memory that the library knows: it moves it without copies of its own, where links allow.
 *
 * Memory is registered with a communicator before that is used next, not as it is allocated: then the communicator may
 * be busy, and to wait for it could take other ranks, which wait in the same way.
 */
#include <stdlib.h>

#include "hw/nccl/nccl_end.h"
#include "models/base/memory.h"

void *nccl_allocate(struct transport *end, uint64_t bytes)
{
    struct nccl_registration registration = {.bytes = bytes};
    if (end->given_up || end->library.memory_allocate(&registration.memory, bytes) != NCCL_DONE)
        return NULL; /* not enough: the caller says so */
    memory_grow(end->registrations, end->n_registrations, end->registration_capacity);
    end->registrations[end->n_registrations++] = registration;
    return registration.memory;
}

static void register_with(struct transport *end, size_t comm, struct nccl_registration *registration)
{
    if (registration->n_handles <= comm) {
        registration->handles = memory_resized(registration->handles, comm + 1, sizeof *registration->handles);
        while (registration->n_handles <= comm)
            registration->handles[registration->n_handles++] = NULL;
    }
    if (!registration->handles[comm])
        NCCL_CHECK(end, end->comms[comm],
                   end->library.comm_register(end->comms[comm], registration->memory, registration->bytes,
                                              &registration->handles[comm]),
                   "registering memory");
}

void nccl_register_all(struct transport *end, void *comm)
{
    size_t index = 0;
    while (end->n_registrations && index < end->n_comms && end->comms[index] != comm)
        index++;
    for (size_t r = 0; r < end->n_registrations && index < end->n_comms; r++)
        register_with(end, index, &end->registrations[r]);
}

static void deregister(struct transport *end, void *comm, void *handle)
{
    const char *what = "ending the registration of memory";
    if (nccl_comm_wait(end, comm, end->seconds_to_come, what))
        NCCL_CHECK(end, comm, end->library.comm_deregister(comm, handle), what);
}

void nccl_release(struct transport *end, void *memory)
{
    for (size_t r = 0; memory && r < end->n_registrations; r++) {
        struct nccl_registration registration = end->registrations[r];
        if (registration.memory != memory)
            continue;
        end->registrations[r] = end->registrations[--end->n_registrations];
        for (size_t i = 0; i < registration.n_handles && !end->given_up; i++)
            if (registration.handles[i])
                deregister(end, end->comms[i], registration.handles[i]);
        int result = end->library.memory_free(memory);
        if (!end->given_up)
            NCCL_CHECK(end, NULL, result, "freeing registered memory");
        free(registration.handles);
        return;
    }
}
