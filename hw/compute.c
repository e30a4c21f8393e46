/* compute.c - the list of compute backends. */
#include "hw/compute.h"

#include <stddef.h>
#include <string.h>

const struct compute_ops *const computes[] = {&compute_cpu, NULL};

const struct compute_ops *compute_find(const char *name)
{
    for (size_t i = 0; computes[i]; i++)
        if (strcmp(computes[i]->name, name) == 0)
            return computes[i];
    return NULL;
}
