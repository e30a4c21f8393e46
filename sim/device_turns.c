/* device_turns.c - per device, a queue of at most two kernels. */
#include "sim/device_turns.h"

#include <assert.h>
#include <stdlib.h>

#include "models/base/memory.h"

void device_turns_init(struct device_turns *turns, uint32_t instances)
{
    turns->devices = memory_zeroed(instances, sizeof *turns->devices);
}

void device_turns_fini(struct device_turns *turns)
{
    free(turns->devices);
    turns->devices = NULL;
}

bool device_turns_enter(struct device_turns *turns, uint32_t instance, enum stream stream)
{
    struct device_turn *device = &turns->devices[instance];
    assert(stream_computes(stream) && device->under_way < 2);
    device->streams[device->under_way++] = (uint8_t)stream;
    return device->under_way == 1;
}

bool device_turns_launched(struct device_turns *turns, uint32_t instance, enum stream stream)
{
    struct device_turn *device = &turns->devices[instance];
    bool first = device->streams[0] == stream;
    if (!first)
        device->waits = true;
    return first;
}

bool device_turns_leave(struct device_turns *turns, uint32_t instance)
{
    struct device_turn *device = &turns->devices[instance];
    bool waited = device->waits;
    assert(device->under_way > 0);
    device->under_way--;
    device->streams[0] = device->streams[1];
    device->waits = false;
    return waited;
}
