/* advice_difference.h - why one candidate takes longer than another, in numbers and words. */
#ifndef CPSIM_CLI_ADVICE_DIFFERENCE_H
#define CPSIM_CLI_ADVICE_DIFFERENCE_H

#include "cli/advice.h"

/* What a step's time is made of: computing by kind (or as a whole), waiting by kind, idling. They add up to it. */
#define ADVICE_PARTS_MAX (COMPUTE_PARTS + WAIT_KINDS + 1)

struct advice_part {
    const char *name; /* for people */
    const char *key;  /* for JSON */
    double seconds;   /* more than the best */
};

/* The parts by which `other` differs from `best`, largest first; returns their number. */
size_t advice_difference(const struct advice_times *best, const struct advice_times *other,
                         struct advice_part parts[ADVICE_PARTS_MAX]);

/* The first of those that were tried behind the best one that differs in more than how weights are shared out and ranks
 * are placed; else the second; 0: there is none. An index in advice->tried. */
size_t advice_runner_up(const struct advice *advice);

/* Whether the intervals of both overlap. */
bool advice_is_unsure(const struct advice_times *best, const struct advice_times *other);

#endif
