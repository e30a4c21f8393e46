/* algorithm.c - the register of algorithms, and which keys each looks at. */
#include "models/schedule/algorithms/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "models/input/key_table.h"

const struct algorithm_ops *const algorithms[] = {
    &algorithm_ring,
    &algorithm_all_gather,
    &algorithm_direct,
    NULL,
};

const struct algorithm_ops *algorithm_find(const char *name)
{
    for (size_t i = 0; algorithms[i]; i++)
        if (strcmp(algorithms[i]->name, name) == 0)
            return algorithms[i];
    return NULL;
}

bool algorithm_report_unknown(const struct experiment *experiment, struct diagnostics *diag)
{
    const char *names[sizeof algorithms / sizeof *algorithms] = {NULL};
    char list[256] = "";
    for (size_t i = 0; algorithms[i]; i++) {
        names[i] = algorithms[i]->name;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? " | " : "", names[i]);
    }
    const char *name = experiment->algorithm, *nearest = key_table_nearest(name, names);
    return experiment_complain(experiment, "schedule", "algorithm", diag, "unknown algorithm '%s'%s%s%s, expected %s",
                               name, nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'" : "",
                               list);
}

unsigned algorithm_uses(const struct schedule *schedule)
{
    unsigned uses = schedule->algorithm->uses;
    if ((uses & USES_BUFFERS_IF_BLOCKED) && schedule->experiment->kv_block)
        uses |= USES_BUFFERS;
    else if (uses & USES_BUFFERS_IF_BLOCKED)
        uses &= ~(unsigned)USES_BUFFERS;
    return uses;
}
