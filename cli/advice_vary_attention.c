/* advice_vary_attention.c - algorithms that do such work, each with the shardings that balance the mask and with what
 * the algorithm leaves to choose.
 */
#include <string.h>

#include "cli/advice_draft.h"
#include "models/schedule/algorithms/algorithm.h"

/* CP ranks of one tp index on a node. */
static uint64_t node_ranks(const struct draft *draft)
{
    uint64_t gpus = topology_node_gpus(&draft->space->topology);
    return gpus / draft->tp;
}

static void vary_inner(struct draft *draft)
{
    static const char *const both[] = {"all-to-all", "ring", NULL}, *const nothing[] = {NULL};
    bool usp = draft->candidate.value[KNOB_ULYSSES_DEGREE] != 0 && strcmp(draft->algorithm->name, "usp") == 0;
    if (!(draft->algorithm->uses & USES_INNER))
        draft_none(draft, KNOB_INNER, draft_vary_step);
    else
        draft_each(draft, KNOB_INNER, usp && draft->cp > node_ranks(draft) ? both : nothing, draft_vary_step);
}

static void vary_window(struct draft *draft)
{
    static const char *const nothing[] = {NULL};
    if (!(draft->algorithm->uses & USES_RING_WINDOW)) {
        draft_none(draft, KNOB_RING_WINDOW, vary_inner);
        return;
    }
    draft_each(draft, KNOB_RING_WINDOW, nothing, vary_inner);
    const struct advice_knob *knob = &draft->space->knobs[KNOB_RING_WINDOW];
    uint64_t window = node_ranks(draft);
    if (knob->typed || knob->fixed || window <= 1 || window >= draft->cp || draft->cp % window != 0)
        return;
    draft_set_count(draft, KNOB_RING_WINDOW, window);
    vary_inner(draft);
    draft->candidate.value[KNOB_RING_WINDOW] = 0;
}

/* Between 1, which is a ring, and cp, which is ulysses. */
static void vary_ulysses_degree(struct draft *draft)
{
    static const char *const nothing[] = {NULL};
    const struct advice_space *space = draft->space;
    const struct advice_knob *knob = &space->knobs[KNOB_ULYSSES_DEGREE];
    bool usp = strcmp(draft->algorithm->name, "usp") == 0;
    if (!(draft->algorithm->uses & USES_ULYSSES_DEGREE)) {
        draft_none(draft, KNOB_ULYSSES_DEGREE, vary_window);
        return;
    }
    if (knob->typed || knob->fixed || !usp) {
        draft_each(draft, KNOB_ULYSSES_DEGREE, nothing, vary_window);
        return;
    }
    uint64_t q_heads = space->base.model.q_heads / draft->tp, kv_heads = space->base.model.kv_heads / draft->tp;
    for (uint64_t degree = 2; degree < draft->cp; degree++) {
        bool legal =
            draft->cp % degree == 0 && q_heads % degree == 0 && (kv_heads % degree == 0 || degree % kv_heads == 0);
        if (!legal)
            continue;
        draft_set_count(draft, KNOB_ULYSSES_DEGREE, degree);
        vary_window(draft);
    }
    draft->candidate.value[KNOB_ULYSSES_DEGREE] = 0;
}

static const char *const *shardings_of(const struct draft *draft)
{
    static const char *const contiguous[] = {"contiguous", NULL}, *const causal[] = {"zigzag", "striped", NULL},
                             *const window[] = {"contiguous", "zigzag", "striped", NULL},
                             *const documents[] = {"per-document", "zigzag", "contiguous", NULL},
                             *const helped[] = {"contiguous", "zigzag", NULL};
    const struct mask *mask = &draft->space->base.mask;
    bool ulysses = strcmp(draft->algorithm->name, "ulysses") == 0; /* every rank attends the whole sequence */
    if (ulysses || draft->cp == 1 || mask->kind == MASK_FULL)
        return contiguous;
    if (mask->kind == MASK_WINDOW)
        return window;
    if (mask->kind == MASK_DOCUMENTS)
        return mask->n_documents <= SHARDING_DOCUMENTS_MAX ? documents : documents + 1;
    return strcmp(draft->algorithm->name, "dist-flash") == 0 ? helped : causal;
}

static void vary_sharding(struct draft *draft)
{
    draft_each(draft, KNOB_SHARDING, shardings_of(draft), vary_ulysses_degree);
}

static bool does_such_work(const struct draft *draft, const struct algorithm_ops *algorithm)
{
    const struct experiment *base = &draft->space->base;
    if (base->train && !(algorithm->can & CAN_TRAIN))
        return false;
    if (base->new_tokens && !(algorithm->can & CAN_PREFILL))
        return false;
    if (base->new_tokens && base->new_tokens < draft->cp && !(algorithm->can & CAN_DECODE))
        return false;
    return !(algorithm->replicates_queries && draft_has_layers(draft));
}

/* Whether cp ranks can trade rows for heads, if that is what the algorithm does. */
static bool can_trade(const struct draft *draft, const struct algorithm_ops *algorithm)
{
    const struct transformer *model = &draft->space->base.model;
    uint64_t q_heads = model->q_heads / draft->tp, kv_heads = model->kv_heads / draft->tp;
    if (strcmp(algorithm->name, "ulysses") != 0 || kv_heads == 0) /* more tp than heads is refused elsewhere */
        return true;
    return q_heads % draft->cp == 0 && (kv_heads % draft->cp == 0 || draft->cp % kv_heads == 0);
}

/* With one rank a group all algorithms do the same: the first that was asked for. */
void draft_vary_attention(struct draft *draft)
{
    const struct advice_knob *knob = &draft->space->knobs[KNOB_ALGORITHM];
    bool own = knob->typed || knob->fixed;
    size_t n = own ? knob->n_values : 0;
    while (!own && algorithms[n])
        n++;
    for (size_t i = 0; i < n && !draft->overflow; i++) {
        const struct algorithm_ops *algorithm = own ? algorithm_find(knob->values[i]) : algorithms[i];
        if (!algorithm || !does_such_work(draft, algorithm) || (!own && !can_trade(draft, algorithm)))
            continue;
        draft->algorithm = algorithm;
        draft_set(draft, KNOB_ALGORITHM, algorithm->name);
        vary_sharding(draft);
        if (draft->cp == 1)
            return;
    }
}
