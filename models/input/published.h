/* published.h - the [published] section of an experiment: what was measured in its setting, and how well the
 * predictions of that are to agree.
 *
 * Only the reader of sets looks at it (cli/validation_set.h); to everybody else such a file is an experiment like any
 * other. A set of transfers has no experiment, only this section.
 *
 * A set whose own source contradicts itself is doubtful: it is shown, but neither do its bounds count nor do its rows
 * in what is said of all sets together.
 */
#ifndef CPSIM_MODELS_INPUT_PUBLISHED_H
#define CPSIM_MODELS_INPUT_PUBLISHED_H

#include <stdbool.h>

#include "models/base/diagnostics.h"

struct ini_document;

enum published_kind {
    PUBLISHED_ATTENTION, /* rows are the experiment with some keys overridden */
    PUBLISHED_LINKS,     /* rows are transfers, without an experiment */
    PUBLISHED_STEPS,     /* as attention, of a whole model's step (scope = model) */
};

/* Worse than these is a failure; NaN: no bound. */
struct bounds {
    double median, p90; /* of the absolute relative error */
    double order;       /* least share of pairs in the right order */
    double memory;      /* of the absolute relative error of peak memory: its median */
};

/* Keys of bounds that are PREFIX bytes into their target: of times. */
#define BOUND_KEYS(PREFIX)                                                                                             \
    {.name = "median_bound",                                                                                           \
     .type = KEY_QUANTITY,                                                                                             \
     .dimension = DIMENSION_NUMBER,                                                                                    \
     .offset = (PREFIX) + offsetof(struct bounds, median),                                                             \
     .fallback = "",                                                                                                   \
     .maximum = 1000,                                                                                                  \
     .form = "a share such as 0.10",                                                                                   \
     .help = "of the absolute error: a larger median is a failure"},                                                   \
        {.name = "p90_bound",                                                                                          \
         .type = KEY_QUANTITY,                                                                                         \
         .dimension = DIMENSION_NUMBER,                                                                                \
         .offset = (PREFIX) + offsetof(struct bounds, p90),                                                            \
         .fallback = "",                                                                                               \
         .maximum = 1000,                                                                                              \
         .form = "a share such as 0.25",                                                                               \
         .help = "of the absolute error: a larger 90th percentile is a failure"},                                      \
    {                                                                                                                  \
        .name = "order_bound", .type = KEY_QUANTITY, .dimension = DIMENSION_NUMBER,                                    \
        .offset = (PREFIX) + offsetof(struct bounds, order), .fallback = "", .maximum = 1,                             \
        .form = "a share such as 0.85", .help = "of pairs in the right order: a smaller share is a failure"            \
    }

/* And of memory, which only whole steps have. */
#define MEMORY_BOUND_KEY(PREFIX)                                                                                       \
    {                                                                                                                  \
        .name = "memory_bound", .type = KEY_QUANTITY, .dimension = DIMENSION_NUMBER,                                   \
        .offset = (PREFIX) + offsetof(struct bounds, memory), .fallback = "", .maximum = 1000,                         \
        .form = "a share such as 0.10",                                                                                \
        .help = "of the absolute error of peak memory: a larger median is a failure; with kind = steps"                \
    }

struct published {
    char title[160];    /* for tables and plots; "": none given */
    char topology[160]; /* the name of a shipped one, or a path, from the file's folder if it has a '/' */
    char rows[160];     /* the measurements, beside the file */
    char source[160];
    enum published_kind kind;
    double uncertainty; /* relative, of rows that state none */
    struct bounds bounds;
    char doubtful[320]; /* how the source contradicts itself; "": it does not */
};

const char *published_kind_name(enum published_kind kind);

/* Whether the document has such a section. */
bool published_is_there(const struct ini_document *document);

/* Reads the section, which must be there. False with every problem in `diag`. */
bool published_read(struct published *published, const struct ini_document *document, struct diagnostics *diag);

/* A file of bounds beside sets: what all of a kind are to keep together. */
struct overall_bounds {
    struct bounds attention, links, steps;
};

/* Of a folder that has no such file. */
struct overall_bounds overall_bounds_none(void);

bool overall_bounds_read(struct overall_bounds *bounds, const char *path, struct diagnostics *diag);

#endif
