/* device_turns.c - per device, a queue of at most two kernels of each rank on it. */
#include "sim/device_turns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

struct seat {
    uint64_t device;
    uint32_t instance;
};

static int compare_seats(const void *a, const void *b)
{
    const struct seat *first = a, *second = b;
    if (first->device != second->device)
        return first->device < second->device ? -1 : 1;
    return first->instance < second->instance ? -1 : 1;
}

/* Numbers the devices that are used. */
static void find_devices(struct device_turns *turns, const struct ensemble *ensemble, const struct placement *placement,
                         uint32_t ranks_per_device)
{
    uint32_t instances = ensemble->n_instances;
    struct seat *seats = memory_zeroed(instances, sizeof *seats);
    for (uint32_t i = 0; i < instances; i++) {
        const struct instance *instance = &ensemble->instances[i];
        seats[i] = (struct seat){placement_gpu(placement, instance->group, instance->rank) / ranks_per_device, i};
    }
    qsort(seats, instances, sizeof *seats, compare_seats);
    uint32_t device = 0;
    for (uint32_t i = 0; i < instances; i++) {
        device += i > 0 && seats[i].device != seats[i - 1].device;
        turns->device_of[seats[i].instance] = device;
    }
    free(seats);
}

void device_turns_init(struct device_turns *turns, const struct ensemble *ensemble, const struct placement *placement,
                       uint32_t ranks_per_device)
{
    uint32_t instances = ensemble->n_instances;
    turns->devices = memory_zeroed(instances, sizeof *turns->devices);
    turns->device_of = memory_zeroed(instances, sizeof *turns->device_of);
    turns->memory = memory_zeroed(2 * (size_t)instances, sizeof *turns->memory);
    for (uint32_t i = 0; i < instances; i++)
        turns->device_of[i] = i;
    if (ranks_per_device > 1)
        find_devices(turns, ensemble, placement, ranks_per_device);
    struct turn *memory = turns->memory;
    for (uint32_t i = 0; i < instances; i++) /* first how many turns each may have to keep */
        turns->devices[turns->device_of[i]].under_way += 2;
    for (uint32_t d = 0; d < instances; d++) {
        turns->devices[d].turns = memory;
        memory += turns->devices[d].under_way;
        turns->devices[d].under_way = 0;
    }
}

void device_turns_fini(struct device_turns *turns)
{
    free(turns->devices);
    free(turns->device_of);
    free(turns->memory);
    *turns = (struct device_turns){0};
}

static struct device_turn *device_of(struct device_turns *turns, uint32_t instance)
{
    return &turns->devices[turns->device_of[instance]];
}

bool device_turns_enter(struct device_turns *turns, uint32_t instance, enum stream stream)
{
    struct device_turn *device = device_of(turns, instance);
    assert(stream_computes(stream));
    device->turns[device->under_way++] = (struct turn){.instance = instance, .stream = (uint8_t)stream};
    return device->under_way == 1;
}

bool device_turns_launched(struct device_turns *turns, uint32_t instance, enum stream stream)
{
    struct device_turn *device = device_of(turns, instance);
    uint32_t i = 0;
    while (device->turns[i].instance != instance || device->turns[i].stream != stream)
        i++;
    device->turns[i].waits = i > 0;
    return i == 0;
}

bool device_turns_leave(struct device_turns *turns, uint32_t instance, struct turn *next)
{
    struct device_turn *device = device_of(turns, instance);
    assert(device->under_way > 0);
    device->under_way--;
    memmove(device->turns, device->turns + 1, device->under_way * sizeof *device->turns);
    *next = device->under_way ? device->turns[0] : (struct turn){.waits = false};
    return next->waits;
}
