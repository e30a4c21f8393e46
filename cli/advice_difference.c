/* advice_difference.c - see advice_difference.h. */
#include "cli/advice_difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_parts(const void *a, const void *b)
{
    const struct advice_part *first = a, *second = b;
    double difference = fabs(second->seconds) - fabs(first->seconds);
    return difference < 0 ? -1 : difference > 0 ? 1 : strcmp(first->key, second->key);
}

size_t advice_difference(const struct advice_times *best, const struct advice_times *other,
                         struct advice_part parts[ADVICE_PARTS_MAX])
{
    static const char *const names[COMPUTE_PARTS] = {"attention", "matrix products", "the optimizer",
                                                     "other kernels (norms, activations, sums, copies)"};
    static const char *const waits[WAIT_KINDS] = {"waiting for CP messages", "waiting for TP messages",
                                                  "waiting for DP messages"};
    static const char *const wait_keys[WAIT_KINDS] = {"exposed_cp", "exposed_tp", "exposed_dp"};
    size_t n = 0;
    bool whole = true; /* attention alone: computing is one part */
    for (int part = 0; part < COMPUTE_PARTS; part++)
        whole &= best->parts[part] == 0 && other->parts[part] == 0;
    if (whole)
        parts[n++] = (struct advice_part){"computing", "compute", other->compute - best->compute};
    for (int part = 0; part < COMPUTE_PARTS && !whole; part++)
        parts[n++] = (struct advice_part){names[part], compute_part_name((enum compute_part)part),
                                          other->parts[part] - best->parts[part]};
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        parts[n++] = (struct advice_part){waits[kind], wait_keys[kind], other->waits[kind] - best->waits[kind]};
    parts[n++] = (struct advice_part){"waiting for slower ranks", "idle", other->idle - best->idle};
    qsort(parts, n, sizeof *parts, compare_parts);
    return n;
}

size_t advice_runner_up(const struct advice *advice)
{
    static const size_t telling[] = {KNOB_TP,        KNOB_CP,       KNOB_DP,        KNOB_BATCH,
                                     KNOB_ALGORITHM, KNOB_SHARDING, KNOB_RECOMPUTE, KNOB_ULYSSES_DEGREE};
    const struct advice_candidate *candidates = advice->space.candidates;
    for (size_t i = 1; i < advice->n_tried; i++)
        for (size_t k = 0; k < sizeof telling / sizeof *telling; k++)
            if (candidates[advice->tried[i]].value[telling[k]] != candidates[advice->tried[0]].value[telling[k]])
                return i;
    return advice->n_tried > 1;
}

bool advice_is_unsure(const struct advice_times *best, const struct advice_times *other)
{
    return best->high > best->low && other->low < best->high;
}
