/* advice_space.c - knobs from what was typed, then loops over their values from the outside in: degrees, batches,
 * placement, attention, the step around it.
 */
#include "cli/advice_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/advice_knobs.h"
#include "cli/summary.h"
#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"

/* A candidate that is being put together. */
struct draft {
    struct advice_space *space;
    struct diagnostics *diag;
    struct advice_candidate candidate;
    uint64_t tp, cp, dp;
    const struct algorithm_ops *algorithm;
    bool overflow;
};

static void set(struct draft *draft, size_t knob, const char *value)
{
    draft->candidate.value[knob] = value ? advice_knob_intern(&draft->space->knobs[knob], value) : 0;
}

static void set_count(struct draft *draft, size_t knob, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    set(draft, knob, text);
}

static void add_candidate(struct draft *draft)
{
    struct advice_space *space = draft->space;
    if (space->n_candidates == ADVICE_CANDIDATES_MAX) {
        draft->overflow = true;
        return;
    }
    memory_grow(space->candidates, space->n_candidates, space->capacity);
    space->candidates[space->n_candidates++] = draft->candidate;
}

/* Calls `next` with each of the knob's own values, if it has any (typed or fixed), else with each of `list`. An empty
 * list: once, with the key not written. */
static void each(struct draft *draft, size_t knob, const char *const *list, void (*next)(struct draft *draft))
{
    struct advice_knob *its = &draft->space->knobs[knob];
    bool own = its->typed || its->fixed;
    size_t n = own ? its->n_values : 0;
    while (!own && list[n])
        n++;
    if (n == 0) {
        set(draft, knob, NULL);
        next(draft);
    }
    for (size_t i = 0; i < n && !draft->overflow; i++) {
        set(draft, knob, own ? its->values[i] : list[i]);
        next(draft);
    }
    draft->candidate.value[knob] = 0;
}

/* The same where the key has no effect. */
static void none(struct draft *draft, size_t knob, void (*next)(struct draft *draft))
{
    draft->candidate.value[knob] = 0;
    next(draft);
}

/* ---- the step around attention ---- */

static void vary_others(struct draft *draft, size_t knob)
{
    const struct advice_space *space = draft->space;
    if (knob == space->n_knobs) {
        add_candidate(draft);
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

static bool has_layers(const struct draft *draft)
{
    return draft->space->base.step.scope != SCOPE_ATTENTION;
}

static void vary_zero(struct draft *draft)
{
    static const char *const stages[] = {"0", "1", "2", "3", NULL}, *const forward[] = {"0", "3", NULL};
    if (has_layers(draft) && draft->cp * draft->dp > 1)
        each(draft, KNOB_ZERO, draft->space->base.train ? stages : forward, vary_typed);
    else
        none(draft, KNOB_ZERO, vary_typed);
}

static void vary_recompute(struct draft *draft)
{
    static const char *const all[] = {"none", "selective", "around", "full", NULL};
    if (has_layers(draft) && draft->space->base.train)
        each(draft, KNOB_RECOMPUTE, all, vary_zero);
    else
        none(draft, KNOB_RECOMPUTE, vary_zero);
}

static void vary_sequence_parallel(struct draft *draft)
{
    static const char *const yes[] = {"yes", NULL};
    if (has_layers(draft) && draft->tp > 1)
        each(draft, KNOB_SEQUENCE_PARALLEL, yes, vary_recompute);
    else
        none(draft, KNOB_SEQUENCE_PARALLEL, vary_recompute);
}

/* ---- attention ---- */

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
        none(draft, KNOB_INNER, vary_sequence_parallel);
    else
        each(draft, KNOB_INNER, usp && draft->cp > node_ranks(draft) ? both : nothing, vary_sequence_parallel);
}

static void vary_window(struct draft *draft)
{
    static const char *const nothing[] = {NULL};
    if (!(draft->algorithm->uses & USES_RING_WINDOW)) {
        none(draft, KNOB_RING_WINDOW, vary_inner);
        return;
    }
    each(draft, KNOB_RING_WINDOW, nothing, vary_inner);
    const struct advice_knob *knob = &draft->space->knobs[KNOB_RING_WINDOW];
    uint64_t window = node_ranks(draft);
    if (knob->typed || knob->fixed || window <= 1 || window >= draft->cp || draft->cp % window != 0)
        return;
    set_count(draft, KNOB_RING_WINDOW, window);
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
        none(draft, KNOB_ULYSSES_DEGREE, vary_window);
        return;
    }
    if (knob->typed || knob->fixed || !usp) {
        each(draft, KNOB_ULYSSES_DEGREE, nothing, vary_window);
        return;
    }
    uint64_t q_heads = space->base.model.q_heads / draft->tp, kv_heads = space->base.model.kv_heads / draft->tp;
    for (uint64_t degree = 2; degree < draft->cp; degree++) {
        bool legal =
            draft->cp % degree == 0 && q_heads % degree == 0 && (kv_heads % degree == 0 || degree % kv_heads == 0);
        if (!legal)
            continue;
        set_count(draft, KNOB_ULYSSES_DEGREE, degree);
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
    each(draft, KNOB_SHARDING, shardings_of(draft), vary_ulysses_degree);
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
    return !(algorithm->replicates_queries && has_layers(draft));
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
static void vary_algorithm(struct draft *draft)
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
        set(draft, KNOB_ALGORITHM, algorithm->name);
        vary_sharding(draft);
        if (draft->cp == 1)
            return;
    }
}

