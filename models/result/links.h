/* links.h - what the links of the cluster carried, per link class. */
#ifndef CPSIM_MODELS_RESULT_LINKS_H
#define CPSIM_MODELS_RESULT_LINKS_H

#include <stdbool.h>

#include "models/result/report.h"

struct link_use {
    struct link_class_report classes[LEVELS_MAX]; /* by level, inside out; only those used */
    uint32_t n_classes;
    struct hot_link hot[HOT_LINKS_MAX];
    uint32_t n_hot;
    double wire_bound_seconds; /* busiest link's bytes / bandwidth: no step can be shorter */
};

/* False, with messages, when a message was faster than its route, when a link carried more than its bandwidth allows in
 * the time in which messages moved over it (not looked at if the timeline's transfers did not share links), when bytes
 * over links are not bytes of messages times hops, or when a message has no route. */
bool link_use_measure(const struct report_input *input, struct link_use *use, struct diagnostics *diag);

#endif
