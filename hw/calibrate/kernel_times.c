/* kernel_times.c - reads and judges the tables, and keeps the text. */
#include "hw/calibrate/kernel_times.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/calibrate/profile_writer.h"
#include "models/base/memory.h"
#include "models/input/device.h"

/* Names of calibrations' own tables, whatever device they are of. */
static bool is_ours(const char *kernel)
{
    const size_t length = strlen(CALIBRATED_KERNEL);
    return strncmp(kernel, CALIBRATED_KERNEL, length) == 0 && (kernel[length] == '\0' || kernel[length] == '-');
}

static bool check_names(const struct device *device, struct diagnostics *diag)
{
    bool good = true;
    for (size_t i = 0; i < device->n_tables; i++)
        if (is_ours(device->tables[i].kernel))
            good = diagnostics_at(diag, device->path, device->tables[i].line,
                                  "kernel '%s' is what a calibration calls its own, expected another name",
                                  device->tables[i].kernel);
    return good;
}

static bool read_text(struct kernel_times *times, struct diagnostics *diag)
{
    size_t size = 0;
    FILE *file = fopen(times->path, "r");
    const bool good = file && getdelim(&times->text, &size, '\0', file) > 0 && !ferror(file);
    if (file)
        fclose(file);
    return good || diagnostics_add(diag, "cannot read '%s': %s", times->path, strerror(errno));
}

bool kernel_times_read(struct kernel_times *times, const char *path, struct diagnostics *diag)
{
    struct device device;
    *times = (struct kernel_times){.path = NULL};
    if (!device_read_tables(&device, path, diag))
        return false;
    times->path = memory_text(path);
    snprintf(times->kernel, sizeof times->kernel, "%s", device.tables[0].kernel);
    const bool good = check_names(&device, diag) && read_text(times, diag);
    device_fini(&device);
    if (!good)
        kernel_times_fini(times);
    return good;
}

void kernel_times_fini(struct kernel_times *times)
{
    free(times->path);
    free(times->text);
    *times = (struct kernel_times){.path = NULL};
}
