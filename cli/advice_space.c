/* advice_space.c - knobs from what was typed (advice_knobs.h), candidates from their values (advice_draft.h), and
 * whether all that was typed is among them.
 */
#include "cli/advice_space.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/advice_draft.h"
#include "cli/advice_knobs.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"

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
    struct draft draft = {.space = space};
    draft_vary_layouts(&draft);
    if (draft.overflow)
        return diagnostics_add(diag, "there are more than %d candidates, expected fewer: --fix or --vary some keys",
                               ADVICE_CANDIDATES_MAX);
    if (space->n_candidates > 0)
        return check_used(space, diag);
    char *undivided = space->n_undivided
                          ? memory_format(": of %zu that divide heads and seq_len, no dp divides the sequences",
                                          space->n_undivided)
                          : memory_text(": no tp x cp divides the heads and seq_len");
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

void advice_space_fini(struct advice_space *space)
{
    for (size_t i = 0; i < space->n_knobs; i++) {
        for (size_t v = 0; v < space->knobs[i].n_values; v++)
            free(space->knobs[i].values[v]);
        free(space->knobs[i].values);
        free(space->knobs[i].key);
    }
    free(space->candidates);
    if (space->document)
        ini_document_destroy(space->document);
    if (space->base.path)
        experiment_fini(&space->base);
    if (space->topology.path)
        topology_fini(&space->topology);
    *space = (struct advice_space){.n_knobs = 0};
}

const char *advice_value(const struct advice_space *space, size_t candidate, size_t knob)
{
    uint16_t value = space->candidates[candidate].value[knob];
    return value ? space->knobs[knob].values[value - 1] : NULL;
}
