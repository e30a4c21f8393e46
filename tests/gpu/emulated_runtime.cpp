/* emulated_runtime.cpp - kernels/cuda/runtime.h on a host: devices, their memory, and errors.
 *
 * Memory knows whose it is: a device's or the host's. It is NaN at first. Freeing it waits for its device, as cudaFree
 * does; to read or write it from the host while a queued copy or fill touches it is an error here, where a GPU would
 * give one result or the other.
 */
#include "emulated_runtime.h"

#include <algorithm>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated_launch.h"
#include "kernels/cuda/runtime.h"

#define MAJOR_MIN 8
#define MAJOR_MAX 19
#define PROCESSORS 4
#define ALIGNMENT 256

/* ---- the machine ---- */

/* Never freed, for threads may outlive main. */
struct machine &machine()
{
    static struct machine *const one = new struct machine();
    return *one;
}

static uint64_t environment_number(const char *name, uint64_t otherwise, uint64_t most)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return otherwise;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || number > most) {
        fprintf(stderr, "emulation: %s: '%s' is no number up to %llu\n", name, text, (unsigned long long)most);
        abort();
    }
    return number;
}

static void environment_capability(int *major, int *minor)
{
    const char *text = getenv("CPSIM_EMULATED_CAPABILITY");
    int used = 0;
    *major = MAJOR_MIN;
    *minor = 0;
    if (!text || !*text)
        return;
    if (sscanf(text, "%2d.%1d%n", major, minor, &used) != 2 || text[used] || *major < 1 || *major > MAJOR_MAX ||
        *minor < 0) {
        fprintf(stderr, "emulation: CPSIM_EMULATED_CAPABILITY: '%s' is none, such as 8.0\n", text);
        abort();
    }
}

static void read_environment(struct machine &m)
{
    m.devices = (int)environment_number("CPSIM_EMULATED_GPUS", 1, DEVICES_MAX);
    m.memory_bytes = environment_number("CPSIM_EMULATED_MEMORY", 1ull << 30, SIZE_MAX / 2);
    environment_capability(&m.major, &m.minor);
    const uint32_t order = (uint32_t)environment_number("CPSIM_EMULATION_ORDER", 1, UINT32_MAX);
    m.known = true;
    emulation_order(order);
    emulation_stream_order(order);
    for (int device = 0; device < DEVICES_MAX; device++)
        m.defaults[device].device = device;
}

locked::locked()
{
    machine().lock.lock();
    if (!machine().known)
        read_environment(machine());
}

locked::~locked()
{
    machine().lock.unlock();
}

void emulation_reset(void)
{
    struct machine &m = machine();
    const std::lock_guard<std::recursive_mutex> guard(m.lock);
    for (const struct allocation &allocation : m.allocations)
        free(allocation.memory);
    m.allocations.clear();
    for (int device = 0; device < DEVICES_MAX; device++) {
        m.used[device] = 0;
        m.defaults[device].ns = 0;
        m.defaults[device].queue.clear();
    }
    /* Handles of before are never given again. */
    for (auto &stream : m.streams)
        stream.reset();
    for (auto &event : m.events)
        event.reset();
    for (auto &graph : m.graphs)
        graph.reset();
    m.busy.clear();
    m.broken = 0;
    host_ns() = 0;
    read_environment(m);
}

void emulation_order(uint32_t order)
{
    locked hold;
    emulation_turns(order);
}

/* ---- errors ---- */

