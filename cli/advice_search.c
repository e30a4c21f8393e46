/* advice_search.c - see advice.h for the rounds, and advice_rounds.h for what they have in common. */
#include "cli/advice_search.h"

#include <stdlib.h>

#include "cli/advice_rounds.h"

static void try_all(struct search *search)
{
    for (size_t i = 0; i < search->advice->space.n_candidates; i++)
        search_add(search, i);
    search_look(search, ADVICE_TRIAL, "simulating all");
}

int advice_search(struct advice *advice, advice_look_function *look_at, void *context)
{
    struct search search = {.advice = advice, .look = look_at, .context = context};
    if (advice->settings.exhaustive) {
        try_all(&search);
    } else {
        search_find_blocks(&search);
        search_find_fitting(&search);
        search_probe(&search);
        search_try_settings(&search);
        search_try_pairs(&search);
        search_try_best(&search);
    }
    free(search.blocks);
    free(search.round);
    return search.signal;
}
