/* random_pair.h - for tests: a question drawn at random, to be run whole and folded: an experiment and its layout. */
#ifndef CPSIM_TESTS_SIM_RANDOM_PAIR_H
#define CPSIM_TESTS_SIM_RANDOM_PAIR_H

#include "tests/random_implementation.h"
#include "tests/sim/folding.h"

/* Draws the pair's experiment; returns whether it was made even: all ranks have as much. */
static inline bool draw_experiment(struct dice *dice, const char *algorithm, uint32_t ranks_max, struct pair *pair)
{
    const struct random_bounds bounds = {.ranks_max = ranks_max, .rows_max = 12, .dtype = DTYPE_BF16};
    *pair = (struct pair){.experiment = random_experiment(dice, algorithm, &bounds), .drawn = true};
    bool even = dice_chance(dice, 2);
    if (even)
        make_even(&pair->experiment);
    pair->experiment.implementation = random_implementation(dice);
    random_layout(dice, &pair->experiment, even);
    return even;
}

/* Makes the schedule of the pair's experiment. False if the algorithm refuses it, which is freed then. */
static inline bool draw_schedule(struct pair *pair)
{
    struct diagnostics unused;
    diagnostics_init(&unused);
    bool accepted = schedule_init(&pair->schedule, &pair->experiment, &unused, &unused);
    diagnostics_fini(&unused);
    if (!accepted)
        random_experiment_fini(&pair->experiment);
    return accepted;
}

#endif
