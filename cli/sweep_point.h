/* sweep_point.h - one point of a sweep: what a worker makes of it, and how that travels.
 *
 * The worker does all of the writing: the point as it stands in the JSON file, its row of the CSV file, and what tables
 * and plots need to know of it. Whoever collects the answers only has to put them in order.
 */
#ifndef CPSIM_CLI_SWEEP_POINT_H
#define CPSIM_CLI_SWEEP_POINT_H

#include <jansson.h>

#include "cli/sweep.h"

/* What is made of each point. */
struct sweep_point_wish {
    bool file;    /* for the JSON; nothing else tells intervals, or when links are busy: without it they are spared */
    bool summary; /* the run of a point in the file is a summary: its step, links and number of ranks */
    bool row;     /* for the CSV */
    bool kept;    /* for tables */
    bool layers;  /* rows have the columns of whole layers */
    bool common;  /* for plots, which say what all points have in common: also topology and experiment */
};

enum sweep_text {
    SWEEP_POINT,  /* as it stands in the file: indented, no newline at the end */
    SWEEP_ROW,    /* with its newline */
    SWEEP_KEPT,   /* JSON: {set, run, error} of a summary */
    SWEEP_NOTES,  /* JSON: [lines] */
    SWEEP_ERRORS, /* JSON: [lines] */
    SWEEP_TEXTS
};

struct sweep_answer {
    enum prediction_status status;
    const char *texts[SWEEP_TEXTS];
    size_t sizes[SWEEP_TEXTS];
};

/* Predicts the point and writes its answer. */
void sweep_point_answer(const struct sweep *sweep, const struct question *base, const struct sweep_point_wish *wish,
                        size_t point, FILE *stream);
/* The answer of a point that failed for good, with the line that says why. */
void sweep_point_answer_failure(const struct sweep *sweep, const struct sweep_point_wish *wish, size_t point,
                                const char *line, FILE *stream);
/* The answer that a point was made from, as it stands in a file; its text too. */
void sweep_point_answer_again(const struct sweep_point_wish *wish, const json_t *json, const char *text, FILE *stream);
/* Finds the parts of an answer; they point into it. False when it is not one. */
bool sweep_answer_read(struct sweep_answer *answer, const char *bytes, size_t size);

/* Removes from a kept point what all have in common (topology, experiment but for cp). */
void sweep_point_drop_common(json_t *point);

/* {key: value}: the point's settings. The caller owns the reference. */
json_t *sweep_point_settings(const struct sweep *sweep, size_t point);
/* "key=value, key=value"; the caller frees it. */
char *sweep_point_name(const struct sweep *sweep, size_t point);

#endif
