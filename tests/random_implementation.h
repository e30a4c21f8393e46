/* random_implementation.h - for tests: whose way of carrying a schedule out, at random. */
#ifndef CPSIM_TESTS_RANDOM_IMPLEMENTATION_H
#define CPSIM_TESTS_RANDOM_IMPLEMENTATION_H

#include "models/input/implementation.h"
#include "tests/random_experiment.h"

/* An implementation whose host, copies and transfers cost something. */
static inline struct implementation random_implementation(struct dice *dice)
{
    struct implementation i = {.name = "random"};
    if (dice_chance(dice, 2))
        return i;
    for (int step = 0; step < IMPLEMENTATION_STEPS; step++)
        if (dice_chance(dice, 2))
            i.steps[step] = (struct passes){true, dice_below(dice, 4), dice_below(dice, 20), dice_below(dice, 40)};
    i.fixed_sms = dice_chance(dice, 2);
    i.sms = dice_below(dice, 40);
    i.synchronizes = dice_chance(dice, 2);
    i.host_attention_seconds = 1e-6 * dice_below(dice, 3);
    i.host_kernel_seconds = 1e-6 * dice_below(dice, 3);
    i.host_message_seconds = 1e-6 * dice_below(dice, 3);
    i.waits = dice_chance(dice, 2);
    i.one_stream = dice_chance(dice, 2);
    return i;
}

#endif
