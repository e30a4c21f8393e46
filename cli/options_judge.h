/* options_judge.h - what the options mean together: the mode, and options without effect in it. */
#ifndef CPSIM_CLI_OPTIONS_JUDGE_H
#define CPSIM_CLI_OPTIONS_JUDGE_H

#include "cli/options.h"

/* Options that were typed and leave no trace in struct options, or not one that differs from a default. */
struct given_options {
    bool jobs, engine, check, events, compare, hw, compute, iterations, warmup, ranks, algorithms, gpu, ctas, validate,
        advise, gpus, best, sensitivity, explain, longest, points, without, /* also of a name that is none */
        path;                                                               /* also of one that is none */
};

/* Decides the mode, completes `options` and adds a message for everything that makes no sense. */
void options_judge(struct options *options, const struct given_options *given, struct diagnostics *diag);

#endif
