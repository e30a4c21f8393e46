/* link_pattern.h - links by name: one, or all whose names a pattern fits (* for any text, ? for any character). */
#ifndef CPSIM_MODELS_INPUT_LINK_PATTERN_H
#define CPSIM_MODELS_INPUT_LINK_PATTERN_H

#include "models/input/topology.h"

struct ini_section;

struct link_pattern {
    const struct topology *topology;
    const struct ini_document *document;
    const struct ini_section *section; /* whose key `link` says... */
    const char *text;                  /* ...this */
    struct diagnostics *diag;
    uint64_t *sought; /* links whose names were looked at for all patterns so far; counted on */
};

/* Calls `visit` with each link that is meant; links of GPUs that are not there are passed over. False, with a message,
 * if there is none (with a guess what was meant), or too many to look through; and as soon as `visit` returns false. */
bool link_pattern_each(const struct link_pattern *pattern, bool (*visit)(void *context, uint64_t link), void *context);

#endif
