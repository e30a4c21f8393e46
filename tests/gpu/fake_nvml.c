/* fake_nvml.c - a library that answers as NVML does, for machines that have none.
 *
 * Each sample of the GPU at 00000000:1B:00.0 is hotter by a degree than the one before, with a lower clock; the second
 * is held back by the power cap, the third by the power brake. FAKE_NVML in the environment makes things go wrong:
 * "init", "power" or "version" is the call that fails.
 */
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int error);
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetTemperature(void *device, int which, unsigned *celsius);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int users;
static unsigned sample; /* that is being taken; the SM clock is asked first */

static int fails(const char *call)
{
    const char *fault = getenv("FAKE_NVML");
    return fault && strcmp(fault, call) == 0;
}

int nvmlInit_v2(void)
{
    if (fails("init"))
        return NOT_SUPPORTED;
    if (users++ == 0)
        sample = 0;
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return users > 0 ? (users--, SUCCESS) : UNINITIALIZED;
}

const char *nvmlErrorString(int error)
{
    static const char *const texts[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported"};
    return error >= 0 && error <= NOT_SUPPORTED ? texts[error] : "Not Found";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    static const char version[] = "580.95.05";
    if (fails("version"))
        return NOT_SUPPORTED;
    if (!users || size < sizeof version)
        return users ? INVALID_ARGUMENT : UNINITIALIZED;
    memcpy(text, version, sizeof version);
    return SUCCESS;
}

/* Handles are opaque: this one is a number. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    if (strcmp(bus, "00000000:1B:00.0") != 0 && strcmp(bus, "00000000:00:00.0") != 0)
        return NOT_FOUND;
    *device = &sample;
    return users ? SUCCESS : UNINITIALIZED;
}

static int known(void *device)
{
    return !users ? UNINITIALIZED : device == &sample ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz)
{
    if (which == 1)
        *mhz = 1980 - 15 * sample++;
    else if (which == 2)
        *mhz = 3201;
    else
        return INVALID_ARGUMENT;
    return known(device);
}

int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz)
{
    *mhz = 1980;
    return which == 1 ? known(device) : INVALID_ARGUMENT;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 650500;
    return fails("power") ? NOT_SUPPORTED : known(device);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    *milliwatts = 700000;
    return known(device);
}

int nvmlDeviceGetTemperature(void *device, int which, unsigned *celsius)
{
    *celsius = 40 + sample;
    return which == 0 ? known(device) : INVALID_ARGUMENT;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    *bits = sample == 2 ? 1 << 2 : sample == 3 ? 1 << 7 : 0;
    return known(device);
}
