/* advice_vary_layout.c - the outermost knobs: degrees whose product is the GPUs, batches that make a step's sequences,
 * and where on the cluster the ranks go.
 */
#include "cli/advice_draft.h"
#include "cli/advice_knobs.h"

static void vary_ring(struct draft *draft)
{
    static const char *const nothing[] = {NULL};
    if (draft->cp == 1)
        draft_none(draft, KNOB_RING, draft_vary_attention);
    else
        draft_each(draft, KNOB_RING, nothing, draft_vary_attention);
}

/* All places of one switch are alike. */
static bool order_matters(const struct draft *draft)
{
    const struct level *innermost = &draft->space->topology.levels[0];
    bool on_switch = innermost->kind == LEVEL_SWITCH && draft->space->gpus <= innermost->size;
    return draft->cp > 1 && draft->dp > 1 && !on_switch;
}

static void vary_order(struct draft *draft)
{
    static const char *const one[] = {"tp,cp,dp", NULL}, *const both[] = {"tp,cp,dp", "tp,dp,cp", NULL};
    draft_each(draft, KNOB_ORDER, order_matters(draft) ? both : one, vary_ring);
}

/* ---- degrees and batches ---- */

static void take_batch(struct draft *draft, uint64_t batch, uint64_t micro_batches)
{
    const struct advice_space *space = draft->space;
    const struct experiment *base = &space->base;
    bool has_micro = draft_has_layers(draft) && base->train;
    if (!advice_knob_allows(&space->knobs[KNOB_BATCH], batch) ||
        !advice_knob_allows(&space->knobs[KNOB_MICRO_BATCHES], micro_batches) || (micro_batches > 1 && !has_micro))
        return;
    draft_set_count(draft, KNOB_BATCH, batch);
    draft_set(draft, KNOB_MICRO_BATCHES, NULL);
    if (micro_batches > 1)
        draft_set_count(draft, KNOB_MICRO_BATCHES, micro_batches);
    vary_order(draft);
}

/* A replica's sequences, together or one by one; as many at once as was typed. */
static void vary_batch(struct draft *draft)
{
    const struct advice_space *space = draft->space;
    uint64_t sequences = space->sequences / draft->dp;
    bool own = space->knobs[KNOB_BATCH].typed || space->knobs[KNOB_BATCH].fixed ||
               space->knobs[KNOB_MICRO_BATCHES].typed || space->knobs[KNOB_MICRO_BATCHES].fixed;
    for (uint64_t batch = sequences; batch >= 1 && !draft->overflow; batch--) {
        bool wanted = batch == sequences || batch == 1 || batch == space->base.batch || own;
        if (sequences % batch == 0 && wanted)
            take_batch(draft, batch, sequences / batch);
    }
}

static bool is_legal_tp(const struct draft *draft, uint64_t tp)
{
    const struct advice_space *space = draft->space;
    const struct transformer *model = &space->base.model;
    bool typed = space->knobs[KNOB_TP].typed || space->knobs[KNOB_TP].fixed;
    bool divides =
        model->q_heads % tp == 0 && model->kv_heads % tp == 0 && (!draft_has_layers(draft) || model->ffn % tp == 0);
    return space->gpus % tp == 0 && advice_knob_allows(&space->knobs[KNOB_TP], tp) &&
           (typed || (divides && topology_node_gpus(&space->topology) % tp == 0));
}

static bool is_legal_cp(const struct draft *draft, uint64_t cp)
{
    enum { CP_UNQUESTIONED = 64, ROWS_MIN = 1024 };
    const struct advice_space *space = draft->space;
    const struct experiment *base = &space->base;
    bool typed = space->knobs[KNOB_CP].typed || space->knobs[KNOB_CP].fixed;
    if (space->gpus / draft->tp % cp != 0 || !advice_knob_allows(&space->knobs[KNOB_CP], cp))
        return false;
    return typed || (base->seq_len % cp == 0 && (cp <= CP_UNQUESTIONED || base->seq_len / cp >= ROWS_MIN));
}

void draft_vary_layouts(struct draft *draft)
{
    struct advice_space *space = draft->space;
    for (draft->tp = 1; draft->tp <= space->gpus && draft->tp <= space->base.model.q_heads; draft->tp++) {
        if (!is_legal_tp(draft, draft->tp))
            continue;
        uint64_t rest = space->gpus / draft->tp;
        for (draft->cp = 1; draft->cp <= rest && !draft->overflow; draft->cp++) {
            if (!is_legal_cp(draft, draft->cp))
                continue;
            draft->dp = rest / draft->cp;
            if (!advice_knob_allows(&space->knobs[KNOB_DP], draft->dp))
                continue;
            if (space->sequences % draft->dp != 0) {
                space->n_undivided++;
                continue;
            }
            draft_set_count(draft, KNOB_TP, draft->tp);
            draft_set_count(draft, KNOB_CP, draft->cp);
            draft_set_count(draft, KNOB_DP, draft->dp);
            vary_batch(draft);
        }
    }
}