static void complain(const char *format, va_list arguments)
{
    fprintf(stderr, "emulation: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
}

int refuse(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return error;
}

int break_down(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    machine().broken = error;
    return error;
}

const char *cuda_error_text(int error)
{
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {0, "no error"},
        {INVALID_VALUE, "invalid argument"},
        {OUT_OF_MEMORY, "out of memory"},
        {INVALID_CONFIGURATION, "invalid configuration argument"},
        {INVALID_PITCH, "invalid pitch argument"},
        {NO_DEVICE, "no CUDA-capable device is detected"},
        {INVALID_DEVICE, "invalid device ordinal"},
        {INVALID_HANDLE, "invalid resource handle"},
        {ILLEGAL_STATE, "the operation cannot be performed in the present state"},
        {NOT_READY, "device not ready"},
        {ILLEGAL_ADDRESS, "an illegal memory access was encountered (emulated)"},
        {LAUNCH_FAILURE, "the emulated GPU was used wrongly"},
        {CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
        {CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
        {CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"},
        {CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"},
        {CAPTURE_UNJOINED, "capturing stream has unjoined work"},
        {CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"},
        {CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream"},
        {CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"},
    };
    for (const auto &row : texts)
        if (row.error == error)
            return row.text;
    return "unrecognized error code";
}

/* ---- devices ---- */

static int &device_of_thread()
{
    static thread_local int device;
    return device;
}

/* Of a machine before, perhaps with more devices: then device 0. */
int current_device()
{
    return device_of_thread() < machine().devices ? device_of_thread() : 0;
}

double &host_ns()
{
    static thread_local double ns;
    return ns;
}

int cuda_devices(char *reason, size_t size)
{
    locked hold;
    const struct machine &m = machine();
    const bool usable = m.devices > 0 && m.major >= MAJOR_MIN;
    if (reason && size)
        snprintf(reason, size, "%s",
                 usable      ? ""
                 : m.devices ? "the first one is older than compute capability 8.0"
                             : "CUDA finds none: no CUDA-capable device is detected");
    return usable ? m.devices : 0;
}

int machine_error()
{
    return machine().broken ? machine().broken : machine().devices ? 0 : (int)NO_DEVICE;
}

int cuda_use(int device)
{
    locked hold;
    if (machine_error())
        return machine_error();
    if (device < 0 || device >= machine().devices)
        return INVALID_DEVICE;
    device_of_thread() = device;
    return 0;
}

int cuda_describe(int device, struct cuda_device *description)
{
    locked hold;
    const struct machine &m = machine();
    memset(description, 0, sizeof *description);
    if (machine_error())
        return machine_error();
    if (device < 0 || device >= m.devices)
        return INVALID_DEVICE;
    snprintf(description->name, sizeof description->name, "emulated GPU");
    snprintf(description->bus, sizeof description->bus, "00000000:%02x:00.0", (unsigned)device);
    description->major = m.major;
    description->minor = m.minor;
    description->processors = PROCESSORS;
    description->memory_bytes = m.memory_bytes;
    description->free_bytes = m.memory_bytes - m.used[device];
    description->driver = description->runtime = 13000;
    return 0;
}

/* ---- memory ---- */

static bool ends_below(const struct allocation &allocation, const unsigned char *address)
{
    return allocation.memory + allocation.bytes <= address;
}

static const struct allocation *find_memory(const void *address, size_t bytes)
{
    const struct machine &m = machine();
    const unsigned char *at = (const unsigned char *)address;
    const auto found = std::lower_bound(m.allocations.begin(), m.allocations.end(), at, ends_below);
    if (found == m.allocations.end() || at < found->memory || bytes > found->bytes - (size_t)(at - found->memory))
        return NULL;
    return &*found;
}

int emulation_place(const void *address, size_t bytes)
{
    locked hold;
    const struct allocation *found = find_memory(address, bytes);
    return found ? found->place : EMULATION_NOWHERE;
}

bool emulation_find(int device, const void *address, size_t bytes, const unsigned char **first,
                    const unsigned char **end)
{
    const struct allocation *found = find_memory(address, bytes);
    if (!found || found->place != device)
        return false;
    *first = found->memory;
    *end = found->memory + found->bytes;
    return true;
}

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int make_memory(void **memory, size_t bytes, int place)
{
    struct machine &m = machine();
    *memory = NULL;
    if (machine_error())
        return machine_error();
    if (bytes == 0)
        return refuse(INVALID_VALUE, "memory of 0 bytes is asked for");
    if (bytes > SIZE_MAX / 2 || (place >= 0 && rounded(bytes) > m.memory_bytes - m.used[place]))
        return OUT_OF_MEMORY;
    unsigned char *made = (unsigned char *)aligned_alloc(ALIGNMENT, rounded(bytes));
    if (!made)
        return OUT_OF_MEMORY;
    memset(made, 0xff, rounded(bytes));
    m.allocations.insert(std::lower_bound(m.allocations.begin(), m.allocations.end(), made, ends_below),
                         allocation{made, bytes, place});
    if (place >= 0)
        m.used[place] += rounded(bytes);
    *memory = made;
    return 0;
}

/* The lock is not held while the device finishes, and what was found before may have moved after. */
static int free_memory(void *memory, bool host)
{
    struct machine &m = machine();
    const struct allocation *found = find_memory(memory, 1);
    if (!memory)
        return m.broken;
    if (!found || found->memory != memory || (found->place == EMULATION_HOST) != host)
        return refuse(INVALID_VALUE, "%s memory is freed that is none (%p)", host ? "host" : "device", memory);
    const struct allocation freed = *found;
    if (!m.broken && queued_conflict(freed.memory, freed.bytes, true))
        break_down(LAUNCH_FAILURE, "memory is freed that a queued copy or fill uses (%p)", memory);
    if (freed.place >= 0)
        m.used[freed.place] -= rounded(freed.bytes);
    m.allocations.erase(m.allocations.begin() + (found - m.allocations.data()));
    free(memory);
    return m.broken;
}

int cuda_allocate(void **memory, size_t bytes)
{
    locked hold;
    return make_memory(memory, bytes, current_device());
}

int cuda_release(void *memory)
{
    const int device = memory ? emulation_place(memory, 1) : EMULATION_NOWHERE;
    if (device >= 0)
        finish_device(device);
    locked hold;
    return free_memory(memory, false);
}

int cuda_host_allocate(void **memory, size_t bytes)
{
    locked hold;
    return make_memory(memory, bytes, EMULATION_HOST);
}

int cuda_host_release(void *memory)
{
    locked hold;
    return free_memory(memory, true);
}

/* Between the host and device memory, at once; `writes` the latter. */
static int check_access(const void *device, const void *host, size_t bytes, bool writes)
{
    const char *name = writes ? "cuda_write" : "cuda_read";
    if (machine_error())
        return machine_error();
    if (emulation_place(device, bytes) < 0)
        return refuse(INVALID_VALUE, "%s of %zu bytes at %p: outside all device memory", name, bytes, device);
    if (emulation_place(host, 1) >= 0)
        return refuse(INVALID_VALUE, "%s: host memory that is a device's (%p)", name, host);
    if (queued_conflict(device, bytes, writes) || queued_conflict(host, bytes, !writes))
        return break_down(LAUNCH_FAILURE, "%s of %zu bytes at %p races with a queued copy or fill", name, bytes,
                          device);
    return 0;
}

int cuda_write(void *to, const void *host, size_t bytes)
{
    locked hold;
    const int error = bytes ? check_access(to, host, bytes, true) : machine_error();
    if (!error && bytes)
        memcpy(to, host, bytes);
    return error;
}

int cuda_read(void *host, const void *from, size_t bytes)
{
    locked hold;
    const int error = bytes ? check_access(from, host, bytes, false) : machine_error();
    if (!error && bytes)
        memcpy(host, from, bytes);
    return error;
}