/* ---- placement ---- */

static void vary_ring(struct draft *draft)
{
    static const char *const nothing[] = {NULL};
    if (draft->cp == 1)
        none(draft, KNOB_RING, vary_algorithm);
    else
        each(draft, KNOB_RING, nothing, vary_algorithm);
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
    each(draft, KNOB_ORDER, order_matters(draft) ? both : one, vary_ring);
}

/* ---- degrees and batches ---- */

static void take_batch(struct draft *draft, uint64_t batch, uint64_t micro_batches)
{
    const struct advice_space *space = draft->space;
    const struct experiment *base = &space->base;
    bool has_micro = has_layers(draft) && base->train;
    if (!advice_knob_allows(&space->knobs[KNOB_BATCH], batch) ||
        !advice_knob_allows(&space->knobs[KNOB_MICRO_BATCHES], micro_batches) || (micro_batches > 1 && !has_micro))
        return;
    set_count(draft, KNOB_BATCH, batch);
    set(draft, KNOB_MICRO_BATCHES, NULL);
    if (micro_batches > 1)
        set_count(draft, KNOB_MICRO_BATCHES, micro_batches);
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
        model->q_heads % tp == 0 && model->kv_heads % tp == 0 && (!has_layers(draft) || model->ffn % tp == 0);
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

static void vary_degrees(struct draft *draft)
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
            set_count(draft, KNOB_TP, draft->tp);
            set_count(draft, KNOB_CP, draft->cp);
            set_count(draft, KNOB_DP, draft->dp);
            vary_batch(draft);
        }
    }
}

/* ---- the interface ---- */

/* What was typed is there. */
static bool check_used(const struct advice_space *space, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t k = 0; k < space->n_knobs; k++) {
        const struct advice_knob *knob = &space->knobs[k];
        for (size_t v = 0; v < knob->n_values && knob->typed; v++) {
            size_t i = 0;
            while (i < space->n_candidates && space->candidates[i].value[k] != 1 + v)
                i++;
            if (i == space->n_candidates)
                fine = diagnostics_add(
                    diag,
                    "--vary %s: no candidate has '%s', expected what goes with tp x cp x dp = %" PRIu64
                    " GPUs, %" PRIu64 " sequence%s a step, and the other keys",
                    knob->key, knob->values[v], space->gpus, space->sequences, space->sequences == 1 ? "" : "s");
        }
    }
    return fine;
}

static bool list_candidates(struct advice_space *space, struct diagnostics *diag)
{
    struct draft draft = {.space = space, .diag = diag};
    vary_degrees(&draft);
    if (draft.overflow)
        return diagnostics_add(diag, "there are more than %d candidates, expected fewer: --fix or --vary some keys",
                               ADVICE_CANDIDATES_MAX);
    if (space->n_candidates > 0)
        return check_used(space, diag);
    char *undivided = space->n_undivided ? memory_format(": the dp of %zu does not divide them", space->n_undivided)
                                         : memory_text("");
    diagnostics_add(diag,
                    "no layout of %" PRIu64 " GPUs is possible for steps of %" PRIu64
                    " sequence%s (batch x dp x micro_batches of the experiment)%s",
                    space->gpus, space->sequences, space->sequences == 1 ? "" : "s", undivided);
    free(undivided);
    return false;
}

static bool choose_gpus(struct advice_space *space, const struct advice_wish *wish, struct diagnostics *diag)
{
    uint64_t all = space->topology.n_gpus;
    space->gpus = wish->gpus ? wish->gpus : all;
    if (space->gpus > all)
        return diagnostics_add(diag, "--gpus %" PRIu64 " of a cluster of %" PRIu64 ", expected at most these",
                               space->gpus, all);
    if (space->gpus > INT32_MAX)
        return diagnostics_add(diag, "%" PRIu64 " GPUs, expected at most %" PRId32 ": --gpus", space->gpus, INT32_MAX);
    return true;
}

bool advice_space_init(struct advice_space *space, const struct question *question, const struct advice_wish *wish,
                       struct diagnostics *diag)
{
    *space = (struct advice_space){.n_knobs = 0};
    if (!advice_knobs_read(space, question, wish, diag))
        return false;
    const struct experiment *base = &space->base;
    space->sequences = (uint64_t)base->batch * base->degree[PARALLEL_DP] * base->step.micro_batches;
    return choose_gpus(space, wish, diag) && list_candidates(space, diag);
}

const char *advice_value(const struct advice_space *space, size_t candidate, size_t knob)
{
    uint16_t value = space->candidates[candidate].value[knob];
    return value ? space->knobs[knob].values[value - 1] : NULL;
}
