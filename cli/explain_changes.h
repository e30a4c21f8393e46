/* explain_changes.h - what might make the step shorter, one change at a time: parts of the machine made better by a
 * factor, costs taken away, other settings of the schedule. Each is predicted anew, in a process of its own.
 */
#ifndef CPSIM_CLI_EXPLAIN_CHANGES_H
#define CPSIM_CLI_EXPLAIN_CHANGES_H

#include "cli/prediction.h"
#include "models/cost/constants.h"

enum change_way {
    CHANGE_CONSTANTS,  /* some constants times a factor */
    CHANGE_MECHANISMS, /* mechanisms left out */
    CHANGE_KEY,        /* a key of the experiment set */
};

struct change {
    char *name;    /* "twice the bandwidth of level cluster", "sharding striped" */
    char *options; /* of a command that asks for it; NULL: none do */
    enum change_way way;
    /* CHANGE_CONSTANTS: those whose name begins so (or so, if not NULL), of that kind, of that level */
    const char *prefix, *or_prefix;
    uint32_t level; /* CONSTANT_OF_NO_LEVEL: any */
    enum constant_kind kind;
    double factor;
    mechanism_set without; /* CHANGE_MECHANISMS */
    char *override;        /* CHANGE_KEY: section.key=value */
    /* What came of it. */
    bool refused;   /* the experiment does not allow it */
    char *why;      /* then: the first reason; else NULL */
    double seconds; /* of the step */
    bool fits;      /* in the device's memory, as far as that is stated */
};

struct changes {
    struct change *items;
    size_t count, capacity;
    bool *crosses; /* [level]: whether a message takes any of its links; if none, nothing of it is changed */
};

/* Lists what can be tried on a prediction that is prepared; not what it has already. */
void changes_init(struct changes *changes, const struct prediction *prediction, const struct constants *constants,
                  mechanism_set without);
void changes_fini(struct changes *changes);

struct change_runs {
    struct prediction *prediction; /* prepared, not run: children take it on from there */
    const struct question *question;
    const struct constants *constants; /* of the prediction */
    uint32_t jobs;
};

/* Predicts with every change and fills in what came of it. False, with messages, when a run failed, which is not to be
 * refused; `*signal` is that which ended it, or 0. */
bool changes_run(struct changes *changes, const struct change_runs *runs, int *signal, struct diagnostics *diag);

#endif
