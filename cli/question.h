/* question.h - what is asked of a prediction: two files, overrides of their keys, and how to simulate. */
#ifndef CPSIM_CLI_QUESTION_H
#define CPSIM_CLI_QUESTION_H

#include <stdio.h>

#include "models/base/diagnostics.h"
#include "models/cost/mechanisms.h"
#include "models/input/key_table.h"
#include "sim/engine.h"

struct question {
    const char *topology_path, *experiment_path; /* as typed: a path, or the name of a shipped file */
    const char *const *overrides;                /* "section.key=value" */
    size_t n_overrides;
    const struct engine_ops *engine;
    mechanism_set without;                         /* mechanisms of the cost model that are left out */
    bool no_fold;                                  /* every rank is simulated */
    struct diagnostics *lenient;                   /* see schedule_init; NULL: strict */
    bool spares_interval;                          /* the step's time alone is wanted, not how far it may be off */
    bool figures_only;                             /* of the step and of links (models/result/report.h) */
    uint32_t layers;                               /* so many in place of the model's; 0: the model's */
    struct input_cache *cache;                     /* of files that were read (cli/input_cache.h); NULL: all are read */
    void (*progress)(void *context, double share); /* of the simulation; NULL: not called */
    void (*phase)(void *context, const char *what); /* begins, where there are so many ranks that each takes a while */
    void *progress_context;                         /* of both */
};

/* The command that asks `question`, quoted for a shell; `sweeps` are the arguments of --sweep. The caller frees it. */
char *question_command(const struct question *question, const char *const *sweeps, size_t n_sweeps);

/* The options of a command that leave these mechanisms out: " --without NAME" each. */
void question_print_without(FILE *stream, mechanism_set without);

/* One word for a shell: as it is, or between single quotes. */
void question_print_word(FILE *stream, const char *word);

/* The file that a typed name means: the shipped FOLDER/NAME.ini for a bare name. NULL, with a message, if there is
 * none. The caller frees it. */
char *question_file(const char *folder, const char *name, struct diagnostics *diag);

/* The overrides of one kind of file. The caller frees the items. */
struct question_overrides {
    const char **items;
    size_t count;
};
struct question_overrides question_overrides(const struct question *question, const struct file_spec *file);

/* False, with a message for each, when there are overrides that no file of the question can have. */
bool question_check_overrides(const struct question *question, struct diagnostics *diag);

#endif
