/* advice_trials.c - the last round: the best of what was screened, with the engine that was asked for. */
#include <stdlib.h>

#include "cli/advice_rounds.h"
#include "models/base/memory.h"

/* Of a screening's time, which is a lower bound but for what few layers say of all. */
#define SCREENING_TOLERANCE 0.002

#define TRIALS_MAX 96

void search_try_best(struct search *search)
{
    struct advice *advice = search->advice;
    struct promise *promises = memory_zeroed(advice->space.n_candidates, sizeof *promises);
    size_t n = 0, n_tried = 0;
    for (size_t i = 0; i < advice->space.n_candidates; i++)
        if (search_screened(search, i)->status == ADVICE_RAN)
            promises[n++] = (struct promise){search_screened(search, i)->times.seconds, i};
    qsort(promises, n, sizeof *promises, promise_compare);
    for (size_t i = 0; i < n && n_tried < TRIALS_MAX && !search->signal;) {
        double limit = search_worst_of_best(search, ADVICE_TRIAL);
        for (; i < n && search->n_round < advice->settings.best && n_tried < TRIALS_MAX &&
               promises[i].seconds * (1 - SCREENING_TOLERANCE) <= limit;
             i++, n_tried++) {
            memory_grow(search->round, search->n_round, search->round_capacity);
            search->round[search->n_round++] = promises[i].candidate;
        }
        if (search->n_round == 0)
            break;
        search_look(search, ADVICE_TRIAL, "simulating the best");
    }
    advice->trials_ran_out = n_tried == TRIALS_MAX && n > TRIALS_MAX;
    free(promises);
}
