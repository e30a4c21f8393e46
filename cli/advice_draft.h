/* advice_draft.h - a candidate of an advice that is being put together, knob by knob.
 *
 * Each step gives one knob a value and calls the next step for it, so that the steps nest like loops, from the outside
 * in: degrees and batches, placement (advice_vary_layout.c), attention (advice_vary_attention.c), the step around it
 * (advice_vary_step.c); the innermost adds the candidate to the space.
 */
#ifndef CPSIM_CLI_ADVICE_DRAFT_H
#define CPSIM_CLI_ADVICE_DRAFT_H

#include "cli/advice_space.h"

struct algorithm_ops;

/* A candidate that is being put together. */
struct draft {
    struct advice_space *space;
    struct advice_candidate candidate;
    uint64_t tp, cp, dp;
    const struct algorithm_ops *algorithm;
    bool overflow; /* there are more candidates than may be: all steps return */
};

/* NULL: the key is not written. */
void draft_set(struct draft *draft, size_t knob, const char *value);
void draft_set_count(struct draft *draft, size_t knob, uint64_t value);

/* Adds it as it is now. */
void draft_add(struct draft *draft);

/* Calls `next` with each of the knob's own values, if it has any (typed or fixed), else with each of `list`
 * (NULL-terminated). An empty list: once, with the key not written. */
void draft_each(struct draft *draft, size_t knob, const char *const *list, void (*next)(struct draft *draft));

/* The same where the key has no effect: once. */
void draft_none(struct draft *draft, size_t knob, void (*next)(struct draft *draft));

/* Whether there is something around attention. */
bool draft_has_layers(const struct draft *draft);

/* All layouts of the space's GPUs and sequences, each with all that is inside. */
void draft_vary_layouts(struct draft *draft);

/* Ways to do attention in the draft's layout. */
void draft_vary_attention(struct draft *draft);

/* Ways to do the step around the draft's attention. */
void draft_vary_step(struct draft *draft);

#endif
