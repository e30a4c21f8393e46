/* advice.h - which layout trains this model fastest on this cluster? The search, and what it found.
 *
 * Candidates are those of advice_space.h. What is looked at, and how deep (advice_point.h), in rounds; a round's
 * candidates depend on what earlier rounds found alone, so that the result is the same whoever does them:
 *
 *   fitting     of every *layout* (degrees, batches, order) the least recomputation and sharing out that fits, with
 *               one way to do attention: screened; what it computes bounds all other ways;
 *   probes      of layouts that this does not rule out, the most promising first: one algorithm of each kind (ring,
 *               gathering, trading heads); unless these are far behind the best, every sharing out with the fastest;
 *               unless that is a quarter behind, every way to do attention: screened;
 *   settings    of the layouts that are not far behind the best, every recomputation and sharing out once, with the
 *               fastest attention: screened;
 *   pairs       what is left of these layouts, in the order of what both say of them: screened, until those to come
 *               cannot be among the best;
 *   trials      the best of all that were screened, with the engine that was asked for, until the next cannot be among
 *               the best: a screening's time is a lower bound of a trial's.
 *
 * What is not looked at is counted, and why. With `exhaustive` every candidate is tried.
 */
#ifndef CPSIM_CLI_ADVICE_H
#define CPSIM_CLI_ADVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/advice_point.h"
#include "cli/advice_space.h"
#include "cli/prediction.h"
#include "hw/processes.h"

#define ADVICE_BEST_DEFAULT 5
#define ADVICE_BEST_MAX 1000

struct advice_settings {
    struct advice_wish wish;
    uint32_t jobs; /* workers here */
    size_t best;   /* so many are told */
    bool exhaustive;
    struct processes *processes; /* NULL: this one alone */
};

struct advice_entry {
    struct advice_answer answer[ADVICE_DEPTHS];
    double estimate; /* of seconds, before it was looked at; 0: none */
};

struct advice {
    struct question question;
    struct advice_settings settings;
    struct advice_space space;
    char *command;
    struct advice_entry *entries; /* [candidate] */
    size_t *best, n_best;         /* candidates that were tried and fit, the fastest first; at most settings.best */
    size_t *tried, n_tried;       /* all of them, in that order */
    size_t *nearest, n_nearest;   /* nothing fits: those that need least memory */
    uint64_t longest;             /* ... and the longest sequence that the first of them has room for; 0: none */
    size_t n_refused, n_no_room, n_screened, n_failed; /* n_screened: that fit */
    size_t n_skipped;                                  /* never looked at */
    int signal;                                        /* that ended the search */
    bool lost;                                         /* one of `processes` */
    bool trials_ran_out;                               /* more were worth one than were tried */
};

/* Searches. When a signal ended it, `signal` is set, and PREDICTION_DONE says that something was found by then. The
 * caller calls advice_fini in any case. */
enum prediction_status advice_run(struct advice *advice, const struct question *question,
                                  const struct advice_settings *settings, struct diagnostics *diag);
void advice_fini(struct advice *advice);

/* In any other process of a launcher than the first: does what that one hands out. False when it fell silent, or the
 * question makes no sense (which the first one says). */
bool advice_help(const struct question *question, const struct advice_settings *settings, struct diagnostics *diag);

/* The times that are known of a candidate: of its trial, else of its screening; NULL: none. */
const struct advice_times *advice_times_of(const struct advice *advice, size_t candidate);

/* Tokens of a step per second and GPU; the share of the GPUs' peak that the model's FLOPs are, 0 if not known. */
double advice_tokens_per_s(const struct advice *advice, const struct advice_times *times);
double advice_mfu(const struct advice *advice, size_t candidate);

bool advice_table_write(const struct advice *advice, bool details, FILE *stream);
/* Schema cpsim.advice/1; the caller owns the reference. */
json_t *advice_to_json(const struct advice *advice);
/* A row per candidate that was looked at. */
bool advice_csv_write(const struct advice *advice, FILE *stream);

struct plot_target;
bool plot_script_advice(const struct advice *advice, const struct plot_target *target, int width, FILE *stream);

#endif
