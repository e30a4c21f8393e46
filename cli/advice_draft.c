/* advice_draft.c - see advice_draft.h. */
#include "cli/advice_draft.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/advice_knobs.h"
#include "models/base/memory.h"

void draft_set(struct draft *draft, size_t knob, const char *value)
{
    draft->candidate.value[knob] = value ? advice_knob_intern(&draft->space->knobs[knob], value) : 0;
}

void draft_set_count(struct draft *draft, size_t knob, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    draft_set(draft, knob, text);
}

void draft_add(struct draft *draft)
{
    struct advice_space *space = draft->space;
    if (space->n_candidates == ADVICE_CANDIDATES_MAX) {
        draft->overflow = true;
        return;
    }
    memory_grow(space->candidates, space->n_candidates, space->capacity);
    space->candidates[space->n_candidates++] = draft->candidate;
}

void draft_each(struct draft *draft, size_t knob, const char *const *list, void (*next)(struct draft *draft))
{
    struct advice_knob *its = &draft->space->knobs[knob];
    bool own = its->typed || its->fixed;
    size_t n = own ? its->n_values : 0;
    while (!own && list[n])
        n++;
    if (n == 0) {
        draft_set(draft, knob, NULL);
        next(draft);
    }
    for (size_t i = 0; i < n && !draft->overflow; i++) {
        draft_set(draft, knob, own ? its->values[i] : list[i]);
        next(draft);
    }
    draft->candidate.value[knob] = 0;
}

void draft_none(struct draft *draft, size_t knob, void (*next)(struct draft *draft))
{
    draft->candidate.value[knob] = 0;
    next(draft);
}

bool draft_has_layers(const struct draft *draft)
{
    return draft->space->base.step.scope != SCOPE_ATTENTION;
}
