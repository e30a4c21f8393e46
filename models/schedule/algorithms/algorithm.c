/* algorithm.c - the register of algorithms, and which keys each looks at. */
#include "models/schedule/algorithms/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "models/input/key_table.h"

/* clang-format off: a line each */
const struct algorithm_ops *const algorithms[] = {
    &algorithm_ring,
    &algorithm_ring_te,
    &algorithm_direct,
    &algorithm_all_gather,
    &algorithm_all_gather_heads,
    &algorithm_ulysses,
    &algorithm_usp,
    &algorithm_double_ring,
    &algorithm_dist_flash,
    &algorithm_token_ring,
    &algorithm_burst,
    &algorithm_pass_q,
    &algorithm_tree_decode,
    NULL,
};
/* clang-format on */

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

const char *algorithm_ignores(const struct schedule *schedule, enum algorithm_key key)
{
    const struct algorithm_ops *algorithm = schedule->algorithm;
    if (!(algorithm->uses & key))
        return "";
    return algorithm->no_effect ? algorithm->no_effect(schedule, key) : NULL;
}
