/* advice_rounds.c - what the rounds of a search know in common: see advice_rounds.h. */
#include "cli/advice_rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

size_t block_candidate(const struct layout_block *block, size_t attention, size_t setting)
{
    return block->first + attention * block->n_settings + setting;
}

const struct advice_answer *search_screened(const struct search *search, size_t candidate)
{
    return &search->advice->entries[candidate].answer[ADVICE_SCREENING];
}

double search_seconds(const struct search *search, size_t candidate)
{
    const struct advice_answer *answer = search_screened(search, candidate);
    return answer->status == ADVICE_RAN ? answer->times.seconds : (double)INFINITY;
}

void search_add(struct search *search, size_t candidate)
{
    if (search_screened(search, candidate)->status != ADVICE_NOT_SEEN)
        return;
    memory_grow(search->round, search->n_round, search->round_capacity);
    search->round[search->n_round++] = candidate;
}

bool search_look(struct search *search, enum advice_depth depth, const char *what)
{
    if (search->n_round && !search->signal)
        search->signal = search->look(search->context, search->round, search->n_round, depth, what);
    search->n_round = 0;
    return !search->signal;
}

static bool candidates_agree(const struct advice_candidate *a, const struct advice_candidate *b, size_t from, size_t to)
{
    return memcmp(a->value + from, b->value + from, (to - from) * sizeof *a->value) == 0;
}

void search_find_blocks(struct search *search)
{
    const struct advice_space *space = &search->advice->space;
    size_t capacity = 0;
    for (size_t i = 0; i < space->n_candidates;) {
        const struct advice_candidate *first = &space->candidates[i];
        size_t n = 0, n_settings = 0;
        while (i + n < space->n_candidates && candidates_agree(first, first + n, KNOB_TP, KNOB_RING))
            n++;
        while (n_settings < n && candidates_agree(first, first + n_settings, KNOB_RING, KNOB_SEQUENCE_PARALLEL))
            n_settings++;
        memory_grow(search->blocks, search->n_blocks, capacity);
        search->blocks[search->n_blocks++] = (struct layout_block){
            .first = i, .n_attentions = n / n_settings, .n_settings = n_settings, .setting = n_settings};
        i += n;
    }
}

double search_worst_of_best(const struct search *search, enum advice_depth depth)
{
    const struct advice *advice = search->advice;
    size_t n = advice->settings.best, count = 0;
    double *best = memory_zeroed(n + 1, sizeof *best);
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const struct advice_answer *answer = &advice->entries[i].answer[depth];
        if (answer->status != ADVICE_RAN)
            continue;
        size_t at = count < n ? count++ : n;
        for (; at > 0 && best[at - 1] > answer->times.seconds; at--)
            if (at < n)
                best[at] = best[at - 1];
        if (at < n)
            best[at] = answer->times.seconds;
    }
    double worst = count == n ? best[n - 1] : (double)INFINITY;
    free(best);
    return worst;
}

size_t block_row(const struct search *search, const struct layout_block *block, size_t setting, size_t *end)
{
    const struct advice_candidate *candidates = search->advice->space.candidates + block->first;
    size_t begin = setting;
    *end = setting;
    while (begin > 0 && candidates_agree(&candidates[begin - 1], &candidates[setting], KNOB_RING, KNOB_ZERO))
        begin--;
    while (*end < block->n_settings && candidates_agree(&candidates[*end], &candidates[setting], KNOB_RING, KNOB_ZERO))
        (*end)++;
    return begin;
}

int promise_compare(const void *a, const void *b)
{
    const struct promise *first = a, *second = b;
    if (first->seconds != second->seconds)
        return first->seconds < second->seconds ? -1 : 1;
    return first->candidate < second->candidate ? -1 : 1;
}
