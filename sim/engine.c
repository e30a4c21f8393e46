/* engine.c - the register of engines. */
#include "sim/engine.h"

#include <string.h>

const struct engine_ops *const engines[] = {&engine_simgrid, &engine_analytic, NULL};

const struct engine_ops *engine_find(const char *name)
{
    for (size_t i = 0; engines[i]; i++) {
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    }
    return NULL;
}
