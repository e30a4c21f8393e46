/* advice_pairs.c - the third and fourth round, of the layouts that are near the best: every setting with the fastest
 * attention; then pairs of a setting and an attention, in the order of what both say of them.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/advice_rounds.h"
#include "models/base/memory.h"

/* Of an estimate that a sum made. */
#define SUM_TOLERANCE 0.05
/* Another attention may need so much less memory than the one that did not fit. */
#define MEMORY_TOLERANCE 0.25

#define ROUND 32

static double best_of(const struct search *search, const struct layout_block *block)
{
    return block->probed && !block->dead
               ? search_seconds(search, block_candidate(block, block->attention, block->setting))
               : (double)INFINITY;
}

static bool competes(const struct search *search, const struct layout_block *block, double limit)
{
    double seconds = best_of(search, block);
    return isfinite(seconds) && seconds * (1 - SUM_TOLERANCE) <= limit;
}

void search_try_settings(struct search *search)
{
    double limit = search_worst_of_best(search, ADVICE_SCREENING);
    for (size_t b = 0; b < search->n_blocks; b++) {
        struct layout_block *block = &search->blocks[b];
        if (!competes(search, block, limit))
            continue;
        size_t end;
        for (size_t s = block_row(search, block, block->setting, &end); s < block->n_settings; s++)
            search_add(search, block_candidate(block, block->attention, s));
    }
    search_look(search, ADVICE_SCREENING, "trying recomputation and ZeRO");
}

/* What a candidate may take, by what was screened; infinite: it will not fit, or was looked at. */
static double estimate(const struct search *search, const struct layout_block *block, size_t a, size_t s)
{
    size_t candidate = block_candidate(block, a, s);
    if (search_screened(search, candidate)->status != ADVICE_NOT_SEEN)
        return INFINITY;
    const struct advice_answer *with_best = search_screened(search, block_candidate(block, block->attention, s));
    const struct advice_answer *at_best = search_screened(search, block_candidate(block, a, block->setting));
    const struct advice_answer *best =
        search_screened(search, block_candidate(block, block->attention, block->setting));
    const struct advice_answer *lead = search_screened(search, block_candidate(block, block->lead, s));
    size_t end;
    if (s < block_row(search, block, block->setting, &end)) { /* did not fit; what is computed again there is less */
        bool may_fit = lead->status == ADVICE_NO_ROOM &&
                       lead->peak_bytes + lead->reserve_bytes <= lead->device_bytes * (1 + MEMORY_TOLERANCE);
        if (!may_fit || at_best->status != ADVICE_RAN)
            return INFINITY;
        return at_best->times.seconds - at_best->times.recomputed;
    }
    if (at_best->status == ADVICE_REFUSED || at_best->status == ADVICE_FAILED || with_best->status == ADVICE_REFUSED)
        return INFINITY;
    double waits = best->times.exposed - best->times.waits[WAIT_TP] + best->times.idle;
    double setting = with_best->status == ADVICE_RAN ? with_best->times.seconds : best->times.seconds;
    if (at_best->status != ADVICE_RAN)
        return setting - waits; /* it may wait for nothing */
    return at_best->times.seconds + setting - best->times.seconds;
}

void search_try_pairs(struct search *search)
{
    struct advice *advice = search->advice;
    struct promise *promises = memory_zeroed(advice->space.n_candidates, sizeof *promises);
    size_t n = 0;
    double limit = search_worst_of_best(search, ADVICE_SCREENING);
    for (size_t b = 0; b < search->n_blocks; b++) {
        const struct layout_block *block = &search->blocks[b];
        if (!competes(search, block, limit))
            continue;
        for (size_t a = 0; a < block->n_attentions; a++)
            for (size_t s = 0; s < block->n_settings; s++) {
                double seconds = estimate(search, block, a, s);
                advice->entries[block_candidate(block, a, s)].estimate = isfinite(seconds) ? seconds : 0;
                if (isfinite(seconds))
                    promises[n++] = (struct promise){seconds, block_candidate(block, a, s)};
            }
    }
    qsort(promises, n, sizeof *promises, promise_compare);
    for (size_t i = 0; i < n && !search->signal;) {
        limit = search_worst_of_best(search, ADVICE_SCREENING);
        for (; i < n && search->n_round < ROUND && promises[i].seconds * (1 - SUM_TOLERANCE) <= limit; i++)
            search_add(search, promises[i].candidate);
        if (search->n_round == 0)
            break;
        search_look(search, ADVICE_SCREENING, "trying combinations");
    }
    free(promises);
}
