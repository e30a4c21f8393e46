/* explain.h - why one configuration takes as long as it does, and what would make it shorter.
 *
 * The critical path through the step that was executed (models/result/step_path.h): what its time went for, on
 * which ranks and over which links, as a chain that says what repeats once. And the step predicted anew with one thing
 * better at a time (cli/explain_changes.h).
 */
#ifndef CPSIM_CLI_EXPLAIN_H
#define CPSIM_CLI_EXPLAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/explain_chain.h"
#include "cli/explain_changes.h"

/* Less of a step than this is no gain. */
#define EXPLAIN_GAIN 0.0005

struct explanation {
    struct prediction prediction; /* run */
    struct constants constants;
    struct step_path path;
    struct piece_way *ways; /* [piece] */
    struct chain chain;
    double seconds[PHASE_COUNT][PATH_KIND_COUNT];
    double *level_seconds; /* [level]: of messages over it */
    double *rank_seconds;  /* [group * cp + rank] */
    struct changes changes;
    size_t *order; /* of the changes that ran: the shortest step first */
    size_t n_ran;
    int signal; /* that ended it, or 0 */
};

enum prediction_status explanation_run(struct explanation *explanation, const struct question *question, uint32_t jobs,
                                       struct diagnostics *diag);
/* Also after it failed. */
void explanation_fini(struct explanation *explanation);

/* By how much a change makes the step shorter: 0.1 a tenth, below 0 longer. */
double explanation_gain(const struct explanation *explanation, const struct change *change);

/* Who sets the pace, and what most of the step goes for: a line without its end. */
void explanation_sentence_write(const struct explanation *explanation, FILE *stream);

/* For people: that line, what the time went for, the chain (with `details` all of it), what would help. */
bool explanation_table_write(const struct explanation *explanation, bool details, FILE *stream);
/* The same as schema cpsim.explanation/1, every piece of the path too; the caller owns the reference. */
json_t *explanation_to_json(const struct explanation *explanation);
/* A row per change. */
bool explanation_csv_write(const struct explanation *explanation, FILE *stream);

#endif
