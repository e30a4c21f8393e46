/* advice_rounds.h - the rounds of a search, each in a file of its own, and what they know in common: layouts, and the
 * answers so far.
 *
 * A layout's candidates stand together in the list: attention by attention, each with all settings of the step around
 * it (recomputation, from none on, and within that the stages of ZeRO). Times are taken to add up: what a setting costs
 * with one attention it costs about with another; so each is screened once with the other at its best, and a sum says
 * which pairs are worth a screening of their own. That recomputing more is never faster is taken for granted, and that
 * sums are right within a few percent; all else that is left out cannot be among the best.
 */
#ifndef CPSIM_CLI_ADVICE_ROUNDS_H
#define CPSIM_CLI_ADVICE_ROUNDS_H

#include "cli/advice.h"
#include "cli/advice_search.h"

struct layout_block {
    size_t first, n_attentions, n_settings;
    size_t setting;   /* the first that fits; n_settings: none does */
    size_t attention; /* the fastest */
    size_t tried;     /* settings that were looked at with the first attention that is not refused */
    size_t lead;      /* that attention */
    bool dead, probed;
};

struct search {
    struct advice *advice;
    advice_look_function *look;
    void *context;
    struct layout_block *blocks;
    size_t n_blocks;
    size_t *round, n_round, round_capacity;
    int signal;
};

struct promise {
    double seconds;
    size_t candidate;
};

/* ---- what is known ---- */

/* Parts the candidates into layouts. */
void search_find_blocks(struct search *search);

size_t block_candidate(const struct layout_block *block, size_t attention, size_t setting);

/* The settings that recompute as much as `setting`: up to `*end`, from the result on. */
size_t block_row(const struct search *search, const struct layout_block *block, size_t setting, size_t *end);

/* What the screening of a candidate said. */
const struct advice_answer *search_screened(const struct search *search, size_t candidate);

/* Its time; infinite: it has none. */
double search_seconds(const struct search *search, size_t candidate);

/* The time that the last of the best has; what may not come below that is left. */
double search_worst_of_best(const struct search *search, enum advice_depth depth);

/* For qsort: the least seconds first, of equal ones the first candidate. */
int promise_compare(const void *a, const void *b);

/* ---- a round ---- */

/* Takes a candidate into the next look, unless it has been screened. */
void search_add(struct search *search, size_t candidate);

/* Looks at what was added. False when a signal ended that. */
bool search_look(struct search *search, enum advice_depth depth, const char *what);

/* ---- the rounds, in their order (advice.h says what each is for) ---- */

void search_find_fitting(struct search *search); /* advice_fitting.c */
void search_probe(struct search *search);        /* advice_probes.c */
void search_try_settings(struct search *search); /* advice_pairs.c */
void search_try_pairs(struct search *search);    /* advice_pairs.c */
void search_try_best(struct search *search);     /* advice_trials.c */

#endif
