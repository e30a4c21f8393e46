/* compute.c - the list of compute backends, and which one runs when nobody says. */
#include "hw/compute.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const struct compute_ops *const computes[] = {&compute_cpu,
#ifdef CPSIM_HAVE_CUDA
                                              &compute_cuda,
#endif
                                              NULL};

const struct compute_ops *compute_find(const char *name)
{
    for (size_t i = 0; computes[i]; i++)
        if (strcmp(computes[i]->name, name) == 0)
            return computes[i];
    return NULL;
}

const struct compute_ops *compute_choose(const struct schedule *schedule, char *note, size_t size)
{
    const struct compute_ops *chosen = computes[0];
    snprintf(note, size, "%s", "");
    for (size_t i = 1; computes[i]; i++)
        if (!computes[i]->layers && schedule->experiment->step.scope != SCOPE_ATTENTION)
            snprintf(note, size, "backend '%s' has no operations of layers", computes[i]->name);
        else if (computes[i]->able(schedule, note, size))
            chosen = computes[i];
    return chosen;
}
