/* advice_vary_step.c - the innermost knobs: sequence parallelism, recomputation, ZeRO, and whatever was typed beyond
 * what is varied anyway.
 */
#include "cli/advice_draft.h"

static void vary_others(struct draft *draft, size_t knob)
{
    const struct advice_space *space = draft->space;
    if (knob == space->n_knobs) {
        draft_add(draft);
        return;
    }
    for (size_t i = 0; i < space->knobs[knob].n_values && !draft->overflow; i++) {
        draft->candidate.value[knob] = (uint16_t)(1 + i);
        vary_others(draft, knob + 1);
    }
    draft->candidate.value[knob] = 0;
}

static void vary_typed(struct draft *draft)
{
    vary_others(draft, KNOB_KINDS);
}

static void vary_zero(struct draft *draft)
{
    static const char *const stages[] = {"0", "1", "2", "3", NULL}, *const forward[] = {"0", "3", NULL};
    if (draft_has_layers(draft) && draft->cp * draft->dp > 1)
        draft_each(draft, KNOB_ZERO, draft->space->base.train ? stages : forward, vary_typed);
    else
        draft_none(draft, KNOB_ZERO, vary_typed);
}

static void vary_recompute(struct draft *draft)
{
    static const char *const all[] = {"none", "selective", "around", "full", NULL};
    if (draft_has_layers(draft) && draft->space->base.train)
        draft_each(draft, KNOB_RECOMPUTE, all, vary_zero);
    else
        draft_none(draft, KNOB_RECOMPUTE, vary_zero);
}

void draft_vary_step(struct draft *draft)
{
    static const char *const yes[] = {"yes", NULL};
    if (draft_has_layers(draft) && draft->tp > 1)
        draft_each(draft, KNOB_SEQUENCE_PARALLEL, yes, vary_recompute);
    else
        draft_none(draft, KNOB_SEQUENCE_PARALLEL, vary_recompute);
}
